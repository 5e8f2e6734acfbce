// SPDX-License-Identifier: Apache-2.0
#include "client/library/session.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

namespace lanemq::client {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A session with a clock that the test moves, a caller that writes down what it is told, and a wire whose
/// messages are read back as words: `submit 1`, `ping`, `stats 2`.
class SessionTest : public testing::Test {
 protected:
  explicit SessionTest(std::size_t batch_max = 0) : session_(now_, batch_max) {}

  void ask(std::uint64_t ref, RequestKind kind, std::optional<milliseconds> within = std::nullopt) {
    Buffer ref_bytes, header;
    const wire::Raw raw = number_ref(ref, ref_bytes);
    const std::string id = "job-" + std::to_string(ref);
    switch (kind) {
      case RequestKind::submit:
        encode(wire::Submit{.service = "echo", .id = id, .ref = raw}, header);
        break;
      case RequestKind::stream:
        encode(wire::Submit{.service = "echo", .id = id, .stream = true, .ref = raw}, header);
        break;
      case RequestKind::leave:
        encode(wire::Submit{.service = "echo", .id = id, .reply = "accepted", .ref = raw}, header);
        break;
      case RequestKind::fetch:
        encode(wire::Fetch{.id = id, .ref = raw}, header);
        break;
      case RequestKind::status:
        encode(wire::StatusQuery{.id = id, .ref = raw}, header);
        break;
      case RequestKind::cancel:
        encode(wire::Cancel{.id = id, .ref = raw}, header);
        break;
      case RequestKind::stats:
        encode(wire::StatsQuery{.ref = raw}, header);
        break;
      case RequestKind::ping:
        encode(wire::Ping{.ref = raw}, header);
        break;
      case RequestKind::admin:
        encode(wire::AdminQuery{.verb = "jobs", .ref = raw}, header);
        break;
      case RequestKind::spend:
        encode(wire::Spend{.key = "k", .session = "s", .ref = raw}, header);
        break;
      case RequestKind::watch:
        encode(wire::Watch{.ref = raw}, header);
        break;
    }
    Request request{.ref = ref, .kind = kind, .id = id, .header = std::string(header.view()), .asked = now_};
    if (within) request.deadline = now_ + *within;
    request.handler = [this, ref](Outcome&& outcome) { told_.push_back(words(ref, outcome)); };
    session_.begin(std::move(request), now_);
  }
  void submit(std::uint64_t ref, std::optional<milliseconds> within = std::nullopt) {
    ask(ref, RequestKind::submit, within);
  }
  void submit_large(std::uint64_t ref, std::size_t bytes) {
    Request request{
        .ref = ref, .kind = RequestKind::submit, .id = "job-" + std::to_string(ref), .header = "large"};
    request.body = Blob::copy(std::string(bytes, 'x'));
    request.body_bytes = bytes;
    request.handler = [this, ref](Outcome&& outcome) { told_.push_back(words(ref, outcome)); };
    session_.begin(std::move(request), now_);
  }

  /// Lets time pass in steps of 10 ms, sends what is to be sent and makes the connections that are due.
  std::vector<std::string> pass(milliseconds time) {
    std::vector<std::string> said = drain();
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += milliseconds(10);
      session_.advance(now_);
      if (session_.take_reopen(now_)) said.push_back("reopen");
      for (std::string& word : drain())
        said.push_back(std::move(word));
    }
    return said;
  }

  /// The same, with a sign of life at every step.
  std::vector<std::string> pass_alive(milliseconds time) {
    std::vector<std::string> said = drain();
    for (const TimePoint end = now_ + time; now_ < end;) {
      hear_pong();
      for (std::string& word : pass(milliseconds(10)))
        said.push_back(std::move(word));
    }
    return said;
  }

  /// Sends everything that is to be sent now.
  std::vector<std::string> drain() {
    std::vector<std::string> said;
    while (const std::optional<Outgoing> next = session_.next_send()) {
      said.push_back(words(*next));
      session_.sent(now_);
    }
    return said;
  }

  void hear(const wire::ClientReply& reply, std::string_view body = {}) {
    session_.heard(reply, Blob::borrow(body), now_);
  }
  void hear_result(std::uint64_t ref, std::string_view body) {
    Buffer ref_bytes;
    hear(wire::JobResult{.lane = "normal", .attempts = 1, .ref = number_ref(ref, ref_bytes)}, body);
  }
  void hear_pong() {
    Buffer ref_bytes;
    hear(wire::Pong{.ref = number_ref(0, ref_bytes)});
  }

