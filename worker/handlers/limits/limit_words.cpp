// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/limits/limit_words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <lanemq/limits.hpp>
#include <lanemq/words.hpp>

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Removes the prefix from `text`; false: `text` has another one.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

milliseconds bounded(double ms) {
  return milliseconds(std::llround(std::ceil(std::min(ms, static_cast<double>(limits::duration_ms_max)))));
}

/// Digits with an optional fraction at the front of `text`, which are removed. No sign, no exponent.
std::optional<double> take_decimal(std::string_view& text) {
  std::size_t size = 0;
  bool digits = false;
  while (size < text.size() && is_digit(text[size]))
    digits = true, ++size;
  if (size < text.size() && text[size] == '.') {
    std::size_t fraction = size + 1;
    while (fraction < text.size() && is_digit(text[fraction]))
      digits = true, ++fraction;
    if (fraction > size + 1) size = fraction;
  }
  double value = 0;
  if (!digits || std::from_chars(text.data(), text.data() + size, value).ec != std::errc())
    return std::nullopt;
  text.remove_prefix(size);
  return value;
}

/// The unit at the front of `text`, in ms, which is removed; 0: none.
double take_unit(std::string_view& text) {
  // Longest first, so that `ms` is not minutes.
  if (take(text, "ns")) return 1e-6;
  if (take(text, "us") || take(text, "\xC2\xB5s")) return 1e-3;
  if (take(text, "ms")) return 1;
  if (take(text, "s")) return 1e3;
  if (take(text, "m")) return 60e3;
  if (take(text, "h")) return 3600e3;
  if (take(text, "d")) return 24 * 3600e3;
  return 0;
}

/// The same for ` seconds` and other words.
double take_unit_word(std::string_view& text) {
  static constexpr struct {
    std::string_view word;
    double ms;
  } kUnits[] = {{" millisecond", 1}, {" second", 1e3},  {" sec", 1e3},        {" minute", 60e3},
                {" min", 60e3},      {" hour", 3600e3}, {" day", 24 * 3600e3}};
  for (const auto& [word, ms] : kUnits) {
    if (!take(text, word)) continue;
    take(text, "s");
    return ms;
  }
  return 0;
}

/// `6m0s` at the front of `text`: numbers with units. None: no such thing.
std::optional<double> take_go_duration(std::string_view& text) {
  double total = 0;
  bool any = false;
  while (!text.empty() && (is_digit(text.front()) || text.front() == '.')) {
    std::string_view ahead = text;
    const std::optional<double> number = take_decimal(ahead);
    const double unit = number ? take_unit(ahead) : 0;
    if (unit == 0) break;
    total += *number * unit;
    any = true;
    text = ahead;
  }
  return any ? std::optional(total) : std::nullopt;
}

/// Exactly `digits` digits at the front of `text`, which are removed.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (!is_digit(text[i])) return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

struct TimeOfDay {
  int hour = 0, minute = 0, second = 0;
};

/// `08:49:37`. A leap second counts as the second before it.
std::optional<TimeOfDay> take_time_of_day(std::string_view& text) {
  const auto hour = take_number(text, 2);
  if (!hour || !take(text, ":")) return std::nullopt;
  const auto minute = take_number(text, 2);
  if (!minute || !take(text, ":")) return std::nullopt;
  const auto second = take_number(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  return TimeOfDay{*hour, *minute, std::min(*second, 59)};
}

std::optional<WallTime> wall_time(int year, int month, int day, TimeOfDay clock) {
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(clock.hour) +
         std::chrono::minutes(clock.minute) + std::chrono::seconds(clock.second);
}

/// 11 for `Nov`.
std::optional<int> take_month(std::string_view& text) {
  static constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  for (std::size_t i = 0; i < kMonths.size(); ++i)
    if (take(text, kMonths[i])) return static_cast<int>(i) + 1;
  return std::nullopt;
}

/// `06 Nov 1994 08:49:37 GMT`, or with `-` between and a year of two digits.
std::optional<WallTime> parse_day_first(std::string_view text) {
  const auto day = take_number(text, 2);
  if (!day || !(take(text, " ") || take(text, "-"))) return std::nullopt;
  const auto month = take_month(text);
  if (!month || !(take(text, " ") || take(text, "-"))) return std::nullopt;
  auto year = take_number(text, 4);
  if (!year) {
    year = take_number(text, 2);
    if (year) *year += *year < 70 ? 2000 : 1900;
  }
  if (!year || !take(text, " ")) return std::nullopt;
  const auto clock = take_time_of_day(text);
  if (!clock || text != " GMT") return std::nullopt;
  return wall_time(*year, *month, *day, *clock);
}

/// `Nov  6 08:49:37 1994`, what C's asctime writes behind the weekday.
std::optional<WallTime> parse_asctime(std::string_view text) {
  const auto month = take_month(text);
  if (!month || !take(text, " ")) return std::nullopt;
  const auto day = take(text, " ") ? take_number(text, 1) : take_number(text, 2);
  if (!day || !take(text, " ")) return std::nullopt;
  const auto clock = take_time_of_day(text);
  if (!clock || !take(text, " ")) return std::nullopt;
  const auto year = take_number(text, 4);
  if (!year || !text.empty()) return std::nullopt;
  return wall_time(*year, *month, *day, *clock);
}

/// `2024-05-01T12:00:00.25`, without its zone.
std::optional<WallTime> take_date(std::string_view& text) {
  const auto year = take_number(text, 4);
  if (!year || !take(text, "-")) return std::nullopt;
  const auto month = take_number(text, 2);
  if (!month || !take(text, "-")) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day || !(take(text, "T") || take(text, "t") || take(text, " "))) return std::nullopt;
  const auto clock = take_time_of_day(text);
  if (!clock) return std::nullopt;
  std::optional<WallTime> time = wall_time(*year, *month, *day, *clock);
  if (!time || text.size() < 2 || text.front() != '.' || !is_digit(text[1])) return time;
  const std::size_t end = std::min(text.find_first_not_of("0123456789", 1), text.size());
  std::string_view fraction = text.substr(0, end);
  text.remove_prefix(end);
  if (const auto part = take_decimal(fraction)) *time += milliseconds(static_cast<std::int64_t>(*part * 1e3));
  return time;
}

