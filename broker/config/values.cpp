// SPDX-License-Identifier: Apache-2.0
#include "broker/config/values.hpp"

#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

#include "broker/config.hpp"

namespace lanemq::config {

using core::Duration;

namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};
constexpr Unit kDurationUnits[] = {{"ms", 1000},         {"us", 1},
                                   {"s", 1'000'000},     {"m", 60'000'000},
                                   {"h", 3'600'000'000}, {"d", 86'400'000'000}};
constexpr Unit kSizeUnits[] = {{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}};

std::int64_t parse_unit(const std::string& text, std::span<const Unit> units, const char* example) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error == std::errc{} && number >= 0)
    for (const Unit& unit : units)
      if (unit.name == suffix && number <= INT64_MAX / unit.factor) return number * unit.factor;
  throw ConfigError("\"" + text + "\" is not understood; write a whole number with its unit, like " +
                    example);
}

template <std::size_t N>
std::string with_unit(std::int64_t value, const Unit (&units)[N]) {
  const Unit* best = &units[N - 1];
  for (const Unit& unit : units)
    if (value % unit.factor == 0 && (value % best->factor != 0 || unit.factor > best->factor) &&
        (value != 0 || unit.factor == 1))
      best = &unit;
  return std::to_string(value / best->factor) + std::string(best->name);
}

}  // namespace

Duration parse_duration(const std::string& text) {
  return Duration(parse_unit(text, kDurationUnits, "\"30s\" or \"500ms\""));
}

std::size_t parse_size(const std::string& text) {
  return static_cast<std::size_t>(parse_unit(text, kSizeUnits, "\"64MiB\" or \"4096B\""));
}

std::int64_t parse_count(const std::string& text, std::int64_t min, std::int64_t max) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < min || number > max)
    throw ConfigError(
        "\"" + text + "\" is not understood; write a whole number of at least " + std::to_string(min) +
        (max < std::numeric_limits<std::int64_t>::max() ? " and at most " + std::to_string(max) : ""));
  return number;
}

int parse_share(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && std::string_view(end) == "%")
    value /= 100;
  else if (error != std::errc() || *end != '\0')
    value = -1;
  if (!(value >= 0 && value <= 1))
    throw ConfigError("\"" + text + "\" is no share; write 0 to 1, as in 0.2, or 0% to 100%");
  return static_cast<int>(std::lround(value * 1000));
}

std::string show_share(int thousandths) {
  std::string text = std::to_string(thousandths);
  text.insert(0, text.size() < 4 ? 4 - text.size() : 0, '0');
  return text.insert(text.size() - 3, ".");
}

bool parse_switch(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw ConfigError("\"" + text + "\" is not understood; write true or false");
}

std::string show(Duration duration) {
  return duration.count() == 0 ? "0s" : with_unit(duration.count(), kDurationUnits);
}

std::string show_size(std::size_t size) {
  return with_unit(static_cast<std::int64_t>(size), kSizeUnits);
}

}  // namespace lanemq::config
