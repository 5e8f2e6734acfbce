// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/rate_limit.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "broker/core/base/stored_entry.hpp"
#include "broker/core/budgets/sliding_window.hpp"

// What an upstream would see. The checks count calls in windows and know nothing of buckets, slices or paces.

namespace lanemq::core {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

RateOptions per(Duration period, std::int64_t limit, std::int64_t capacity = 0) {
  return {.name = "requests", .limit = limit, .period = period, .capacity = capacity};
}

/// An upstream that counts every window of a period, both ends included: the strictest reading.
class StrictUpstream {
 public:
  StrictUpstream(Duration period, std::int64_t limit) : period_(period), limit_(limit) {}
  /// Whether the call is within the limit.
  bool call(TimePoint now) {
    while (!calls_.empty() && calls_.front() < now - period_)
      calls_.pop_front();
    calls_.push_back(now);
    return static_cast<std::int64_t>(calls_.size()) <= limit_;
  }
  void never_happened(TimePoint when) {
    const auto place = std::find(calls_.begin(), calls_.end(), when);
    if (place != calls_.end()) calls_.erase(place);
  }

 private:
  Duration period_;
  std::int64_t limit_;
  std::deque<TimePoint> calls_;
};

TEST(RateLimit, no_window_of_a_period_ever_holds_more_than_the_limit) {
  const bool holds = rc::check([] {
    const Duration period =
        *rc::gen::element(Duration(seconds(1)), Duration(minutes(1)), Duration(hours(24)));
    const auto limit = *rc::gen::inRange<std::int64_t>(1, 300);
    const auto capacity = *rc::gen::inRange<std::int64_t>(0, 300);
    RateLimit rate(per(period, limit, capacity), WindowKind::sliding);
    StrictUpstream upstream(period, limit);
    const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
        rc::gen::pair(rc::gen::inRange(0, 1000), rc::gen::inRange(0, 100)));
    TimePoint now{};
    std::vector<TimePoint> lately;
    for (const auto& [gap, what] : steps) {
      // Mostly small steps, now and then one of up to two periods.
      now += gap < 950 ? period * gap / 100000 : period * (gap - 949) / 25;
      if (what < 90) {
        for (int i = 0; i < what && rate.available(now) >= 1; ++i) {
          rate.take(1, now);
          RC_ASSERT(upstream.call(now));
          lately.push_back(now);
        }
      } else if (!lately.empty()) {
        rate.give(1, lately.back(), now);
        upstream.never_happened(lately.back());
        lately.pop_back();
      }
    }
  });
  EXPECT_TRUE(holds);
}

/// What a saturated limit lets through.
struct Use {
  std::int64_t calls = 0;
  bool within_limit = true;
  Duration longest_gap{};  ///< after the first burst
};

Use saturate(const RateOptions& options, int periods) {
  RateLimit rate(options, WindowKind::sliding);
  StrictUpstream upstream(options.period, options.limit);
  Use use;
  TimePoint last{};
  for (TimePoint now{}; now < TimePoint(options.period * periods);) {
    while (rate.available(now) >= 1) {
      rate.take(1, now);
      use.within_limit &= upstream.call(now);
      ++use.calls;
      use.longest_gap = std::max(use.longest_gap, now - last);
      last = now;
    }
    // As the broker's loop: when it is told to, and not before a tick has passed.
    now = std::max(rate.when_affordable(1, 0, now), now + milliseconds(1));
  }
  return use;
}

class SaturatedLimit : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(SaturatedLimit, is_used_to_95_percent_and_evenly) {
  const auto [period_seconds, limit] = GetParam();
  const RateOptions options = per(seconds(period_seconds), limit);

  const Use use = saturate(options, 3);

  EXPECT_TRUE(use.within_limit);
  EXPECT_GE(static_cast<double>(use.calls), 0.95 * 3 * limit);
  // Nobody stands still for much longer than the calls are apart on average; a slice is a six-hundredth.
  const Duration mean = options.period / limit, slice = options.period / 600;
  EXPECT_LE(use.longest_gap, 2 * mean + slice + milliseconds(2));
}

INSTANTIATE_TEST_SUITE_P(RateLimit, SaturatedLimit,
                         testing::Combine(testing::Values(1, 60),
                                          testing::Values(1, 2, 3, 5, 7, 10, 20, 50, 100, 500, 600, 3000,
                                                          10000)),
                         [](const auto& param) {
                           return std::to_string(std::get<1>(param.param)) + "_in_" +
                                  std::to_string(std::get<0>(param.param)) + "s";
                         });

