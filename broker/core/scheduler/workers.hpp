// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include <lanemq/messages.hpp>

#include "broker/core/base/grouping.hpp"
#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/mark.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/string_hash.hpp"
#include "broker/core/base/times.hpp"
#include "broker/core/budgets/circuit_breaker.hpp"
#include "broker/core/budgets/retry_budget.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/scheduler/lanes.hpp"

namespace lanemq::core {

inline constexpr std::size_t kLanesMax = 16;

/// A set of lanes, a bit each.
using LaneMask = std::uint16_t;

struct Worker;

/// A worker's offer of one service. Listed by the service while the worker has a free place.
struct Place {
  Worker* worker = nullptr;
  Service* service = nullptr;
  std::uint8_t part = 0;  ///< of its worker's places that is in use, as listed; kept by Places
  ListHook<Place> hook;
};

/// Places of workers that have a free one, by the part of theirs that is in use, to an eighth: so work goes
/// where there is most room. Of equal ones the least recently used goes first. Owns nothing.
class Places {
 public:
  static constexpr std::uint8_t kParts = 8;

  bool empty() const { return used_ == 0; }
  Place* front() const { return used_ == 0 ? nullptr : lists_[first_of(used_)].front(); }
  /// The next in that order; null: none.
  Place* next(const Place& place) const {
    if (Place* const behind = lists_[place.part].next(place)) return behind;
    const auto above = static_cast<unsigned>(used_ >> (place.part + 1)) << (place.part + 1);
    return above == 0 ? nullptr : lists_[first_of(above)].front();
  }
  /// Requires: part < kParts.
  void push_back(Place& place, std::uint8_t part) {
    place.part = part;
    lists_[part].push_back(place);
    used_ = static_cast<std::uint8_t>(used_ | 1U << part);
  }
  void remove(Place& place) {
    lists_[place.part].remove(place);
    if (lists_[place.part].empty()) used_ = static_cast<std::uint8_t>(used_ & ~(1U << place.part));
  }

 private:
  static std::size_t first_of(unsigned used) { return static_cast<std::size_t>(std::countr_zero(used)); }

