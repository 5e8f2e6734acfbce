// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "broker/core/base/time.hpp"

namespace lanemq::sim {

/// What an upstream counted: so much, at a time.
struct Counted {
  core::TimePoint at{};
  std::int64_t amount = 0;
};

/// How an upstream limits what it counts: by a rule of its own, over a plain list of what came when. Shares
/// nothing with the broker, neither code nor rule: everything is added up anew each time it is asked.
struct CountingWindow {
  enum class Kind : std::uint8_t {
    sliding,  ///< at any time, what came within the last period
    fixed,    ///< what came since the last multiple of the period, by a clock of its own
    bucket,   ///< a bucket that fills evenly, and holds `burst` at most
  };

  Kind kind = Kind::sliding;
  core::Duration period{};
  core::Duration offset{};  ///< fixed: where its clock stands
  std::int64_t limit = 0;   ///< in a period
  std::int64_t burst = 0;   ///< bucket: what it holds

  /// How much of the limit is used at `now`, by what came up to then: never more than `limit` (of a bucket,
  /// `burst`) where the limit holds. `amounts` are by time, the earliest first.
  std::int64_t used(const std::vector<Counted>& amounts, core::TimePoint now) const;
  std::int64_t most() const { return kind == Kind::bucket ? burst : limit; }
  /// When `amount` more fits, if nothing else comes; never, where that is more than it holds at all.
  core::TimePoint fits_at(const std::vector<Counted>& amounts, std::int64_t amount,
                          core::TimePoint now) const;
  /// How long until all of it is free again.
  core::Duration reset(const std::vector<Counted>& amounts, core::TimePoint now) const;
  std::string describe() const;
};

}  // namespace lanemq::sim
