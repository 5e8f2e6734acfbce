// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "tests/support/upstream/counter.hpp"

namespace lanemq::upstream {

/// The most values that one number takes on in turn.
inline constexpr std::size_t kChangesMax = 1000;
/// The latest moment at which a number may change, since the start.
inline constexpr Duration kChangeAtMax = std::chrono::hours(24 * 7);

/// A number that takes on other values at given times since the start. One number alone stays.
class Changing {
 public:
  struct Step {
    Duration at{};  ///< Since the start.
    std::uint64_t value = 0;
    bool operator==(const Step&) const = default;
  };

  Changing() = default;
  Changing(std::uint64_t value) : steps_{{.value = value}} {}  // NOLINT: a number is one that stays.
  /// Requires: the first is from zero on, and each later than the one before.
  explicit Changing(std::vector<Step> steps) : steps_(std::move(steps)) {}

  /// Zero where there is none.
  std::uint64_t first() const { return steps_.empty() ? 0 : steps_.front().value; }
  std::uint64_t largest() const;
  std::uint64_t at(Duration since_start) const;
  const std::vector<Step>& steps() const { return steps_; }
  explicit operator bool() const { return !steps_.empty(); }
  bool operator==(const Changing&) const = default;

 private:
  std::vector<Step> steps_;
};

/// Reads "600,300@30,600@60.5": 600 from the start on, 300 from second 30, 600 from second 60.5. Each value
/// is 1 to `most`. An error says what is wrong and what fits.
tl::expected<Changing, std::string> parse_changing(std::string_view text, std::uint64_t most);

/// Seconds with a fraction; nothing for what is no number, is negative or is more than `most`.
std::optional<Duration> parse_seconds(std::string_view text, Duration most);

}  // namespace lanemq::upstream
