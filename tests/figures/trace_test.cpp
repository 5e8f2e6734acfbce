// SPDX-License-Identifier: Apache-2.0
// Figures over an hour of chat requests, of twice as much as the upstream allows. With LANEMQ_TRACE=FILE it
// is a trace of real ones, else one that is drawn like the Azure conversation trace.
#include "tests/figures/trace.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "broker/core/base/times.hpp"
#include "client/cli/simulate/trace_file.hpp"
#include "tests/figures/stage.hpp"

namespace lanemq::figures {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

/// The requests, with a lane for each: `critical_percent` in a hundred are critical, the others are batch.
class Trace {
 public:
  explicit Trace(unsigned critical_percent) {
    const char* const file = std::getenv("LANEMQ_TRACE");
    if (file == nullptr) {
      requests_ = conversation_trace(1, critical_percent);
      return;
    }
    std::ifstream in(file);
    read_ = cli::read_trace(in, file, {.lanes = {"critical", "batch"}});
    requests_ = read_.requests;
    std::mt19937_64 random(1);
    for (whatif::Request& request : requests_)
      request.lane = random() % 100 < critical_percent ? "critical" : "batch";
  }

  const std::vector<whatif::Request>& requests() const { return requests_; }
  static std::int64_t tokens(const whatif::Request& request) {
    return request.input_tokens + request.output_tokens;
  }

