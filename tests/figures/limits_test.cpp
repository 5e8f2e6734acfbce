// SPDX-License-Identifier: Apache-2.0
// Figures of budgets: what a strict upstream sees of them in an hour.
#include <random>

#include <gtest/gtest.h>

#include "tests/figures/stage.hpp"

namespace lanemq::figures {
namespace {

using core::Resource;
using core::WindowKind;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// What is known beforehand of what a job takes.
enum class Guess { exact, too_high, off };
const char* const kGuesses[] = {"known", "guessed up to 50 % too high", "guessed 30 % off either way"};

struct Hour {
  StrictUpstream::Limits limits;
  std::int64_t largest;  ///< tokens of a job
  Guess guess = Guess::exact;
  double used_min = 0.95;
  std::uint64_t seed = 0;
};

class StrictHour : public testing::TestWithParam<Hour> {
 protected:
  double between(double a, double b) {
    return a + (b - a) * (static_cast<double>(random_() >> 11) * 0x1.0p-53);
  }
  Work draw() {
    const double used = std::exp(between(0, std::log(static_cast<double>(GetParam().largest))));
    const double guess = used * (GetParam().guess == Guess::exact      ? 1
                                 : GetParam().guess == Guess::too_high ? between(1, 1.5)
                                                                       : between(0.7, 1.3));
    return {.lane = random_() % 3 == 0 ? "normal" : "batch",
            .client = "client-" + std::to_string(random_() % 7),
            .stated = {.input_tokens = static_cast<std::int64_t>(guess)},
            .used = Amounts{.input_tokens = static_cast<std::int64_t>(used)}};
  }

