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

/// Values of options as people write them. Parsers throw UsageError, which says what the value must be; the
/// caller adds the option's name. What is shown is read back as the same value.
namespace lanemq::settings {

/// The value of an option: one text, or those of a list.
using Values = std::vector<std::string>;
using Duration = std::chrono::microseconds;

inline constexpr Duration kDay = std::chrono::hours(24);
inline constexpr std::int64_t kCountMax = std::numeric_limits<std::int64_t>::max();

/// `30s`, `500ms`: a whole number and its unit (us, ms, s, m, h, d). `0` needs none.
Duration parse_duration(std::string_view text);
std::string show(Duration duration);

/// A number from `min` to `max`, both allowed.
template <class T>
struct Range {
  T min{};
  T max{};
};
inline constexpr Range<Duration> kAnyDuration{Duration{}, Duration::max()};

/// Converts a duration to another unit; refuses one that this cannot hold.
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

/// A share in thousandths: `0.2` and `20%` are 200.
int parse_share(const std::string& text);
std::string show_share(int thousandths);

/// A time of the wall clock, until when something counts; kNever: for ever.
using Moment = std::chrono::system_clock::time_point;
inline constexpr Moment kNever = Moment::max();
/// `2027-01-31`, whose last second is meant (UTC), or `2027-01-31T18:00:00Z`; empty: kNever.
Moment parse_moment(std::string_view text);
std::string show_moment(Moment moment);

bool parse_switch(std::string_view text);
std::string show_switch(bool yes);

log::Level parse_level(std::string_view text);
std::string_view show_level(log::Level level);
log::Format parse_log_format(std::string_view text);
std::string_view show_log_format(log::Format format);

/// A name by the protocol's rules: not empty, UTF-8, bounded.
std::string parse_name(std::string_view text);
/// Words; `a,b` are two.
std::vector<std::string> parse_words(const Values& values);

/// The known key that was probably meant, by its spelling or by the initials of its words (rpm for
/// requests_per_minute); empty: none is near.
std::string nearest(std::string_view key, const std::vector<std::string>& known);
/// Refuses `key`, and suggests the nearest of `known`, or lists all.
[[noreturn]] void unknown_key(std::string_view what, std::string_view key,
                              const std::vector<std::string>& known);

}  // namespace lanemq::settings
