// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/terms.hpp"

#include <algorithm>

#include "broker/core/scheduler/flow_group.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

/// Lower bound on the tokens of a body held only in the store (small bodies never are).
constexpr std::uint32_t kStoredTokensLeast = 256;

}  // namespace

Terms::Terms(State& state) : state_(state) {
  for (const auto& lane : state_.lanes)
    lane->terms = this;
  options_changed();
}

void Terms::options_changed() {
  hold_below_.clear();
  boosts_ = shares_ = false;
  int hold = 0;
  for (const LaneOptions& lane : state_.options.lanes) {
    hold_below_.push_back(hold);
    hold += lane.reserve;
    boosts_ = boosts_ || lane.boost_after.count() > 0;
    shares_ = shares_ || lane.share_min > 0;
  }
  hold_below_.push_back(hold);  // for lanes below the top, where only one lane is configured
}

// ---- what jobs are expected to take -------------------------------------------------------------------

Estimate Terms::estimate(BudgetSet set, std::string_view model, std::string_view client,
                         std::string_view body, const std::optional<wire::Cost>& cost) {
  Estimate estimate;
  if (!state_.budgets.counts_tokens(set)) return estimate;
  const std::optional<wire::Cost> stated = word_of(cost, body);
  estimate = state_.estimates.estimate(model, client, body, stated);
  fit(set, stated, estimate);
  return estimate;
}

/// Makes the estimate what the set's budgets count.
void Terms::fit(BudgetSet set, const std::optional<wire::Cost>& stated, Estimate& estimate) const {
  if (state_.budgets.counts_bound(set) && estimate.output_bound)
    estimate.amounts.output_tokens = *estimate.output_bound;
  else if (!stated || !stated->knows_output())
    state_.budgets.cut_output(set, estimate.amounts);
  raise_to(stated, estimate.amounts);
}

/// A job is estimated when it comes if its budgets count tokens. Others may count them when its turn comes:
/// after the configuration was read again, or in the next life of the broker. And what was guessed before the
/// model's first calls had ended is guessed anew: many jobs may have come with that guess.
void Terms::appraise(Job& job) {
  const Expected expected = job.expected();
  const BudgetSet budgets = job.flow().budgets();
  const bool counted = state_.budgets.counts_tokens(budgets);
  const bool again = job.estimate_rough && counted && !job.body_stored;
  if (counted == expected.is_estimated() && !again) return;
  // A body that only the store has is estimated by its size.
  const std::uint32_t stored_tokens = job.body_stored ? std::max(expected.raw_input, kStoredTokensLeast) : 0;
  if (!counted) return job.set_expected({.raw_input = stored_tokens});
  const Estimate seen =
      job.body_stored ? estimate_of(job, std::int64_t{stored_tokens}) : estimate_of(job, job.body().bytes());
  job.set_expected(expected_of(seen));
  job.estimate_rough = seen.rough;
}

/// The estimate for a job's body, or for a body that counts as a number of tokens.
Estimate Terms::estimate_of(const Job& job, const auto& body) const {
  const std::optional<wire::Cost> cost = job.extra ? job.extra->cost : std::nullopt;
  Estimate estimate =
      state_.estimates.estimate(job.text.get(JobText::model), job.text.get(JobText::client), body, cost);
  fit(job.flow().budgets(), cost, estimate);
  return estimate;
}

bool Terms::costs_more(Job& job, std::string_view body) {
  job.estimate_rough = false;
  if (!state_.budgets.counts_tokens(job.flow().budgets())) return false;
  const Amounts debited = job.expected().amounts();
  const Estimate seen = estimate_of(job, body);
  if (seen.amounts.input_tokens <= debited.input_tokens &&
      seen.amounts.output_tokens <= debited.output_tokens)
    return false;
  job.set_expected(expected_of(seen));
  return true;
}

void Terms::reappraise() {
  for (const auto& lane : state_.lanes)
    for (const auto& group : lane->groups())
      group->reappraise();
}

// ---- how they compete ---------------------------------------------------------------------------------

bool Terms::is_top(LaneIndex lane) const {
  return lane == 0 && state_.lanes.size() > 1;
}

LaneIndex Terms::level_of(LaneIndex lane, TimePoint accepted_at, TimePoint now) const {
  const Duration boost_after = state_.options.lanes[lane].boost_after;
  if (boost_after.count() <= 0 || lane <= 1) return lane;
  const auto steps = (now - accepted_at) / boost_after;
  return static_cast<LaneIndex>(std::max<std::int64_t>(lane - steps, 1));
}

LaneIndex Terms::level_of(const Job& job, TimePoint now) const {
  return level_of(job.lane, job.accepted_at, now);
}

LaneIndex Terms::level_of(const Flow& flow, TimePoint now) const {
  return level_of(flow.lane().index(), flow.head_accepted_at(), now);
}

std::uint16_t Terms::refused_key_of(const Job& job) {
  return job.key_refused && job.extra ? job.extra->refused_key : Claim::kNoKey;
}

Claim Terms::claim_of(const Job& job, TimePoint now) const {
  const LaneIndex level = level_of(job, now);
  return {.amounts = job.expected().amounts(),
          .lane = level,
          .hold = hold_below_[level],
          .key_refused = job.key_refused,
          .refused_key = refused_key_of(job)};
}

Claim Terms::owed_claim_of(const Job& job) const {
  return {.amounts = job.expected().amounts(),
          .lane = job.lane,
          .hold = hold_below_[1],
          .key_refused = job.key_refused,
          .refused_key = refused_key_of(job)};
}

bool Terms::can_start(const FlowGroup& group) const {
  return state_.workers.find_place(group.service(), group.lane().index()) != nullptr &&
         upstream_admits(group);
}

/// Whether the group's upstream may be called now. A failed one is tried with a job of the lowest lane that
/// could run, and with an urgent one only if there is no other.
bool Terms::upstream_admits(const FlowGroup& group) const {
  const Service& service = group.service();
  if (service.breaker.closed()) return true;
  const LaneIndex lane = group.lane().index();
  if (!service.breaker.admits(is_top(lane), now_)) return false;
  return std::none_of(service.groups.begin(), service.groups.end(), [&](const FlowGroup* lower) {
    return lower->lane().index() > lane &&
           state_.workers.find_place(lower->service(), lower->lane().index()) != nullptr &&
           lower->any_of([&](const Flow& flow) {
             return model_open_from(flow, now_) <= now_ &&
                    !state_.budgets.obstacle(flow.budgets(), claim_of(*flow.head(), now_), now_);
           });
  });
}

TimePoint Terms::model_open_from(const Flow& flow, TimePoint now) const {
  const std::size_t model = state_.budgets.model_of(flow.budgets());
  if (model == Budgets::kNoModel) return now;
  const TimePoint paused_until = state_.budgets.model_pause(flow.budgets(), now).until;
  if (paused_until > now) return paused_until;
  const Service::FailedModel* const failed = flow.service().failed_model(model);
  const bool top = is_top(flow.lane().index());
  if (failed == nullptr || failed->breaker.admits(top, now)) return now;
  // Its time may be over before its timer fires; only then it admits a trial.
  return std::max(failed->breaker.admits_at(top), now + TimerWheel::kTick);
}

}  // namespace lanemq::core
