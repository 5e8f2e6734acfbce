// SPDX-License-Identifier: Apache-2.0
#include "broker/whatif/simulate.hpp"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::whatif {
namespace {

using core::Duration;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

core::Options with_rate(std::int64_t limit, core::WindowKind window = core::WindowKind::sliding) {
  core::Options options = core::default_options();
  options.budgets.push_back({.name = "api",
                             .rates = {{.name = "requests_per_minute", .limit = limit, .period = minutes(1)}},
                             .window = window});
  return options;
}

/// So many requests at the same time.
std::vector<Request> burst(std::size_t count, Request like = {.input_tokens = 100, .output_tokens = 50}) {
  return std::vector<Request>(count, like);
}

/// Workers whose jobs take a second.
constexpr WorkerModel kOneSecond{.places = 256, .first_token = seconds(1), .tokens_per_second = 0};

TEST(WhatIf, without_a_budget_nothing_waits) {
  const Report report = simulate(core::default_options(), burst(3),
                                 {.first_token = milliseconds(500), .tokens_per_second = 50});

  EXPECT_EQ(report.requests, 3u);
  ASSERT_EQ(report.lanes.size(), 1u);
  EXPECT_EQ(report.lanes[0].name, "normal");
  EXPECT_EQ(report.lanes[0].jobs, 3u);
  EXPECT_EQ(report.lanes[0].succeeded, 3u);
  EXPECT_EQ(report.lanes[0].wait_max, Duration(0));
  EXPECT_EQ(report.arrivals, Duration(0));
  EXPECT_EQ(report.ran, milliseconds(1500));
  EXPECT_THAT(report.limits, IsEmpty());
  EXPECT_DOUBLE_EQ(report.fairness, 1);
}

TEST(WhatIf, jobs_wait_for_a_place_of_their_service) {
  std::vector<Request> requests = burst(3);
  requests.push_back({.service = "other"});

  const Report report = simulate(core::default_options(), requests,
                                 {.places = 1, .first_token = seconds(10), .tokens_per_second = 0});

  EXPECT_EQ(report.lanes[0].wait_p50, Duration(0));  // the second of 0, 0, 10 and 20 seconds
  EXPECT_EQ(report.lanes[0].wait_p99, seconds(20));
  EXPECT_EQ(report.ran, seconds(30));
}

TEST(WhatIf, a_service_may_have_more_places_than_one_worker) {
  const Report report = simulate(core::default_options(), burst(2500),
                                 {.places = 2500, .first_token = seconds(1), .tokens_per_second = 0});

  EXPECT_EQ(report.lanes[0].wait_max, Duration(0));
}

TEST(WhatIf, a_job_without_tokens_that_takes_no_time_ends) {
  const Report report = simulate(core::default_options(), burst(2000, {}),
                                 {.places = 1, .first_token = Duration(0), .tokens_per_second = 0});

  EXPECT_EQ(report.lanes[0].succeeded, 2000u);
  EXPECT_EQ(report.ran, Duration(0));
}

TEST(WhatIf, higher_lanes_go_first) {
  std::vector<Request> requests = burst(100, {.lane = "batch"});
  requests.push_back({.lane = "critical"});

  const Report report = simulate(core::default_options(), requests, {.places = 1, .first_token = seconds(1)});

  ASSERT_THAT(report.lanes,
              ElementsAre(Field(&LaneReport::name, "critical"), Field(&LaneReport::name, "batch")));
  EXPECT_EQ(report.lanes[0].wait_max, Duration(0));
  EXPECT_EQ(report.lanes[1].wait_max, seconds(100));
}

TEST(WhatIf, counts_what_is_refused_and_why) {
  core::Options options = core::default_options();
  options.lanes[2].depth_max = 10;
  options.budgets.push_back({.name = "api",
                             .model = "dear",
                             .rates = {{.name = "tokens_per_minute",
                                        .limit = 1000,
                                        .period = minutes(1),
                                        .resource = core::Resource::tokens}}});
  std::vector<Request> requests = burst(12);
  requests[0].model = "dear";
  requests[0].input_tokens = 5000;

  const Report report = simulate(options, requests, kOneSecond);

  EXPECT_EQ(report.lanes[0].jobs, 12u);
  EXPECT_EQ(report.lanes[0].refused, 2u);
  EXPECT_EQ(report.lanes[0].succeeded, 10u);
  ASSERT_THAT(report.refused, ElementsAre(Field(&RefusalReport::code, "lane_full"),
                                          Field(&RefusalReport::code, "unsatisfiable")));
  EXPECT_EQ(report.refused[0].count, 1u);
  EXPECT_THAT(report.refused[0].example, HasSubstr("lane.normal.depth_max"));
  EXPECT_THAT(report.refused[1].example, HasSubstr("tokens_per_minute"));
}

TEST(WhatIf, more_services_than_the_broker_takes_are_refused) {
  core::Options options = core::default_options();
  options.services_max = 1;
  const std::vector<Request> requests{{.service = "a"}, {.service = "b"}, {.service = "a"}};

  const Report report = simulate(options, requests, kOneSecond);

  EXPECT_EQ(report.lanes[0].succeeded, 2u);
  EXPECT_EQ(report.lanes[0].refused, 1u);
}

TEST(WhatIf, jobs_expire_where_they_wait_and_where_they_run) {
  core::Options options = core::default_options();
  options.lanes[2].timeout = seconds(15);

  const Report report =
      simulate(options, burst(3), {.places = 1, .first_token = seconds(10), .tokens_per_second = 0});

  // One ends in time, one is broken off after five seconds, and the third gets its place too late.
  EXPECT_EQ(report.lanes[0].succeeded, 1u);
  EXPECT_EQ(report.lanes[0].expired, 2u);
  EXPECT_EQ(report.lanes[0].wait_max, seconds(10));
  EXPECT_EQ(report.ran, seconds(15));
}

/// More has come due than one turn takes: the next one comes at the same time.
TEST(WhatIf, thousands_of_jobs_expire_at_once) {
  core::Options options = with_rate(60);
  options.lanes[2].timeout = seconds(5);

  const Report report = simulate(options, burst(3000), kOneSecond);

  EXPECT_EQ(report.lanes[0].succeeded + report.lanes[0].expired, 3000u);
  EXPECT_GT(report.lanes[0].expired, 2900u);
}

/// Six hundred at once, six of a minute's sixty each second: the first whole minute has its burst and its
/// pace.
TEST(WhatIf, says_what_was_used_while_jobs_waited) {
  core::Options options = with_rate(60, core::WindowKind::bucket);
  options.budgets[0].rates[0].capacity = 6;
  options.lanes[2].timeout = std::chrono::hours(1);

  const Report report = simulate(options, burst(150), {.places = 1000, .first_token = milliseconds(1)});

  // Five at once, since one is held for higher lanes, then one each second; the rest takes less than a
  // minute.
  EXPECT_EQ(report.limits[0].waited_periods, 2);
  EXPECT_EQ(report.limits[0].waited_used, 124);
  EXPECT_EQ(
      simulate(with_rate(60), burst(60), {.places = 1, .first_token = seconds(30)}).limits[0].waited_periods,
      0)
      << "who waits for a place does not wait for a limit";
}

TEST(WhatIf, a_job_that_is_broken_off_frees_its_place) {
  core::Options options = core::default_options();
  options.lanes[2].timeout = seconds(15);
  std::vector<Request> requests = burst(1);
  requests.push_back({.at = seconds(12)});

  const Report report =
      simulate(options, requests, {.places = 1, .first_token = seconds(20), .tokens_per_second = 0});

  EXPECT_EQ(report.lanes[0].expired, 2u);
  EXPECT_EQ(report.lanes[0].wait_max, seconds(3));
  EXPECT_EQ(report.ran, seconds(27));
}

TEST(WhatIf, says_what_was_used_of_each_limit) {
  core::Options options = with_rate(60);
  options.budgets[0].service = "tr*";
  options.budgets[0].rates.push_back({.name = "output_tokens_per_minute",
                                      .limit = 100'000,
                                      .period = minutes(1),
                                      .resource = core::Resource::output_tokens});
  options.budgets[0].concurrency = 5;
  options.budgets.push_back(
      {.name = "others",
       .client = "nobody",
       .rates = {{.name = "requests_per_day", .limit = 10, .period = std::chrono::hours(24)}}});

  const Report report = simulate(options, burst(6), kOneSecond);

  ASSERT_EQ(report.limits.size(), 4u);
  const LimitReport& requests = report.limits[0];
  EXPECT_EQ(requests.budget + " " + requests.name, "api requests_per_minute");
  EXPECT_EQ(requests.used, 6);
  EXPECT_EQ(requests.allowed, 60);
  EXPECT_EQ(requests.peak, 6);
  EXPECT_DOUBLE_EQ(requests.percent(), 10);
  EXPECT_EQ(report.limits[1].used, 300);
  const LimitReport& concurrency = report.limits[2];
  EXPECT_TRUE(concurrency.concurrency);
  EXPECT_EQ(concurrency.peak, 5);
  EXPECT_NEAR(concurrency.used, 3, 0.1);  // five for a second, one for another
  EXPECT_EQ(report.limits[3].budget, "others");
  EXPECT_EQ(report.limits[3].used, 0);
}

TEST(WhatIf, over_longer_than_a_period_a_limit_allows_more) {
  std::vector<Request> requests = burst(2);
  requests[1].at = minutes(10) - seconds(1);

  const Report report = simulate(with_rate(60), requests, kOneSecond);

  EXPECT_DOUBLE_EQ(report.limits[0].allowed, 600);
}

TEST(WhatIf, what_a_bucket_lets_through_is_seen) {
  std::vector<Request> requests;
  for (int second = 0; second < 180; ++second)
    for (int i = 0; i < 2; ++i)
      requests.push_back({.at = seconds(second)});

  EXPECT_LE(simulate(with_rate(60), requests, kOneSecond).limits[0].peak, 60);
  EXPECT_GT(simulate(with_rate(60, core::WindowKind::bucket), requests, kOneSecond).limits[0].peak, 60);
}

TEST(WhatIf, a_client_that_floods_the_others_takes_nothing_from_them_unless_it_may) {
  std::vector<Request> requests;
  for (int second = 0; second < 120; ++second) {
    for (int i = 0; i < 9; ++i)
      requests.push_back({.at = seconds(second), .client = "loud"});
    requests.push_back({.at = seconds(second), .client = "quiet"});
  }

  core::Options favoured = with_rate(300);
  favoured.clients.push_back({.name = "loud", .weight = 90});
  const Report tight = simulate(with_rate(300), requests, kOneSecond);
  const Report unfair = simulate(favoured, requests, kOneSecond);
  const Report roomy = simulate(with_rate(6000), requests, kOneSecond);

  EXPECT_EQ(tight.clients, 2u);
  EXPECT_GT(tight.fairness, 0.999);
  EXPECT_LT(unfair.fairness, 0.95);
  EXPECT_NEAR(roomy.fairness, 1, 1e-6);
}

TEST(WhatIf, what_can_never_run_is_no_demand) {
  core::Options options = core::default_options();
  options.budgets.push_back({.name = "api",
                             .rates = {{.name = "tokens_per_minute",
                                        .limit = 1000,
                                        .period = minutes(1),
                                        .resource = core::Resource::tokens}}});
  const std::vector<Request> requests{{.input_tokens = 10, .client = "a"},
                                      {.input_tokens = 10, .client = "b"},
                                      {.input_tokens = 90'000, .client = "b"}};

  EXPECT_DOUBLE_EQ(simulate(options, requests, kOneSecond).fairness, 1);
}

/// A trace of clients and lanes of all kinds, in bursts.
std::vector<Request> random_trace(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
  static constexpr std::string_view kLanes[] = {"", "critical", "low", "batch"}, kClients[] = {"a", "b", "c"};
  std::vector<Request> requests;
  Duration at{};
  for (std::uint64_t left = 50 + up_to(950); left > 0; --left) {
    if (up_to(3) == 0) at += Duration(up_to(4'000'000));
    requests.push_back({.at = at,
                        .input_tokens = static_cast<std::int64_t>(up_to(500)),
                        .output_tokens = static_cast<std::int64_t>(up_to(200)),
                        .lane = kLanes[up_to(3)],
                        .client = kClients[up_to(2)]});
  }
  const Duration first = requests.front().at;
  for (Request& request : requests)
    request.at -= first;
  return requests;
}

TEST(WhatIf, no_window_of_any_trace_sees_more_than_a_sliding_limit_and_every_job_ends) {
  const bool holds = rc::check([](std::uint64_t seed) {
    core::Options options = with_rate(static_cast<std::int64_t>(30 + seed % 300));
    options.budgets[0].rates.push_back({.name = "tokens_per_minute",
                                        .limit = 20'000,
                                        .period = minutes(1),
                                        .resource = core::Resource::tokens});
    const std::vector<Request> requests = random_trace(seed);

    const Report report = simulate(options, requests, {.places = 1 + seed % 50});

    for (const LimitReport& limit : report.limits)
      RC_ASSERT(limit.peak <= limit.limit);
    std::size_t ended = 0;
    for (const LaneReport& lane : report.lanes) {
      RC_ASSERT(lane.jobs == lane.succeeded + lane.refused + lane.expired);
      ended += lane.jobs;
    }
    RC_ASSERT(ended == requests.size());
    RC_ASSERT(report.fairness > 0 && report.fairness <= 1 + 1e-12);
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace lanemq::whatif
