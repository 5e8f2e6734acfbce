// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/echo/echo_handler.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "worker/session/completion.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

class EchoHandlerTest : public testing::Test {
 protected:
  EchoHandlerTest() { sink_->adopt_thread(); }

  void start(EchoHandler& handler, wire::Lease lease, std::string_view body,
             const std::shared_ptr<StreamGate>& gate = nullptr) {
    JobCall job;
    job.stream = gate != nullptr;
    job.lease = lease;
    job.body = Blob::copy(body);
    job.now = now_;
    handler.start(job, Completion(sink_, lease, gate));
  }
  std::vector<FinishedJob> finished() {
    CompletionSink::HandedIn all;
    sink_->take(all);
    pieces_ = std::move(all.pieces);
    return std::move(all.finished);
  }
  /// The bytes of the pieces that came with the last finished().
  std::vector<std::string_view> pieces() const {
    std::vector<std::string_view> bytes;
    for (const StreamPiece& piece : pieces_)
      bytes.push_back(piece.body.bytes());
    return bytes;
  }

  std::shared_ptr<CompletionSink> sink_ = std::make_shared<CompletionSink>();
  std::vector<StreamPiece> pieces_;
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

using Texts = std::vector<std::string_view>;

TEST_F(EchoHandlerTest, streams_line_by_line) {
  EchoHandler handler;

  start(handler, {1, 1}, "one\n\nthree", std::make_shared<StreamGate>());
  start(handler, {2, 1}, "", std::make_shared<StreamGate>());

  const auto jobs = finished();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_TRUE(jobs[0].outcome.succeeded());
  EXPECT_EQ(jobs[0].outcome.body.bytes(), "");
  EXPECT_EQ(pieces(), (Texts{"one\n", "\n", "three"}));
}

TEST_F(EchoHandlerTest, a_delay_is_before_each_line) {
  EchoHandler handler(milliseconds(50));
  start(handler, {1, 1}, "one\ntwo\n", std::make_shared<StreamGate>());

  EXPECT_TRUE(finished().empty());
  handler.advance(now_ + milliseconds(50));
  EXPECT_TRUE(finished().empty());
  EXPECT_EQ(pieces(), Texts{"one\n"});
  EXPECT_EQ(handler.next_wakeup(), now_ + milliseconds(100));
  handler.advance(now_ + milliseconds(100));
  EXPECT_EQ(finished().size(), 1u);
  EXPECT_EQ(pieces(), Texts{"two\n"});
}

TEST_F(EchoHandlerTest, waits_for_its_reader) {
  EchoHandler handler;
  const auto gate = std::make_shared<StreamGate>();
  std::string body;
  for (std::size_t line = 0; line <= limits::stream_chunks_max; ++line)
    body += "x\n";

  start(handler, {1, 1}, body, gate);

  EXPECT_TRUE(finished().empty());
  EXPECT_EQ(pieces().size(), limits::stream_chunks_max);
  EXPECT_EQ(handler.next_wakeup(), std::nullopt);
  ASSERT_TRUE(gate->taken(limits::stream_chunks_max, 2 * limits::stream_chunks_max));
  handler.resume({1, 1});
  handler.resume({9, 1});
  handler.advance(now_);
  EXPECT_EQ(finished().size(), 1u);
  EXPECT_EQ(pieces(), Texts{"x\n"});
}

TEST_F(EchoHandlerTest, a_stream_that_waits_for_its_reader_can_be_cancelled) {
  EchoHandler handler;
  const auto gate = std::make_shared<StreamGate>();
  start(handler, {1, 1}, std::string(2 * limits::stream_chunks_max, '\n'), gate);
  ASSERT_TRUE(finished().empty());

  handler.cancel({1, 1});

  const auto jobs = finished();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].outcome.report->code, "cancelled");
}

TEST_F(EchoHandlerTest, pieces_without_bytes_are_none) {
  Completion done(sink_, {1, 1}, std::make_shared<StreamGate>());

  EXPECT_TRUE(done.chunk({}));
  EXPECT_TRUE(done.chunk(Blob::borrow("a")));
  done.success({});
  EXPECT_TRUE(done.chunk(Blob::borrow("late")));

  EXPECT_EQ(finished().size(), 1u);
  ASSERT_EQ(pieces(), Texts{"a"});
  EXPECT_TRUE(pieces_[0].body.owns());
}

TEST_F(EchoHandlerTest, a_piece_over_the_bound_is_said_to_be_the_last) {
  Completion done(sink_, {1, 1}, std::make_shared<StreamGate>());
  for (std::size_t i = 0; i < limits::stream_chunks_max + kSurplusChunksMax; ++i)
    done.chunk(Blob::borrow("a"));

  EXPECT_FALSE(done.chunk(Blob::borrow("a")));
  EXPECT_TRUE(done.chunk(Blob::borrow("a")));

  EXPECT_TRUE(finished().empty());
  ASSERT_EQ(pieces_.size(), limits::stream_chunks_max + kSurplusChunksMax + 1);
  EXPECT_TRUE(pieces_.back().overrun);
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