 private:
  cli::Trace read_;  // owns the names
  std::vector<whatif::Request> requests_;
};

/// Both limits are half of what is asked for per minute over the whole trace.
core::Options half_of(const std::vector<whatif::Request>& requests) {
  std::int64_t tokens = 0;
  for (const whatif::Request& request : requests)
    tokens += Trace::tokens(request);
  const double time = std::chrono::duration<double, std::ratio<60>>(requests.back().at).count();
  core::Options options = core::default_options();
  for (core::LaneOptions& lane : options.lanes) {
    lane.depth_max = 100'000;
    lane.timeout = std::chrono::hours(24);
  }
  options.lanes[0].reserve = 200;   // critical
  options.lanes[4].share_min = 20;  // batch
  const auto half = [&](std::int64_t total) {
    return static_cast<std::int64_t>(static_cast<double>(total) / time / 2);
  };
  options.budgets.push_back(
      {.name = "api",
       .rates = {per_minute(core::Resource::requests, half(static_cast<std::int64_t>(requests.size()))),
                 per_minute(core::Resource::tokens, half(tokens))}});
  return options;
}

/// Requests and tokens of one trace never bind evenly: a minute of short ones uses up the requests, one of
/// long ones the tokens. What is used of the one that binds is the figure, and of both over the whole time
/// what comes of it.
TEST(Figures, an_hour_of_chat_at_twice_the_limits_sees_no_429_and_critical_waits_at_most_1_s) {
  const Trace trace(5);
  const core::Options options = half_of(trace.requests());
  const core::BudgetOptions& budget = options.budgets[0];
  StrictUpstream upstream({.requests = budget.rates[0].limit, .tokens = budget.rates[1].limit});
  std::int64_t refused = 0;
  Minutes sent;

  const whatif::Report report =
      whatif::simulate(options, trace.requests(), {.places = 1000}, [&](std::size_t number, Duration at) {
        const whatif::Request& request = trace.requests()[number];
        refused += upstream.call(Trace::tokens(request), TimePoint(at)).has_value();
        sent.count({.input_tokens = Trace::tokens(request)}, TimePoint(at));
      });

  const whatif::LimitReport &calls = report.limits[0], &tokens = report.limits[1];
  const whatif::LaneReport &critical = report.lanes[0], &batch = report.lanes[1];
  const double binding = sent.binding(budget.rates, TimePoint(report.arrivals));
  say("chat trace at 2 x, 5 %% critical: %zu requests, %ld refused, %.1f %% of the limit used that binds; "
      "in all "
      "%.1f %% of %ld requests and %.1f %% of %ld tokens; critical waits p50 %.3f s, p99 %.3f s, max %.3f s",
      report.requests, static_cast<long>(refused), 100 * binding, calls.percent(),
      static_cast<long>(calls.limit), tokens.percent(), static_cast<long>(tokens.limit),
      ms(critical.wait_p50) / 1000, ms(critical.wait_p99) / 1000, ms(critical.wait_max) / 1000);
  EXPECT_EQ(refused, 0);
  EXPECT_LE(calls.peak, calls.limit);
  EXPECT_LE(tokens.peak, tokens.limit);
  EXPECT_EQ(critical.succeeded + batch.succeeded, report.requests);
  EXPECT_GE(binding, 0.95);
  EXPECT_LE(critical.wait_p99, seconds(1));
}

/// With the reserves of the lanes above kept. What leaves a window in lumps as large as the jobs is used
/// again.
TEST(Figures, of_a_limit_in_tokens_97_percent_are_used_while_jobs_of_a_chat_wait) {
  const Trace trace(0);
  core::Options options = half_of(trace.requests());
  core::BudgetOptions& budget = options.budgets[0];
  budget.rates.erase(budget.rates.begin());
  budget.rates[0].limit = budget.rates[0].limit * 4 / 3;

  const whatif::Report report = whatif::simulate(options, trace.requests(), {.places = 1000});

  const whatif::LimitReport& tokens = report.limits[0];
  say("chat trace at 1.5 x, none critical: %.2f %% of %ld tokens used while jobs wait, in %ld minutes, peak "
      "%ld",
      tokens.waited_percent(), static_cast<long>(tokens.limit), static_cast<long>(tokens.waited_periods),
      static_cast<long>(tokens.peak));
  EXPECT_GE(tokens.waited_periods, 60);
  EXPECT_LE(tokens.peak, tokens.limit);
  EXPECT_GE(tokens.waited_percent(), 97);
}

/// Nine of ten requests are in the second lane, called critical here, so that these alone are more than the
/// upstream allows: in every five minutes in which batch jobs wait they get their share_min of the tokens all
/// the same. The top lane, from which nothing is taken for a share_min, is silent.
TEST(Figures, an_hour_of_chat_that_is_nearly_all_in_a_higher_lane_leaves_batch_its_share) {
  const Trace trace(90);
  core::Options options = half_of(trace.requests());
  options.lanes.insert(options.lanes.begin(), core::LaneOptions{.name = "top"});
  const Duration window = minutes(5);
  struct Tokens {
    double batch = 0, all = 0;
  };
  std::map<std::int64_t, Tokens> windows;

  const whatif::Report report =
      whatif::simulate(options, trace.requests(), {.places = 1000}, [&](std::size_t request, Duration at) {
        const auto tokens = static_cast<double>(Trace::tokens(trace.requests()[request]));
        Tokens& in = windows[at / window];
        in.all += tokens;
        if (trace.requests()[request].lane == "batch") in.batch += tokens;
      });

  // A window may end just before a job of the lane goes.
  std::int64_t largest = 0;
  for (const whatif::Request& request : trace.requests())
    largest = std::max(largest, Trace::tokens(request));
  double least = 1, batch = 0, all = 0;
  windows.erase(std::prev(windows.end()));  // the last is not whole
  for (const auto& [number, tokens] : windows) {
    least = std::min(least, tokens.batch / tokens.all);
    EXPECT_GE(tokens.batch + static_cast<double>(largest), 0.02 * tokens.all) << "window " << number;
    if ((number + 1) * window > report.arrivals) continue;
    batch += tokens.batch;
    all += tokens.all;
  }
  say("chat trace at 2 x, 90 %% in the lane below the top: batch got %.2f %% of the tokens, at least %.2f %% "
      "in any 5 minutes "
      "(share_min 2 %%)",
      100 * batch / all, 100 * least);
  EXPECT_GE(batch / all, 0.95 * 0.02);
}

/// The waits of the critical lane and of batch together reach over five orders of magnitude. Each window is
/// compared with the values that it says it has: since a tenth of a minute, or a minute, began.
TEST(Figures, the_last_minutes_of_an_hour_of_chat_have_percentiles_within_5_percent) {
  using Windows = core::RecentTimes::Windows;
  const Trace trace(50);
  const auto times = std::make_unique<core::RecentTimes>();
  std::vector<std::pair<Duration, Duration>> waits;  // when each ended, and how long it was
  double worst = 0;
  int windows = 0;
  Duration next = minutes(1);
  const auto compare = [&](core::RecentTimes::Summary Windows::*window, Duration since, Duration now) {
    std::vector<Duration> held;
    for (const auto& [at, wait] : waits)
      if (at >= since) held.push_back(wait);
    const core::RecentTimes::Summary summary = times->over(TimePoint(now)).*window;
    ASSERT_EQ(summary.count, held.size());
    if (held.empty()) return;
    std::sort(held.begin(), held.end());
    for (const auto& [q, said] : {std::pair(0.50, summary.p50), std::pair(0.99, summary.p99)}) {
      const Duration exact = held[static_cast<std::size_t>(q * static_cast<double>(held.size() - 1))];
      const auto off = static_cast<double>(std::abs((said - exact).count()));
      EXPECT_LE(off, 0.05 * static_cast<double>(exact.count())) << "of " << held.size() << " at " << q;
      if (exact.count() > 0) worst = std::max(worst, off / static_cast<double>(exact.count()));
    }
    ++windows;
  };

  whatif::simulate(half_of(trace.requests()), trace.requests(), {.places = 1000},
                   [&](std::size_t number, Duration at) {
                     for (; next <= at; next += seconds(37)) {
                       const auto slot = next / seconds(10), minute = next / minutes(1);
                       compare(&Windows::minute, seconds(10) * (slot - 6), next);
                       compare(&Windows::ten_minutes, minutes(1) * (minute - 10) - seconds(10), next);
                     }
                     const Duration wait = at - trace.requests()[number].at;
                     times->record(wait, TimePoint(at));
                     waits.emplace_back(at, wait);
                   });

  say("chat trace at 2 x: percentiles of %d windows are off by %.2f %% at most", windows, 100 * worst);
  EXPECT_GE(windows, 100);
}

}  // namespace
}  // namespace lanemq::figures