  void hear_not_owner(std::uint64_t ref, std::vector<std::string_view> endpoints = {}) {
    Buffer ref_bytes;
    wire::ErrorReply reply{.code = "not_owner", .ref = number_ref(ref, ref_bytes)};
    reply.endpoints = std::move(endpoints);
    hear(reply);
  }
  void hear_elsewhere(std::uint64_t ref, std::string_view shard,
                      std::vector<std::string_view> endpoints = {}) {
    Buffer ref_bytes;
    wire::ErrorReply reply{.code = "not_owner", .ref = number_ref(ref, ref_bytes)};
    reply.shard = shard;
    reply.endpoints = std::move(endpoints);
    hear(reply);
  }
  void hear_pong_of(std::string_view shard) {
    Buffer ref_bytes;
    wire::Pong pong{.ref = number_ref(0, ref_bytes)};
    pong.shard = shard;
    pong.tenant = "acme";
    pong.shards = {"the rules"};
    hear(pong);
  }

  /// What the caller was told since the last call.
  std::vector<std::string> told() {
    std::vector<Finished> finished;
    session_.take_finished(finished);
    for (Finished& one : finished)
      one.handler(std::move(one.outcome));
    return std::exchange(told_, {});
  }

  static std::string words(const Outgoing& outgoing) {
    if (outgoing.body != nullptr) return "body of " + std::to_string(outgoing.body->size());
    Decoder decoder;
    Items<wire::ClientRequest> requests;
    if (decoder.decode(outgoing.header, {}, requests) != nullptr) return "nonsense";
    std::string all;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests.error(i) != nullptr) return "nonsense";
      all += (i == 0 ? "" : " + ") + words(requests[i]) +
             (requests.body(i).empty() ? "" : " " + std::string(requests.body(i)));
    }
    return all;
  }
  static std::string words(const wire::ClientRequest& request) {
    static constexpr const char* kNames[] = {"submit", "cancel", "status", "fetch", "seen",
                                             "stats",  "ping",   "spend",  "admin", "watch"};
    const auto ref =
        std::visit([](const auto& message) { return ref_number(message.ref).value_or(0); }, request);
    std::string behind;
    if (const auto* seen = std::get_if<wire::Seen>(&request)) behind = " to " + std::to_string(seen->seq);
    const auto* fetch = std::get_if<wire::Fetch>(&request);
    if (fetch != nullptr && fetch->from_seq) behind = " from " + std::to_string(*fetch->from_seq);
    return std::string(kNames[request.index()]) + (ref == 0 ? "" : " " + std::to_string(ref)) + behind;
  }

  static std::string words(std::uint64_t ref, const Outcome& outcome) {
    const std::string name = std::to_string(ref) + ": ";
    if (!outcome) return name + (outcome.error().local ? "local " : "") + outcome.error().code;
    if (const auto* done = std::get_if<JobDone>(&*outcome)) return name + std::string(done->body.bytes());
    if (const auto* status = std::get_if<JobStatus>(&*outcome)) return name + status->state;
    if (const auto* stats = std::get_if<BrokerStats>(&*outcome)) return name + stats->json;
    if (const auto* spent = std::get_if<BrokerSpent>(&*outcome))
      return name + "spent " + std::to_string(spent->tokens);
    return name + "pong";
  }

  TimePoint now_{std::chrono::hours(1)};
  Session session_{now_};
  std::vector<std::string> told_;
};

/// A session with a watch, and what its reader is told: `started 4`, or with the changes that are missing
/// `watching 0 gap 3`.
class WatchTest : public SessionTest {
 protected:
  WatchTest() {
    Buffer ref_bytes, header;
    encode(wire::Watch{.ref = number_ref(1, ref_bytes)}, header);
    Request request{
        .ref = 1, .kind = RequestKind::watch, .header = std::string(header.view()), .asked = now_};
    request.on_change = std::make_shared<const ChangeHandler>();
    request.handler = [this](Outcome&& outcome) { told_.push_back(words(1, outcome)); };
    session_.begin(std::move(request), now_);
  }

  void hear_watching(std::int64_t seq) {
    Buffer ref_bytes;
    hear(wire::Watching{.seq = seq, .ref = number_ref(1, ref_bytes)});
  }
  void hear_event(std::int64_t seq, std::int64_t left_out = 0) {
    Buffer ref_bytes;
    wire::JobEvent event;
    event.seq = seq;
    event.gap = left_out > 0;
    event.left_out = left_out;
    event.what = "started";
    event.ref = number_ref(1, ref_bytes);
    hear(event);
  }
  std::vector<std::string> changes() {
    std::vector<Arrived> arrived;
    session_.take_arrived(arrived);
    std::vector<std::string> all;
    for (const Arrived& one : arrived)
      all.push_back(one.change.what + " " + std::to_string(one.change.seq) +
                    (one.change.gap ? " gap " + std::to_string(one.change.left_out) : ""));
    return all;
  }
};

TEST_F(WatchTest, tells_how_far_a_job_is) {
  drain();
  hear_watching(0);
  Buffer ref_bytes;
  wire::JobEvent event;
  event.what = "progress";
  event.pct = 40;
  event.note = "reads";
  event.ref = number_ref(1, ref_bytes);
  hear(event);

  std::vector<Arrived> arrived;
  session_.take_arrived(arrived);
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[1].change.pct, 40);
  EXPECT_EQ(arrived[1].change.note, "reads");
  EXPECT_EQ(arrived[0].change.pct, std::nullopt);
}

