// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/echo/echo_handler.hpp"

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "worker/completion.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

class EchoHandlerTest : public testing::Test {
 protected:
  EchoHandlerTest() { sink_->adopt_thread(); }

  void start(EchoHandler& handler, wire::Lease lease, std::string_view body) {
    JobCall job;
    job.lease = lease;
    job.body = Blob::copy(body);
    job.now = now_;
    handler.start(job, Completion(sink_, lease));
  }
  std::vector<FinishedJob> finished() {
    std::vector<FinishedJob> jobs;
    sink_->take(jobs);
    return jobs;
  }

  std::shared_ptr<CompletionSink> sink_ = std::make_shared<CompletionSink>();
  TimePoint now_{std::chrono::hours(1)};
};

TEST_F(EchoHandlerTest, answers_at_once_with_the_body) {
  EchoHandler handler;

  start(handler, {1, 1}, "hello");

  const auto jobs = finished();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_TRUE(jobs[0].outcome.succeeded());
  EXPECT_EQ(jobs[0].outcome.body.bytes(), "hello");
  EXPECT_EQ(handler.next_wakeup(), std::nullopt);
}

TEST_F(EchoHandlerTest, answers_after_its_delay) {
  EchoHandler handler(milliseconds(50));
  start(handler, {1, 1}, "a");
  now_ += milliseconds(20);
  start(handler, {2, 1}, "b");

  EXPECT_EQ(handler.next_wakeup(), now_ + milliseconds(30));
  handler.advance(now_ + milliseconds(29));
  EXPECT_TRUE(finished().empty());
  handler.advance(now_ + milliseconds(30));
  EXPECT_EQ(finished().size(), 1u);
  EXPECT_EQ(handler.next_wakeup(), now_ + milliseconds(50));
}

TEST_F(EchoHandlerTest, a_cancelled_job_ends_now) {
  EchoHandler handler(milliseconds(50));
  start(handler, {1, 1}, "a");

  handler.cancel({1, 1});
  handler.cancel({2, 1});

  const auto jobs = finished();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].outcome.report->error_class, ErrorClass::retry);
  EXPECT_EQ(jobs[0].outcome.report->code, "cancelled");
}

TEST_F(EchoHandlerTest, a_dropped_completion_is_a_failure_to_try_again) {
  { const Completion dropped(sink_, {7, 2}); }

  const auto jobs = finished();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].lease, (wire::Lease{7, 2}));
  EXPECT_EQ(jobs[0].outcome.report->error_class, ErrorClass::retry);
  EXPECT_EQ(jobs[0].outcome.report->code, "abandoned");
}

TEST_F(EchoHandlerTest, a_completion_counts_once) {
  Completion done(sink_, {1, 1});
  done.success(Blob::copy("a"));
  done.failure({});
  Completion other(sink_, {2, 1});
  other = std::move(done);

  const auto jobs = finished();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_TRUE(jobs[0].outcome.succeeded());
  EXPECT_EQ(jobs[1].outcome.report->code, "abandoned");
}

TEST_F(EchoHandlerTest, completions_come_from_any_thread) {
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i)
    threads.emplace_back([this, i] {
      for (std::uint64_t j = 0; j < 100; ++j)
        Completion(sink_, {i * 100 + j, 1}).success(Blob::copy("x"));
    });
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(finished().size(), 400u);
}

}  // namespace
}  // namespace lanemq::worker