/// A lower lane takes all it may while a reserve is held, then a burst of the upper lane comes.
TEST(RateLimit, a_reserve_is_there_at_once_and_costs_hardly_any_rate) {
  constexpr int kReserve = 200;  // thousandths of the burst
  const RateOptions options = per(minutes(1), 600);
  const TimePoint end{minutes(10)};
  for (const WindowKind window : {WindowKind::sliding, WindowKind::bucket}) {
    std::map<int, std::int64_t> calls;  // by what is held
    for (const int hold : {0, kReserve}) {
      RateLimit rate(options, window);
      StrictUpstream upstream(options.period, options.limit);
      bool within_limit = true;
      for (TimePoint now{}; now < end;) {
        for (; rate.affordable(1, hold, now); ++calls[hold]) {
          rate.take(1, now);
          within_limit &= upstream.call(now);
        }
        now = std::max(rate.when_affordable(1, hold, now), now + milliseconds(1));
      }
      const std::int64_t reserve = rate.held(hold);
      EXPECT_EQ(reserve, hold == 0 ? 0 : window == WindowKind::sliding ? 6 : 12);
      for (std::int64_t i = 0; i < reserve; ++i) {
        EXPECT_TRUE(rate.affordable(1, 0, end)) << i;
        rate.take(1, end);
        within_limit &= upstream.call(end);
      }
      EXPECT_TRUE(within_limit || window == WindowKind::bucket);
    }
    EXPECT_GE(static_cast<double>(calls[kReserve]), 0.98 * static_cast<double>(calls[0]));
  }
}

/// What an upstream sees that allows half of what is configured, and refuses the rest.
struct Adapted {
  std::int64_t calls = 0, refused = 0;  ///< after the first half minute
};

Adapted adapt(bool upstream_says_so) {
  constexpr std::int64_t kTrueLimit = 300;
  RateLimit rate(per(minutes(1), 600), WindowKind::bucket);
  std::deque<TimePoint> taken;  // by the upstream, in the last minute
  Adapted seen;
  TimePoint paused_until{};
  for (TimePoint now{}; now < TimePoint(minutes(20)); now += milliseconds(20)) {
    while (now >= paused_until && rate.affordable(1, 0, now)) {
      rate.take(1, now);
      while (!taken.empty() && taken.front() <= now - minutes(1))
        taken.pop_front();
      const bool refused = static_cast<std::int64_t>(taken.size()) >= kTrueLimit;
      const bool counts = now > TimePoint(seconds(30));
      if (refused) {
        paused_until = taken.front() + minutes(1);  // as its Retry-After says
        if (!upstream_says_so) rate.cut(now);
        seen.refused += counts;
      } else {
        taken.push_back(now);
        seen.calls += counts;
      }
      if (upstream_says_so) rate.learn_limit(kTrueLimit, now);
    }
  }
  return seen;
}

TEST(RateLimit, a_limit_that_is_configured_too_high_comes_down_to_what_the_upstream_says) {
  const Adapted seen = adapt(true);
  EXPECT_LT(static_cast<double>(seen.refused), 0.01 * static_cast<double>(seen.calls));
  EXPECT_GE(static_cast<double>(seen.calls), 0.95 * 300 * 19.5);
}

TEST(RateLimit, a_limit_that_is_configured_too_high_is_found_by_being_refused) {
  const Adapted seen = adapt(false);
  EXPECT_LT(static_cast<double>(seen.refused), 0.01 * static_cast<double>(seen.calls));
  EXPECT_GE(static_cast<double>(seen.calls), 0.95 * 300 * 19.5);
}

TEST(RateLimit, a_limit_never_rises_over_what_is_configured) {
  RateLimit rate(per(minutes(1), 600), WindowKind::sliding);
  rate.learn_limit(100, TimePoint(seconds(1)));
  EXPECT_EQ(rate.effective_limit(TimePoint(seconds(1))), 100);
  rate.learn_limit(6000, TimePoint(seconds(2)));
  EXPECT_EQ(rate.effective_limit(TimePoint(seconds(2))), 600);
  rate.cut(TimePoint(seconds(3)));
  rate.cut(TimePoint(seconds(4)));
  EXPECT_EQ(rate.effective_limit(TimePoint(seconds(4))), 480) << "one cut in two seconds";
  EXPECT_EQ(rate.effective_limit(TimePoint(seconds(12))), 480);
  EXPECT_GT(rate.effective_limit(TimePoint(seconds(14))), 480);
  EXPECT_EQ(rate.effective_limit(TimePoint(minutes(2))), 600);
}

/// What an upstream says with an answer: of a bucket, of windows of its clock, or of any window, of 600 a
/// minute.
enum class SpokenOf { bucket, fixed, any };
class Speaking {
 public:
  explicit Speaking(SpokenOf how, double level = 600) : how_(how), level_(level) {}
  OthersUse::Said call(TimePoint now) {
    const Duration minute = minutes(1);
    level_ = std::min(level_ + std::chrono::duration<double>(now - at_).count() * 10, 600.0) - 1;
    at_ = now;
    if (const auto window = now.time_since_epoch() / minute; window != window_) {
      window_ = window;
      used_ = 0;
    }
    ++used_;
    calls_.push_back(now);
    while (calls_.front() <= now - minute)
      calls_.pop_front();
    OthersUse::Said said{.limit = 600};
    if (how_ == SpokenOf::bucket) {
      said.remaining = static_cast<std::int64_t>(level_);
      said.reset = Duration(static_cast<std::int64_t>((600 - level_) * 1e5));
    } else if (how_ == SpokenOf::fixed) {
      said.remaining = std::max<std::int64_t>(600 - used_, 0);
      said.reset = (window_ + 1) * minute - now.time_since_epoch();
    } else {
      said.remaining = std::max<std::int64_t>(600 - static_cast<std::int64_t>(calls_.size()), 0);
      said.reset = calls_.back() + minute - now;
    }
    return said;
  }