/// The same, with a client that would rather send batches of three.
class BatchingTest : public SessionTest {
 protected:
  BatchingTest() : SessionTest(3) {}

  void submit(std::uint64_t ref, const std::string& body = {}) {
    Buffer ref_bytes, items, header;
    Request request{
        .ref = ref, .kind = RequestKind::submit, .id = "job-" + std::to_string(ref), .asked = now_};
    const wire::Submit fields{.service = "echo", .id = request.id, .ref = number_ref(ref, ref_bytes)};
    request.item = write_item(fields, items);
    Batch(request.item, body, items).write(items, header);
    request.header = header.view();
    request.body_bytes = body.size();
    request.item.begin = std::string_view("\x94\xA4LMQ1\xA6submit").size();
    request.handler = [this, ref](Outcome&& outcome) { told_.push_back(words(ref, outcome)); };
    session_.begin(std::move(request), now_);
  }
  void hear_pong_with(std::int64_t batch) {
    Buffer ref_bytes;
    hear(wire::Pong{.ref = number_ref(0, ref_bytes), .batch = batch});
  }
};

TEST_F(BatchingTest, sends_batches_once_the_broker_said_that_it_takes_them) {
  submit(1, "one");
  EXPECT_THAT(drain(), ElementsAre("submit 1 one"));  // one job alone asks nothing
  submit(2);
  submit(3);
  EXPECT_THAT(drain(), ElementsAre("ping", "submit 2", "submit 3"));

  hear_pong_with(256);
  for (std::uint64_t ref = 4; ref <= 8; ++ref)
    submit(ref, "body " + std::to_string(ref));
  EXPECT_THAT(drain(), ElementsAre("submit 4 body 4 + submit 5 body 5 + submit 6 body 6",
                                   "submit 7 body 7 + submit 8 body 8"));
  EXPECT_EQ(session_.counters().sent, 8u);
}

TEST_F(BatchingTest, sends_each_alone_to_a_broker_that_says_nothing_of_batches) {
  submit(1);
  submit(2);
  drain();
  hear_pong_with(0);
  submit(3);
  submit(4);

  EXPECT_THAT(drain(), ElementsAre("submit 3", "submit 4"));
}

TEST_F(BatchingTest, a_question_a_large_body_and_what_has_ended_part_no_order) {
  submit(1);
  submit(2);
  drain();
  hear_pong_with(3);
  submit(3);
  submit(4);
  ask(5, RequestKind::stats);
  submit(6);
  submit_large(7, 5000);
  submit(8);
  submit(9);
  submit(10);
  hear_result(9, "early");

  EXPECT_THAT(drain(), ElementsAre("submit 3 + submit 4", "stats 5", "submit 6", "body of 5000",
                                   "submit 8 + submit 10"));
}

TEST_F(BatchingTest, asks_again_on_each_connection_and_sends_everything_again) {
  submit(1);
  submit(2);
  drain();
  hear_pong_with(3);
  session_.connected();
  session_.disconnected(now_);

  ASSERT_TRUE(session_.take_reopen(now_));

  EXPECT_THAT(drain(), ElementsAre("ping", "submit 1", "submit 2"));
  hear_pong_with(3);
  submit(3);
  submit(4);
  EXPECT_THAT(drain(), ElementsAre("submit 3 + submit 4"));
}

TEST_F(SessionTest, an_answer_of_another_kind_answers_nothing) {
  ask(1, RequestKind::spend);
  ask(2, RequestKind::stats);
  drain();
  Buffer one, two;
  hear(wire::Spent{.key = "k", .tokens = 7, .ref = number_ref(2, two)});
  hear(wire::Pong{.ref = number_ref(1, one)});
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_EQ(session_.counters().dropped_answers, 2u);
  hear(wire::Spent{.key = "k", .tokens = 7, .ref = number_ref(1, one)});
  EXPECT_THAT(told(), ElementsAre("1: spent 7"));
}

TEST_F(SessionTest, a_job_that_is_left_ends_with_the_word_that_it_was_taken) {
  ask(1, RequestKind::leave);
  submit(2);
  drain();
  Buffer ref_bytes;
  hear(wire::Accepted{.id = "job-2", .ref = number_ref(2, ref_bytes)});
  EXPECT_EQ(session_.pending(), 2u);  // whoever waits for the answer waits on
  hear(wire::Accepted{.id = "job-1", .durable = true, .ref = number_ref(1, ref_bytes)});

  EXPECT_EQ(session_.pending(), 1u);
  std::vector<Finished> finished;
  session_.take_finished(finished);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_TRUE(std::get<JobAccepted>(*finished[0].outcome).durable);
}

