// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include <lanemq/messages.hpp>

#include "broker/core/base/grouping.hpp"
#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/string_hash.hpp"
#include "broker/core/budgets/circuit_breaker.hpp"
#include "broker/core/budgets/retry_budget.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/scheduler/lanes.hpp"

namespace lanemq::core {

inline constexpr std::size_t kLanesMax = 16;

/// A set of lanes, a bit each.
using LaneMask = std::uint16_t;

struct Worker;

/// That a worker serves a service. Listed by the service while the worker has a free place.
struct Place {
  Worker* worker = nullptr;
  Service* service = nullptr;
  ListHook<Place> hook;
};

/// What jobs ask for and workers offer, by name.
class Service {
 public:
  explicit Service(std::string service_name) : name(std::move(service_name)) {}
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  std::string name;
  std::size_t uses = 0;            ///< workers, jobs, kept results, an operator's pause: kept by Workers
  ListHook<Service> unused_hook;   ///< listed while there are none
  bool leaves = false;             ///< it is about to be forgotten
  std::vector<FlowGroup*> groups;  ///< its flows, by lane
  IntrusiveList<Place, &Place::hook> general;   ///< of workers that take every lane, least lately used first
  IntrusiveList<Place, &Place::hook> reserved;  ///< of workers that take only some lanes, likewise
  std::size_t free_places = 0;                  ///< of all its workers
  std::size_t free_general = 0;                 ///< of workers that take every lane
  std::array<std::uint32_t, kLanesMax> running_general{};  ///< jobs at general workers, by lane
  std::size_t workers = 0;                                 ///< that declare it
  bool paused = false;                                     ///< by an operator
  /// What each lane is owed of its share_min, in thousandths of cost; at most two of its jobs. Cost is in
  /// tokens where any job's are counted, and those that nobody counts are of the usual cost.
  std::array<std::int64_t, kLanesMax> owed{};
  /// What jobs cost of late whose tokens are counted; 1 where none are.
  std::int64_t usual_cost() const { return std::max<std::int64_t>(sum_of_late_ / kOfLate, 1); }
  /// A job is handed over whose tokens are counted.
  void note_cost(std::int64_t cost) {
    sum_of_late_ += sum_of_late_ == 0 ? cost * kOfLate : cost - usual_cost();
  }
  RetryBudget retries;
  CircuitBreaker breaker;
  /// A model that fails while others are answered.
  struct FailedModel {
    std::size_t model = 0;     ///< its place among the models that are apart
    std::uint64_t client = 0;  ///< whose call was the one too many, by its mark
    CircuitBreaker breaker;
  };
  std::vector<FailedModel> failed_models;
  /// Of the next one's breaker: no call that an earlier one knew is taken for one of it.
  CircuitBreaker::Period next_period = 1;
  static constexpr std::ptrdiff_t kFailedModelsOfClient = 8;  ///< of the models that are apart
  FailedModel* failed_model(std::size_t model) {
    const auto place = std::find_if(failed_models.begin(), failed_models.end(),
                                    [&](const FailedModel& failed) { return failed.model == model; });
    return place == failed_models.end() ? nullptr : &*place;
  }
  /// A client whose call failed leaves it to others to try the upstream until then; of one model, or all.
  struct Bar {
    std::string client;
    std::size_t model = 0;
    TimePoint until{};
  };
  static constexpr std::size_t kBarsMax = 16;
  std::vector<Bar> bars;
  /// The model named by all calls that opened the breaker; empty: they named several, or none.
  std::string only_model;
  /// Whether all its jobs may be handed over, whoever asks and for which model.
  bool is_sound() const { return breaker.closed() && failed_models.empty() && bars.empty(); }
  Timer timer{TimerOwner::service, this};  ///< set when a breaker may admit another call, or a bar falls

