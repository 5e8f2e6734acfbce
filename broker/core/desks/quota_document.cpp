// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/quota_document.hpp"

#include <algorithm>

namespace lanemq::core {
namespace {

DocumentMap limit_map(std::int64_t level, std::int64_t capacity, std::int64_t limit) {
  DocumentMap map;
  map.integer("level", level).integer("capacity", capacity).integer("limit", limit);
  return map;
}

/// The limit in force where the upstream has stated or shown another, whether it was stated, and since when.
void add_learnt(DocumentMap& limit, std::int64_t effective, bool stated, Duration ago) {
  limit.integer("effective", effective).text("learnt_from", stated ? "words" : "refusals");
  limit.integer("learnt_ms", to_ms(ago));
}

}  // namespace

void add_limits(DocumentMap& map, Quota& quota, TimePoint now) {
  for (RateLimit& rate : quota.rates()) {
    const std::int64_t effective = rate.effective_limit(now);
    if (rate.is_unknown()) continue;
    // Without a configured rate the learnt one is shown.
    DocumentMap limit = rate.is_open() ? limit_map(rate.available(now), rate.capacity(), effective)
                                       : limit_map(rate.available(now), rate.capacity(), rate.limit());
    if (effective < rate.limit()) add_learnt(limit, effective, !rate.is_shown(), now - rate.learnt_at());
    if (rate.shows_bucket()) limit.text("window_learnt", name_of(WindowKind::bucket));
    if (const std::int64_t others = rate.others(now); others > 0) limit.integer("others", others);
    map.map(rate.name(), limit);
  }
  const ConcurrencyLimit& places = quota.concurrency();
  if (places.limit() == 0) return;
  DocumentMap limit = limit_map(places.limit() - places.running(), places.limit(),
                                places.configured() > 0 ? places.configured() : places.limit());
  if (places.is_learnt()) add_learnt(limit, places.limit(), places.is_stated(), now - places.learnt_at());
  map.map("concurrency", limit);
}

void add_limits(DocumentMap& map, Budget& budget, TimePoint now) {
  if (budget.slices == nullptr) return add_limits(map, budget.quota, now);
  const Counts here = budget.slices->left(now);
  const std::vector<LimitLevel>& said = budget.slices->limits();
  for (std::size_t i = 0; i < budget.quota.rates().size(); ++i) {
    const RateLimit& rate = budget.quota.rates()[i];
    const LimitLevel level = i < said.size() ? said[i] : LimitLevel{};
    DocumentMap limit = limit_map(level.level, rate.capacity(), rate.limit());
    limit.integer("here", here.of(rate.resource())).integer("lent", level.lent);
    if (budget.offline && i < budget.offline->rates().size())
      limit.integer("own", budget.offline->rates()[i].available(now));
    map.map(rate.name(), limit);
  }
  if (const Slices::PlacesShown places = budget.slices->places(); places.limit > 0) {
    // A new owner may run more than it has been given yet.
    DocumentMap limit =
        limit_map(std::max<std::int64_t>(places.here - places.running, 0), places.here, places.limit);
    limit.integer("here", places.here).integer("running", places.running);
    map.map("concurrency", limit);
  }
}

void add_pause(DocumentMap& map, const Quota& quota, TimePoint now) {
  if (now < quota.paused_until()) map.integer("paused_ms", to_ms(quota.paused_until() - now));
  if (now < quota.open_from() && quota.open_from() < quota.paused_until())
    map.integer("probed_ms", to_ms(quota.open_from() - now));
}

void add_paused_models(DocumentMap& map, const Budgets& budgets, const Budget& budget, std::size_t shown_max,
                       TimePoint now) {
  const auto place = static_cast<std::size_t>(&budget - budgets.all().data());
  auto paused = budgets.paused_models(place, now);
  if (paused.empty()) return;
  paused.resize(std::min(paused.size(), shown_max));
  DocumentMap models;
  for (const auto& [model, until] : paused)
    models.integer(model, to_ms(until - now));
  map.map("paused_models_ms", models);
}

}  // namespace lanemq::core
