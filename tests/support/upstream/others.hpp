// SPDX-License-Identifier: Apache-2.0
// Who else calls on the same account: asks that count like calls and need no HTTP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "tests/support/upstream/counter.hpp"

namespace lanemq::upstream {

/// How often others may ask, a second.
inline constexpr double kOthersPaceMin = 0.01;
inline constexpr double kOthersPaceMax = 10'000;
/// How many of them ask at once, and the shortest time between two such bursts.
inline constexpr std::uint64_t kOthersBurstMax = 100'000;
inline constexpr Duration kOthersEveryMin = std::chrono::milliseconds(100);
/// The longest day, and the latest moment at which others begin or stop.
inline constexpr Duration kOthersTimeMax = std::chrono::hours(24 * 7);
/// The most crowds beside each other.
inline constexpr std::size_t kOthersMax = 16;

/// One crowd: when it asks.
struct Crowd {
  enum class Kind {
    even,   ///< `pace` a second, evenly.
    half,   ///< As even, at half the pace of the limit.
    burst,  ///< `size` at once, again after each `every`.
    day,    ///< Evenly, at a pace that swings between `pace` and `pace_max` and back within `every`.
  };
  Kind kind = Kind::even;
  double pace = 0;
  double pace_max = 0;
  std::uint64_t size = 0;
  Duration every{};
  Duration from{};               ///< Since the start, as `to`, which does not belong to it.
  std::optional<Duration> to{};  ///< Nothing: it never stops.
  bool operator==(const Crowd&) const = default;
};

/// Reads crowds that are separated by commas:
///   12/s              12 a second, evenly
///   half              half the pace of the limit, evenly
///   burst:300/20s     300 at once each 20 s
///   day:5..12/s/120s  from 5 to 12 a second and back within 120 s, as a sine
/// Behind each may stand when it begins and stops, in seconds since the start: 12/s@10..60, half@30..
/// An error says what is wrong and what fits.
tl::expected<std::vector<Crowd>, std::string> parse_others(std::string_view text);

/// The asks of all crowds in the order of time. Deterministic: no draw is made.
class Others {
 public:
  Others(const std::vector<Crowd>& crowds, TimePoint started);

  /// When the next of them asks; nothing if none will.
  std::optional<TimePoint> next() const;
  /// That ask is made; the one behind it comes. `limit_pace` is what half a limit is half of, a second.
  void pass(double limit_pace);
  /// Leaves out what lies before `now`.
  void skip_to(TimePoint now);

 private:
  struct Member {
    Crowd crowd;
    std::optional<Duration> next{};  // Since the start.
    std::uint64_t number = 0;        // Of the ask or the burst.
    std::uint64_t left = 0;          // Of a burst.
  };

  static Duration place_of(const Crowd& crowd, std::uint64_t number);
  static double pace_at(const Crowd& crowd, Duration at, double limit_pace);
  static void set_next(Member& member, Duration at);
  std::optional<std::size_t> first() const;

  TimePoint started_;
  std::vector<Member> members_;
};

}  // namespace lanemq::upstream