 private:
  SpokenOf how_;
  double level_;
  TimePoint at_{};
  std::int64_t window_ = 0, used_ = 0;
  std::deque<TimePoint> calls_;
};

/// Sends whatever may go, or `percent` of that, for so long, and hears of it 0.3 s later.
void use(RateLimit& rate, Speaking& upstream, int percent, TimePoint from, Duration time) {
  std::deque<std::pair<TimePoint, OthersUse::Said>> answers;
  int turn = 0;
  for (TimePoint now = from; now < from + time; now += milliseconds(20)) {
    for (; !answers.empty() && answers.front().first + milliseconds(300) <= now; answers.pop_front())
      rate.learn_remaining(answers.front().second, answers.front().first, now);
    if (!rate.affordable(1, 0, now) || ++turn % 100 >= percent) continue;
    rate.take(1, now);
    answers.emplace_back(now, upstream.call(now));
  }
}

TEST(RateLimit, a_bucket_shows_in_what_its_reset_is_and_keeps_a_reserve) {
  for (const double level : {600.0, 0.0}) {
    RateLimit rate(per(minutes(1), 600), WindowKind::automatic);
    Speaking upstream(SpokenOf::bucket, level);
    const TimePoint begin(hours(1));
    EXPECT_EQ(rate.held(500), 6) << "a hundredth of the limit";
    if (level > 0) use(rate, upstream, 100, begin, minutes(2));
    // A bucket that fills while little goes.
    if (level == 0) use(rate, upstream, 30, begin, minutes(2));
    EXPECT_TRUE(rate.shows_bucket());
    EXPECT_EQ(rate.held(500), 30) << "half of the burst";
    // Another upstream speaks.
    Speaking window(SpokenOf::fixed);
    use(rate, window, 100, begin + minutes(3), seconds(20));
    EXPECT_FALSE(rate.shows_bucket());
    EXPECT_EQ(rate.held(500), 6);
  }
}

TEST(RateLimit, a_bucket_that_has_shown_is_known_after_a_restart) {
  RateLimit rate(per(minutes(1), 600), WindowKind::automatic);
  Speaking upstream(SpokenOf::bucket);
  const TimePoint begin(hours(1)), end = begin + minutes(2);
  use(rate, upstream, 100, begin, minutes(2));
  StoredNumbers numbers;
  rate.save(0, 0, numbers);
  for (const WindowKind kind : {WindowKind::automatic, WindowKind::sliding}) {
    RateLimit again(per(minutes(1), 600), kind);
    again.restore(numbers, 0, TimePoint{}, end);
    EXPECT_EQ(again.shows_bucket(), kind == WindowKind::automatic);
    EXPECT_EQ(again.held(500), again.shows_bucket() ? 30 : 6);
  }
}

TEST(RateLimit, a_window_is_never_taken_for_a_bucket) {
  for (const SpokenOf how : {SpokenOf::fixed, SpokenOf::any})
    for (const int percent : {5, 30, 50, 100}) {
      RateLimit rate(per(minutes(1), 600), WindowKind::automatic);
      Speaking upstream(how);
      for (int minute = 0; minute < 15; ++minute) {
        use(rate, upstream, percent, TimePoint(hours(1) + minutes(minute) + seconds(7)), minutes(1));
        ASSERT_FALSE(rate.shows_bucket())
            << minute << " " << percent << (how == SpokenOf::fixed ? " fixed" : "");
      }
    }
}

TEST(RateLimit, what_is_written_down_is_not_learnt) {
  RateLimit rate(per(minutes(1), 600), WindowKind::sliding);
  Speaking upstream(SpokenOf::bucket);
  use(rate, upstream, 100, TimePoint(hours(1)), minutes(2));
  EXPECT_FALSE(rate.shows_bucket());
  EXPECT_EQ(rate.held(500), 6);
}

/// Who goes in each second after a pause, while everybody wants to.
std::vector<int> after_pause(WindowKind window, Duration pause) {
  RateLimit rate(per(minutes(1), 6000, 600), window);
  rate.pause(TimePoint(pause), true, TimePoint{});
  std::vector<int> by_second(8);
  const TimePoint end = TimePoint(pause) + seconds(8);
  for (TimePoint now(pause); now < end;) {
    for (; rate.affordable(1, 0, now); rate.take(1, now))
      ++by_second[static_cast<std::size_t>((now - TimePoint(pause)) / seconds(1))];
    now = std::max(rate.when_affordable(1, 0, now), now + milliseconds(1));
  }
  return by_second;
}

