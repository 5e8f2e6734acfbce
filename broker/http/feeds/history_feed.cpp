// SPDX-License-Identifier: Apache-2.0
#include "broker/http/feeds/history_feed.hpp"

#include <chrono>
#include <string>

#include "broker/http/feeds/figures.hpp"

namespace lanemq::admin {
namespace {

using Values = std::vector<HistoryValue>;

const Json& member(const Json& object, const std::string& name) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto at = object.find(name);
  return at == object.end() ? kNothing : *at;
}

double share(const Json& used, const Json& of) {
  return number(of) > 0 ? number(used) / number(of) : 0;
}

/// How many members of an object have a text other than `sound` under a name.
double unsound(const Json& things, const std::string& name, const std::string& sound) {
  double count = 0;
  if (things.is_object())
    for (const auto& [key, thing] : things.items())
      if (const Json& state = member(thing, name); state.is_string() && state != sound) ++count;
  return count;
}

void add_broker(const Json& stats, Values& values) {
  const Json& store = member(member(stats, "store"), "state");
  double spent = 0, paused = 0;
  if (const Json& keys = member(stats, "keys"); keys.is_object())
    for (const auto& [budget, own] : keys.items())
      for (const auto& [name, key] : own.items())
        if (member(key, "state") == "spent") ++spent;
  if (const Json& budgets = member(stats, "budgets"); budgets.is_object())
    for (const auto& [name, budget] : budgets.items())
      if (number(member(budget, "paused_ms")) > 0) ++paused;
  const Json& descriptors = member(stats, "descriptors");
  const Json& workers = member(stats, "workers");
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double>>{
           {"store_trouble", store.is_string() && store != "good" ? 1 : 0},
           {"unserved", static_cast<double>(member(stats, "unserved").size())},
           {"upstreams_open", unsound(member(stats, "upstreams"), "breaker", "closed")},
           {"keys_spent", spent},
           {"budgets_paused", paused},
           {"pauses", static_cast<double>(member(stats, "paused").size())},
           {"memory_share", share(member(stats, "memory_bytes"), member(stats, "memory_max"))},
           {"descriptors_share", share(member(descriptors, "used"), member(descriptors, "limit"))},
           {"turn_ms", number(member(member(stats, "turn_ms"), "last_minute"))},
           {"workers", number(member(workers, "connected"))},
           {"capacity", number(member(workers, "capacity"))},
           {"running", number(member(workers, "running"))}})
    values.push_back({std::string("broker.") + name, value});
}

void add_lanes(const Sample& sample, const Sample* before, Values& values) {
  const Json& lanes = member(sample.stats, "lanes");
  if (!lanes.is_object()) return;
  const double seconds =
      before == nullptr ? 0 : std::chrono::duration<double>(sample.at - before->at).count();
  for (const auto& [name, lane] : lanes.items()) {
    const std::string prefix = "lane." + name + ".";
    values.push_back({prefix + "queued", number(member(lane, "queued"))});
    values.push_back({prefix + "oldest_ms", number(member(lane, "oldest_ms"))});
    values.push_back(
        {prefix + "wait_p99_ms", number(member(member(member(lane, "wait_ms"), "minute"), "p99"))});
    if (seconds <= 0) continue;
    const Json& earlier = member(member(before->stats, "lanes"), name);
    if (!earlier.is_object()) continue;
    for (const auto& [field, shown] : std::initializer_list<std::pair<const char*, const char*>>{
             {"succeeded", "done"}, {"failed", "failed"}, {"refused", "refused"}})
      values.push_back({prefix + shown,
                        (number(member(lane, field)) - number(member(earlier, field))) / seconds,
                        HistoryKind::rate});
  }
}

void add_budgets(const Json& stats, Values& values) {
  const Json& budgets = member(stats, "budgets");
  if (!budgets.is_object()) return;
  for (const auto& [name, budget] : budgets.items())
    for (const auto& [limit, now] : budget.items())
      if (const Json& capacity = member(now, "capacity"); number(capacity) > 0)
        values.push_back(
            {"budget." + name + "." + limit + ".used", 1 - number(member(now, "level")) / number(capacity)});
}

}  // namespace

std::vector<HistoryValue> HistoryFeed::values(const std::shared_ptr<const Sample>& sample) {
  Values values;
  add_broker(sample->stats, values);
  add_lanes(*sample, before_.get(), values);
  add_budgets(sample->stats, values);
  before_ = sample;
  return values;
}

}  // namespace lanemq::admin
