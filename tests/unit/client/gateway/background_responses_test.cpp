// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/calls/background_responses.hpp"

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Whose time is moved by hand; beside it works at once.
class HandLoop final : public Loop {
 public:
  void post(std::function<void()> work) override { work(); }
  std::unique_ptr<Timer> timer() override { return std::make_unique<HandTimer>(*this); }
  std::unique_ptr<Watch> watch(int, std::function<void()>) override { return nullptr; }
  void aside(Side, std::function<void()> work, std::function<void()> then) override {
    work();
    then();
  }
  TimePoint now() const override { return now_; }

  void pass(milliseconds time) {
    const TimePoint end = now_ + time;
    while (true) {
      HandTimer* next = nullptr;
      for (HandTimer* timer : timers_)
        if (timer->then && (next == nullptr || timer->at < next->at)) next = timer;
      if (next == nullptr || next->at > end) break;
      now_ = next->at;
      std::exchange(next->then, {})();
    }
    now_ = end;
  }

 private:
  struct HandTimer final : Timer {
    explicit HandTimer(HandLoop& its_loop) : loop(its_loop) { loop.timers_.push_back(this); }
    ~HandTimer() override { std::erase(loop.timers_, this); }
    void after(milliseconds pause, std::function<void()> what) override {
      at = loop.now_ + pause;
      then = std::move(what);
    }
    void cancel() override { then = {}; }

    HandLoop& loop;
    TimePoint at{};
    std::function<void()> then{};
  };

  TimePoint now_{seconds(1'000)};
  std::vector<HandTimer*> timers_;
};

Blob document(const std::string& status, std::int64_t tokens = 0, std::size_t padding = 0) {
  const std::string usage =
      tokens == 0 ? "null" : "{\"input_tokens\":0,\"output_tokens\":" + std::to_string(tokens) + "}";
  return Blob::copy("{\"id\":\"resp_1\",\"status\":\"" + status + "\",\"output\":\"" +
                    std::string(padding, 'x') + "\",\"usage\":" + usage + "}");
}

struct BackgroundResponsesTest : testing::Test {
  HandLoop loop;
  CallerLimits limits;
  std::vector<std::string> asked;
  std::deque<BackgroundResponses::Told> told;
  BackgroundResponses responses{
      loop, limits,
      [this](BackgroundResponses::Asks what, const ResponseAsker& asker, const std::string& id,
             BackgroundResponses::Told then) {
        asked.push_back(asker.service + " " + id +
                        (what == BackgroundResponses::Asks::cancel ? " cancel" : ""));
        told.push_back(std::move(then));
      }};
  const KeySettings key{.name = "alice", .tokens_per_minute = 1'000, .concurrency = 1};
  const Caller caller{.name = "alice", .client = "alice", .key = &key};

  void begin(std::int64_t taken = 100) {
    limits.spend_tokens(caller, taken, loop.now());
    responses.begin({.caller = caller, .service = "openai"}, "resp_1", taken);
  }
  void answer(Answer answer) {
    const BackgroundResponses::Told then = std::move(told.front());
    told.pop_front();
    then(answer);
  }
  bool has_place() { return !limits.take(caller, loop.now()); }
  milliseconds until_tokens() { return limits.until_tokens(key, loop.now()); }
};

TEST_F(BackgroundResponsesTest, one_takes_a_place_until_its_caller_hears_of_its_end) {
  begin();
  EXPECT_FALSE(has_place());
  responses.heard("resp_1", document("in_progress"));
  responses.heard("resp_2", document("completed", 5'000));
  EXPECT_FALSE(has_place());

  responses.heard("resp_1", document("completed", 3'000));
  EXPECT_EQ(until_tokens(), milliseconds(2'001 * 60)) << "3,000 of 1,000, and not the estimate besides";
  responses.heard("resp_1", document("completed", 3'000));
  EXPECT_EQ(until_tokens(), milliseconds(2'001 * 60)) << "it counted twice";
  loop.pass(seconds(200));
  EXPECT_TRUE(has_place());
  EXPECT_TRUE(asked.empty());
}

TEST_F(BackgroundResponsesTest, where_nobody_asks_the_gateway_does) {
  begin();
  loop.pass(seconds(29));
  EXPECT_TRUE(asked.empty());
  loop.pass(seconds(1));
  EXPECT_EQ(asked, std::vector<std::string>{"openai resp_1"});
  answer(JobDone{.body = document("queued")});
  loop.pass(seconds(60));
  EXPECT_EQ(asked.size(), 2u);
  answer(ClientError{.code = "deadline"});
  loop.pass(seconds(120));
  EXPECT_EQ(asked.size(), 3u);
  EXPECT_FALSE(has_place());
  answer(JobDone{.body = document("incomplete", 1'200, 100'000)});
  EXPECT_EQ(until_tokens(), milliseconds(101 * 60)) << "1,100 more, and full before";
  loop.pass(seconds(3'600));
  EXPECT_EQ(asked.size(), 3u);
  EXPECT_TRUE(has_place());
}

TEST_F(BackgroundResponsesTest, of_one_that_is_gone_or_never_ends_the_estimate_counts) {
  begin();
  loop.pass(seconds(30));
  answer(ClientError{.code = "upstream_rejected", .upstream_status = 404});
  EXPECT_TRUE(has_place());
  limits.give_back(caller);

  begin();
  loop.pass(BackgroundResponses::kFollowedFor);
  EXPECT_FALSE(has_place());
  loop.pass(BackgroundResponses::kLookAfterMost);
  EXPECT_TRUE(has_place());
}

TEST_F(BackgroundResponsesTest, a_stream_that_was_read_to_its_end_says_that_it_is_over) {
  begin();
  responses.ended("resp_2", 5'000);
  EXPECT_FALSE(has_place());
  responses.ended("resp_1", 3'000);
  EXPECT_EQ(until_tokens(), milliseconds(2'001 * 60));
  loop.pass(seconds(200));
  EXPECT_TRUE(has_place());
  EXPECT_TRUE(asked.empty());
}

TEST_F(BackgroundResponsesTest, those_of_one_caller_are_cancelled_and_followed_to_their_end) {
  begin();
  EXPECT_EQ(responses.stop_all_of("bob"), 0u);
  EXPECT_EQ(responses.stop_all_of("alice"), 1u);
  EXPECT_EQ(asked, std::vector<std::string>{"openai resp_1 cancel"});
  EXPECT_FALSE(has_place());
  answer(JobDone{.body = document("cancelled")});
  EXPECT_TRUE(has_place());
}

TEST_F(BackgroundResponsesTest, a_key_leaves_room_for_others) {
  std::size_t count = 0;
  for (; !responses.full(caller); ++count)
    responses.begin({.caller = caller}, "resp_" + std::to_string(count), 0);
  EXPECT_EQ(count, BackgroundResponses::kKnownMax / 5 * 4);
  const Caller other{.name = "bob", .key = &key};
  EXPECT_FALSE(responses.full(other));
}

TEST(ResponseOf, is_the_id_in_a_path) {
  EXPECT_EQ(response_of("/v1/responses/resp_1"), "resp_1");
  EXPECT_EQ(response_of("/v1/responses/resp_1/cancel"), "resp_1");
  EXPECT_EQ(response_of("/v1/responses/resp%5F1%3D"), "resp_1=");
  for (const char* path : {"/v1/responses", "/v1/responses/", "/v1/chat/completions", ""})
    EXPECT_EQ(response_of(path), "") << path;
}

}  // namespace
}  // namespace lanemq::gateway