TEST(RateLimit, what_is_more_than_the_upstream_says_it_allows_goes_when_the_window_is_empty) {
  RateLimit rate(per(minutes(1), 1000, 500), WindowKind::sliding);
  TimePoint now{};
  rate.take(10, now);
  rate.learn_limit(200, now);

  EXPECT_FALSE(rate.affordable(300, 0, now + seconds(30)));
  now += seconds(62);
  EXPECT_TRUE(rate.affordable(300, 0, now));
  EXPECT_TRUE(rate.affordable(195, 1000, now)) << "although it leaves nothing of the reserve";
  EXPECT_FALSE(rate.affordable(1001, 0, now)) << "more than is configured never goes";
  rate.take(300, now);
  EXPECT_FALSE(rate.affordable(1, 0, now + seconds(59)));
}

TEST(RateLimit, a_bucket_that_becomes_smaller_is_not_full_of_what_is_left) {
  RateLimit rate(per(minutes(1), 6000, 600), WindowKind::bucket);
  TimePoint now{};
  rate.take(400, now);
  rate.configure(per(minutes(1), 6000, 200), now);

  EXPECT_EQ(rate.available(now), -200) << "400 of it were used";
  EXPECT_FALSE(rate.affordable(201, 0, now)) << "what is more than the burst goes when the bucket is full";
  now += seconds(4);
  EXPECT_TRUE(rate.affordable(201, 0, now));
  rate.configure(per(minutes(1), 6000, 600), now);
  EXPECT_EQ(rate.available(now), 200) << "a larger one is not filled at once";
}

TEST(RateLimit, what_is_owed_is_forgotten_when_it_has_left_the_window) {
  RateLimit rate(per(minutes(1), 6000, 600), WindowKind::sliding);
  rate.take(100, TimePoint{});
  TimePoint now = TimePoint(seconds(50));
  rate.take_late(5000, TimePoint{}, now);  // that it used more is known at its end
  rate.learn_limit(1, now);

  now += seconds(60);
  EXPECT_FALSE(rate.affordable(1, 0, now)) << "it may count from its end on";
  now += seconds(1);
  rate.learn_limit(6000, now);
  EXPECT_TRUE(rate.affordable(10, 0, now + seconds(1)));
}

TEST(RateLimit, after_a_pause_the_pace_comes_back_from_a_tenth_on_and_no_burst_comes_first) {
  for (const WindowKind window : {WindowKind::sliding, WindowKind::bucket})
    for (const Duration pause : {Duration(milliseconds(100)), Duration(minutes(5))}) {
      const std::vector<int> sent = after_pause(window, pause);
      // In a window what a reserve keeps is back with the whole pace: a hundredth of the limit.
      const int whole = window == WindowKind::sliding ? 160 : 100;
      const int expected[] = {10, 20, 40, 80, whole, 100, 100, 100};
      for (std::size_t i = 0; i < sent.size(); ++i)
        EXPECT_NEAR(sent[i], expected[i], 3) << "second " << i;
    }
}

TEST(RateLimit, whoever_waits_at_the_end_of_a_pause_goes_then) {
  RateLimit rate(per(minutes(1), 60), WindowKind::sliding);
  rate.pause(TimePoint(seconds(5)), true, TimePoint{});
  EXPECT_TRUE(rate.affordable(1, 0, TimePoint(seconds(5))));
  rate.take(1, TimePoint(seconds(5)));
  EXPECT_FALSE(rate.affordable(1, 0, TimePoint(seconds(5))));
  EXPECT_GT(rate.when_affordable(1, 0, TimePoint(seconds(5))), TimePoint(seconds(5)));
  EXPECT_LE(rate.when_affordable(1, 0, TimePoint(seconds(5))), TimePoint(seconds(6)))
      << "the pace is another then";
}

/// When `amount` may be taken, asked again `next` each time.
template <class Next>
TimePoint when_taken(RateLimit rate, std::int64_t amount, TimePoint now, Next next) {
  while (!rate.affordable(amount, 0, now))
    now = next(rate, now);
  return now;
}

TEST(RateLimit, while_it_recovers_nobody_sleeps_longer_than_it_takes) {
  RateLimit rate(per(minutes(1), 6000, 6000), WindowKind::bucket);
  for (int i = 0; i < 10; ++i)
    rate.cut(TimePoint(seconds(2 * i)));
  TimePoint now(seconds(20));
  rate.take(6000, now);
  const auto tick = [](RateLimit&, TimePoint time) { return time + milliseconds(1); };
  const auto sleep = [](RateLimit& asked, TimePoint time) {
    return std::max(asked.when_affordable(3000, 0, time), time + milliseconds(1));
  };
  EXPECT_LE(when_taken(rate, 3000, now, sleep), when_taken(rate, 3000, now, tick) + milliseconds(1));
}

TEST(RateLimit, a_pause_that_is_lengthened_begins_to_ramp_at_its_new_end) {
  RateLimit rate(per(minutes(1), 6000), WindowKind::bucket);
  rate.pause(TimePoint(seconds(1)), true, TimePoint{});
  rate.pause(TimePoint(seconds(10)), true, TimePoint(milliseconds(500)));
  EXPECT_EQ(rate.available(TimePoint(seconds(10))), 1);
  EXPECT_EQ(rate.available(TimePoint(seconds(11))), 11);
}

