// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/changing.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lanemq::upstream {
namespace {

std::optional<std::uint64_t> parse_whole(std::string_view text, std::uint64_t most) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most) return {};
  return number;
}

}  // namespace

std::uint64_t Changing::largest() const {
  std::uint64_t most = 0;
  for (const Step& step : steps_)
    most = std::max(most, step.value);
  return most;
}

std::uint64_t Changing::at(Duration since_start) const {
  std::uint64_t value = first();
  for (const Step& step : steps_)
    if (step.at <= since_start) value = step.value;
  return value;
}

std::optional<Duration> parse_seconds(std::string_view text, Duration most) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(seconds >= 0 && seconds <= std::chrono::duration<double>(most).count())) return std::nullopt;
  return Duration(std::llround(seconds * 1e9));
}

tl::expected<Changing, std::string> parse_changing(std::string_view text, std::uint64_t most) {
  const auto wrong = [&] {
    return tl::unexpected("\"" + std::string(text) +
                          "\" is no limit; give N, or N,N@SECOND,... with N from 1 to " +
                          std::to_string(most) + " and rising seconds up to a week, like 600,300@30,600@60");
  };
  std::vector<Changing::Step> steps;
  for (std::string_view rest = text; steps.size() < kChangesMax;) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const auto at_sign = part.find('@');
    const auto value = parse_whole(part.substr(0, at_sign), most);
    const bool begins = steps.empty();
    if (!value || (at_sign == part.npos) != begins) return wrong();
    const auto at = begins ? Duration::zero() : parse_seconds(part.substr(at_sign + 1), kChangeAtMax);
    if (!at || (!begins && *at <= steps.back().at)) return wrong();
    steps.push_back({.at = *at, .value = *value});
    if (part.size() == rest.size()) return Changing(std::move(steps));
    rest.remove_prefix(part.size() + 1);
  }
  return tl::unexpected("a limit changes " + std::to_string(kChangesMax - 1) + " times at the most");
}

}  // namespace lanemq::upstream
