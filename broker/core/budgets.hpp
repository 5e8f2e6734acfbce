// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/options.hpp"
#include "broker/core/quota.hpp"
#include "broker/core/time.hpp"

namespace lanemq::core {

/// One key of a budget's pool.
struct Key {
  enum class State : std::uint8_t {
    active,
    draining,  ///< given to no job any more
    spent,     ///< the upstream refuses it
  };
  std::string name;
  std::uint32_t weight = 1;
  std::size_t account = 0;  ///< among its budget's
  State state = State::active;
  std::int64_t running = 0;
  std::uint64_t given = 0;  ///< jobs that got it
  TimePoint since{};        ///< what is said of it in answer to earlier calls is out of date
};
std::string_view name_of(Key::State state);

/// An account upstream: the limits that its keys share.
struct Account {
  std::string name;  ///< the quota_group, or the key's
  Quota quota;
};

/// What an upstream allows, at work.
struct Budget {
  explicit Budget(const BudgetOptions& options);

  BudgetOptions options;
  Quota quota;                    ///< of all its keys together
  std::vector<Account> accounts;  ///< never removed, so that places stay
  std::vector<Key> keys;          ///< likewise
  bool paused = false;            ///< by an operator

  void add_key(const KeyOptions& key);
};

/// The budgets that match one job, by place. Jobs with equal sets share a queue.
using BudgetSet = std::uint32_t;

/// What one running job has taken; belongs to the job and is settled exactly once.
struct Reservation {
  static constexpr std::uint16_t kNoKey = 0xFFFF;

  BudgetSet set = 0;
  bool held = false;
  std::uint16_t key = kNoKey;  ///< in the set's pool
  TimePoint taken_at{};
  std::uint32_t input_tokens = 0, output_tokens = 0;

  Amounts amounts() const { return {.input_tokens = input_tokens, .output_tokens = output_tokens}; }
};

/// Why a job cannot have what it asks of its budgets.
struct Obstacle {
  const Budget* budget = nullptr;    ///< null: nothing stands in the way
  const Account* account = nullptr;  ///< whose limit it is; null: the budget's own
  const RateLimit* rate = nullptr;   ///< null: it is paused, or its concurrency is used up
  bool paused = false;
  bool no_key = false;  ///< all keys are spent or draining

  explicit operator bool() const { return budget != nullptr; }
  /// For people: `openai tokens_per_minute`, `openai key k1 paused by its upstream`.
  std::string name() const;
};

/// Everything that is somebody else's quota. All or nothing: a job takes from every budget that matches it or
/// from none.
class Budgets {
 public:
  static constexpr std::size_t kKeysMax = 256;  ///< of a budget

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
  /// would else wait for ever while small ones pass it. Says when the first of these may have enough, and is
  /// free for others even if the claim still lacks something else; kNever when there is none.
  TimePoint save(BudgetSet set, const Claim& claim, TimePoint now);
  /// Debits one job, and gives it the key with the most room where its budgets have keys. Requires: no
  /// obstacle.
  Reservation reserve(BudgetSet set, const Claim& claim, TimePoint now);
  /// The key's name; empty where there is none.
  std::string_view key_of(const Reservation& reservation) const;
  /// The attempt is over and was sent: its place is free again, and what it used, where that is known, takes
  /// the place of what it was expected to. Unknown, it is taken to have used all of that.
  void settle(Reservation& reservation, const std::optional<Amounts>& used, TimePoint now);
  /// The job was handed back untouched: its place is free and all of it is given back.
  void release(Reservation& reservation, TimePoint now);
  /// When a job may be affordable, an estimate on the early side; kNever when only a settle can tell.
  TimePoint when_affordable(BudgetSet set, const Claim& claim, TimePoint now);
  /// When that is likely, for people: as if nobody else took anything.
  TimePoint likely_affordable(BudgetSet set, const Claim& claim, TimePoint now);

  /// The upstream asks for a pause: the account of the job's key rests until then, or, where the job had no
  /// key, every budget that counts something over time. A pause is only ever lengthened. False when there is
  /// neither.
  bool pause(const Reservation& reservation, TimePoint until, TimePoint now);
  /// The upstream refuses the job's key for good. Requires: it has one.
  struct Spending {
    bool news = false;      ///< it was not known
    bool key_left = false;  ///< for the job to go on with
  };
  Spending spend_key(const Reservation& reservation);

  /// What the upstream says of its limits of a minute in answer to a job that has taken `reservation`.
  void learn(const Reservation& reservation, const wire::UpstreamLimits& limits, TimePoint now);
  /// The upstream refused for its rate and did not say what it is.
  void cut(const Reservation& reservation, TimePoint now);
  /// The upstream answered the job that had taken `reservation`, or was overloaded: moves the concurrency.
  void succeeded(const Reservation& reservation);
  void overloaded(const Reservation& reservation, TimePoint now);

  /// Other limits, concurrencies and keys count from now on, by the names of budgets; a key that is not there
  /// any more is drained, one that was spent is tried again. Budgets stay those that they were.
  void configure(const std::vector<BudgetOptions>& options, TimePoint now);

  /// The places of a set's budgets among all().
  const std::vector<std::size_t>& members(BudgetSet set) const { return sets_[set].budgets; }
  /// Other limits and concurrencies of one budget and its keys count from now on; its keys stay in the states
  /// that they are in. Requires: the same names.
  void change_limits(const BudgetOptions& options, TimePoint now);

  /// Whether an operator paused a budget of the set.
  bool paused(BudgetSet set) const {
    return std::any_of(sets_[set].budgets.begin(), sets_[set].budgets.end(),
                       [&](std::size_t i) { return budgets_[i].paused; });
  }
  /// All of them, for reports.
  std::vector<Budget>& all() { return budgets_; }
  const std::vector<Budget>& all() const { return budgets_; }

 private:
  struct Set {
    std::vector<std::size_t> budgets;
    std::size_t pool = kNoPool;  ///< the budget whose keys its jobs get
    bool counts_tokens = false, counts_bound = false;
  };

  static constexpr std::size_t kNoPool = static_cast<std::size_t>(-1);

  /// The budget whose keys the set's jobs get; null when they get none.
  const Budget* pool_of(BudgetSet set) const {
    const std::size_t pool = sets_[set].pool;
    return pool == kNoPool || budgets_[pool].options.keys.empty() ? nullptr : &budgets_[pool];
  }
  Budget* pool_of(BudgetSet set) {
    const Budget* const pool = std::as_const(*this).pool_of(set);
    return pool == nullptr ? nullptr : &budgets_[sets_[set].pool];
  }
  void describe(Set& set) const;
  Obstacle own_obstacle(BudgetSet set, const Claim& claim, TimePoint now);
  Key* best_key(Budget& pool, const Claim& claim, TimePoint now);
  static Account* first_account(Budget& pool, const Claim& claim, TimePoint now);
  Key& key_at(const Reservation& reservation);
  const Key& key_at(const Reservation& reservation) const;
  Quota& account_of(const Reservation& reservation);
  template <class When>
  TimePoint latest_of(BudgetSet set, TimePoint now, When when);
  template <class Change>
  void for_quotas(const Reservation& reservation, Change change);

  std::vector<Budget> budgets_;
  std::vector<Set> sets_;
  std::map<std::vector<std::size_t>, BudgetSet> interned_;
};

}  // namespace lanemq::core
