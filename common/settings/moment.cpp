// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include <toml++/toml.h>

#include "common/settings/values.hpp"

namespace lanemq::settings {
namespace {

/// Dates from then on are never: the clock's type ends a little later.
constexpr int kYearMin = 1970, kYearMax = 2200;

std::chrono::sys_seconds day_of(const toml::date& date) {
  using namespace std::chrono;
  return sys_days(year_month_day(year(date.year), month(date.month), day(date.day)));
}

/// The last second of a date, or a date with a time; without an offset that is UTC.
Moment moment_of(const toml::node& node) {
  using namespace std::chrono;
  const auto* const date = node.as_date();
  const auto* const time = node.as_date_time();
  if (date == nullptr && time == nullptr)
    throw UsageError("must be a date, such as 2027-01-31, or a date with a time, 2027-01-31T18:00:00Z");
  const toml::date& said = date != nullptr ? date->get() : time->get().date;
  if (said.year >= kYearMax) return kNever;
  if (said.year < kYearMin)
    throw UsageError("is in the year " + std::to_string(said.year) + "; a date from " +
                     std::to_string(kYearMin) + " on, such as 2027-01-31");
  if (date != nullptr) return day_of(said) + days(1) - seconds(1);
  const toml::time& at = time->get().time;
  const auto offset = time->get().offset;
  return day_of(said) + hours(at.hour) + minutes(at.minute) + seconds(at.second) -
         minutes(offset ? offset->minutes : 0);
}

}  // namespace

Moment parse_moment(std::string_view text) {
  if (text.empty()) return kNever;
  // Nothing but what a date has reaches the parser.
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || std::string_view("-:.+ TtZz").find(c) != std::string_view::npos;
  });
  try {
    if (plain) return moment_of(*toml::parse("at = " + std::string(text)).get("at"));
  } catch (const toml::parse_error&) {  // it is no value at all
  }
  return moment_of(toml::value<std::string>(text));
}

std::string show_moment(Moment moment) {
  using namespace std::chrono;
  if (moment == kNever) return {};
  const auto day = floor<days>(moment);
  const year_month_day date(day);
  const hh_mm_ss time(floor<seconds>(moment - day));
  char text[48];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text;
}

}  // namespace lanemq::settings
