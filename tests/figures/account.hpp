// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/base/amounts.hpp"
#include "broker/core/base/time.hpp"

namespace lanemq::figures {

using core::Duration;
using core::TimePoint;

/// What an upstream bounds.
enum class Bound : std::uint8_t {
  bucket,   ///< refilled continuously
  fixed,    ///< windows of its own clock
  sliding,  ///< every window of the period
  places,   ///< calls at once
  slope,    ///< as sliding, and the pace of a second by that of the second before it
};
/// What it tells of that.
enum class Words : std::uint8_t { all, retry_after, none };
/// What others do with the same account. The last two: nobody else is there.
enum class Others : std::uint8_t { half, greedy, stop, limit_falls, nobody };

/// An upstream's account, which others may use as well. It counts, refuses and speaks; it knows nothing of
/// brokers. Times must not go backward.
class Account {
 public:
  struct Rules {
    Bound bound = Bound::bucket;
    Words words = Words::all;
    Others others = Others::half;
    core::Resource resource = core::Resource::requests;  ///< or tokens
    std::int64_t limit = 600;                            ///< calls or tokens in a period, or calls at once
    Duration period = std::chrono::minutes(1);
    std::int64_t call = 1;                            ///< what one of others takes, on average
    Duration takes = std::chrono::milliseconds(400);  ///< a call, ours or theirs, on average
    TimePoint begins{}, ends{};  ///< others stop, or the limit falls and comes back, in between
    std::int64_t falls_to = 2;   ///< the limit: to that part of it
    std::uint64_t seed = 0;
  };
  explicit Account(const Rules& rules);

  struct Word {
    bool granted = false;
    Duration takes{};  ///< if granted
    std::optional<Duration> retry_after{};
    std::optional<wire::UpstreamLimits> limits{};
    bool too_steep = false;  ///< refused, and it says that this is for the slope
  };
  /// A call of ours, of so many tokens or of 1.
  Word call(TimePoint now, std::int64_t amount = 1);
  /// What it could have granted since `from`, less what others were.
  double left_by_others(TimePoint from, TimePoint now);
  /// The calls or tokens that it could grant in a second.
  double pace(TimePoint now) const;

 private:
  std::int64_t limit_at(TimePoint now) const;
  bool take(TimePoint now, std::int64_t amount, Duration takes);
  double drawn() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }
  Duration draw_takes();
  std::int64_t remaining(TimePoint now);
  void refill(TimePoint now);
  bool is_too_steep(TimePoint now) const;
  Duration free_in(TimePoint now, std::int64_t amount);
  Duration reset_in(TimePoint now);
  void others_ask(TimePoint now);

  Rules rules_;
  std::mt19937_64 random_;
  double level_ = 0;
  TimePoint level_at_{};
  std::int64_t window_ = -1, used_ = 0;
  struct Taken {
    TimePoint at;
    std::int64_t amount;
  };
  std::deque<Taken> taken_;             // sliding: when; places: until when, in order
  std::deque<TimePoint> last_seconds_;  // calls of the last two
  TimePoint next_other_{};
  std::int64_t next_amount_ = 0;
  std::vector<Taken> granted_to_others_;
};

/// What a client would have got that obeys Retry-After, and without it backs off 0.5 s, doubling to 8 s.
struct Witness {
  std::int64_t granted = 0, refused = 0;
  std::int64_t amount = 0;      ///< of what was granted
  std::vector<Duration> waits;  ///< from when a call was wanted to when it was granted
};
/// `callers` at once, or with 0 one each two seconds. `amounts`: what a call takes. Counts from `from` on.
Witness witness(
    const Account::Rules& rules, int callers, TimePoint start, TimePoint from, TimePoint end,
    const std::function<std::int64_t()>& amounts = [] { return std::int64_t{1}; });

}  // namespace lanemq::figures