/// The calls that go in the second from `now` on, where as many want to as may.
int sent_in_a_second(RateLimit& rate, TimePoint now) {
  int sent = 0;
  for (const TimePoint end = now + seconds(1); now < end; now += milliseconds(1))
    for (; rate.affordable(1, 0, now); ++sent)
      rate.take(1, now);
  return sent;
}

TEST(RateLimit, a_pace_that_rises_too_fast_goes_on_lower_and_rises_by_a_tenth) {
  RateLimit rate(per(minutes(1), 6000), WindowKind::sliding);
  TimePoint now(milliseconds(30));
  rate.rises_too_fast(TimePoint{}, now);
  EXPECT_EQ(rate.available(now), 0) << "no burst of 600";
  rate.rises_too_fast(TimePoint{}, now);
  rate.rises_too_fast(TimePoint(milliseconds(29)),
                      now);  // calls that were under way, one sign with the first
  for (const int expected : {85, 93, 160, 100}) {
    EXPECT_NEAR(sent_in_a_second(rate, now), expected, 3);
    now += seconds(1);
  }
  EXPECT_EQ(rate.effective_limit(now), 6000);

  rate.pause(now + seconds(1), true, now);
  now += seconds(1);
  EXPECT_NEAR(sent_in_a_second(rate, now), 10, 2);
  EXPECT_NEAR(sent_in_a_second(rate, now + seconds(1)), 11, 2);
}

TEST(RateLimit, a_limit_that_nobody_knows_is_found_by_a_pace_that_rises_too_fast) {
  RateOptions options = per(minutes(1), 1'000'000);
  options.open = true;
  RateLimit rate(options, WindowKind::sliding);
  for (int i = 0; i < 900; ++i)
    rate.take(1, TimePoint(milliseconds(10 * i)));
  rate.rises_too_fast(TimePoint(seconds(9)), TimePoint(seconds(9)));
  EXPECT_EQ(rate.effective_limit(TimePoint(seconds(9))), 900);
}

/// When calls ask whether more is taken than refusals have shown, until `end`; answers come at once if
/// `taken`.
std::vector<int> asks(RateLimit& rate, TimePoint now, TimePoint end, bool taken) {
  std::vector<int> seconds_of;
  for (; now < end; now += milliseconds(100))
    if (rate.affordable(1, 0, now)) {
      rate.take(1, now);
      if (!rate.has_asked(now)) continue;
      seconds_of.push_back(static_cast<int>(now.time_since_epoch() / seconds(1)));
      if (taken) rate.answered(now, now);
    }
  return seconds_of;
}

TEST(RateLimit, what_refusals_have_shown_of_an_unknown_limit_rises_only_while_calls_go) {
  RateOptions options = per(minutes(1), 1'000'000);
  options.open = true;
  RateLimit idle(options, WindowKind::sliding), used(options, WindowKind::sliding);
  for (RateLimit* rate : {&idle, &used}) {
    for (int i = 0; i < 900; ++i)
      rate->take(1, TimePoint(milliseconds(3 * i)));
    rate->cut(TimePoint(seconds(3)));
    EXPECT_EQ(rate->effective_limit(TimePoint(seconds(3))), 900);
  }
  EXPECT_EQ(idle.effective_limit(TimePoint(minutes(61))), 900);
  EXPECT_TRUE(idle.affordable(1, 0, TimePoint(minutes(61))));
  idle.take(1, TimePoint(minutes(61)));
  EXPECT_EQ(idle.effective_limit(TimePoint(minutes(62))), 900) << "one call an hour proves nothing";
  TimePoint now = TimePoint(seconds(3));
  for (; now < TimePoint(minutes(2)); now += milliseconds(10))
    if (used.affordable(1, 0, now)) used.take(1, now);
  EXPECT_GT(used.effective_limit(now), 900 * 5 / 4);
  const std::int64_t risen = used.effective_limit(now);
  EXPECT_LE(used.effective_limit(now + hours(1)), risen * 6 / 5) << "and no further when they end";
}

TEST(RateLimit, one_asks_now_and_then_whether_more_is_taken_than_refusals_have_shown) {
  RateOptions options = per(minutes(1), 1'000'000);
  options.open = true;
  options.guess = 60;
  RateLimit rate(options, WindowKind::sliding);
  for (int i = 0; i < 3000; ++i)
    rate.take(1, TimePoint(milliseconds(i)));
  rate.cut(TimePoint(seconds(3)));
  ASSERT_EQ(rate.effective_limit(TimePoint(seconds(3))), 3000) << "what was sent";
  RateLimit other = rate;
  EXPECT_EQ(asks(rate, TimePoint(seconds(3)), TimePoint(seconds(13)), false), (std::vector<int>{4, 6, 10}));
  EXPECT_EQ(rate.effective_limit(TimePoint(seconds(12))), 3000) << "what is not answered shows nothing";
  EXPECT_EQ(asks(other, TimePoint(seconds(3)), TimePoint(seconds(5)), true), (std::vector<int>{4}));
  EXPECT_EQ(other.effective_limit(TimePoint(seconds(5))), 3750);
}

