// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/shard_watch.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>

#include "common/explanation/unserved.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::chrono::milliseconds kStatsEvery{2'000};

}  // namespace

std::string unserved_lines(const std::string& stats) {
  const auto document = nlohmann::json::parse(stats, nullptr, false);
  std::string lines;
  if (!document.is_object() || !document.contains("unserved")) return lines;
  for (const auto& [service, state] : document["unserved"].items())
    lines += "no worker serves " +
             name_of(Unserved{.service = service,
                              .lane = state.value("lane", std::string()),
                              .draining = state.value("draining", false)}) +
             " (queued: " + state.value("queued", nlohmann::json()).dump() + ")\n";
  return lines;
}

std::vector<std::string> lanes_of(const std::string& stats) {
  const auto document = nlohmann::ordered_json::parse(stats, nullptr, false);
  std::vector<std::string> names;
  if (!document.is_object() || !document.contains("lanes")) return names;
  for (const auto& lane : document["lanes"].items())
    names.push_back(lane.key());
  return names;
}

void ShardWatch::told(const BrokerPong& pong) {
  home_ = pong.shard;
  std::erase_if(shards_, [&](const auto& known) {
    return std::none_of(pong.shards.begin(), pong.shards.end(),
                        [&](const BrokerShard& shard) { return shard.name == known.first; });
  });
  for (const BrokerShard& shard : pong.shards)
    shards_.try_emplace(shard.name, Shard{.since = gateway_.loop.now()});
  if (const auto at = shards_.find(home_); at != shards_.end()) {
    at->second.answered = gateway_.loop.now();
    at->second.unserved.clear();  // the gateway asks its own broker itself
  }
}

void ShardWatch::ask() {
  for (auto& [name, shard] : shards_)
    if (name != home_) ask(name, shard);
}

void ShardWatch::ask(const std::string& name, Shard& shard) {
  const Loop::TimePoint now = gateway_.loop.now();
  // By name: it may have gone when the answer comes.
  const auto with_shard = [this, name](auto then) {
    if (const auto at = shards_.find(name); at != shards_.end()) then(at->second);
  };
  if (!std::exchange(shard.asked, true))
    gateway_.broker.ping(
        [this, with_shard](const Reply<BrokerPong>& pong) {
          with_shard([&](Shard& asked) {
            asked.asked = false;
            if (pong) asked.answered = gateway_.loop.now();
          });
        },
        name);
  // Beside the ping, so that something waits at a silent shard at any time: the client goes by that.
  if (shard.asked_for_stats && now - *shard.asked_for_stats < kStatsEvery) return;
  shard.asked_for_stats = now;
  gateway_.broker.stats(
      0,
      [with_shard](const Reply<BrokerStats>& stats) {
        with_shard(
            [&](Shard& asked) { asked.unserved = stats ? unserved_lines(stats->json) : std::string(); });
      },
      name);
}

std::chrono::nanoseconds ShardWatch::silence_of(const Shard& shard) const {
  return gateway_.loop.now() - shard.answered.value_or(shard.since);
}

bool ShardWatch::is_away(const std::string& shard) const {
  const auto at = shards_.find(shard);
  return at != shards_.end() && silence_of(at->second) >= gateway_.settings.broker_wait;
}

bool ShardWatch::all_away() const {
  return std::all_of(shards_.begin(), shards_.end(), [this](const auto& one) { return is_away(one.first); });
}

std::vector<std::pair<std::string, bool>> ShardWatch::connected() const {
  std::vector<std::pair<std::string, bool>> all;
  for (const auto& [name, shard] : shards_)
    all.emplace_back(name, shard.answered && silence_of(shard) < kSilenceMax);
  return all;
}

std::string ShardWatch::lines() const {
  std::string lines;
  for (const auto& [name, shard] : shards_) {
    if (silence_of(shard) >= kSilenceMax)
      lines += "no answer from shard " + printable(name) + "\n";
    else
      lines += "shard " + printable(name) + (shard.answered ? " answers\n" : " has not answered yet\n");
  }
  for (const auto& [name, shard] : shards_)
    lines += shard.unserved;
  return lines;
}

}  // namespace lanemq::gateway