/// `Z` or `+02:30`: how far the zone is ahead of UTC.
std::optional<std::chrono::minutes> take_zone(std::string_view& text) {
  if (take(text, "Z") || take(text, "z")) return std::chrono::minutes(0);
  const bool ahead = text.starts_with('+');
  if (!ahead && !text.starts_with('-')) return std::nullopt;
  std::string_view rest = text.substr(1);
  const auto hours = take_number(rest, 2);
  if (!hours || !take(rest, ":")) return std::nullopt;
  const auto minutes = take_number(rest, 2);
  if (!minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  text = rest;
  const auto offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return ahead ? offset : -offset;
}

}  // namespace

milliseconds until(WallTime then, WallTime now) {
  if (then <= now) return milliseconds(0);
  return std::min(std::chrono::ceil<milliseconds>(then - now), milliseconds(limits::duration_ms_max));
}

std::optional<std::int64_t> count_at_front(std::string_view text) {
  text = trimmed(text, kSpacesAndLineEnds);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  // Some upstreams send `1000.0`, or a list such as `100;w=60`; the first number counts.
  if (end != text.data() + text.size() && *end != '.' && *end != ';' && *end != ',') return std::nullopt;
  return value;
}

std::optional<std::int64_t> leading_number(std::string_view text) {
  std::int64_t value = 0;
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == ',' && digits > 0) continue;
    if (!is_digit(c) || digits == 15) break;
    value = value * 10 + (c - '0');
    ++digits;
  }
  return digits > 0 ? std::optional(value) : std::nullopt;
}

std::optional<milliseconds> parse_milliseconds(std::string_view text) {
  std::string_view rest = trimmed(text, kSpacesAndLineEnds);
  const auto ms = take_decimal(rest);
  return ms && rest.empty() ? std::optional(bounded(*ms)) : std::nullopt;
}

std::optional<milliseconds> parse_reset(std::string_view value, WallTime now) {
  value = trimmed(value, kSpacesAndLineEnds);
  constexpr double kUnixSeconds = 1e9, kUnixMilliseconds = 1e12;
  std::string_view rest = value;
  if (const auto number = take_decimal(rest); number && rest.empty() && *number >= kUnixSeconds) {
    const double seconds = *number >= kUnixMilliseconds ? *number / 1e3 : *number;
    if (seconds >= kUnixMilliseconds) return std::nullopt;
    return until(WallTime(milliseconds(static_cast<std::int64_t>(seconds * 1e3))), now);
  }
  if (const auto wait = parse_duration(value)) return wait;
  if (const auto time = parse_rfc3339(value)) return until(*time, now);
  return std::nullopt;
}

std::optional<milliseconds> parse_duration(std::string_view text) {
  text = trimmed(text, kSpacesAndLineEnds);
  std::string_view rest = text;
  if (const auto ms = take_go_duration(rest); ms && rest.empty()) return bounded(*ms);
  rest = text;
  if (const auto seconds = take_decimal(rest); seconds && rest.empty()) return bounded(*seconds * 1e3);
  return std::nullopt;
}

std::optional<WallTime> parse_http_date(std::string_view text) {
  text = trimmed(text, kSpacesAndLineEnds);
  const std::size_t weekday_end = text.find_first_of(", ");
  if (weekday_end == std::string_view::npos || weekday_end < 3) return std::nullopt;
  const bool day_first = text[weekday_end] == ',';
  text.remove_prefix(weekday_end + 1);
  if (!day_first) return parse_asctime(text);
  if (!take(text, " ")) return std::nullopt;
  return parse_day_first(text);
}

std::optional<WallTime> parse_rfc3339(std::string_view text) {
  text = trimmed(text, kSpacesAndLineEnds);
  const auto time = take_date(text);
  if (!time) return std::nullopt;
  const auto offset = take_zone(text);
  return offset && text.empty() ? std::optional(*time - *offset) : std::nullopt;
}

std::optional<WallTime> date_at_front(std::string_view text) {
  const auto time = take_date(text);
  if (!time) return std::nullopt;
  return *time - take_zone(text).value_or(std::chrono::minutes(0));
}

std::optional<milliseconds> wait_at_front(std::string_view text) {
  if (const auto ms = take_go_duration(text)) return bounded(*ms);
  // `8 hours 24 minutes`, in the words of people.
  double total = 0;
  bool any = false;
  for (;;) {
    const auto number = take_decimal(text);
    const double unit = number ? take_unit_word(text) : 0;
    if (unit == 0) break;
    total += *number * unit;
    any = true;
    take(text, " ");
  }
  return any ? std::optional(bounded(total)) : std::nullopt;
}

}  // namespace lanemq::worker