/// An upstream that counts every window of a minute, and says what remains of it either when it takes a call
/// in or when it answers it. Somebody else calls it too.
struct Shared {
  WindowKind window = WindowKind::sliding;
  bool said_at_the_answer = false;
  int foreign_per_minute = 0;
  Duration answers_after = seconds(20);
  bool listens = true;  ///< to what remains

  std::int64_t calls = 0, refused = 0;  ///< of ours, after the first two minutes

  void run() {
    constexpr std::int64_t kLimit = 600;
    RateLimit rate(per(minutes(1), kLimit), window);
    std::deque<TimePoint> taken;
    struct Call {
      TimePoint sent_at;
      std::int64_t remaining;
    };
    std::deque<Call> under_way;
    TimePoint foreign_at{}, paused_until{};
    for (TimePoint now{}; now < TimePoint(minutes(10)); now += milliseconds(10)) {
      const auto remaining = [&] {
        while (!taken.empty() && taken.front() <= now - minutes(1))
          taken.pop_front();
        return kLimit - static_cast<std::int64_t>(taken.size());
      };
      for (; foreign_per_minute > 0 && foreign_at <= now;
           foreign_at += Duration(minutes(1)) / foreign_per_minute)
        if (remaining() > 0) taken.push_back(now);
      for (; !under_way.empty() && under_way.front().sent_at + answers_after <= now; under_way.pop_front())
        if (listens)
          rate.learn_remaining({.remaining = said_at_the_answer ? remaining() : under_way.front().remaining},
                               under_way.front().sent_at, now);
      while (now >= paused_until && rate.affordable(1, 0, now)) {
        rate.take(1, now);
        const bool counts = now >= TimePoint(minutes(2));
        if (remaining() == 0) {
          rate.cut(now);
          rate.pause(paused_until = now + seconds(1), true, now);
          refused += counts;
          continue;
        }
        taken.push_back(now);
        calls += counts;
        under_way.push_back({now, remaining()});
      }
    }
  }
};

TEST(RateLimit, who_is_alone_with_an_upstream_is_not_taken_for_two) {
  for (const WindowKind window : {WindowKind::sliding, WindowKind::bucket})
    for (const bool at_the_answer : {false, true})
      for (const Duration answers_after : {Duration(milliseconds(50)), Duration(seconds(20))}) {
        Shared shared{.window = window, .said_at_the_answer = at_the_answer, .answers_after = answers_after};
        shared.run();
        EXPECT_GE(shared.calls, window == WindowKind::sliding ? 0.97 * 600 * 8 : 0.90 * 600 * 8)
            << at_the_answer << ' ' << to_ms(answers_after);
        EXPECT_TRUE(shared.refused == 0 || window == WindowKind::bucket);
      }
}

TEST(RateLimit, what_others_take_of_the_same_account_is_left_to_them) {
  Shared deaf{.foreign_per_minute = 240, .answers_after = seconds(1), .listens = false};
  deaf.run();
  for (const bool at_the_answer : {false, true}) {
    Shared shared{
        .said_at_the_answer = at_the_answer, .foreign_per_minute = 240, .answers_after = seconds(1)};
    shared.run();
    EXPECT_LT(2 * shared.refused, deaf.refused);
    EXPECT_LT(static_cast<double>(shared.refused), 0.005 * static_cast<double>(shared.calls));
    EXPECT_GE(static_cast<double>(shared.calls), 0.7 * 360 * 8);
  }
}

TEST(RateLimit, foreign_use_is_counted_once_and_leaves_with_the_upstreams_reset) {
  RateLimit rate(per(minutes(1), 600, 300), WindowKind::sliding);
  const TimePoint first(seconds(101)), second(seconds(102));
  rate.take(1, first);
  rate.take(1, second);
  rate.learn_remaining({.remaining = 598}, first, TimePoint(seconds(103)));
  EXPECT_EQ(rate.available(TimePoint(seconds(103))), 300) << "a call that others crossed says nothing";

  rate.learn_remaining({.remaining = 98, .reset = seconds(10)}, first, TimePoint(seconds(103)));
  EXPECT_EQ(rate.available(TimePoint(seconds(103))), 98);
  rate.learn_remaining({.remaining = 97, .reset = seconds(10)}, second, TimePoint(seconds(103)));
  EXPECT_EQ(rate.available(TimePoint(seconds(103))), 97) << "the same use, seen by the next answer";
  rate.learn_remaining({.remaining = 10, .reset = seconds(10)}, first, TimePoint(seconds(103)));
  EXPECT_EQ(rate.available(TimePoint(seconds(103))), 97) << "an answer that was overtaken";
  EXPECT_GT(rate.available(TimePoint(seconds(120))), 100);
}