  std::array<IntrusiveList<Place, &Place::hook>, kParts> lists_;
  std::uint8_t used_ = 0;  // a bit for each list that is not empty
};

/// Which of two suspected jobs goes first: that of the higher lane, else the older one.
struct BySuspicion {
  bool operator()(const Job* a, const Job* b) const {
    return a->lane != b->lane ? a->lane < b->lane : a->arrival < b->arrival;
  }
};

/// The workers of a service, by the lanes that they take.
struct Takers {
  std::size_t places = 0;                          ///< of workers for all lanes
  std::array<std::uint32_t, kLanesMax> of_lane{};  ///< workers for some lanes
};

/// A service: what jobs ask for and workers offer, by name.
class Service {
 public:
  explicit Service(std::string service_name) : name(std::move(service_name)) {}
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  std::string name;
  std::size_t uses = 0;                  ///< by workers, jobs and an operator's pause; kept by Workers
  ListHook<Service> unused_hook;         ///< listed while uses is 0
  bool leaves = false;                   ///< about to be forgotten
  std::uint64_t named_by = kNoMark;      ///< mark of whose job named it first: a tenant, else a client
  bool tells_ends = false;               ///< the broker alone makes its jobs (Options::webhook_service)
  std::vector<FlowGroup*> groups;        ///< by lane
  Places general;                        ///< of workers for all lanes
  Places reserved;                       ///< of workers for some lanes
  std::set<Job*, BySuspicion> suspects;  ///< queued jobs that go out alone; kept by Isolation
  std::vector<Worker*> isolated;         ///< workers that are kept empty for these; likewise
  std::size_t free_places = 0;           ///< of all its workers
  std::size_t free_general = 0;          ///< of workers for all lanes
  std::array<std::uint32_t, kLanesMax> running_general{};  ///< jobs at workers for all lanes, by lane
  std::size_t running = 0;                                 ///< jobs that hold a place of a worker
  std::size_t workers = 0;                                 ///< workers that offer it
  std::size_t places = 0;                                  ///< of all these workers, taken or free
  std::array<std::uint32_t, kLanesMax> queued_in{};        ///< jobs that are queued, by lane; kept by Workers
  /// Jobs that are queued, of all lanes.
  std::size_t queued() const;
  Takers takers;        ///< that do not drain; kept by Workers
  Takers leavers;       ///< that drain; kept by Workers
  LaneMask served = 0;  ///< lanes whose jobs a worker may be given, sooner or later; kept by Workers
  bool serves(LaneIndex lane) const { return (served >> lane & 1) != 0; }
  LaneMask unserved = 0;  ///< other lanes that have queued jobs; kept by Workers
  /// The highest of these. Requires: there is one.
  LaneIndex first_unserved() const { return static_cast<LaneIndex>(std::countr_zero(unserved)); }
  /// Queued jobs that no worker may be given.
  std::size_t queued_unserved() const;
  ListHook<Service> unserved_hook;   ///< listed while a lane is unserved
  std::uint32_t unserved_looks = 0;  ///< how often Unserved has found it listed since; kept by it
  TimePoint unserved_since{};        ///< when Unserved found it listed first; kept by it
  bool paused = false;               ///< by an operator
  NamedTimes::Place times;
  /// The part of its share_min that each lane is owed, in thousandths of cost: at most the cost of two of its
  /// jobs. Cost is in tokens where any job's are counted; jobs whose tokens are not counted have the usual
  /// cost.
  std::array<std::int64_t, kLanesMax> owed{};
  /// The mean cost of recent jobs whose tokens are counted. While none has run, what one that waits is
  /// expected to cost: else the others would weigh nothing beside it, and its lane would never be owed it.
  std::int64_t usual_cost() const {
    return std::max<std::int64_t>(sum_of_late_ > 0 ? sum_of_late_ / kOfLate : expected_cost_, 1);
  }
  /// A job whose tokens are counted, and of such a cost, waits.
  void expect_cost(std::int64_t cost) { expected_cost_ = cost; }
  /// Notes the cost of a job whose tokens are counted.
  void note_cost(std::int64_t cost) {
    sum_of_late_ += sum_of_late_ == 0 ? cost * kOfLate : cost - usual_cost();
  }
  /// About the mean of how long recent jobs ran; none: none has.
  std::optional<Duration> usual_run() const { return usual_run_; }
  void note_run(Duration ran_for) {
    usual_run_ = usual_run_ ? *usual_run_ + (ran_for - *usual_run_) / kOfLate : ran_for;
  }
  RetryBudget retries;
  CircuitBreaker breaker;
  /// A model that fails while others are answered.
  struct FailedModel {
    std::size_t model = 0;     ///< its place among the apart models
    std::uint64_t client = 0;  ///< mark of the client whose call opened the breaker, or of its tenant
    CircuitBreaker breaker;
  };
  std::vector<FailedModel> failed_models;
  /// The first period of the next model's breaker, so that no earlier call belongs to it.
  CircuitBreaker::Period next_period = 1;
  /// Models set apart because of one tenant, or one client without a tenant.
  static constexpr std::ptrdiff_t kFailedModelsOfClient = 8;
  /// Receivers of webhooks set apart: a quarter of the places, since anybody can name receivers that fail.
  /// One more is called as often as its jobs' pauses let it be.
  static constexpr std::size_t kFailedReceiversMax = Budgets::kModelsApartMax / 4;
  FailedModel* failed_model(std::size_t model) {
    const auto place = std::find_if(failed_models.begin(), failed_models.end(),
                                    [&](const FailedModel& failed) { return failed.model == model; });
    return place == failed_models.end() ? nullptr : &*place;
  }
  /// Until then a client whose call failed, or its tenant, leaves it to others to try the upstream: for one
  /// model, or all.
  struct Bar {
    std::string client;  ///< or the tenant's space
    std::size_t model = 0;
    TimePoint until{};
  };
  static constexpr std::size_t kBarsMax = 16;
  std::vector<Bar> bars;
  /// The model that all calls named which opened the breaker; empty: several, or none.
  std::string only_model;
  /// Whether nothing keeps its jobs back, for any client and model.
  bool is_sound() const { return breaker.closed() && failed_models.empty() && bars.empty(); }
  Timer timer{TimerOwner::service, this};  ///< set when a breaker may admit a call, or a bar ends