TEST_F(SessionTest, a_job_is_sent_once_and_answered_once) {
  submit(1);
  EXPECT_THAT(pass(milliseconds(500)), ElementsAre("submit 1"));

  hear_result(1, "hello");

  EXPECT_THAT(told(), ElementsAre("1: hello"));
  EXPECT_EQ(session_.pending(), 0u);
  EXPECT_EQ(session_.counters().answered, 1u);
  EXPECT_THAT(pass(milliseconds(60'000)), IsEmpty()) << "an idle client is silent";
}

TEST_F(SessionTest, the_answer_keeps_its_bytes_after_the_frame_is_gone) {
  submit(1);
  auto frame = std::make_unique<std::string>(100, 'a');
  hear_result(1, *frame);
  std::fill(frame->begin(), frame->end(), 'z');
  frame.reset();

  EXPECT_THAT(told(), ElementsAre("1: " + std::string(100, 'a')));
}

TEST_F(SessionTest, an_answer_without_a_ref_is_matched_by_its_id) {
  submit(1);
  submit(2);
  hear(wire::JobResult{.id = "job-2", .lane = "normal"}, "b");
  hear(wire::ErrorReply{.id = "job-1",
                        .code = "lane_full",
                        .message = "full",
                        .retry_after_ms = 250,
                        .limiter = "lane.normal.depth_max"});

  std::vector<Finished> finished;
  session_.take_finished(finished);

  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(std::get<JobDone>(*finished[0].outcome).id, "job-2");
  EXPECT_EQ(finished[1].outcome.error().id, "job-1");
  EXPECT_EQ(finished[1].outcome.error().retry_after, milliseconds(250));
  EXPECT_EQ(finished[1].outcome.error().limiter, "lane.normal.depth_max");
  EXPECT_EQ(finished[1].outcome.error().known_code(), ErrorCode::lane_full);
  EXPECT_FALSE(finished[1].outcome.error().local);
}

TEST_F(SessionTest, after_silence_everything_pending_is_sent_again_on_a_new_connection) {
  submit(1);
  submit(2);
  submit(3);
  EXPECT_THAT(drain(), ElementsAre("submit 1", "submit 2", "submit 3"));
  hear_result(2, "b");
  told();

  EXPECT_THAT(pass(milliseconds(3'100)), ElementsAre("ping", "ping", "reopen", "submit 1", "submit 3"));
  EXPECT_EQ(session_.counters().resent, 2u);
  EXPECT_EQ(session_.counters().sent, 5u);

  hear_result(1, "a");
  hear_result(3, "c");
  EXPECT_THAT(told(), ElementsAre("1: a", "3: c"));
}

TEST_F(SessionTest, a_repeated_request_has_the_same_bytes) {
  submit(7);
  const std::string first(session_.next_send()->header);
  session_.sent(now_);
  pass(milliseconds(2'490));
  now_ += milliseconds(10);
  session_.advance(now_);
  ASSERT_TRUE(session_.take_reopen(now_));

  EXPECT_EQ(session_.next_send()->header, first);
}

TEST_F(SessionTest, the_second_answer_to_a_repeated_request_is_dropped_and_counted) {
  submit(1);
  pass(milliseconds(3'100));
  hear_result(1, "first");
  hear_result(1, "second");

  EXPECT_THAT(told(), ElementsAre("1: first"));
  EXPECT_EQ(session_.counters().dropped_answers, 1u);
  EXPECT_EQ(session_.counters().answered, 1u);
}

TEST_F(SessionTest, asks_on_each_connection_where_other_brokers_are) {
  session_.connected();
  submit(1);
  EXPECT_THAT(drain(), ElementsAre("ping", "submit 1"));
  EXPECT_THAT(session_.take_told(), IsEmpty());

  Buffer ref_bytes;
  wire::Pong pong{.ref = number_ref(0, ref_bytes)};
  pong.endpoints = {"tcp://a:5570", "tcp://b:5570"};
  hear(pong);

  EXPECT_THAT(session_.take_told(), ElementsAre("tcp://a:5570", "tcp://b:5570"));
  EXPECT_THAT(session_.take_told(), IsEmpty());
  session_.disconnected(now_);
  ASSERT_TRUE(session_.take_reopen(now_));
  session_.connected();
  EXPECT_THAT(drain(), ElementsAre("ping", "submit 1"));
}

TEST_F(SessionTest, a_single_endpoint_with_a_name_is_made_anew_where_nobody_listens) {
  session_.set_endpoints(1);
  submit(1);
  session_.found_nobody(now_);
  EXPECT_THAT(pass(milliseconds(500)), ElementsAre("submit 1")) << "libzmq itself tries the address again";

  session_.found_nobody(now_, true);
  EXPECT_THAT(pass(milliseconds(90)), IsEmpty());
  EXPECT_THAT(pass(milliseconds(10)), ElementsAre("reopen", "submit 1"));
}

TEST_F(SessionTest, a_submit_that_belongs_to_another_shard_is_given_back_whole) {
  submit(1, milliseconds(50));
  ask(2, RequestKind::stream);
  ask(3, RequestKind::leave);
  drain();
  for (const std::uint64_t ref : {1U, 2U, 3U})
    hear_elsewhere(ref, "b", {"tcp://b:5570"});

  ASSERT_TRUE(session_.has_moved());
  std::vector<Moved> moved = session_.take_moved();
  ASSERT_EQ(moved.size(), 3u);
  EXPECT_EQ(moved[0].shard, "b");
  EXPECT_THAT(moved[0].endpoints, ElementsAre("tcp://b:5570"));
  EXPECT_EQ(moved[0].request.id, "job-1");
  EXPECT_TRUE(moved[0].request.deadline);
  EXPECT_FALSE(session_.has_moved());
  EXPECT_EQ(session_.pending(), 0u);
  EXPECT_THAT(drain(), ElementsAre("ping")) << "its answer has the rules";
  EXPECT_THAT(told(), IsEmpty());

  Session other(now_);
  other.begin(std::move(moved[1].request), now_);
  EXPECT_EQ(words(*other.next_send()), "submit 2");
  EXPECT_THAT(pass(milliseconds(100)), IsEmpty()) << "no time runs for what is elsewhere";
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(SessionTest, what_is_no_new_submit_is_not_sent_to_another_shard) {
  ask(1, RequestKind::fetch);
  ask(2, RequestKind::stream);
  drain();
  Buffer ref_bytes;
  hear(wire::ChunkReply{.seq = 0, .ref = number_ref(2, ref_bytes)}, "piece");
  hear_elsewhere(1, "b");
  hear_elsewhere(2, "b");
  hear_elsewhere(3, "b");  // nobody's

  EXPECT_FALSE(session_.has_moved());
  EXPECT_THAT(told(), ElementsAre("1: not_owner", "2: not_owner"));
}

TEST_F(SessionTest, tells_of_shards_when_what_the_broker_says_of_them_changes) {
  EXPECT_FALSE(session_.has_spoken());
  hear_pong();
  EXPECT_TRUE(session_.has_spoken());
  EXPECT_FALSE(session_.has_word()) << "there are none";

  hear_pong_of("a");
  ASSERT_TRUE(session_.has_word());
  EXPECT_EQ(session_.take_word(), (ClusterWord{.shard = "a", .tenant = "acme", .shards = "the rules"}));
  hear_pong_of("a");
  EXPECT_EQ(session_.take_word(), std::nullopt);
  hear_pong();
  EXPECT_EQ(session_.take_word(), ClusterWord{});
}

TEST_F(SessionTest, leaves_a_broker_of_another_shard_than_is_wanted) {
  Session session(now_, 0, 2, "b");
  Request request{.ref = 1, .kind = RequestKind::submit, .id = "job-1", .header = "a job"};
  session.begin(std::move(request), now_);
  ASSERT_TRUE(session.next_send());
  session.sent(now_);

  Buffer ref_bytes;
  wire::Pong pong{.ref = number_ref(0, ref_bytes)};
  pong.endpoints = {"tcp://a:5570"};
  pong.shard = "a";
  session.heard(pong, {}, now_);

  EXPECT_THAT(session.take_told(), IsEmpty()) << "they are the other shard's";
  EXPECT_FALSE(session.next_send());
  EXPECT_TRUE(session.take_reopen(now_));
  EXPECT_TRUE(session.next_send()) << "what it has not taken is sent again";

  // The same by what it says of a job, which comes before its pong.
  session.sent(now_);
  wire::ErrorReply reply{.code = "not_owner", .ref = number_ref(1, ref_bytes)};
  reply.shard = "b";
  session.heard(reply, {}, now_);
  EXPECT_FALSE(session.has_moved());
  EXPECT_FALSE(session.take_reopen(now_)) << "not at once: both endpoints were wrong";
  EXPECT_TRUE(session.take_reopen(now_ + milliseconds(100)));
}

TEST_F(SessionTest, forgets_what_is_dropped) {
  ask(1, RequestKind::status, milliseconds(50));
  submit(2);
  drain();
  session_.drop(1);
  session_.drop(7);

  EXPECT_EQ(session_.pending(), 1u);
  hear_result(1, "late");
  pass(milliseconds(100));
  EXPECT_THAT(told(), IsEmpty());
  session_.disconnected(now_);
  EXPECT_THAT(pass(milliseconds(10)), ElementsAre("reopen", "submit 2"));
}

TEST_F(SessionTest, a_deadline_says_how_long_was_waited) {
  submit(1, milliseconds(2'500));
  pass(milliseconds(2'500));
  std::vector<Finished> finished;
  session_.take_finished(finished);

  ASSERT_EQ(finished.size(), 1u);
  EXPECT_THAT(finished[0].outcome.error().message, HasSubstr("2500 ms"));
  EXPECT_EQ(finished[0].outcome.error().id, "job-1");
}

TEST_F(SessionTest, an_overdue_request_that_was_never_sent_is_not_sent) {
  submit(1, milliseconds(100));
  now_ += milliseconds(100);
  session_.advance(now_);

  EXPECT_THAT(drain(), IsEmpty());
}

TEST_F(SessionTest, each_kind_of_request_takes_its_own_kind_of_answer) {
  Buffer ref, document;
  ask(1, RequestKind::status);
  ask(2, RequestKind::cancel);
  ask(3, RequestKind::fetch);
  ask(4, RequestKind::stats);
  ask(5, RequestKind::ping);
  ask(6, RequestKind::fetch);
  EXPECT_THAT(drain(), ElementsAre("status 1", "cancel 2", "fetch 3", "stats 4", "ping 5", "fetch 6"));

  hear(wire::StatusReply{.id = "job-1", .state = "running", .ref = number_ref(1, ref)});
  hear(wire::StatusReply{.id = "job-2", .state = "unknown", .ref = number_ref(2, ref)});
  hear(wire::StatusReply{.id = "job-3", .state = "queued", .ref = number_ref(3, ref)});
  DocumentWriter(document).map(1).text("uptime_ms").integer(7);
  hear(wire::StatsReply{.document = {document.view()}});
  hear(wire::Pong{.now_ms = 1, .version = "0.1.0", .ref = number_ref(5, ref)});
  hear_result(6, "done");

  EXPECT_THAT(told(), ElementsAre("1: running", "2: unknown", "3: queued", "4: {\"uptime_ms\":7}", "5: pong",
                                  "6: done"));
}

TEST_F(SessionTest, a_status_says_how_far_its_worker_is) {
  Buffer ref;
  JobStatus status;
  Request request{.ref = 1, .kind = RequestKind::status, .header = "status", .asked = now_};
  request.handler = [&](Outcome&& outcome) { status = std::get<JobStatus>(*std::move(outcome)); };
  session_.begin(std::move(request), now_);
  hear(wire::StatusReply{.id = "job-1",
                         .state = "running",
                         .pct = 40,
                         .note = "reads",
                         .silent_ms = 7,
                         .ref = number_ref(1, ref)});
  told();

  EXPECT_EQ(status.pct, 40);
  EXPECT_EQ(status.note, "reads");
  EXPECT_EQ(status.silent, milliseconds(7));
}

TEST_F(SessionTest, a_pong_names_the_default_lane) {
  Buffer ref;
  std::string named;
  session_.begin(
      {.ref = 1, .handler = [&](Outcome&& outcome) { named = std::get<BrokerPong>(*outcome).default_lane; }},
      now_);
  hear(wire::Pong{.ref = number_ref(1, ref), .default_lane = "usual"});
  std::vector<Finished> finished;
  session_.take_finished(finished);
  ASSERT_EQ(finished.size(), 1u);
  finished.front().handler(std::move(finished.front().outcome));

  EXPECT_EQ(named, "usual");
}

TEST_F(SessionTest, an_answer_of_the_wrong_kind_ends_nothing) {
  Buffer ref;
  submit(1);
  ask(2, RequestKind::ping);
  hear(wire::StatusReply{.id = "job-1", .state = "running", .ref = number_ref(1, ref)});
  hear(wire::Pong{.ref = number_ref(1, ref)});
  hear_result(2, "?");
  hear(wire::Accepted{.id = "job-1", .ref = number_ref(1, ref)});
  hear(wire::ChunkReply{.id = "job-1", .ref = number_ref(1, ref)});

  EXPECT_THAT(told(), IsEmpty());
  EXPECT_EQ(session_.pending(), 2u);
}

TEST_F(SessionTest, statistics_are_answered_in_the_order_of_the_questions) {
  Buffer one, two;
  ask(1, RequestKind::stats);
  ask(2, RequestKind::stats);
  DocumentWriter(one).integer(1);
  DocumentWriter(two).integer(2);
  hear(wire::StatsReply{.document = {one.view()}});
  hear(wire::StatsReply{.document = {two.view()}});
  hear(wire::StatsReply{.document = {two.view()}});

  EXPECT_THAT(told(), ElementsAre("1: 1", "2: 2"));
  EXPECT_EQ(session_.counters().dropped_answers, 1u);
}

TEST_F(SessionTest, statistics_with_a_ref_find_their_question) {
  Buffer ref, document;
  ask(1, RequestKind::stats);
  ask(2, RequestKind::stats);
  DocumentWriter(document).integer(2);
  hear(wire::StatsReply{.document = {document.view()}, .ref = number_ref(2, ref)});

  EXPECT_THAT(told(), ElementsAre("2: 2"));
}

TEST_F(SessionTest, an_answer_to_nobody_is_dropped_and_counted) {
  Buffer ref;
  submit(1);
  hear(wire::ErrorReply{.code = "bad_request", .message = "?"});
  hear(wire::ErrorReply{.code = "bad_request", .message = "?", .ref = number_ref(17, ref)});
  const std::string text_ref =
      "\xA3"
      "abc";
  hear(wire::JobResult{.ref = {text_ref}});

  EXPECT_THAT(told(), IsEmpty());
  EXPECT_EQ(session_.counters().dropped_answers, 3u);
}

TEST_F(SessionTest, nonsense_is_counted_and_no_sign_of_life) {
  submit(1);
  drain();
  for (int i = 0; i < 20; ++i) {
    pass(milliseconds(500));
    session_.heard_nonsense();
  }
  EXPECT_EQ(session_.counters().reconnected, 4u) << "every 2.5 s";
  EXPECT_EQ(session_.counters().undecodable, 20u);
}

TEST_F(SessionTest, who_answers_with_nonsense_is_connected_to_more_and_more_slowly) {
  submit(1);
  std::vector<int> pauses;
  for (int round = 0; round < 10; ++round) {
    if (round % 2 == 0) session_.connected();  // some are lost before they are made
    session_.heard_nonsense();
    session_.disconnected(now_);
    const TimePoint lost = now_;
    while (!session_.take_reopen(now_))
      now_ += milliseconds(10);
    pauses.push_back(static_cast<int>(std::chrono::duration_cast<milliseconds>(now_ - lost).count()));
  }
  EXPECT_THAT(pauses, ElementsAre(0, 100, 200, 400, 800, 1600, 3200, 3200, 3200, 3200));
}

TEST_F(SessionTest, closing_ends_everything_that_is_pending) {
  submit(1);
  ask(2, RequestKind::stats, milliseconds(100));
  session_.close();

  std::vector<std::string> words = told();
  std::sort(words.begin(), words.end());
  EXPECT_THAT(words, ElementsAre("1: local cancelled", "2: local cancelled"));
  EXPECT_EQ(session_.pending(), 0u);
  EXPECT_FALSE(session_.next_wakeup().has_value());
}

TEST_F(SessionTest, a_broker_that_answers_between_restarts_costs_nobody_the_job) {
  submit_large(1, 50'000);
  for (int round = 0; round < 50; ++round) {
    session_.connected();
    hear_pong();
    session_.disconnected(now_);
    EXPECT_THAT(pass(milliseconds(20)), ElementsAre("reopen", "body of 50000"));
  }
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(SessionTest, a_connection_that_cannot_be_begun_is_tried_again_after_a_second) {
  submit(1);
  drain();
  session_.disconnected(now_);
  ASSERT_TRUE(session_.take_reopen(now_));
  session_.reopen_failed(now_);

  EXPECT_FALSE(session_.next_send().has_value());
  EXPECT_EQ(session_.next_wakeup(), now_ + milliseconds(1'000));
  EXPECT_THAT(pass(milliseconds(1'000)), ElementsAre("reopen", "submit 1"));
}

TEST_F(SessionTest, the_wakeup_is_never_late) {
  submit(1, milliseconds(4'000));
  drain();
  int turns = 0;
  while (session_.pending() > 0) {
    ASSERT_TRUE(session_.next_wakeup().has_value());
    ASSERT_LT(++turns, 20) << "a wakeup that is over must lead to something";
    now_ = std::max(now_, *session_.next_wakeup());
    session_.advance(now_);
    session_.take_reopen(now_);
    drain();
  }
  EXPECT_THAT(told(), ElementsAre("1: local deadline"));
}

// ---- streams ------------------------------------------------------------------------------------------

/// The same, with a caller that reads streams.
class StreamTest : public SessionTest {
 protected:
  enum class Takes : unsigned char { at_once, when_it_says_so };

  void stream(std::uint64_t ref, Takes takes = Takes::at_once,
              std::optional<std::int64_t> from_seq = std::nullopt) {
    Buffer ref_bytes, header;
    const std::string id = "job-" + std::to_string(ref);
    encode(wire::Submit{.service = "echo", .id = id, .stream = true, .ref = number_ref(ref, ref_bytes)},
           header);
    Request request{.ref = ref, .kind = RequestKind::stream, .id = id, .asked = now_};
    if (!from_seq) request.header = header.view();
    request.from_seq = from_seq;
    request.takes_at_once = takes == Takes::at_once;
    request.on_chunk = std::make_shared<const ChunkHandler>([this, ref](JobChunk chunk) {
      told_.push_back(std::to_string(ref) + "." + std::to_string(chunk.seq) + " " +
                      (chunk.body.size() > 20 ? "large" : std::string(chunk.body.bytes())));
      lane_ = chunk.lane;
    });
    request.handler = [this, ref](Outcome&& outcome) { told_.push_back(words(ref, outcome)); };
    session_.begin(std::move(request), now_);
  }
  void hear_chunk(std::uint64_t ref, std::int64_t seq, std::string_view body = "x") {
    Buffer ref_bytes;
    hear(wire::ChunkReply{.seq = seq, .lane = seq == 0 ? "batch" : "", .ref = number_ref(ref, ref_bytes)},
         body);
  }
  void hear_end(std::uint64_t ref, std::int64_t chunks) {
    Buffer ref_bytes;
    hear(wire::JobResult{.lane = "batch", .chunks = chunks, .ref = number_ref(ref, ref_bytes)});
  }
  void hear_error(std::uint64_t ref, std::string_view code, std::int64_t chunks) {
    Buffer ref_bytes;
    hear(wire::ErrorReply{.code = code, .chunks = chunks, .ref = number_ref(ref, ref_bytes)});
  }
  /// What the caller was told since the last call; readers that take at once have then taken it.
  std::vector<std::string> told() {
    std::vector<Arrived> arrived;
    session_.take_arrived(arrived);
    for (Arrived& one : arrived) {
      const std::int64_t seq = one.chunk.seq;
      (*one.on_chunk)(std::move(one.chunk));
      if (one.takes_at_once) session_.seen(one.ref, seq, now_);
    }
    return SessionTest::told();
  }
  void break_connection() {
    session_.connected();
    session_.disconnected(now_);
    ASSERT_TRUE(session_.take_reopen(now_));
  }

  std::string lane_;
};

TEST_F(StreamTest, the_first_piece_says_where_the_job_was) {
  stream(1);
  drain();
  hear_chunk(1, 0);
  told();
  EXPECT_EQ(lane_, "batch");
}

TEST_F(StreamTest, pieces_keep_their_bytes_after_the_frame_is_gone) {
  stream(1);
  drain();
  std::string frame = "abc";
  hear_chunk(1, 0, frame);
  frame = "zzz";

  EXPECT_THAT(told(), ElementsAre("1.0 abc"));
}

TEST_F(StreamTest, readers_who_are_due_soon_after_another_are_told_of_together_with_it) {
  stream(1);
  stream(2);
  stream(3);
  drain();
  hear_chunk(1, 0);
  told();
  EXPECT_THAT(pass(Session::kSeenTogether), IsEmpty());
  hear_chunk(2, 0);
  told();
  EXPECT_THAT(pass(milliseconds(10)), IsEmpty());
  hear_chunk(3, 0);
  told();

  EXPECT_THAT(pass(Session::kSeenAfter - Session::kSeenTogether - milliseconds(10)),
              ElementsAre("seen 1 to 0", "seen 2 to 0"));
  EXPECT_EQ(session_.next_wakeup(), now_ + Session::kSeenTogether + milliseconds(10));
}

TEST_F(StreamTest, a_reader_that_takes_later_says_so_itself) {
  stream(1, Takes::when_it_says_so);
  drain();
  for (std::int64_t seq = 0; seq < 40; ++seq)
    hear_chunk(1, seq);
  told();
  EXPECT_THAT(pass_alive(milliseconds(5'000)), IsEmpty());

  session_.seen("job-1", 3, now_);
  session_.seen("job-1", 2, now_);
  session_.seen("job-9", 30, now_);
  EXPECT_THAT(pass(milliseconds(250)), ElementsAre("seen 1 to 3"));
  session_.seen("job-1", 1'000, now_);
  EXPECT_THAT(drain(), ElementsAre("seen 1 to 39"));
}

TEST_F(StreamTest, ends_when_the_client_is_closed) {
  stream(1);
  stream(2, Takes::when_it_says_so);
  drain();
  hear_chunk(1, 0);
  session_.close();

  auto all = told();
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, ElementsAre("1.0 x", "1: local cancelled", "2: local cancelled"));
  session_.seen("job-2", 0, now_);
}

TEST_F(StreamTest, counts_what_comes_twice_or_to_nobody) {
  submit(1);
  stream(2);
  drain();
  hear_chunk(1, 0);
  hear_chunk(2, 0);
  hear_chunk(2, 0);
  hear_chunk(3, 0);

  EXPECT_THAT(told(), ElementsAre("2.0 x"));
  EXPECT_EQ(session_.counters().dropped_answers, 3u);
}

TEST_F(StreamTest, an_error_says_how_long_its_job_waited_and_what_the_upstream_said) {
  submit(1);
  Buffer ref_bytes;
  hear(wire::ErrorReply{
      .code = "upstream_rejected", .queued_ms = 40, .upstream_status = 404, .ref = number_ref(1, ref_bytes)});

  std::vector<Finished> finished;
  session_.take_finished(finished);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].outcome.error().upstream_status, 404);
  EXPECT_EQ(finished[0].outcome.error().queued, milliseconds(40));
}

}  // namespace
}  // namespace lanemq::client
