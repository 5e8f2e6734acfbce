// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/core/options.hpp"
#include "broker/core/sliding_window.hpp"
#include "broker/core/time.hpp"
#include "broker/core/token_bucket.hpp"

namespace lanemq::core {

/// One limit of a budget at work.
class RateLimit {
 public:
  RateLimit(const RateOptions& options, WindowKind window);

  const std::string& name() const { return name_; }
  std::int64_t limit() const { return limit_; }
  std::int64_t capacity() const { return bucket_.capacity() / scale_; }
  /// What could be taken at `now`; negative when in debt.
  std::int64_t available(TimePoint now);
  /// Requires: available(now) >= amount, or debt is meant.
  void take(std::int64_t amount, TimePoint now);
  /// Takes back what take() took at `taken_at` and was never used.
  void give(std::int64_t amount, TimePoint taken_at, TimePoint now);
  /// When `amount` may be available; an estimate on the early side. Requires: it is not at `now`.
  TimePoint when_available(std::int64_t amount, TimePoint now);

 private:
  void advance(TimePoint now);

  std::string name_;
  std::int64_t limit_;
  std::int64_t scale_;  // the bucket's and the pace's units to one request
  TokenBucket bucket_;
  std::optional<SlidingWindow> window_;
};

/// What an upstream allows, at work.
struct Budget {
  explicit Budget(const BudgetOptions& options);

  BudgetOptions options;
  std::vector<RateLimit> rates;
  std::int64_t running = 0;  ///< jobs that hold a place in `concurrency`
  TimePoint paused_until{};  ///< only ever moved later
};

/// The budgets that match one job, by place. Jobs with equal sets share a queue.
using BudgetSet = std::uint32_t;

/// What one running job has taken; belongs to the job and is settled exactly once.
struct Reservation {
  BudgetSet set = 0;
  bool held = false;
  TimePoint taken_at{};
};

/// Everything that is somebody else's quota. All or nothing: a job takes from every budget that matches it or
/// from none.
class Budgets {
 public:
  explicit Budgets(const std::vector<BudgetOptions>& options);

  /// The set of budgets that match. Sets are few: a combination of configured budgets each.
  BudgetSet match(std::string_view service, std::string_view model, std::string_view client,
                  std::string_view lane);

  /// Whether every budget of the set can afford one more job.
  bool affordable(BudgetSet set, TimePoint now);
  /// Debits one job. Requires: affordable(set, now).
  Reservation reserve(BudgetSet set, TimePoint now);
  /// The job is over and was sent: its place is free again.
  void settle(Reservation& reservation);
  /// The job was handed back untouched: its place is free and its request is given back.
  void release(Reservation& reservation, TimePoint now);

  /// When the set may afford a job again. Requires: it does not at `now`. kNever: only an outcome can tell.
  TimePoint when_affordable(BudgetSet set, TimePoint now);
  /// Stops every rate budget of the set until then; never shortens a pause. Returns whether there was one.
  bool pause(BudgetSet set, TimePoint until);
  /// The one limit that stands in the way, as `budget NAME LIMIT`, or nothing.
  std::string blocked_by(BudgetSet set, TimePoint now);

  std::vector<Budget>& all() { return budgets_; }

 private:
  std::vector<Budget> budgets_;
  std::vector<std::vector<std::size_t>> sets_;  // by BudgetSet
  std::map<std::vector<std::size_t>, BudgetSet> interned_;
};

}  // namespace lanemq::core
