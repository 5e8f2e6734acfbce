// SPDX-License-Identifier: Apache-2.0
#include "common/settings/values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <span>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

namespace lanemq::settings {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};
constexpr Unit kDurationUnits[] = {{"ms", 1000},         {"us", 1},
                                   {"s", 1'000'000},     {"m", 60'000'000},
                                   {"h", 3'600'000'000}, {"d", 86'400'000'000}};
constexpr Unit kSizeUnits[] = {{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}};

[[noreturn]] void refuse(const std::string& rule, std::string_view text) {
  throw UsageError("must be " + rule + ", not \"" + printable(text, 64) + '"');
}

std::int64_t with_unit(std::string_view text, std::span<const Unit> units, const std::string& example) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error == std::errc{} && number >= 0)
    for (const Unit& unit : units)
      if (unit.name == suffix && number <= kCountMax / unit.factor) return number * unit.factor;
  refuse("a whole number with its unit, like " + example, text);
}

/// The value in the largest unit that divides it.
std::string show_in(std::int64_t value, std::span<const Unit> units) {
  const Unit* best = &*std::find_if(units.begin(), units.end(), [](const Unit& u) { return u.factor == 1; });
  for (const Unit& unit : units)
    if (value != 0 && value % unit.factor == 0 && unit.factor > best->factor) best = &unit;
  return std::to_string(value / best->factor) + std::string(best->name);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

Duration parse_duration(std::string_view text) {
  return text == "0" ? Duration{} : Duration(with_unit(text, kDurationUnits, "30s or 500ms"));
}

std::string show(Duration duration) {
  return duration.count() == 0 ? "0s" : show_in(duration.count(), kDurationUnits);
}

std::size_t parse_size(std::string_view text) {
  return static_cast<std::size_t>(with_unit(text, kSizeUnits, "64MiB or 4096B"));
}

std::string show_size(std::size_t size) {
  return show_in(static_cast<std::int64_t>(size), kSizeUnits);
}

std::int64_t parse_count(std::string_view text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= min && value <= max) return value;
  refuse(max == kCountMax ? "a whole number of at least " + std::to_string(min)
                          : "a whole number " + std::to_string(min) + ".." + std::to_string(max),
         text);
}

int parse_share(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && std::string_view(end) == "%")
    value /= 100;
  else if (error != std::errc() || *end != '\0')
    value = -1;
  if (!(value >= 0 && value <= 1)) refuse("a share: 0 to 1, as in 0.2, or 0% to 100%", text);
  return static_cast<int>(std::lround(value * 1000));
}

std::string show_share(int thousandths) {
  std::string text = std::to_string(thousandths);
  text.insert(0, text.size() < 4 ? 4 - text.size() : 0, '0');
  return text.insert(text.size() - 3, ".");
}

bool parse_switch(std::string_view text) {
  if (text != "true" && text != "false") refuse("true or false", text);
  return text == "true";
}

std::string show_switch(bool yes) {
  return yes ? "true" : "false";
}

log::Level parse_level(std::string_view text) {
  const auto found = std::find(std::begin(log::kLevelNames), std::end(log::kLevelNames), text);
  if (found == std::end(log::kLevelNames)) refuse("debug, info, warning, error or off", text);
  return static_cast<log::Level>(found - std::begin(log::kLevelNames));
}

std::string_view show_level(log::Level level) {
  return log::kLevelNames[static_cast<std::size_t>(level)];
}

log::Format parse_log_format(std::string_view text) {
  const auto found = std::find(std::begin(log::kFormatNames), std::end(log::kFormatNames), text);
  if (found == std::end(log::kFormatNames)) refuse("text or json", text);
  return static_cast<log::Format>(found - std::begin(log::kFormatNames));
}

std::string_view show_log_format(log::Format format) {
  return log::kFormatNames[static_cast<std::size_t>(format)];
}

std::string parse_name(std::string_view text) {
  if (text.empty() || text.size() > limits::name_bytes_max || !is_utf8(text))
    throw UsageError("must be a name of 1.." + std::to_string(limits::name_bytes_max) + " bytes");
  return std::string(text);
}

std::vector<std::string> parse_words(const Values& values) {
  std::vector<std::string> parts;
  for (const std::string& value : values) {
    for (std::size_t begin = 0; begin <= value.size();) {
      const std::size_t end = std::min(value.find(',', begin), value.size());
      if (end == begin) throw UsageError("must not be empty");
      parts.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

namespace {

std::string initials(std::string_view name) {
  std::string letters;
  for (std::size_t i = 0; i < name.size(); ++i)
    if (i == 0 || name[i - 1] == '_') letters += name[i];
  return letters;
}

}  // namespace

std::string nearest(std::string_view key, const std::vector<std::string>& known) {
  const std::string_view read = key.substr(0, limits::name_bytes_max);
  for (const std::string& other : known)
    if (read.size() > 1 && initials(other) == read) return other;
  const auto best = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a, read) < edit_distance(b, read);
  });
  const std::size_t near = std::clamp<std::size_t>(read.size() / 3, 1, 3);
  return best != known.end() && edit_distance(*best, read) <= near ? *best : "";
}

void unknown_key(std::string_view what, std::string_view key, const std::vector<std::string>& known) {
  const std::string message = "unknown " + std::string(what) + " \"" + printable(key, 64) + '"';
  // Of `limit.requests_per_minute` the table may be what is misspelt.
  const std::size_t dot = key.find('.');
  std::string meant = nearest(key, known);
  if (meant.empty() && dot != std::string_view::npos) meant = nearest(key.substr(0, dot), known);
  if (!meant.empty()) throw UsageError(message + "; did you mean \"" + meant + "\"?");
  std::string all;
  for (const std::string& other : known)
    all += (all.empty() ? "; there are " : ", ") + other;
  throw UsageError(message + all);
}

}  // namespace lanemq::settings
