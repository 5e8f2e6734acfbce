// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/learnt_budgets.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <lanemq/limits.hpp>

namespace lanemq::core {
namespace {

constexpr std::int64_t kMinuteMs = 60'000;

/// Upper bounds of a limit that is unknown: far above what one broker sends in a period.
constexpr std::int64_t kOpenCalls = 1'000'000, kOpenTokens = 1'000'000'000;

struct Stated {
  Resource resource;
  std::optional<std::int64_t> limit, period_ms;
};

std::array<Stated, 4> stated_in(const wire::UpstreamLimits& limits) {
  return {{{Resource::requests, limits.limit_requests, limits.period_requests_ms},
           {Resource::tokens, limits.limit_tokens, limits.period_tokens_ms},
           {Resource::input_tokens, limits.limit_input_tokens, limits.period_tokens_ms},
           {Resource::output_tokens, limits.limit_output_tokens, limits.period_tokens_ms}}};
}

const RateKind* kind_of(Resource resource, Duration period) {
  for (const RateKind& kind : rate_kinds())
    if (kind.resource == resource && kind.period == period) return &kind;
  return nullptr;
}

}  // namespace

BudgetOptions LearntBudgets::options_for(const LearntFor& whose) {
  std::string name = std::string(kPrefix) + whose.service;
  if (!whose.model.empty()) name += '/' + whose.model;
  // The bound on names that operators set, cut between whole characters.
  if (name.size() > limits::name_bytes_max) {
    std::size_t end = limits::name_bytes_max;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80)
      --end;
    name.resize(end);
  }
  return {.name = std::move(name), .service = whose.service, .model = whose.model};
}

RateOptions LearntBudgets::open(const RateKind& kind) {
  return {.name = std::string(kind.name),
          .limit = kind.resource == Resource::requests ? kOpenCalls : kOpenTokens,
          .period = kind.period,
          .capacity = 0,
          .resource = kind.resource,
          .open = true};
}

bool LearntBudgets::states_limit(const wire::UpstreamLimits& limits) {
  const auto stated = stated_in(limits);
  return limits.limit_concurrency > 0 ||
         std::any_of(stated.begin(), stated.end(), [](const Stated& one) { return one.limit > 0; });
}

std::vector<RateOptions> LearntBudgets::missing(const std::vector<RateLimit>& rates,
                                                const wire::UpstreamLimits* limits, std::int64_t sent) {
  std::vector<RateOptions> more;
  const auto has = [&](const RateKind& kind) {
    return std::any_of(rates.begin(), rates.end(), [&](const RateLimit& rate) {
      return rate.resource() == kind.resource && rate.period() == kind.period;
    });
  };
  if (limits != nullptr)
    for (const Stated& stated : stated_in(*limits)) {
      if (!(stated.limit > 0)) continue;
      const RateKind* const kind =
          kind_of(stated.resource, std::chrono::milliseconds(stated.period_ms.value_or(kMinuteMs)));
      if (kind != nullptr && !has(*kind)) more.push_back(open(*kind));
    }
  const auto is_short = [](Duration period) { return period <= std::chrono::minutes(1); };
  if (std::none_of(rates.begin(), rates.end(),
                   [&](const RateLimit& rate) { return is_short(rate.period()); }) &&
      std::none_of(more.begin(), more.end(), [&](const RateOptions& one) { return is_short(one.period); }))
    more.push_back(open(*kind_of(Resource::requests, std::chrono::minutes(1))));
  for (RateOptions& one : more)
    if (one.resource == Resource::requests && one.period == std::chrono::minutes(1)) one.guess = sent;
  return more;
}

}  // namespace lanemq::core
