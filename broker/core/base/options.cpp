// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/options.hpp"

#include <algorithm>
#include <iterator>

namespace lanemq::core {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1), kMinute = std::chrono::minutes(1),
                   kDay = std::chrono::hours(24);
constexpr RateKind kRateKinds[] = {{"requests_per_second", Resource::requests, kSecond},
                                   {"requests_per_minute", Resource::requests, kMinute},
                                   {"requests_per_day", Resource::requests, kDay},
                                   {"tokens_per_second", Resource::tokens, kSecond},
                                   {"tokens_per_minute", Resource::tokens, kMinute},
                                   {"tokens_per_day", Resource::tokens, kDay},
                                   {"input_tokens_per_second", Resource::input_tokens, kSecond},
                                   {"input_tokens_per_minute", Resource::input_tokens, kMinute},
                                   {"input_tokens_per_day", Resource::input_tokens, kDay},
                                   {"output_tokens_per_second", Resource::output_tokens, kSecond},
                                   {"output_tokens_per_minute", Resource::output_tokens, kMinute},
                                   {"output_tokens_per_day", Resource::output_tokens, kDay}};

}  // namespace

std::string_view name_of(WindowKind window) {
  switch (window) {
    case WindowKind::sliding:
      return "sliding";
    case WindowKind::bucket:
      return "bucket";
    case WindowKind::automatic:
      break;
  }
  return "auto";
}

std::span<const RateKind> rate_kinds() {
  return kRateKinds;
}

const RateKind* rate_kind(std::string_view name) {
  const auto* place = std::find_if(std::begin(kRateKinds), std::end(kRateKinds),
                                   [&](const RateKind& kind) { return kind.name == name; });
  return place == std::end(kRateKinds) ? nullptr : place;
}

using std::chrono::hours;
using std::chrono::seconds;

std::vector<LaneOptions> default_lanes() {
  return {
      {.name = "critical", .timeout = seconds(30), .depth_max = 1000, .reserve = 200},
      {.name = "high", .timeout = seconds(60), .depth_max = 5000, .reserve = 100, .share_min = 50},
      {.name = "normal",
       .timeout = seconds(300),
       .depth_max = 20000,
       .is_default = true,
       .share_min = 50,
       .boost_after = seconds(60)},
      {.name = "low",
       .timeout = seconds(900),
       .depth_max = 50000,
       .share_min = 50,
       .boost_after = seconds(300)},
      {.name = "batch", .timeout = hours(24), .depth_max = 1000000, .share_min = 20},
  };
}

Options default_options() {
  Options options;
  options.lanes = default_lanes();
  options.client_share = 250;
  return options;
}

std::size_t last_part(std::size_t bound, const Options& options, std::size_t least) {
  const auto share = static_cast<std::size_t>(options.client_share);
  const std::size_t part = bound / 1000 * share + bound % 1000 * share / 1000;
  return part < least ? 0 : part;
}

ShardMap shards_for_clients(const Options& options) {
  std::vector<Shard> shards;
  for (const ShardOptions& shard : options.shards)
    shards.push_back({shard.name, shard.services, shard.tenants, shard.clients});
  return ShardMap(std::move(shards));
}

ShardMap shards_for_workers(const Options& options) {
  std::vector<Shard> shards;
  for (const ShardOptions& shard : options.shards)
    shards.push_back({.name = shard.name, .endpoints = shard.workers});
  return ShardMap(std::move(shards));
}

}  // namespace lanemq::core
