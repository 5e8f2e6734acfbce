// SPDX-License-Identifier: Apache-2.0
// What a status says of a job that waits: how long that is, where anybody can know it.
#include <random>

#include <gtest/gtest.h>

#include "tests/figures/stage.hpp"

namespace lanemq::figures {
namespace {

using core::Resource;
using core::WindowKind;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class Eta : public testing::TestWithParam<WindowKind> {
 protected:
  /// Asks for all jobs that wait, again and again, and compares what was said with what came.
  struct Said {
    std::size_t job = 0;
    TimePoint at;
    Duration eta{};
  };

  core::Options options() const {
    core::Options options = core::default_options();
    options.lanes[0].reserve = 200;
    options.budgets.push_back(
        {.name = "api",
         .rates = {per_minute(Resource::requests, 600), per_minute(Resource::tokens, 60'000)},
         .window = GetParam()});
    return options;
  }

  void watch(Stage& stage, TimePoint end) {
    while (stage.now() < end) {
      stage.run_until(stage.now() + milliseconds(97));
      for (std::size_t job = 0; job < stage.jobs(); ++job) {
        if (stage.wait(job)) continue;
        const Stage::Status status = stage.status(job);
        if (status.eta) said_.push_back({job, stage.now(), *status.eta});
        ++asked_;
      }
    }
  }

  /// `unforeseen`: when something came that nobody could know of; what was said before it and was to come
  /// after it is not judged.
  void judge(const Stage& stage, const std::vector<TimePoint>& submitted,
             const std::vector<TimePoint>& unforeseen) {
    std::size_t judged = 0, off = 0;
    for (const Said& said : said_) {
      const auto waited = stage.wait(said.job);
      if (!waited) continue;
      const TimePoint started = submitted[said.job] + *waited;
      bool disturbed = false;
      for (const TimePoint what : unforeseen)
        disturbed = disturbed || (said.at <= what && what <= started);
      if (disturbed) continue;
      ++judged;
      const Duration truly = started - said.at;
      if (std::chrono::abs(truly - said.eta) <= truly / 5 + milliseconds(30)) continue;
      ++off;
      say("job %zu: said %.0f ms, started after %.0f ms", said.job, ms(said.eta), ms(truly));
    }
    // Behind a pause a reserve has its room again at once when the pace is whole: some find out too late.
    EXPECT_LE(off * 1000, judged);
    say("eta_ms: said %zu of %zu times that a waiting job was asked for, %zu judged", said_.size(), asked_,
        judged);
    EXPECT_GT(judged, 50U);
  }

  std::vector<Said> said_;
  std::size_t asked_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Figures, Eta, testing::Values(WindowKind::sliding, WindowKind::bucket),
                         [](const auto& kind) {
                           return std::string(kind.param == WindowKind::sliding ? "sliding" : "bucket");
                         });

TEST_P(Eta, is_right_within_a_fifth_beside_debts_pauses_and_other_lanes) {
  std::vector<TimePoint> unforeseen, submitted;
  std::mt19937_64 random(7);
  Stage stage(options(), [&](const Work& work, TimePoint now) {
    Answer answer{.takes = milliseconds(50)};
    if (work.model == "limited" && random() % 4 == 0) {
      answer.retry_after = milliseconds(500 + random() % 9000);
      unforeseen.push_back(now + answer.takes);
    }
    if (work.used) unforeseen.push_back(now + answer.takes);
    return answer;
  });
  stage.add_worker(64);
  const auto submit = [&](Work work) {
    submitted.push_back(stage.now());
    stage.submit(std::move(work));
    unforeseen.push_back(stage.now());
  };
  for (int round = 0; round < 12; ++round) {
    const char* lanes[] = {"critical", "normal", "batch"};
    const int jobs = 5 + static_cast<int>(random() % 60);
    for (int i = 0; i < jobs; ++i) {
      const auto tokens = static_cast<std::int64_t>(1 + random() % 2500);
      Work work{.lane = lanes[random() % 3],
                .client = random() % 2 == 0 ? "a" : "b",
                .model = random() % 10 == 0 ? "limited" : "usual",
                .stated = {.input_tokens = tokens}};
      if (random() % 30 == 0)
        work.used = Amounts{.input_tokens = tokens + static_cast<std::int64_t>(random() % 40'000)};
      submit(std::move(work));
    }
    watch(stage, stage.now() + seconds(2 + random() % 60));
  }
  watch(stage, stage.now() + minutes(10));
  judge(stage, submitted, unforeseen);
}

TEST_P(Eta, is_said_of_the_job_that_is_next_and_of_none_behind_it) {
  Stage stage(options());
  stage.add_worker(64);
  std::vector<std::size_t> jobs;
  for (int i = 0; i < 90; ++i)
    jobs.push_back(stage.submit({.lane = "normal", .stated = {.input_tokens = 100}}));
  stage.run_until(stage.now() + milliseconds(1));
  std::size_t first = 0;
  while (stage.wait(jobs[first]))
    ++first;
  ASSERT_LT(first + 1, jobs.size());
  EXPECT_TRUE(stage.status(jobs[first]).eta);
  for (std::size_t i = first + 1; i < jobs.size(); ++i) {
    EXPECT_FALSE(stage.status(jobs[i]).eta);
    EXPECT_EQ(stage.status(jobs[i]).blocked_by.rfind("budget api ", 0), 0U)
        << stage.status(jobs[i]).blocked_by;
  }
}

}  // namespace
}  // namespace lanemq::figures
