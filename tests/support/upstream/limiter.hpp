// SPDX-License-Identifier: Apache-2.0
// The limits of the upstream double: how many calls and tokens it takes in a period, how many at once, and
// how fast their pace may rise; and who else uses them.
//
// Pure: every function that depends on the time takes it as `now`, and `now` must not go backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tests/support/upstream/changing.hpp"
#include "tests/support/upstream/counter.hpp"
#include "tests/support/upstream/others.hpp"
#include "tests/support/upstream/places.hpp"
#include "tests/support/upstream/slope.hpp"

namespace lanemq::upstream {

/// The most calls under way at once that can be configured.
inline constexpr std::uint64_t kAtOnceMax = 100'000;
/// What a call of others counts in tokens, unless it is told otherwise.
inline constexpr std::uint64_t kOthersTokensDefault = 100;
/// The longest time that a call of others may last.
inline constexpr Duration kOthersHoldMax = std::chrono::hours(1);

/// What the double enforces. Where a number is absent, there is no such limit.
struct Quota {
  Changing requests{};  ///< Per period, as the tokens.
  Changing tokens{};
  WindowKind window = WindowKind::sliding;
  Duration period = kPeriodDefault;
  /// Capacities of the buckets; zero means a tenth of a period's calls (at least 1), and a whole period's
  /// tokens, so that the largest single call is the same under each kind of window.
  std::uint64_t burst_requests = 0;
  std::uint64_t burst_tokens = 0;
  Changing at_once{};  ///< Calls under way.
  double slope = 0;    ///< See Slope.
  std::uint64_t slope_floor = kSlopeFloorDefault;
  std::vector<Crowd> others{};
  std::uint64_t others_tokens = kOthersTokensDefault;  ///< Of each of their calls.
  Duration others_hold{};                              ///< How long each of their calls is under way.

  Allowance allow_requests(std::uint64_t limit) const;
  Allowance allow_tokens(std::uint64_t limit) const;
};

enum class Dimension { requests, tokens, slope, at_once };

/// What the limits say of one call.
struct Verdict {
  bool accepted = true;
  // The rest tells of the limit that refused it; of the one with the longest wait where several did.
  Dimension dimension = Dimension::requests;
  /// Nothing: nobody knows, as a call under way ends when it does and a slope depends on what comes; or the
  /// call is too large.
  std::optional<Duration> wait = Duration::zero();
  bool too_large = false;  ///< Larger than can ever fit.
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
  std::uint64_t requested = 0;
};

/// The state of one limit, as headers tell it.
struct Gauge {
  std::uint64_t limit = 0;
  std::uint64_t remaining = 0;
  Duration reset{};
  Duration period{};
};

/// What became of the asks of others.
struct OthersTally {
  std::uint64_t granted = 0;
  std::uint64_t refused = 0;
  std::uint64_t steps_cut =
      0;  ///< Steps of more than Limiter::kAsksPerStepMax asks, the rest of which fell out.
};

/// All limits together: a call is counted by all of them or, when one refuses it, by none.
///
/// The asks of others that lie before a moment are made when somebody asks for that moment, in the order of
/// time, each at its own time.
class Limiter {
 public:
  /// `started` is when limits begin to change and others to ask, `started_unix` the same since 1970.
  explicit Limiter(const Quota& quota, TimePoint started = {}, Duration started_unix = {});

  /// Decides on a call of `tokens` >= 1 and counts it if it is accepted. It is under way until leave().
  Verdict admit(std::uint64_t tokens, TimePoint now);
  /// A call that was accepted has ended.
  void leave();
  /// Nothing where there is no such limit; of requests and tokens only.
  std::optional<Gauge> gauge(Dimension dimension, TimePoint now);
  /// The calls that may be under way at once; nothing where there is no such limit.
  std::optional<std::uint64_t> at_once(TimePoint now);
  OthersTally others(TimePoint now);

  /// The most asks of others that are made at one step.
  static constexpr std::size_t kAsksPerStepMax = 1'000'000;

 private:
  struct Change {
    TimePoint at;
    Dimension dimension;
    std::uint64_t value;
  };

  void plan(const Changing& number, Dimension dimension);
  void advance(TimePoint now);
  void apply(const Change& change);
  Verdict decide(std::uint64_t tokens, TimePoint now);
  void count(std::uint64_t tokens, TimePoint now);
  void ask_of_others(TimePoint at);
  double pace() const;

  Quota quota_;
  TimePoint started_;
  std::unique_ptr<Counter> requests_;
  std::unique_ptr<Counter> tokens_;
  std::optional<Places> places_;
  std::optional<Slope> slope_;
  std::vector<Change> changes_;  // To come, the next one last.
  Others others_;
  OthersTally tally_;
};

}  // namespace lanemq::upstream