 private:
  static constexpr std::int64_t kOfLate = 16;  ///< jobs over which the mean moves
  std::int64_t sum_of_late_ = 0, expected_cost_ = 0;
  std::optional<Duration> usual_run_;
};

/// A breaker or bar that keeps jobs from an upstream, for reports. Views.
struct ShownBreaker {
  std::string_view model{};   ///< the only model concerned; empty: all
  std::string_view client{};  ///< the only client concerned, or the space of the only tenant; empty: all
  std::string_view state{};   ///< the breaker's, or `others_first`: other clients try before that one
  TimePoint until{};          ///< when one job may go if nothing happens before; kNever: one is trying now
};

/// A job that a worker had when it was taken for lost: what is taken back when it turns out to live.
struct Lost {
  JobNumber job{};
  std::uint32_t attempt = 0;
  bool counted = false;          ///< as a death under the job
  bool spared = false;           ///< it cost no attempt: the worker's process lives
  bool shared = false;           ///< it was a death under several, as far as was known
  Company company = kNoCompany;  ///< else those who are suspected together
  TimePoint dispatched_at{};
  std::int64_t charged = 0;  ///< to its client
  std::string key;           ///< of its budgets
};

/// A worker that has sent `ready`.
struct Worker {
  std::string address;  ///< where messages go; not its identity
  std::string session;  ///< its identity: random, and told to it alone
  std::string key;      ///< the name of the key that it has shown; empty: none was asked for
  std::string name;
  std::uint64_t number = 0;  ///< order of arrival
  std::vector<std::unique_ptr<Place>> places;
  LaneMask lanes = 0;  ///< 0: every lane
  std::uint32_t capacity = 0, running = 0;
  IntrusiveList<Away, &Away::hook> leases;
  Timer timer{TimerOwner::worker, this};
  Timer rest{TimerOwner::rest,
             this};               ///< set while it rests: it handed back one job after the other untouched
  std::uint32_t handed_back = 0;  ///< jobs handed back in a row, without another outcome
  TimePoint heard_at{};
  Grouping grouping;              ///< as its `ready` said
  std::vector<wire::Lease> acks;  ///< outcomes to acknowledge
  /// Jobs of its last inventory that are not its own. They are cancelled, and each takes a place until its
  /// outcome comes or an inventory lacks it: else the worker would have to hand new jobs back.
  std::vector<wire::Lease> strays;
  bool draining = false;            ///< it leaves, or an operator drains it; see Workers::set_draining()
  bool awaits_inventory = false;    ///< gets no job before its heartbeat
  bool resumes = false;             ///< it comes back with its session after its connection is lost
  bool asks_cluster = false;        ///< it wants to know where other brokers are
  bool cut = false;                 ///< its connection is lost: it gets no job, and may come back
  bool silent = false;              ///< it has missed a heartbeat: it gets no job until it is heard
  bool watched = false;             ///< the system would say if its process ended
  TimePoint cut_at = kNever;        ///< cut: since when; kNever: it is lost as any silent worker
  TimePoint returned_at{};          ///< when it last came back with its session
  bool listed = false;              ///< its places are in their services' lists and counts
  bool leaves = false;              ///< it is among its services' leavers; else among the takers
  Service* isolated_for = nullptr;  ///< it gets only jobs of that service which go out alone (Isolation)
  Company suspects = kNoCompany;    ///< whose these are that it has; none: it has none of them
  std::vector<Lost> lost;  ///< jobs that it had when it was taken for lost, until it says which it has

  bool reserved() const { return lanes != 0; }
  /// Whether it offers the job's service, for the job's lane.
  bool takes(const Job& job) const;
  std::size_t occupied() const { return running + strays.size(); }
  /// Whether it may be given a job, if it is not kept for others.
  bool fit() const {
    return occupied() < capacity && !draining && !awaits_inventory && !cut && !silent && !rest.is_set();
  }
  bool available() const { return fit() && isolated_for == nullptr; }
  /// The part of its places that is in use, in eighths. Requires: one is free.
  std::uint8_t part_in_use() const {
    return static_cast<std::uint8_t>(occupied() * Places::kParts / capacity);
  }
};

/// All workers and what they offer. Finds a place for a job in O(1), at workers for all lanes.
class Workers {
 public:
  /// `webhook_service`: as in Options.
  explicit Workers(const std::vector<LaneOptions>& lanes, std::string webhook_service = {});

  Worker* find(std::string_view address) const;
  /// Requires: no worker has the address or the session.
  Worker& add(std::string_view address, std::string session);
  /// The worker with that session; null: none.
  Worker* of_session(std::string_view session) const;
  /// Some worker that has shown the key; null: none. Looks through all workers.
  Worker* of_key(std::string_view key) const;
  /// The worker has another address; it keeps its jobs. Requires: no worker has the address.
  void move(Worker& worker, std::string_view address);
  /// Requires: the worker holds no job.
  void remove(Worker& worker);
  std::size_t size() const { return by_number_.size(); }
  const std::map<std::uint64_t, std::unique_ptr<Worker>>& all() const { return by_number_; }