 private:
  static constexpr std::int64_t kOfLate = 16;  ///< over how many jobs the mean moves
  std::int64_t sum_of_late_ = 0;
};

/// What keeps jobs from a service's upstream, because of how calls ended: for reports, views of what is
/// there.
struct ShownBreaker {
  std::string_view model{};   ///< it is about that one alone; empty: about all
  std::string_view client{};  ///< about that one's jobs alone, or failed for them alone; empty: for all
  std::string_view state{};   ///< the breaker's, or `others_first`: others try before that client
  TimePoint until{};  ///< when one job may go, if nothing happens before; kNever where it is tried now
};

/// A worker that said it is ready.
struct Worker {
  std::string address;  ///< where to send; not its identity
  std::string session;  ///< its identity, which it alone is told; random
  std::string name;
  std::uint64_t number = 0;  ///< order of arrival
  std::vector<std::unique_ptr<Place>> places;
  LaneMask lanes = 0;  ///< 0: every lane
  std::uint32_t capacity = 0, running = 0;
  IntrusiveList<Away, &Away::hook> leases;
  Timer timer{TimerOwner::worker, this};
  Timer rest{TimerOwner::rest,
             this};               ///< set while it rests: it handed back one job after the other untouched
  std::uint32_t handed_back = 0;  ///< how often it did, without an outcome of another kind
  TimePoint heard_at{};
  Grouping grouping;              ///< its max: the `batch` of its ready
  std::vector<wire::Lease> acks;  ///< outcomes taken, not yet said
  /// What its last inventory listed that is not its to do: cancelled, and each holds a place until its
  /// outcome comes or an inventory lacks it. It would have to hand back what it was given instead.
  std::vector<wire::Lease> strays;
  bool draining = false;          ///< it leaves, or an operator drains it
  bool awaits_inventory = false;  ///< gets no job before its heartbeat
  bool resumes = false;           ///< it comes back with its session when its connection is lost
  bool cut = false;               ///< its connection is lost: it gets no job, and may come back
  TimePoint lost_at = kNever;     ///< cut: how long it is waited for, if not for as long as for a silent one
  TimePoint returned_at{};        ///< when it came back by its session the last time
  bool listed = false;  ///< its places are listed at their services, and its free ones counted there

  bool reserved() const { return lanes != 0; }
  std::size_t occupied() const { return running + strays.size(); }
  bool available() const {
    return occupied() < capacity && !draining && !awaits_inventory && !cut && !rest.is_set();
  }
};

/// All workers and what they offer. A job's place is found in O(1) for general workers.
class Workers {
 public:
  explicit Workers(const std::vector<LaneOptions>& lanes);

  Worker* find(std::string_view address) const;
  /// Requires: no worker has the address, or the session.
  Worker& add(std::string_view address, std::string session);
  /// The worker that was welcomed by that name.
  Worker* of_session(std::string_view session) const;
  /// The worker is somewhere else now, with all that it holds. Requires: no worker has the address.
  void move(Worker& worker, std::string_view address);
  /// Requires: it holds no job.
  void remove(Worker& worker);
  std::size_t size() const { return by_number_.size(); }
  const std::map<std::uint64_t, std::unique_ptr<Worker>>& all() const { return by_number_; }

  /// The service of that name, null where it is not known.
  Service* find_service(std::string_view name) const;
  /// The same, made where it is not known.
  Service& service(std::string_view name);
  /// Somebody has to do with the service, or no longer: without any it may be forgotten.
  void use(Service& service) {
    if (service.uses++ == 0) unused_.remove(service);
  }
  void release(Service& service) {
    LANEMQ_CHECK(service.uses > 0);
    if (--service.uses == 0) unused_.push_back(service);
  }
  std::size_t unused() const { return unused_.size(); }
  /// The one that has been unused longest, null where there is none; it leaves, and nobody may use it.
  Service* take_unused() {
    Service* const service = unused_.pop_front();
    if (service != nullptr) service->leaves = true;
    return service;
  }
  /// Requires: it was taken as unused, and nothing refers to it.
  void forget(const Service& service) { services_.erase(services_.find(service.name)); }
  const std::map<std::string, std::unique_ptr<Service>, std::less<>>& services() const { return services_; }

  /// Replaces what a worker offers.
  void offer(Worker& worker, const std::vector<Service*>& services, LaneMask lanes, std::uint32_t capacity);
  /// Lists or unlists a worker's places after what decides it has changed.
  void update(Worker& worker);

  /// Replaces what a worker holds that is not its to do.
  void set_strays(Worker& worker, std::vector<wire::Lease> strays);

  /// The place a job of that lane would take now: a reserved worker's first, then a general one's, as long as
  /// those held for higher lanes stay free. Null when there is none.
  Place* find_place(Service& service, LaneIndex lane) const;
  /// The job takes a place of the worker. Requires: the worker is available, and the job away.
  void take_place(Worker& worker, Job& job);
  /// The job's place is free again.
  void free_place(Job& job);

 private:
  std::size_t held_for_higher_lanes(const Service& service, LaneIndex lane) const;
  void list(Worker& worker);
  void unlist(Worker& worker);
  void change_free(Worker& worker, std::ptrdiff_t places);

  std::vector<std::size_t> reserved_above_;  // by lane: the sum of reserved_slots of the lanes above it
  absl::flat_hash_map<std::string, Worker*, StringHash, StringEqual> by_address_;
  absl::flat_hash_map<std::string, Worker*, StringHash, StringEqual> by_session_;
  std::map<std::uint64_t, std::unique_ptr<Worker>> by_number_;
  std::map<std::string, std::unique_ptr<Service>, std::less<>> services_;
  IntrusiveList<Service, &Service::unused_hook> unused_;  // the longest unused first
  std::uint64_t next_number_ = 1;
};

}  // namespace lanemq::core
