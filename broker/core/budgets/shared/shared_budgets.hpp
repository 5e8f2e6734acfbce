// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include <lanemq/messages.hpp>

#include "broker/core/base/amounts.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/shared/slices.hpp"

namespace lanemq::core {

struct Budget;
struct Reservation;

/// `options` as the budget's bank is told them: with the keys in their places here, by which both name them;
/// new ones follow. One that is not configured any more keeps its place, and is given to nobody. Each is of
/// the account that it has here, until a restart.
BudgetOptions with_keys_in_place(const Budget& budget, BudgetOptions options);
/// The limits of this shard's part of the budget's offline_share. Requires: it is shared, and has one.
BudgetOptions offline_part(const BudgetOptions& options);
/// The same of limits that an upstream stated; what is left of these nobody can tell.
wire::UpstreamLimits offline_part(const wire::UpstreamLimits& limits, const BudgetOptions& options);
/// For people: why no part of the budget can be set aside so; empty: one can.
std::string cannot_set_aside(const BudgetOptions& options);
/// The keys of its set's pool that refuse the claim.
KeysRefused keys_refused(const Claim& claim);

/// The budgets that several shards share, of all that are configured: this shard uses what their banks grant
/// it (Slices, Bank). Remembers how each running job uses them. All times are of a clock that runs through
/// suspend. Belongs to Budgets, whose budgets it works on.
class SharedBudgets {
 public:
  /// So many draws are under way at most. The time of what is drawn begins with its draw, and draws are done
  /// one after the other: more of them would wait until nothing of that time is left.
  static constexpr std::size_t kDrawsMax = 2;

  /// `budgets` outlives it.
  explicit SharedBudgets(std::vector<Budget>& budgets) : budgets_(budgets) {}

  /// Begins to share the budgets configured so. `epoch`: of this owner of the shard; `only_owner`: as of
  /// Slices; `shards`: the names of all configured shards.
  void begin(const std::string& shard, std::uint64_t epoch, bool only_owner,
             std::vector<std::string> shards = {});
  bool any() const { return any_; }
  /// The budgets have other limits or keys.
  void configure(TimePoint now);

  /// Sets a lane's want of a budget from now on. Requires: it is shared.
  void want(std::size_t budget, const LaneWant& want);
  /// When the next draw is due; kNever: none is, or an answer comes first.
  TimePoint draw_due(TimePoint now) const;
  /// Begins draws that are due, of each budget in its turn; each is to be answered by drawn().
  std::vector<DrawWanted> begin_draws(TimePoint now);
  /// The bank's answer; null: nobody knows whether it was drawn.
  void drawn(std::size_t budget, const Drawn* drawn, TimePoint now);
  /// The hand-over leaves now. False: it came too late for what the bank granted, and must not.
  bool leaves(const Reservation& reservation, TimePoint now);

  // For Budgets. `set`: the budgets that count the job; `pool`: that of its key.
  using Places = std::vector<std::size_t>;
  /// Takes the claim of each shared one of the set, of its slices or else of the shard's part of the
  /// offline_share, which Budgets debits then. Requires: these can afford it.
  void take(const Places& set, std::size_t pool, const Claim& claim, Reservation& reservation, TimePoint now);
  /// Whether the job uses this shard's part of the budget's offline_share.
  bool is_of_offline_share(const Reservation& reservation, std::size_t budget) const;
  /// Counts a job that an earlier owner of the shard handed over.
  void adopt(const Places& set, Reservation& reservation);
  void settle(const Reservation& reservation, const std::optional<Amounts>& used, TimePoint now);
  /// Notes the limits that the upstream stated in the answer that tell() is called for next.
  void hear_limits(const wire::UpstreamLimits& limits) { limits_ = limits; }
  void forget_limits() { limits_.reset(); }
  /// Tells the banks the upstream's answer to the job.
  void tell(const Places& set, std::size_t pool, const Reservation& reservation, const UpstreamWord& word,
            TimePoint now);
  /// The same of the job's key, which only the bank of its pool is told. Requires: the pool is shared.
  void tell_of_key(std::size_t pool, const Reservation& reservation, UpstreamWord word, TimePoint now);

  /// Tells the banks that keys were configured anew.
  void tell_keys_configured(TimePoint now);

  /// A model that is paused alone, as a bank reports.
  struct ModelPaused {
    std::size_t budget = 0;
    std::string model;
    TimePoint until{};
    Duration length{};
  };
  /// Since the last call: budgets that may have more, and models that were paused.
  std::vector<std::size_t> take_eased() { return std::exchange(eased_, {}); }
  std::vector<ModelPaused> take_models_paused() { return std::exchange(models_paused_, {}); }

 private:
  /// How a job uses a budget: a use of its slices, or none where an earlier owner of the shard handed it
  /// over; or the shard's part of the offline_share.
  struct Use {
    std::size_t budget = 0;
    std::optional<Slices::UseId> use{};
    bool offline = false;
  };

  std::size_t drawing() const;

  std::vector<Budget>& budgets_;
  std::vector<std::string> shards_;
  bool any_ = false;
  std::size_t draws_from_ = 0;  ///< whose turn it is to draw
  std::uint64_t last_ = 0;
  absl::flat_hash_map<std::uint64_t, std::vector<Use>> uses_;  ///< by Reservation::shared
  std::optional<wire::UpstreamLimits> limits_;
  std::vector<std::size_t> eased_;
  std::vector<ModelPaused> models_paused_;
};

}  // namespace lanemq::core
