// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/rate_limit.hpp"

namespace lanemq::core {

/// Whose calls a budget counts that nobody configured: the broker made it when their upstream first stated a
/// limit, or refused for one.
struct LearntFor {
  std::string service, model;  ///< the model as jobs name it; empty: of jobs that name none
  std::string client;          ///< whose job it was
  TimePoint heard_at{};        ///< when the upstream last spoke
};

/// Where the budgets are that were learnt, by service and model: upstreams limit each model by itself. Where
/// they count several together, each budget takes what the others use for that of strangers.
class LearntBudgets {
 public:
  static constexpr std::size_t kMax = 64;
  /// How many of these may be because of one client's jobs, as long as others need them.
  static constexpr std::size_t kOfClient = kMax / 4;
  /// One that was not heard of for so long makes way for another one, and is forgotten with a restart.
  static constexpr Duration kIdle = std::chrono::minutes(10), kKept = std::chrono::hours(24);
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  bool empty() const { return places_.empty(); }
  /// The place of the budget among all; kNone: there is none.
  std::size_t find(std::string_view service, std::string_view model) const;
  void add(const LearntFor& whose, std::size_t place) { places_[{whose.service, whose.model}] = place; }
  void remove(const LearntFor& whose) { places_.erase({whose.service, whose.model}); }

  /// A budget without limits yet. Its name is for people: `learnt:SERVICE/MODEL`.
  static constexpr std::string_view kPrefix = "learnt:";
  static BudgetOptions options_for(const LearntFor& whose);
  /// The limits that are stated and not yet among `rates`; and one of calls a minute for what refusals show,
  /// where none of a minute or less is there. All are open (RateOptions::open). Limits of periods that
  /// cannot be configured are left out.
  static std::vector<RateOptions> missing(const std::vector<RateLimit>& rates,
                                          const wire::UpstreamLimits* limits);
  /// An open limit of that kind.
  static RateOptions open(const RateKind& kind);
  /// Whether a limit is stated, not only what is left of one.
  static bool states_limit(const wire::UpstreamLimits& limits);

 private:
  struct Less {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      const std::string_view a_service = a.first, b_service = b.first;
      return a_service != b_service ? a_service < b_service
                                    : std::string_view(a.second) < std::string_view(b.second);
    }
  };
  std::map<std::pair<std::string, std::string>, std::size_t, Less> places_;
};

}  // namespace lanemq::core