  /// Null: unknown.
  Service* find_service(std::string_view name) const;
  /// The service of that name, which is added if it is unknown.
  Service& service(std::string_view name);
  /// Counts one more user of the service, or one fewer; a service without users may be forgotten.
  void use(Service& service) {
    if (service.uses++ == 0) unused_.remove(service);
  }
  void release(Service& service) {
    LANEMQ_CHECK(service.uses > 0);
    if (--service.uses == 0) unused_.push_back(service);
  }
  std::size_t unused() const { return unused_.size(); }
  /// Services that have jobs, workers or an operator's pause.
  std::size_t used() const { return services_.size() - unused_.size(); }
  /// Services that workers would offer if this one named these; null: a new worker.
  std::size_t offered_with(const Worker* worker, const std::vector<std::string_view>& names) const;
  /// The service that has been unused longest; null: none. It is about to be forgotten, and must not be used.
  Service* take_unused() {
    Service* const service = unused_.pop_front();
    if (service != nullptr) service->leaves = true;
    return service;
  }
  /// Requires: take_unused() returned it, and nothing refers to it.
  void forget(const Service& service) { services_.erase(services_.find(service.name)); }
  const std::map<std::string, std::unique_ptr<Service>, std::less<>>& services() const { return services_; }

  /// A job of the service is queued, or no longer.
  void queued(Service& service, LaneIndex lane) {
    if (service.queued_in[lane]++ == 0 && !service.serves(lane)) look_for_unserved(service);
  }
  void unqueued(Service& service, LaneIndex lane) {
    LANEMQ_CHECK(service.queued_in[lane] > 0);
    if (--service.queued_in[lane] == 0 && !service.serves(lane)) look_for_unserved(service);
  }
  using UnservedList = IntrusiveList<Service, &Service::unserved_hook>;
  /// The services that have queued jobs of lanes which no worker takes: it has none, none for the lane, or
  /// none but those that drain. Those that came to it first go before others.
  const UnservedList& unserved() const { return unserved_; }
  /// Whether workers take jobs of that lane which may be given none any more.
  bool drains(const Service& service, LaneIndex lane) const { return takes(service.leavers, lane); }

  /// Replaces a worker's services, lanes and capacity.
  void offer(Worker& worker, const std::vector<Service*>& services, LaneMask lanes, std::uint32_t capacity);
  /// Lists or unlists a worker's places; to be called when what decides that has changed.
  void update(Worker& worker);
  /// The worker may be given no job any more, or may again.
  void set_draining(Worker& worker, bool draining);

  /// Replaces the worker's strays.
  void set_strays(Worker& worker, std::vector<wire::Lease> strays);

  /// The place that a job of that lane would take now: at a worker for some lanes first, then at one for all
  /// lanes, as long as the places held for higher lanes stay free. Null: none.
  Place* find_place(Service& service, LaneIndex lane) const;
  /// Gives the job a place of the worker. Requires: the worker is available, and the job away.
  void take_place(Worker& worker, Job& job);
  /// Frees the job's place.
  void free_place(Job& job);

 private:
  std::size_t held_for_higher_lanes(const Service& service, LaneIndex lane) const;
  void list(Worker& worker);
  void unlist(Worker& worker);
  void change_free(Worker& worker, std::ptrdiff_t places);
  static void list_anew(Worker& worker);
  /// Whether one of them may be given jobs of that lane, sooner or later.
  bool takes(const Takers& takers, LaneIndex lane) const {
    return takers.places > reserved_above_[lane] || takers.of_lane[lane] > 0;
  }
  void count_offer(const Worker& worker, int workers);
  void look_for_served(Service& service);
  void look_for_unserved(Service& service);

  std::string webhook_service_;
  std::vector<std::size_t> reserved_above_;  // by lane: the sum of the higher lanes' reserved_slots
  absl::flat_hash_map<std::string, Worker*, StringHash, StringEqual> by_address_;
  absl::flat_hash_map<std::string, Worker*, StringHash, StringEqual> by_session_;
  std::map<std::uint64_t, std::unique_ptr<Worker>> by_number_;
  std::map<std::string, std::unique_ptr<Service>, std::less<>> services_;
  std::size_t offered_ = 0;                               // services that have workers
  IntrusiveList<Service, &Service::unused_hook> unused_;  // the longest unused first
  UnservedList unserved_;
  std::uint64_t next_number_ = 1;
};

}  // namespace lanemq::core
