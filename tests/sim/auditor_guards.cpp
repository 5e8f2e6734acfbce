// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/sim/auditor.hpp"

// What guards allow between lanes: `reserve` keeps a part of each burst from those below, `boost_after` lets
// a job compete higher, `share_min` lets a lane go first once it is owed as much as its job costs: before all
// lanes but the top one, from whom nobody takes anything for what he is owed, neither its turn nor its
// reserve.
//
// What a lane is owed of a service is its share of what other lanes are served while it waits, at most two of
// its jobs. What counts as waiting is not always seen from outside, so that it is known between two bounds: a
// job may pass higher ones only if its lane may be owed it, and a lane that surely is owed a job that surely
// could run is not passed. So over any stretch in which a lane has work that could run it gets its share of
// what lanes above it get, but for one of its jobs, as long as their jobs cost no more than two of its own
// for its share. All of a service is counted in one unit: where some jobs are counted in tokens, another one
// counts for as much as those did of late, in the mean over 16; before the first of them has run, for what
// one of those that came is expected to cost.

namespace lanemq::sim {

/// The lane in which a job competes: one higher for each boost_after, but never the top.
std::size_t Auditor::level_of(const ModelJob& job) const {
  const Duration boost_after = options_.lanes[job.lane].boost_after;
  if (boost_after.count() <= 0 || job.lane <= 1) return job.lane;
  const auto steps = static_cast<std::size_t>((now_ - job.accepted_at) / boost_after);
  return steps >= job.lane ? 1 : std::max<std::size_t>(job.lane - steps, 1);
}

ModelClaim Auditor::claim_of(const ModelJob& job) const {
  int hold = 0;
  for (std::size_t i = 0; i < level_of(job); ++i)
    hold += options_.lanes[i].reserve;
  return {.amounts = job.expected, .hold = hold};
}

/// The lowest level at which the stream may compete: which client is next there is its own affair.
std::size_t Auditor::lowest_level(const ModelStream& stream) const {
  std::size_t lowest = 0;
  for_next_of(stream, [&](const ModelJob& job) { lowest = std::max(lowest, level_of(job)); });
  return lowest;
}

/// Whoever may be next among the clients of the stream.
void Auditor::for_next_of(const ModelStream& stream, const std::function<void(const ModelJob&)>& tell) const {
  for (const ModelStream& other : streams_) {
    if (!other.shares_with(stream) || surely_at_limit(other.client)) continue;
    for (const ModelJob* job : other.candidates(now_))
      tell(*job);
  }
}

/// Whether whoever is next in the stream surely has its budgets, where what is held for others does not
/// count.
bool Auditor::surely_affordable_when_owed(const ModelStream& stream) {
  bool affordable = true;
  for_next_of(stream, [&](const ModelJob& job) {
    for (std::size_t i = 0; affordable && i < budgets_.size(); ++i)
      if ((stream.budgets >> i & 1) != 0)
        affordable = budgets_[i].surely_affordable(owed_claim_of(job), now_);
    const ModelBudget* const pool = pool_of(stream.budgets);
    affordable = affordable &&
                 (pool == nullptr || std::all_of(pool->keys.begin(), pool->keys.end(), [&](const auto& key) {
                    return !key.draining && key.account->surely_affordable(owed_claim_of(job), now_);
                  }));
  });
  return affordable;
}

/// Whether it may ever be had as owed: not where the top lane would have to wait for its debt.
bool Auditor::leaves_hold(const ModelJob& job) const {
  const ModelClaim claim = owed_claim_of(job);
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if ((job.budgets >> i & 1) != 0 && !budgets_[i].leaves(claim)) return false;
  const ModelBudget* const pool = pool_of(job.budgets);
  return pool == nullptr || std::any_of(pool->keys.begin(), pool->keys.end(), [&](const auto& key) {
           return !key.draining && key.account->leaves(claim);
         });
}

// ---- shares, in thousandths of cost -------------------------------------------------------------------

/// What a job counts for where lanes share, between two bounds.
Auditor::Unit Auditor::unit_cost_of(const ModelJob& job) const {
  if (job.counts_tokens) return {job.cost, job.cost};
  const auto usual = usual_costs_.find(job.service);
  if (usual != usual_costs_.end()) {
    const std::int64_t mean = std::max<std::int64_t>(usual->second / 16, 1);
    return {mean, mean};
  }
  const auto expected = expected_costs_.find(job.service);
  return expected != expected_costs_.end() ? expected->second : Unit{};
}

/// A job came whose tokens are counted.
void Auditor::note_expected(const ModelJob& job) {
  Unit& expected = expected_costs_.try_emplace(job.service, Unit{job.cost, job.cost}).first->second;
  expected.least = std::min(expected.least, job.cost);
  expected.most = std::max(expected.most, job.cost);
}

ModelClaim Auditor::owed_claim_of(const ModelJob& job) const {
  return {.amounts = job.expected, .hold = options_.lanes[0].reserve, .leaves_hold = true};
}

/// It may go before higher lanes but the top one, and draw what is held for them.
bool Auditor::may_be_owed(const ModelJob& job) const {
  const auto place = owed_.find({job.service, job.lane});
  return job.lane > 0 && place != owed_.end() && place->second.high >= 1000 * unit_cost_of(job).least;
}

/// No lane below is passed that is surely owed a job.
void Auditor::check_shares(const ModelJob& job) {
  if (may_be_owed(job) || is_top(job.lane)) return;
  const std::vector<Waiting> next_ones = whoever_is_next();
  for (const ModelStream& stream : streams_) {
    if (stream.service != job.service || stream.lane <= job.lane || stream.head(now_) == nullptr) continue;
    if (!stream.model.empty()) continue;
    if (options_.lanes[stream.lane].share_min == 0 || at_limit(stream.client) || is_paused(stream)) continue;
    const std::int64_t owed = owed_[{job.service, stream.lane}].low;
    std::int64_t most = 0;
    for_next_of(stream, [&](const ModelJob& next) { most = std::max(most, unit_cost_of(next).most); });
    // What the top lane waits for is its own.
    if (std::any_of(next_ones.begin(), next_ones.end(), [&](const Waiting& waiting) {
          return waiting.level == 0 && (waiting.stream->budgets & stream.budgets) != 0;
        }))
      continue;
    if (owed < 1000 * most || !has_place(stream.service, stream.lane) || !surely_affordable_when_owed(stream))
      continue;
    violated(job.name() + " of lane " + options_.lanes[job.lane].name + " was handed over before lane " +
             options_.lanes[stream.lane].name + ", which is owed " + std::to_string(owed) +
             " thousandths for its share_min");
  }
}

/// The job is about to be handed over: the other lanes of its service that wait are owed their share of it.
void Auditor::share_out(const ModelJob& job) {
  if (job.counts_tokens) {
    std::int64_t& usual = usual_costs_[job.service];
    usual = usual == 0 ? 16 * job.cost : usual + job.cost - std::max<std::int64_t>(usual / 16, 1);
  }
  const Unit cost = unit_cost_of(job);
  for (std::size_t lane = 0; lane < options_.lanes.size(); ++lane) {
    const int share = options_.lanes[lane].share_min;
    Owed& owed = owed_[{job.service, lane}];
    if (lane == job.lane) {
      owed.low = std::max<std::int64_t>(owed.low + cost.most * (share - 1000), 0);
      owed.high = std::max<std::int64_t>(owed.high + cost.least * (share - 1000), 0);
      continue;
    }
    if (share == 0) continue;
    std::int64_t least = 0, most = 0;
    bool surely = false, may_all_be_owed = true;
    for (const ModelStream& stream : streams_) {
      if (stream.lane != lane || stream.service != job.service) continue;
      for (const ModelJob* next : stream.candidates(now_)) {
        const Unit its = unit_cost_of(*next);
        least = least == 0 ? its.least : std::min(least, its.least);
        most = std::max(most, its.most);
        may_all_be_owed = may_all_be_owed && leaves_hold(*next);
      }
      surely = surely || (stream.head(now_) != nullptr && !at_limit(stream.client) && !is_paused(stream));
    }
    if (most == 0) continue;
    owed.low = std::min(owed.low + (surely && may_all_be_owed ? cost.least * share : 0), 2000 * least);
    owed.high = std::min(owed.high + cost.most * share, std::max(2000 * most, owed.high));
  }
}

}  // namespace lanemq::sim