  std::mt19937_64 random_{GetParam().seed};
};

/// An hour in which there is always more to do than the upstream allows. It counts tokens as they really are,
/// from the moment of the call; the broker knows them when the answer is there, up to 20 s later.
TEST_P(StrictHour, is_without_a_429_and_used_to_95_percent) {
  const Hour& hour = GetParam();
  core::Options options = core::default_options();
  for (core::LaneOptions& lane : options.lanes)
    lane.depth_max = options.jobs_max;
  core::BudgetOptions& budget = options.budgets.emplace_back();
  budget.name = "api";
  if (hour.limits.requests) budget.rates.push_back(per_minute(Resource::requests, *hour.limits.requests));
  if (hour.limits.tokens) budget.rates.push_back(per_minute(Resource::tokens, *hour.limits.tokens));
  StrictUpstream upstream(hour.limits);
  Minutes sent;
  std::int64_t refused = 0, unknown = 0, unknown_most = 0;
  Stage* playing = nullptr;
  Stage stage(options, [&](const Work& work, TimePoint now) {
    const std::int64_t used = work.used->input_tokens;
    const Duration takes(static_cast<std::int64_t>(1e6 * std::exp(between(-2, 3))));
    const std::int64_t missing = std::max<std::int64_t>(used - work.stated.input_tokens, 0);
    unknown += missing;
    unknown_most = std::max(unknown_most, unknown);
    playing->at(now + takes, [&unknown, missing] { unknown -= missing; });
    sent.count(*work.used, now);
    // Where guesses are too low something may be over the limit: how much is looked at below.
    if (hour.guess == Guess::off)
      upstream.count(used, now);
    else
      refused += upstream.call(used, now).has_value();
    return Answer{.takes = takes};
  });
  playing = &stage;
  for (int i = 0; i < 6; ++i)
    stage.add_worker(1000);
  const double mean = static_cast<double>(hour.largest) / std::log(static_cast<double>(hour.largest));
  const double needed = std::min(static_cast<double>(hour.limits.requests.value_or(1'000'000'000)),
                                 static_cast<double>(hour.limits.tokens.value_or(1'000'000'000)) / mean);
  for (int left = static_cast<int>(1.3 * 60 * needed) + 1000; left > 0; --left)
    stage.submit(draw());

  stage.run_until(stage.now() + hours(1));

  const double used = sent.binding(budget.rates, stage.now());
  std::string limits;
  if (hour.limits.requests) limits += std::to_string(*hour.limits.requests) + " requests ";
  if (hour.limits.tokens) limits += std::to_string(*hour.limits.tokens) + " tokens ";
  say("an hour at %sa minute, jobs of up to %ld tokens, %s: %ld refused, peak %ld requests %ld tokens, %.1f "
      "%% of "
      "the limit used that binds",
      limits.c_str(), static_cast<long>(hour.largest), kGuesses[static_cast<int>(hour.guess)],
      static_cast<long>(refused), static_cast<long>(upstream.calls_peak()),
      static_cast<long>(upstream.tokens_peak()), 100 * used);
  EXPECT_EQ(refused, 0);
  if (hour.limits.requests) {
    EXPECT_LE(upstream.calls_peak(), *hour.limits.requests);
  }
  if (hour.limits.tokens) {
    EXPECT_LE(upstream.tokens_peak(), *hour.limits.tokens + unknown_most);
  }
  EXPECT_GE(used, hour.used_min);
}

std::vector<Hour> hours_to_try() {
  std::vector<Hour> all;
  for (const std::int64_t requests : {60, 600, 6000})
    all.push_back({.limits = {.requests = requests}, .largest = 8000});
  for (const std::int64_t tokens : {100'000, 1'000'000, 5'000'000})
    for (const Guess guess : {Guess::exact, Guess::too_high, Guess::off})
      all.push_back({.limits = {.tokens = tokens},
                     .largest = std::min<std::int64_t>(tokens / 100, 8000),
                     .guess = guess});
  for (int i = 0; i < 3; ++i)  // both bind, now the one, now the other
    all.push_back({.limits = {.requests = 600, .tokens = 534'000}, .largest = 8000});
  // Where one job is a twelfth of the limit there is often room that is too small for the next.
  all.push_back({.limits = {.tokens = 100'000}, .largest = 8000, .used_min = 0.90});
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].seed = i + 1;
  return all;
}
INSTANTIATE_TEST_SUITE_P(Figures, StrictHour, testing::ValuesIn(hours_to_try()),
                         [](const auto& param) { return "seed_" + std::to_string(param.param.seed); });

/// Twice what the upstream allows is configured; it refuses what is over and names its limit in every answer.
TEST(Figures, a_limit_twice_too_high_comes_down_to_the_true_one) {
  for (const WindowKind window : {WindowKind::sliding, WindowKind::bucket}) {
    constexpr std::int64_t kTrue = 300;
    core::Options options = core::default_options();
    options.lanes[4].depth_max = 100'000;
    options.budgets.push_back(
        {.name = "api", .rates = {per_minute(Resource::requests, 2 * kTrue)}, .window = window});
    StrictUpstream upstream({.requests = kTrue});
    std::int64_t calls = 0, refused = 0;  // after the first half minute
    const Stage* playing = nullptr;
    TimePoint counted_from{};
    Stage stage(options, [&](const Work&, TimePoint now) {
      Answer answer{.takes = milliseconds(300), .retry_after = upstream.call(0, now)};
      answer.limits.emplace().limit_requests = kTrue;
      if (now > counted_from) (answer.retry_after ? refused : calls) += 1;
      return answer;
    });
    playing = &stage;
    counted_from = playing->now() + seconds(30);
    stage.add_worker(1000);
    for (int i = 0; i < 8000; ++i)
      stage.submit({.lane = "batch"});

    stage.run_until(stage.now() + minutes(20));

    const double used = static_cast<double>(calls) / (19.5 * kTrue);
    const double share = static_cast<double>(refused) / static_cast<double>(calls + refused);
    say("limit twice too high, upstream says so, %s: %.2f %% refused after 30 s, %.1f %% of the true rate",
        window == WindowKind::sliding ? "sliding" : "bucket", 100 * share, 100 * used);
    EXPECT_LT(share, 0.01);
    EXPECT_GE(used, 0.95);
  }
}

}  // namespace
}  // namespace lanemq::figures
