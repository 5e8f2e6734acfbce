// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/upstream_headers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

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

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  // Some upstreams send `1000.0`, or a list such as `100;w=60`; the first number counts.
  if (end != text.data() + text.size() && *end != '.' && *end != ';' && *end != ',') return std::nullopt;
  return value;
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

milliseconds until(WallTime then, WallTime now) {
  if (then <= now) return milliseconds(0);
  return std::min(std::chrono::ceil<milliseconds>(then - now), milliseconds(limits::duration_ms_max));
}

/// When a limit is full again: a duration, a date, or (some clones) Unix time in s or ms.
std::optional<milliseconds> parse_reset(std::string_view value, WallTime now) {
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

}  // namespace

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
  const auto year = take_number(text, 4);
  if (!year || !take(text, "-")) return std::nullopt;
  const auto month = take_number(text, 2);
  if (!month || !take(text, "-")) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day || !(take(text, "T") || take(text, "t") || take(text, " "))) return std::nullopt;
  const auto clock = take_time_of_day(text);
  if (!clock) return std::nullopt;
  std::optional<WallTime> time = wall_time(*year, *month, *day, *clock);
  if (!time) return std::nullopt;
  if (!text.empty() && text.front() == '.') {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", 1), text.size());
    std::string_view fraction = text.substr(0, end);
    text.remove_prefix(end);
    const auto part = take_decimal(fraction);
    if (!part || !fraction.empty()) return std::nullopt;
    *time += milliseconds(static_cast<std::int64_t>(*part * 1e3));
  }
  if (text == "Z" || text == "z") return time;
  const bool ahead = take(text, "+");
  if (!ahead && !take(text, "-")) return std::nullopt;
  const auto hours = take_number(text, 2);
  if (!hours || !take(text, ":")) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || !text.empty() || *hours > 23 || *minutes > 59) return std::nullopt;
  const auto offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return ahead ? *time - offset : *time + offset;
}

std::optional<milliseconds> find_wait_in_text(std::string_view text) {
  static constexpr std::string_view kPhrases[] = {"try again in ", "retry in ", "retry after ",
                                                  "reset after ", "reset in "};
  const auto same = [](char a, char b) { return lower(a) == b; };
  for (const std::string_view phrase : kPhrases) {
    const auto* const found = std::search(text.begin(), text.end(), phrase.begin(), phrase.end(), same);
    if (found == text.end()) continue;
    std::string_view rest = text.substr(static_cast<std::size_t>(found - text.begin()) + phrase.size());
    if (const auto ms = take_go_duration(rest)) return bounded(*ms);
    const auto number = take_decimal(rest);
    if (!number) continue;
    if (take(rest, " second") || take(rest, " sec")) return bounded(*number * 1e3);
    if (take(rest, " minute") || take(rest, " min")) return bounded(*number * 60e3);
    if (take(rest, " hour")) return bounded(*number * 3600e3);
    if (take(rest, " day")) return bounded(*number * 24 * 3600e3);
  }
  return std::nullopt;
}

// ---- headers ------------------------------------------------------------------------------------------

void UpstreamHeaders::add_line(std::string_view line, WallTime now) {
  if (line.starts_with("HTTP/")) return clear();
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::array<char, 64> buffer;
  if (colon == 0 || colon > buffer.size()) return;  // longer than any header that is read here
  std::transform(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), buffer.begin(), lower);
  add({buffer.data(), colon}, trimmed(line.substr(colon + 1), kSpacesAndLineEnds), now);
}

