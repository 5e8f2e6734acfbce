// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "broker/core/jobs/job.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

/// Keeps jobs apart under which a worker was lost that held others as well: any of them may be why. Each goes
/// out alone, to a worker that holds nothing else and gets nothing beside it; so a job that kills its workers
/// takes no other along twice. When one is lost alone, or the worker turns out to live, the others of its
/// company are free of suspicion.
///
/// Most workers that are lost were stopped by somebody, and calls take long: so from kAloneFor on a company
/// may have one more out beside each other, at one worker, for each that has ended there. If that is lost the
/// others of its company are free, and those that it held are the next company.
///
/// Such jobs stand in their queues by arrival as any that came back, but take no turns there: the dispatcher
/// asks for them here. Decides which workers are kept empty for them, and owns nothing.
class Isolation {
 public:
  /// Workers of a service that are kept empty at a time: one, or one in kWorkersPerIsolated.
  static constexpr std::size_t kWorkersPerIsolated = 4;
  /// How long a company's jobs go out one at a time.
  static constexpr Duration kAloneFor = std::chrono::seconds(20);
  /// Companies that are remembered; the jobs of one before go as any.
  static constexpr std::size_t kCompaniesMax = 256;
  /// Jobs of a service that are examined in a turn; later ones wait behind them.
  static constexpr std::size_t kLookedAtMax = 256;

  explicit Isolation(Workers& workers) : workers_(workers) {}
  Isolation(const Isolation&) = delete;
  Isolation& operator=(const Isolation&) = delete;

  /// A worker was lost under several jobs, or under a single job that is suspected: a new company for them.
  Company lost_together(TimePoint now);
  /// Jobs of the lost worker that were suspected before form a new company; all others of `before` are
  /// cleared.
  Company lost_of(Company before, TimePoint now);
  /// Whether the job has to go out alone.
  bool suspects(const Job& job) const {
    return job.extra && job.extra->company != kNoCompany && find(job.extra->company) != nullptr;
  }
  /// The company of all that were suspected before the broker was restarted.
  Company restored(TimePoint now) {
    if (restored_ == kNoCompany) restored_ = lost_together(now);
    return restored_;
  }
  /// All of a company are free of suspicion.
  void clear(Company company);
  /// The job has shown that it kills nobody. Requires: it is in no queue.
  void clear(Job& job) {
    if (job.extra && job.extra->company != kNoCompany) ended(job);
  }

  /// add(): a suspected job has joined its queue. remove(): it is about to leave.
  void add(Job& job);
  void remove(Job& job);

  /// Whether a suspected job waits, or a worker is kept empty.
  bool any() const { return !services_.empty(); }
  /// Chooses workers to keep empty, and lets go those that nobody needs. `may_go`: whether nothing but a
  /// worker keeps a job back.
  using MayGo = std::function<bool(const Job& job)>;
  void arrange(const MayGo& may_go);
  /// The worker is about to be forgotten.
  void forget(Worker& worker);
  /// Calls `tell` with each worker that is kept for such jobs and has room, and each of these that it may
  /// take, in the order in which they are to go, until it returns true. Returns whether it did.
  template <class Tell>
  bool any_match(TimePoint now, Tell tell) const {
    for (const Service* service : services_)
      for (Worker* worker : service->isolated) {
        if (!worker->fit() || worker->occupied() >= width_at(*worker, now)) continue;
        std::size_t left = kLookedAtMax;
        for (auto job = service->suspects.begin(); job != service->suspects.end() && left-- > 0; ++job)
          if (fits_beside(*worker, **job) && worker->takes(**job) && tell(*worker, **job)) return true;
      }
    return false;
  }

 private:
  struct Suspects {
    Company company = kNoCompany;
    TimePoint since{};
    std::size_t ended = 0;  ///< of them, at workers that live
  };
  const Suspects* find(Company company) const;
  void ended(Job& job);
  /// How many suspected jobs the worker may hold.
  std::size_t width_at(const Worker& worker, TimePoint now) const;
  static bool fits_beside(const Worker& worker, const Job& job) {
    return worker.suspects == kNoCompany || worker.suspects == job.extra->company;
  }
  bool arrange(Service& service, const MayGo& may_go);
  Worker* best_for(const std::vector<const Job*>& jobs) const;
  void isolate(Service& service, Worker& worker);
  void let_go(Worker& worker);

  Workers& workers_;
  std::vector<Service*> services_;  // that have such jobs waiting, or such workers
  std::deque<Suspects> companies_;  // that are under suspicion
  Company last_ = kNoCompany, restored_ = kNoCompany;
};

}  // namespace lanemq::core