TEST(RateLimit, behind_a_guessed_pause_nobody_goes_before_the_stated_reset) {
  for (const bool stated : {true, false}) {
    RateLimit rate(per(minutes(1), 600, 300), WindowKind::sliding);
    const TimePoint sent(seconds(101)), refused(seconds(102));
    rate.take(1, sent);
    rate.learn_remaining({.remaining = 0, .limit = 600, .reset = seconds(4)}, sent, refused);
    rate.pause(refused + seconds(1), stated, refused);
    EXPECT_EQ(rate.affordable(1, 0, refused + seconds(1)), stated);
    EXPECT_TRUE(rate.affordable(1, 0, refused + seconds(4)));
  }
}

TEST(RateLimit, foreign_use_lowers_a_bucket_and_never_raises_it) {
  RateLimit rate(per(minutes(1), 600, 600), WindowKind::bucket);
  const TimePoint now(seconds(1));
  rate.take(100, now);
  rate.learn_remaining({.remaining = 100000}, now, now);
  EXPECT_EQ(rate.available(now), 500);
  rate.learn_remaining({.remaining = 480}, now, now);
  EXPECT_EQ(rate.available(now), 500) << "within the tolerance";
  rate.learn_remaining({.remaining = 400}, now, now);
  EXPECT_EQ(rate.available(now), 400);
}

TEST(RateLimit, a_limit_that_was_cut_rises_each_second_however_often_it_is_asked) {
  RateLimit often(per(minutes(1), 6000), WindowKind::bucket), once(per(minutes(1), 6000), WindowKind::bucket);
  often.cut(TimePoint{});
  once.cut(TimePoint{});

  TimePoint now{};
  for (; now < TimePoint(seconds(15)); now += milliseconds(1900))
    often.effective_limit(now);

  EXPECT_EQ(often.effective_limit(now), once.effective_limit(now));
  EXPECT_EQ(once.effective_limit(now), 5095) << "four fifths, and six rises by a hundredth of what is left";
}

TEST(RateLimit, after_any_past_the_limit_is_used_again) {
  const bool holds = rc::check([] {
    const auto limit = *rc::gen::inRange<std::int64_t>(1, 200);
    RateLimit rate(per(minutes(1), limit), WindowKind::sliding);
    TimePoint now{};
    // Some past: bursts and silences.
    for (const int gap : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 90))) {
      now += seconds(gap);
      while (rate.available(now) >= 1)
        rate.take(1, now);
    }
    // Then three minutes of demand, of which the first may still pay for it.
    std::int64_t calls = 0;
    const TimePoint from = now + minutes(1), end = now + minutes(3);
    while (now < end) {
      for (; rate.available(now) >= 1; rate.take(1, now))
        calls += now >= from ? 1 : 0;
      const TimePoint next = std::max(rate.when_affordable(1, 0, now), now + milliseconds(1));
      RC_ASSERT(next < now + minutes(2));
      now = next;
    }
    RC_ASSERT(static_cast<double>(calls) >= 0.93 * 2 * static_cast<double>(limit) - 1);
  });
  EXPECT_TRUE(holds);
}

