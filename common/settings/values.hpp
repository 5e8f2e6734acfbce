// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/log/level.hpp"
#include "common/settings/usage_error.hpp"

/// Values as people write them for an option. What reads throws UsageError, which says what the value must be
/// but not whose it is: the reader of options puts that in front. What shows gives a text that is read back
/// as the same.
namespace lanemq::settings {

/// What an option is told: one text, or of a list as many as there are.
using Values = std::vector<std::string>;
using Duration = std::chrono::microseconds;

inline constexpr Duration kDay = std::chrono::hours(24);
inline constexpr std::int64_t kCountMax = std::numeric_limits<std::int64_t>::max();

/// `30s`, `500ms`: a whole number and its unit (us, ms, s, m, h, d). `0` needs none.
Duration parse_duration(std::string_view text);
std::string show(Duration duration);

/// From `min` to `max`, both allowed.
template <class T>
struct Range {
  T min{};
  T max{};
};
inline constexpr Range<Duration> kAnyDuration{Duration{}, Duration::max()};

/// In another unit; what that cannot hold is refused.
template <class Held>
Held duration_in(const std::string& text, Range<Duration> range) {
  const Duration value = parse_duration(text);
  const Held held = std::chrono::duration_cast<Held>(value);
  if (held != value) throw UsageError("must be whole " + show(Duration(Held(1))) + ", not \"" + text + '"');
  if (value < range.min || value > range.max)
    throw UsageError("must be " + show(range.min) + ".." + show(range.max) + ", not \"" + text + '"');
  return held;
}

/// Bytes: `64MiB`, `4096B`.
std::size_t parse_size(std::string_view text);
std::string show_size(std::size_t size);

std::int64_t parse_count(std::string_view text, std::int64_t min = 0, std::int64_t max = kCountMax);

/// Thousandths: `0.2` and `20%` are 200.
int parse_share(const std::string& text);
std::string show_share(int thousandths);

bool parse_switch(std::string_view text);
std::string show_switch(bool yes);

log::Level parse_level(std::string_view text);
std::string_view show_level(log::Level level);
log::Format parse_log_format(std::string_view text);
std::string_view show_log_format(log::Format format);

/// A name as the protocol has them: not empty, UTF-8, bounded.
std::string parse_name(std::string_view text);
/// Words; `a,b` counts as two.
std::vector<std::string> parse_words(const Values& values);

/// The one of `known` that was perhaps meant, by its letters or by those that its words begin with (rpm for
/// requests_per_minute); empty: none is near.
std::string nearest(std::string_view key, const std::vector<std::string>& known);
/// Refuses `key`, and says which of `known` was perhaps meant, else all there are.
[[noreturn]] void unknown_key(std::string_view what, std::string_view key,
                              const std::vector<std::string>& known);

}  // namespace lanemq::settings
