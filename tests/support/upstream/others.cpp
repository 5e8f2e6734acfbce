// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/others.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <utility>

#include "tests/support/upstream/changing.hpp"

namespace lanemq::upstream {
namespace {

Duration seconds(double count) {
  return Duration(std::llround(count * 1e9));
}

bool cut_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool cut_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

template <typename Number>
bool read(std::string_view text, Number& number, Number least, Number most) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least && number <= most;
}

bool read_pace(std::string_view text, double& pace) {
  return read(text, pace, kOthersPaceMin, kOthersPaceMax);
}

/// "20s", behind a slash.
bool read_every(std::string_view text, Duration& every) {
  if (!cut_suffix(text, "s")) return false;
  const auto span = parse_seconds(text, kOthersTimeMax);
  every = span.value_or(Duration::zero());
  return every >= kOthersEveryMin;
}

bool read_burst(std::string_view text, Crowd& crowd) {
  crowd.kind = Crowd::Kind::burst;
  const auto slash = text.find('/');
  return slash != text.npos && read(text.substr(0, slash), crowd.size, std::uint64_t{1}, kOthersBurstMax) &&
         read_every(text.substr(slash + 1), crowd.every);
}

bool read_day(std::string_view text, Crowd& crowd) {
  crowd.kind = Crowd::Kind::day;
  const auto dots = text.find("..");
  const auto slash = text.find("/s/");
  if (dots == text.npos || slash == text.npos || dots + 2 > slash) return false;
  return read_pace(text.substr(0, dots), crowd.pace) &&
         read_pace(text.substr(dots + 2, slash - dots - 2), crowd.pace_max) && crowd.pace <= crowd.pace_max &&
         read_every(text.substr(slash + 3), crowd.every);
}

bool read_shape(std::string_view text, Crowd& crowd) {
  if (text == "half") {
    crowd.kind = Crowd::Kind::half;
    return true;
  }
  if (cut_prefix(text, "burst:")) return read_burst(text, crowd);
  if (cut_prefix(text, "day:")) return read_day(text, crowd);
  return cut_suffix(text, "/s") && read_pace(text, crowd.pace);
}

bool read_span(std::string_view text, Crowd& crowd) {
  const auto dots = text.find("..");
  if (dots == text.npos) return false;
  const auto from = parse_seconds(text.substr(0, dots), kOthersTimeMax);
  if (!from) return false;
  crowd.from = *from;
  if (text.substr(dots + 2).empty()) return true;
  crowd.to = parse_seconds(text.substr(dots + 2), kOthersTimeMax);
  return crowd.to && *crowd.to > crowd.from;
}

}  // namespace

tl::expected<std::vector<Crowd>, std::string> parse_others(std::string_view text) {
  std::vector<Crowd> crowds;
  for (std::string_view rest = text; crowds.size() < kOthersMax;) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const auto at_sign = part.find('@');
    Crowd crowd;
    if (!read_shape(part.substr(0, at_sign), crowd) ||
        (at_sign != part.npos && !read_span(part.substr(at_sign + 1), crowd)))
      return tl::unexpected(
          "\"" + std::string(part) +
          "\" tells of no others; give 12/s, half, burst:300/20s or day:5..12/s/120s, each with "
          "@FROM..TO in seconds behind it or without; 0.01 to 10000 a second, at most 100000 at "
          "once each 0.1 s or more, times up to a week");
    crowds.push_back(crowd);
    if (part.size() == rest.size()) return crowds;
    rest.remove_prefix(part.size() + 1);
  }
  return tl::unexpected("give at most " + std::to_string(kOthersMax) + " kinds of others");
}

Others::Others(const std::vector<Crowd>& crowds, TimePoint started) : started_(started) {
  for (const Crowd& crowd : crowds)
    members_.push_back({.crowd = crowd, .next = crowd.from, .left = crowd.size});
}

std::optional<TimePoint> Others::next() const {
  const auto index = first();
  if (!index) return std::nullopt;
  return started_ + *members_[*index].next;
}

void Others::pass(double limit_pace) {
  Member& member = members_[*first()];
  const Crowd& crowd = member.crowd;
  switch (crowd.kind) {
    case Crowd::Kind::burst:
      if (--member.left > 0) return;
      member.left = crowd.size;
      [[fallthrough]];
    case Crowd::Kind::even:
      return set_next(member, place_of(crowd, ++member.number));
    case Crowd::Kind::half:
    case Crowd::Kind::day:
      set_next(member, *member.next + seconds(1 / pace_at(crowd, *member.next, limit_pace)));
  }
}

void Others::skip_to(TimePoint now) {
  const Duration at = now - started_;
  for (Member& member : members_) {
    if (!member.next || *member.next >= at) continue;
    const Crowd& crowd = member.crowd;
    if (crowd.kind == Crowd::Kind::half || crowd.kind == Crowd::Kind::day) {
      set_next(member, at);
      continue;
    }
    const double since = std::chrono::duration<double>(at - crowd.from).count();
    const double a_second =
        crowd.kind == Crowd::Kind::even ? crowd.pace : 1 / std::chrono::duration<double>(crowd.every).count();
    member.number = static_cast<std::uint64_t>(std::ceil(since * a_second));
    member.left = crowd.size;
    set_next(member, std::max(at, place_of(crowd, member.number)));
  }
}

/// From its number, so that what is rounded does not add up.
Duration Others::place_of(const Crowd& crowd, std::uint64_t number) {
  if (crowd.kind == Crowd::Kind::burst) return crowd.from + number * crowd.every;
  return crowd.from + seconds(static_cast<double>(number) / crowd.pace);
}

double Others::pace_at(const Crowd& crowd, Duration at, double limit_pace) {
  if (crowd.kind == Crowd::Kind::half) return std::max(kOthersPaceMin, limit_pace / 2);
  const double turns =
      std::chrono::duration<double>(at - crowd.from) / std::chrono::duration<double>(crowd.every);
  const double share = (1 - std::cos(2 * std::numbers::pi * turns)) / 2;
  return crowd.pace + (crowd.pace_max - crowd.pace) * share;
}

void Others::set_next(Member& member, Duration at) {
  member.next = at;
  if (member.crowd.to && at >= *member.crowd.to) member.next.reset();
}

/// Who asks next; of several at the same time the first that was named.
std::optional<std::size_t> Others::first() const {
  std::optional<std::size_t> first;
  for (std::size_t index = 0; index < members_.size(); ++index)
    if (members_[index].next && (!first || *members_[index].next < *members_[*first].next)) first = index;
  return first;
}

}  // namespace lanemq::upstream