TEST(RateLimit, the_largest_limit_is_a_limit_like_any_other) {
  RateLimit rate(per(hours(24), 1'000'000'000), WindowKind::sliding);
  TimePoint now{};
  for (int i = 0; i < 100'000; ++i, now += microseconds(100)) {
    ASSERT_GE(rate.available(now), 1);
    rate.take(1, now);
  }
}

TEST(RateLimit, a_bucket_lets_its_capacity_and_its_rate_through) {
  RateLimit rate(per(seconds(1), 100, 20), WindowKind::bucket);
  std::int64_t calls = 0;
  for (TimePoint now{}; now <= TimePoint(seconds(2)); now += milliseconds(1))
    for (; rate.available(now) >= 1; rate.take(1, now))
      ++calls;

  EXPECT_EQ(calls, 20 + 200);
}

TEST(RateLimit, its_capacity_is_a_tenth_and_for_a_sliding_window_at_most_half) {
  EXPECT_EQ(RateLimit(per(minutes(1), 500), WindowKind::sliding).capacity(), 50);
  EXPECT_EQ(RateLimit(per(minutes(1), 5), WindowKind::sliding).capacity(), 1);
  EXPECT_EQ(RateLimit(per(minutes(1), 500, 400), WindowKind::sliding).capacity(), 250);
  EXPECT_EQ(RateLimit(per(minutes(1), 500, 400), WindowKind::bucket).capacity(), 400);
}

TEST(RateLimit, what_was_never_used_is_there_again) {
  RateLimit rate(per(minutes(1), 10, 1), WindowKind::sliding);
  const TimePoint now(seconds(100));
  ASSERT_EQ(rate.available(now), 1);
  rate.take(1, now);
  ASSERT_EQ(rate.available(now), 0);

  rate.give(1, now, now);

  EXPECT_EQ(rate.available(now), 1);
}

TEST(RateLimit, a_bucket_that_was_full_since_gives_no_burst_twice) {
  RateLimit rate(per(minutes(1), 6000, 600), WindowKind::bucket);
  const TimePoint first{hours(1)}, second = first + seconds(7), third = second + milliseconds(100);
  rate.take(590, first);
  rate.take(590, second);

  rate.give(580, first, third);

  EXPECT_LE(rate.available(third), 20);
  rate.give(580, second, third);
  EXPECT_GE(rate.available(third), 590) << "that one is still owed";
}

TEST(RateLimit, a_bucket_takes_back_what_has_not_flowed_over) {
  RateLimit rate(per(minutes(1), 6000, 600), WindowKind::bucket);
  const TimePoint begin{hours(1)};
  rate.take(600, begin);
  rate.take(300, begin + seconds(4));  // of 400

  rate.give(600, begin, begin + seconds(4));

  // The bucket would have held 600, and 300 of them.
  EXPECT_LE(rate.available(begin + seconds(4)), 300);
  EXPECT_GE(rate.available(begin + seconds(4)), 300 - 600 / 64);
}

TEST(RateLimit, a_debt_is_given_back_from) {
  RateLimit rate(per(minutes(1), 6000, 600), WindowKind::bucket);
  const TimePoint now{hours(1)};
  rate.take(5000, now);
  ASSERT_LT(rate.available(now + seconds(1)), -4000);

  rate.give(4990, now, now + seconds(1));

  EXPECT_EQ(rate.available(now + seconds(1)), 600);
}

// An upstream with such a bucket counts each call with what it used in the end, whenever that is known here.
TEST(RateLimit, no_bucket_of_an_upstream_ever_runs_dry) {
  const bool holds = rc::check([] {
    const auto limit = *rc::gen::inRange<std::int64_t>(60, 6000),
               capacity = *rc::gen::inRange<std::int64_t>(1, 600);
    RateLimit rate(per(minutes(1), limit, capacity), WindowKind::bucket);
    struct Call {
      TimePoint at;
      std::int64_t taken, used;
    };
    std::vector<Call> calls;
    std::vector<std::size_t> open;
    TimePoint now{hours(1)};
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(0, 3000), rc::gen::inRange(0, 100), rc::gen::inRange(0, 100)));
    for (const auto& [gap, what, part] : steps) {
      now += milliseconds(gap);
      if (what < 60) {
        const std::int64_t amount = std::max<std::int64_t>(capacity * part / 100, 1);
        if (!rate.affordable(amount, 0, now)) continue;
        rate.take(amount, now);
        calls.push_back({now, amount, amount});
        open.push_back(calls.size() - 1);
      } else if (!open.empty()) {
        const auto at = open.begin() + part % static_cast<int>(open.size());
        Call& call = calls[*at];
        call.used = call.taken * (what % 5) / 5;
        rate.give(call.taken - call.used, call.at, now);
        open.erase(at);
      }
    }
    double level = static_cast<double>(capacity);
    TimePoint then = calls.empty() ? now : calls.front().at;
    for (const Call& call : calls) {
      const double flowed =
          std::chrono::duration<double>(call.at - then).count() * static_cast<double>(limit) / 60;
      level = std::min(level + flowed, static_cast<double>(capacity)) - static_cast<double>(call.used);
      then = call.at;
      RC_ASSERT(level >= -0.001);
    }
  });
  EXPECT_TRUE(holds);
}

TEST(SlidingWindow, forgets_what_has_left_it_and_not_before) {
  SlidingWindow window(10, minutes(1));
  window.record(10, TimePoint(milliseconds(50)));

  window.advance(TimePoint(minutes(1) + milliseconds(50)));
  EXPECT_EQ(window.headroom(), 0);
  window.advance(TimePoint(minutes(1) + seconds(1)));
  EXPECT_EQ(window.headroom(), 10);
}

TEST(SlidingWindow, takes_back_only_what_it_still_counts) {
  SlidingWindow window(10, minutes(1));
  window.record(4, TimePoint(seconds(1)));
  window.record(4, TimePoint(seconds(30)));
  window.advance(TimePoint(seconds(70)));
  ASSERT_EQ(window.headroom(), 6);

  window.unrecord(1, TimePoint(seconds(1)));
  EXPECT_EQ(window.headroom(), 6) << "that one has left already";
  window.unrecord(1, TimePoint(seconds(30)));
  EXPECT_EQ(window.headroom(), 7);
}

TEST(SlidingWindow, what_has_just_left_it_is_neither_added_to_nor_taken_back) {
  // It counts for a period, the open slice and a slack of six slices: 607 slices of 100 ms in all.
  for (const std::int64_t slices : {605, 606, 607, 608}) {
    SlidingWindow window(10, minutes(1));
    const TimePoint then(seconds(1)), now = then + slices * milliseconds(100);
    window.record(4, then);
    window.record(2, now);
    const bool counts = slices < 607;
    ASSERT_EQ(window.headroom(), counts ? 4 : 8) << slices;

    window.record_late(1, then);
    EXPECT_EQ(window.headroom(), counts ? 3 : 8) << slices;
    window.unrecord(5, then);
    EXPECT_EQ(window.headroom(), 8) << slices;
    window.unrecord(5, now);
    EXPECT_EQ(window.headroom(), 10) << slices << ": the open slice is what it was";
  }
}

}  // namespace
}  // namespace lanemq::core