void UpstreamHeaders::add(std::string_view name, std::string_view value, WallTime now) {
  const auto as_milliseconds = [&]() -> std::optional<milliseconds> {
    std::string_view rest = value;
    const auto ms = take_decimal(rest);
    return ms && rest.empty() ? std::optional(bounded(*ms)) : std::nullopt;
  };
  if (name == "retry-after-ms")
    retry_after_ms_ = as_milliseconds();
  else if (name == "x-ms-retry-after-ms")
    ms_retry_after_ms_ = as_milliseconds();
  else if (name == "retry-after") {
    retry_after_ = parse_duration(value);
    if (!retry_after_)
      if (const auto date = parse_http_date(value)) retry_after_ = until(*date, now);
  } else if (name == "content-type") {
    content_type_ = trimmed(value.substr(0, std::min(value.find(';'), value.size())));
    std::transform(content_type_.begin(), content_type_.end(), content_type_.begin(), lower);
  } else if (name == "content-length") {
    const auto length = parse_count(value);
    if (length) content_length_ = static_cast<std::size_t>(*length);
  } else if (take(name, "x-ratelimit-")) {
    add_limit(name, value, now, false);
  } else if (take(name, "anthropic-ratelimit-")) {
    add_limit(name, value, now, true);
  }
}

/// `remaining-tokens` or, `dated`, `tokens-remaining`.
void UpstreamHeaders::add_limit(std::string_view name, std::string_view value, WallTime now, bool dated) {
  struct Slot {
    std::string_view resource;
    std::optional<std::int64_t> wire::UpstreamLimits::*limit, wire::UpstreamLimits::*remaining,
        wire::UpstreamLimits::*reset;
  };
  using Limits = wire::UpstreamLimits;
  static constexpr Slot kSlots[] = {
      {"requests", &Limits::limit_requests, &Limits::remaining_requests, &Limits::reset_requests_ms},
      {"tokens", &Limits::limit_tokens, &Limits::remaining_tokens, &Limits::reset_tokens_ms},
      {"input-tokens", &Limits::limit_input_tokens, &Limits::remaining_input_tokens,
       &Limits::reset_input_tokens_ms},
      {"output-tokens", &Limits::limit_output_tokens, &Limits::remaining_output_tokens,
       &Limits::reset_output_tokens_ms}};
  const std::size_t dash = dated ? name.rfind('-') : name.find('-');
  if (dash == std::string_view::npos) return;
  const std::string_view kind = dated ? name.substr(dash + 1) : name.substr(0, dash);
  const std::string_view resource = dated ? name.substr(0, dash) : name.substr(dash + 1);
  for (const Slot& slot : kSlots) {
    if (resource != slot.resource) continue;
    std::optional<std::int64_t> number;
    if (kind == "reset") {
      const std::optional<milliseconds> wait = parse_reset(value, now);
      if (wait) limits_.*slot.reset = number = wait->count();
    } else if (kind == "limit") {
      limits_.*slot.limit = number = parse_count(value);
    } else if (kind == "remaining") {
      limits_.*slot.remaining = number = parse_count(value);
    }
    has_limits_ = has_limits_ || number.has_value();
    return;
  }
}

std::optional<milliseconds> UpstreamHeaders::retry_after() const {
  if (retry_after_ms_) return retry_after_ms_;
  if (ms_retry_after_ms_) return ms_retry_after_ms_;
  return retry_after_;
}

std::optional<milliseconds> UpstreamHeaders::exhausted_reset() const {
  std::optional<std::int64_t> wait;
  const auto consider = [&](std::optional<std::int64_t> remaining, std::optional<std::int64_t> reset) {
    if (remaining == 0 && reset) wait = std::max(wait.value_or(0), *reset);
  };
  consider(limits_.remaining_requests, limits_.reset_requests_ms);
  consider(limits_.remaining_tokens, limits_.reset_tokens_ms);
  consider(limits_.remaining_input_tokens, limits_.reset_input_tokens_ms);
  consider(limits_.remaining_output_tokens, limits_.reset_output_tokens_ms);
  return wait ? std::optional(milliseconds(*wait)) : std::nullopt;
}

std::optional<wire::UpstreamLimits> UpstreamHeaders::limits() const {
  return has_limits_ ? std::optional(limits_) : std::nullopt;
}

bool UpstreamHeaders::is_json() const {
  return content_type_ == "application/json" || content_type_.ends_with("+json");
}

}  // namespace lanemq::worker
