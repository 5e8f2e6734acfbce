// SPDX-License-Identifier: Apache-2.0
// One strict limit of the upstream double: so much a period, in calls or in tokens.
//
// Pure: every function that depends on the time takes it as `now`, and `now` must not go backward.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace lanemq::upstream {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = std::chrono::nanoseconds;

/// The period of every limit, unless it is told otherwise.
inline constexpr Duration kPeriodDefault = std::chrono::seconds(60);
inline constexpr Duration kPeriodMin = std::chrono::milliseconds(1);
/// So that a bucket of kTokensMax counts in 64 bits.
inline constexpr Duration kPeriodMax = std::chrono::seconds(180);
/// The largest limits that can be configured. They also bound what a SlidingWindow has to remember.
inline constexpr std::uint64_t kRequestsMax = 4'000'000;
inline constexpr std::uint64_t kTokensMax = 100'000'000;

/// How much a counter takes.
struct Allowance {
  std::uint64_t limit = 0;     ///< Per period.
  std::uint64_t capacity = 0;  ///< Of a bucket; other windows have none.
};

class Counter {
 public:
  virtual ~Counter() = default;

  /// How long until `amount` fits, if nothing else is taken: zero when it fits now, nothing when it never
  /// will.
  virtual std::optional<Duration> wait(std::uint64_t amount, TimePoint now) = 0;
  /// Counts `amount`, which is at least 1. Requires: wait(amount, now) is zero.
  virtual void take(std::uint64_t amount, TimePoint now) = 0;
  /// The largest amount that fits now.
  virtual std::uint64_t remaining(TimePoint now) = 0;
  /// How long until remaining() is as large as it gets, if nothing else is taken.
  virtual Duration reset(TimePoint now) = 0;
  /// The largest amount that can ever fit at once.
  virtual std::uint64_t ceiling() const = 0;
  /// The limit per period.
  virtual std::uint64_t limit() const = 0;
  /// From now on the limit is another. What was taken stays taken, even if that is more than the new limit.
  virtual void set(const Allowance& allowance, TimePoint now) = 0;
};

/// How a limit counts.
///   sliding  at most the limit in any span of the period, wherever it begins
///   bucket   refilled continuously, a limit a period
///   fixed    whole periods, each from the first call behind the end of the last
///   clock    whole periods of the wall clock
enum class WindowKind { sliding, bucket, fixed, clock };

const char* name_of(WindowKind kind);

/// What a counter is made of.
struct CounterShape {
  WindowKind kind = WindowKind::sliding;
  Duration period = kPeriodDefault;
  Allowance allowance{};
  /// Any moment at which a whole period of the wall clock begins.
  TimePoint clock_edge{};
};

/// Null where the limit is zero, which means that there is none.
std::unique_ptr<Counter> make_counter(const CounterShape& shape);

}  // namespace lanemq::upstream
