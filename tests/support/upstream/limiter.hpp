// SPDX-License-Identifier: Apache-2.0
// The limits of the upstream double: how many calls and tokens it takes in a minute.
//
// Pure: every function that depends on the time takes it as `now`, and `now` must not go backward.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

namespace lanemq::upstream {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = std::chrono::nanoseconds;

/// The window of every limit. It is half open, [t, t + 60 s): a call leaves it exactly 60 s after its
/// arrival.
inline constexpr Duration kWindow = std::chrono::seconds(60);
/// The largest limits that can be configured. They also bound what a SlidingWindow has to remember.
inline constexpr std::uint64_t kRequestsPerMinuteMax = 4'000'000;
inline constexpr std::uint64_t kTokensPerMinuteMax = 100'000'000;

/// One strict limit: so much per minute, in calls or in tokens.
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
  /// The limit per minute.
  virtual std::uint64_t limit() const = 0;
};

/// Counts in a true sliding window: no window of 60 s, wherever it begins, holds more than `limit`.
/// Exact, for it remembers each arrival; at most `limit` of them.
class SlidingWindow final : public Counter {
 public:
  /// Requires: 0 < limit <= kTokensPerMinuteMax.
  explicit SlidingWindow(std::uint64_t limit);

  std::optional<Duration> wait(std::uint64_t amount, TimePoint now) override;
  void take(std::uint64_t amount, TimePoint now) override;
  std::uint64_t remaining(TimePoint now) override;
  Duration reset(TimePoint now) override;
  std::uint64_t ceiling() const override { return limit_; }
  std::uint64_t limit() const override { return limit_; }

 private:
  struct Taken {
    TimePoint at;
    std::uint64_t amount;
  };

  void forget_old(TimePoint now);

  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::deque<Taken> taken_;  // Oldest first; all of it within the last 60 s.
};

/// Counts in a bucket that holds `capacity`, begins full and refills continuously by `limit` per minute: any
/// span of length t takes at most capacity + limit * t / 60 s. Exact, in whole numbers: see debt_.
class Bucket final : public Counter {
 public:
  /// Requires: 0 < limit, capacity <= kTokensPerMinuteMax and 0 < capacity.
  Bucket(std::uint64_t limit, std::uint64_t capacity);

  std::optional<Duration> wait(std::uint64_t amount, TimePoint now) override;
  void take(std::uint64_t amount, TimePoint now) override;
  std::uint64_t remaining(TimePoint now) override;
  Duration reset(TimePoint now) override;
  std::uint64_t ceiling() const override { return capacity_; }
  std::uint64_t limit() const override { return limit_; }

 private:
  void refill(TimePoint now);
  Duration time_to_repay(std::uint64_t debt) const;

  std::uint64_t limit_;
  std::uint64_t capacity_;
  // What is missing to a full bucket. One call (or token) is as many units as a minute has nanoseconds, so
  // that each nanosecond repays exactly `limit_` units and nothing is ever rounded.
  std::uint64_t debt_ = 0;
  TimePoint as_of_{};
};

enum class WindowKind { sliding, bucket };

/// What the double enforces. Zero means: no such limit.
struct Quota {
  std::uint64_t requests_per_minute = 0;
  std::uint64_t tokens_per_minute = 0;
  WindowKind window = WindowKind::sliding;
  /// Capacities of the buckets; zero means a tenth of a minute's calls (at least 1), and a whole minute's
  /// tokens, so that the largest single call is the same under both kinds of window.
  std::uint64_t burst_requests = 0;
  std::uint64_t burst_tokens = 0;
};

enum class Dimension { requests, tokens };

/// What the limits say of one call.
struct Verdict {
  bool accepted = true;
  // The rest tells of the limit that refused it; of the longer wait where both did.
  Dimension dimension = Dimension::requests;
  std::optional<Duration> wait = Duration::zero();  ///< Nothing: the call is larger than can ever fit.
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
  std::uint64_t requested = 0;
};

/// The state of one limit, as the x-ratelimit headers tell it.
struct Gauge {
  std::uint64_t limit = 0;
  std::uint64_t remaining = 0;
  Duration reset{};
};

/// Both limits together: a call is counted by both or, when either refuses it, by neither.
class Limiter {
 public:
  explicit Limiter(const Quota& quota);

  /// Decides on a call of `tokens` >= 1 and counts it if it is accepted.
  Verdict admit(std::uint64_t tokens, TimePoint now);
  /// Nothing where there is no such limit.
  std::optional<Gauge> gauge(Dimension dimension, TimePoint now) const;

 private:
  std::unique_ptr<Counter> requests_;
  std::unique_ptr<Counter> tokens_;
};

}  // namespace lanemq::upstream
