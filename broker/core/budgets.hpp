// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/concurrency_limit.hpp"
#include "broker/core/options.hpp"
#include "broker/core/rate_limit.hpp"
#include "broker/core/time.hpp"

namespace lanemq::core {

/// What an upstream allows, at work.
struct Budget {
  explicit Budget(const BudgetOptions& options);

  BudgetOptions options;
  std::vector<RateLimit> rates;
  ConcurrencyLimit concurrency;
  TimePoint paused_until{};  ///< only ever moved later
};

/// The budgets that match one job, by place. Jobs with equal sets share a queue.
using BudgetSet = std::uint32_t;

/// What one running job has taken; belongs to the job and is settled exactly once.
struct Reservation {
  BudgetSet set = 0;
  bool held = false;
  TimePoint taken_at{};
  std::uint32_t input_tokens = 0, output_tokens = 0;

  Amounts amounts() const { return {.input_tokens = input_tokens, .output_tokens = output_tokens}; }
};

/// Why a job cannot have what it asks of its budgets.
struct Obstacle {
  const Budget* budget = nullptr;   ///< null: nothing stands in the way
  const RateLimit* rate = nullptr;  ///< null: it is paused, or its concurrency is used up
  bool paused = false;

  explicit operator bool() const { return budget != nullptr; }
  /// For people: `budget openai tokens_per_minute`.
  std::string name() const;
};

/// Everything that is somebody else's quota. All or nothing: a job takes from every budget that matches it or
/// from none.
class Budgets {
 public:
  explicit Budgets(const std::vector<BudgetOptions>& options);

  /// The set of budgets that match. Sets are few: a combination of configured budgets each.
  BudgetSet match(std::string_view service, std::string_view model, std::string_view client,
                  std::string_view lane);
  /// Whether some limit of the set counts tokens, so that a job's are worth estimating.
  bool counts_tokens(BudgetSet set) const { return sets_[set].counts_tokens; }
  /// Whether some budget of the set counts what a request allows its answer, not what the answer has.
  bool counts_bound(BudgetSet set) const { return sets_[set].counts_bound; }
  /// The limit of the set that `amounts` is more than, even of an empty window; null when there is none.
  Obstacle unsatisfiable(BudgetSet set, const Amounts& amounts) const;
  /// As much of an estimate of the output as the limits of the set could ever grant.
  void cut_output(BudgetSet set, Amounts& amounts) const;

  /// What keeps a job from having what it claims now.
  Obstacle obstacle(BudgetSet set, const Claim& claim, TimePoint now);
  /// Nobody who asks later in the claim's turn takes from the limits that are too low for it: a large job
  /// would else wait for ever while small ones pass it.
  void save(BudgetSet set, const Claim& claim, TimePoint now);
  /// Debits one job. Requires: no obstacle.
  Reservation reserve(BudgetSet set, const Amounts& amounts, TimePoint now);
  /// The attempt is over and was sent: its place is free again, and what it used, where that is known, takes
  /// the place of what it was expected to. Unknown, it is taken to have used all of that.
  void settle(Reservation& reservation, const std::optional<Amounts>& used, TimePoint now);
  /// The job was handed back untouched: its place is free and all of it is given back.
  void release(Reservation& reservation, TimePoint now);
  /// When a job may be affordable, an estimate on the early side; kNever when only a settle can tell.
  TimePoint when_affordable(BudgetSet set, const Claim& claim, TimePoint now);

  /// The upstream asks for a pause: every budget of the set that counts something over time rests until then.
  /// A pause is only ever lengthened. False when the set has no such budget.
  bool pause(BudgetSet set, TimePoint until, TimePoint now);

  /// What the upstream says of its limits of a minute in answer to a job that has taken `reservation`.
  void learn(const Reservation& reservation, const wire::UpstreamLimits& limits, TimePoint now);
  /// The upstream refused for its rate and did not say what it is.
  void cut(BudgetSet set, TimePoint now);
  /// The upstream answered the job that had taken `reservation`, or was overloaded: moves the concurrency.
  void succeeded(const Reservation& reservation);
  void overloaded(const Reservation& reservation, TimePoint now);

  /// All of them, for reports.
  std::vector<Budget>& all() { return budgets_; }

 private:
  struct Set {
    std::vector<std::size_t> budgets;
    bool counts_tokens = false, counts_bound = false;
  };

  std::vector<Budget> budgets_;
  std::vector<Set> sets_;
  std::map<std::vector<std::size_t>, BudgetSet> interned_;
};

}  // namespace lanemq::core
