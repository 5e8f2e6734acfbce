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
/// Such jobs stand in their queues by arrival as any that came back, but take no turns there: the dispatcher
/// asks for them here. Decides which workers are kept empty for them, and owns nothing.
class Isolation {
 public:
  /// Workers of a service that are kept empty at a time: one, or one of so many.
  static constexpr std::size_t kWorkersPerIsolated = 4;
  /// Companies that are remembered; the jobs of one before go as any.
  static constexpr std::size_t kCompaniesMax = 256;
  /// Jobs of a service that are looked at in a turn: those behind them wait behind them.
  static constexpr std::size_t kLookedAtMax = 256;

  explicit Isolation(Workers& workers) : workers_(workers) {}
  Isolation(const Isolation&) = delete;
  Isolation& operator=(const Isolation&) = delete;

  /// A worker was lost under several jobs, or alone under one that is suspected: a new company for them.
  Company lost_together();
  /// Whether the job has to go out alone.
  bool suspects(const Job& job) const;
  /// All of a company are free of suspicion.
  void clear(Company company);
  /// The job has shown that it kills nobody. Requires: it is in no queue.
  static void clear(Job& job) {
    if (job.extra) job.extra->company = kNoCompany;
  }

  /// A suspected job has come to its queue, or is about to leave it.
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
  /// Calls `tell` with each empty worker that is kept for such jobs, and each of these that it may take, in
  /// the order in which they are to go, until it returns true. Returns whether it did.
  template <class Tell>
  bool any_match(Tell tell) const {
    for (const Service* service : services_)
      for (Worker* worker : service->isolated)
        if (worker->fit() && worker->occupied() == 0) {
          std::size_t left = kLookedAtMax;
          for (auto job = service->suspects.begin(); job != service->suspects.end() && left-- > 0; ++job)
            if (worker->takes(**job) && tell(*worker, **job)) return true;
        }
    return false;
  }

 private:
  bool arrange(Service& service, const MayGo& may_go);
  Worker* best_for(const std::vector<const Job*>& jobs) const;
  void isolate(Service& service, Worker& worker);
  void let_go(Worker& worker);

  Workers& workers_;
  std::vector<Service*> services_;  // that have such jobs waiting, or such workers
  std::deque<Company> companies_;   // that are under suspicion
  Company last_ = kNoCompany;
};

}  // namespace lanemq::core
