// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/rate_limit.hpp"

namespace lanemq::core {

/// The service and model whose calls a learnt budget counts. Nobody configured that budget: the broker made
/// it when the upstream first stated a limit, or first refused a call for one.
struct LearntFor {
  std::string service, model;  ///< the model as jobs name it; empty: of jobs that name none
  std::string client;          ///< whose job it was
  TimePoint heard_at{};        ///< when the upstream last spoke
};

/// The rules by which budgets are learnt. There is one for a service and a model, since upstreams limit each
/// model by itself. Where one counts several together, each budget takes what the others use for that of
/// strangers.
struct LearntBudgets {
  static constexpr std::size_t kMax = 64;
  /// How many of these may be because of one client's jobs where no more places than kForOthers are free.
  static constexpr std::size_t kOfClient = kMax / 4, kForOthers = kMax / 4;
  /// A learnt budget idle for kIdle may be evicted for another one; one idle for kKept is dropped at a
  /// restart.
  static constexpr Duration kIdle = std::chrono::minutes(10), kKept = std::chrono::hours(24);
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// A budget without limits yet. Its name is for people: `learnt:SERVICE/MODEL`.
  static constexpr std::string_view kPrefix = "learnt:";
  static BudgetOptions options_for(const LearntFor& whose);
  /// The limits that are stated and not yet among `rates`; and one of calls a minute for what refusals show,
  /// where none of a minute or less is there. All are open (RateOptions::open). Limits of periods that
  /// cannot be configured are left out. `sent`: calls of the last minute.
  static std::vector<RateOptions> missing(const std::vector<RateLimit>& rates,
                                          const wire::UpstreamLimits* limits, std::int64_t sent);
  /// An open limit of that kind.
  static RateOptions open(const RateKind& kind);
  /// Whether a limit is stated, not only what is left of one.
  static bool states_limit(const wire::UpstreamLimits& limits);
};

}  // namespace lanemq::core
