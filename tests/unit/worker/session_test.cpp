// SPDX-License-Identifier: Apache-2.0
#include "worker/session/session.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;
using Lines = std::vector<std::string>;

std::string lease_text(std::uint64_t job, std::int64_t attempt) {
  return std::to_string(job) + "." + std::to_string(attempt);
}

/// What the broker would read, as a line each.
struct Printer {
  std::string body;

  std::string operator()(const wire::Ready& ready) const {
    std::string services;
    for (const std::string_view name : ready.services)
      services += (services.empty() ? "" : ",") + std::string(name);
    return "ready " + services + " capacity=" + std::to_string(ready.capacity);
  }
  std::string operator()(const wire::Heartbeat& heartbeat) const {
    std::string line = "heartbeat";
    for (const wire::Lease& lease : heartbeat.jobs)
      line += " " + lease_text(lease.job, lease.attempt);
    return line;
  }
  std::string operator()(const wire::Outcome& outcome) const {
    return "result " + lease_text(outcome.job, outcome.attempt) + " " +
           (body.size() > 10'000 ? std::to_string(body.size()) + " bytes" : body);
  }
  std::string operator()(const wire::Failure& failure) const {
    return "error " + lease_text(failure.job, failure.attempt) + " " + std::string(failure.error_class) +
           " " + std::string(failure.code);
  }
  std::string operator()(const wire::Progress& progress) const {
    return "progress " + lease_text(progress.job, progress.attempt) +
           (progress.pct ? " " + std::to_string(*progress.pct) : "") +
           (progress.note.empty() ? "" : " " + std::string(progress.note));
  }
  std::string operator()(const wire::Chunk& chunk) const {
    return "chunk " + lease_text(chunk.job, chunk.attempt) + " " + std::to_string(chunk.seq) + " " +
           (body.size() > 100 ? std::to_string(body.size()) + " bytes" : body);
  }
  std::string operator()(const wire::Bye&) const { return "bye"; }
};

struct EffectPrinter {
  std::string operator()(const StartJob& start) const {
    return "start " + lease_text(start.lease.job, start.lease.attempt) + " service " +
           std::to_string(start.service);
  }
  std::string operator()(const CancelJob& cancel) const {
    return "cancel " + lease_text(cancel.lease.job, cancel.lease.attempt);
  }
  std::string operator()(const ResumeJob& resume) const {
    return "resume " + lease_text(resume.lease.job, resume.lease.attempt);
  }
  std::string operator()(const Reconnect&) const { return "reconnect"; }
  std::string operator()(const ShardsTold& told) const { return "shards " + told.shards; }
  std::string operator()(const Welcomed&) const { return "welcomed"; }
  std::string operator()(const Left&) const { return "left"; }
  std::string operator()(const Refused& refused) const {
    return refused.ever ? "refused for ever" : "refused";
  }
};

/// A session with a clock of its own. Each step returns what it says to the broker and what it wants done.
class SessionTest : public testing::Test {
 protected:
  explicit SessionTest(SessionOptions of = options()) : session_(std::move(of)) {}

  static SessionOptions options() {
    return {.services = {"chat", "embed"},
            .lanes = {},
            .name = "w1",
            .version = "0",
            .capacity = 2,
            .body_bytes_max = 1'000'000};
  }

  Lines connect() {
    session_.connected(now_);
    return said();
  }
  Lines hear(const wire::WorkerCommand& command) {
    session_.receive(command, now_, effects_);
    return said();
  }
  Lines finish(wire::Lease lease, std::string_view body = "ok") {
    session_.finish(lease, JobOutcome::success(Blob::copy(body), {}, {}), now_, effects_);
    return said();
  }
  Lines chunk(wire::Lease lease, std::string_view body) {
    session_.chunk({.lease = lease, .body = Blob::copy(body)}, now_, effects_);
    return said();
  }
  Lines progress(wire::Lease lease, int pct, const std::string& note = "") {
    session_.progress({lease, {.pct = pct, .note = note}}, now_);
    return said();
  }
  Lines overrun(wire::Lease lease) {
    session_.chunk({.lease = lease, .body = {}, .overrun = true}, now_, effects_);
    return said();
  }
  Lines window(wire::Lease lease, std::int64_t seq) {
    return hear(wire::Window{.job = lease.job, .attempt = lease.attempt, .seq = seq});
  }
  /// Hears the offer of a job that asks for a stream, and returns its gate.
  std::shared_ptr<StreamGate> start_stream(wire::Lease lease) {
    wire::JobOffer message;
    message.job = lease.job;
    message.attempt = lease.attempt;
    message.service = "chat";
    message.stream = true;
    session_.receive(message, now_, effects_);
    std::shared_ptr<StreamGate> gate;
    for (const Effect& effect : effects_)
      if (const auto* start = std::get_if<StartJob>(&effect)) gate = start->gate;
    said();
    return gate;
  }
  /// Hands in `count` pieces as a handler does, through the gate; returns what the last call said.
  StreamGate::Verdict hand_in(StreamGate& gate, wire::Lease lease, std::size_t count,
                              std::string_view body = "x") {
    auto verdict = StreamGate::Verdict::more;
    for (std::size_t i = 0; i < count; ++i) {
      verdict = gate.enter(body.size());
      session_.chunk({.lease = lease, .body = Blob::copy(body)}, now_, effects_);
    }
    return verdict;
  }
  Lines pass(milliseconds time) {
    now_ += time;
    session_.advance(now_, effects_);
    return said();
  }
  Lines drain(milliseconds timeout) {
    session_.drain(now_ + timeout, now_, effects_);
    return said();
  }
  Lines leave() {
    session_.leave(now_, effects_);
    return said();
  }

  /// Connected and welcomed by a broker that allows bodies of `body_bytes_max`.
  void serve(std::int64_t body_bytes_max = 0) {
    connect();
    hear(wire::Welcome{.session = "s", .heartbeat_ms = 1000, .body_bytes_max = body_bytes_max});
  }
  static wire::WorkerCommand welcome(std::string_view shard) {
    wire::Welcome message{.session = "s", .heartbeat_ms = 1000};
    message.shard = shard;
    message.shards = {"list"};
    return message;
  }
  static wire::WorkerCommand offer(std::uint64_t job, std::int64_t attempt = 1,
                                   std::string_view service = "chat") {
    wire::JobOffer message;
    message.job = job;
    message.attempt = attempt;
    message.service = service;
    return message;
  }
  static wire::WorkerCommand refusal(std::string_view code, std::optional<wire::Lease> lease = std::nullopt) {
    wire::WorkerRefusal message;
    message.code = code;
    if (lease) {
      message.job = static_cast<std::int64_t>(lease->job);
      message.attempt = lease->attempt;
    }
    return message;
  }
  static wire::WorkerCommand unknown_session() { return refusal("unknown_session"); }
  static wire::WorkerCommand stale(wire::Lease lease) { return refusal("stale", lease); }

  Session session_;
  TimePoint now_{std::chrono::hours(1)};

 protected:
  Lines said() {
    Lines lines;
    while (!session_.outbox().empty()) {
      const Outbox::Message message = session_.outbox().front();
      Items<wire::WorkerReport> reports;
      const DecodeError* error = decoder_.decode(message.header, {}, reports);
      EXPECT_EQ(error, nullptr) << (error ? error->message : "");
      for (std::size_t i = 0; i < reports.size(); ++i) {
        Printer printer{std::string(message.body ? message.body->bytes() : reports.body(i))};
        // The items of a batch are numbered.
        const std::string mark =
            reports.is_batch() ? std::to_string(i + 1) + "/" + std::to_string(reports.size()) + " " : "";
        lines.push_back("> " + mark + std::visit(printer, reports[i]));
      }
      session_.outbox().pop();
    }
    for (const Effect& effect : effects_)
      lines.push_back(std::visit(EffectPrinter{}, effect));
    effects_.clear();
    return lines;
  }

  Decoder decoder_;
  Effects effects_;
};

TEST_F(SessionTest, outcomes_of_one_turn_are_one_message_where_the_broker_takes_batches) {
  connect();
  hear(wire::Welcome{.session = "s", .heartbeat_ms = 1000, .batch = 256});
  hear(offer(1));
  hear(offer(2));

  session_.finish({1, 1}, JobOutcome::success(Blob::copy("one"), {}, {}), now_, effects_);
  session_.finish({2, 1}, JobOutcome::success(Blob(), {}, {}), now_, effects_);

  EXPECT_EQ(said(), (Lines{"> 1/2 result 1.1 one", "> 2/2 result 2.1 "}));
  // What is said again to a broker that has forgotten all goes as that broker takes it.
  hear(offer(3));
  EXPECT_EQ(hear(unknown_session()), (Lines{"> ready chat,embed capacity=2", "> heartbeat 3.1 2.1 1.1",
                                            "> result 1.1 one", "> result 2.1 "}));
}

TEST_F(SessionTest, a_heartbeat_and_a_large_answer_go_between_batches) {
  connect();
  hear(wire::Welcome{.session = "s", .heartbeat_ms = 1000, .batch = 256});
  for (std::uint64_t job = 1; job <= 2; ++job)
    hear(offer(job));
  const std::string large(limits::inline_bytes_max + 1, 'x');

  session_.finish({1, 1}, JobOutcome::success(Blob::copy("one"), {}, {}), now_, effects_);
  session_.finish({2, 1}, JobOutcome::success(Blob::copy(large), {}, {}), now_, effects_);
  session_.receive(offer(3), now_, effects_);
  session_.finish({3, 1}, JobOutcome::success(Blob::copy("three"), {}, {}), now_, effects_);

  EXPECT_EQ(said(), (Lines{"> result 1.1 one", "> result 2.1 " + large, "> result 3.1 three",
                           "start 3.1 service 0"}));
}

/// A worker that may hand in large bodies, and has the jobs 1 to 5.
class LargeAnswers : public SessionTest {
 protected:
  LargeAnswers() : SessionTest(wide()) {
    serve();
    for (std::uint64_t job = 1; job <= 5; ++job)
      hear(offer(job));
  }
  static SessionOptions wide() {
    SessionOptions of = options();
    of.capacity = 5;
    of.body_bytes_max = 32'000'000;
    return of;
  }
  const std::string large_ = std::string(8'000'000, 'x');
  static constexpr milliseconds kTakes{31};  ///< one of them
};

TEST_F(LargeAnswers, go_at_a_pace_and_small_ones_between_them) {
  EXPECT_EQ(finish({1, 1}, large_), Lines{"> result 1.1 8000000 bytes"});
  EXPECT_EQ(finish({2, 1}, large_), Lines{});
  EXPECT_EQ(finish({3, 1}, large_), Lines{});
  EXPECT_EQ(finish({4, 1}, "small"), Lines{"> result 4.1 small"});

  EXPECT_EQ(session_.next_wakeup(), now_ + kTakes);
  EXPECT_EQ(pass(kTakes - milliseconds(1)), Lines{});
  EXPECT_EQ(pass(milliseconds(1)), Lines{"> result 2.1 8000000 bytes"});
  EXPECT_EQ(pass(kTakes), Lines{"> result 3.1 8000000 bytes"});
}

TEST_F(LargeAnswers, wait_for_nothing_that_has_had_its_time) {
  finish({1, 1}, large_);
  pass(kTakes);

  EXPECT_EQ(finish({2, 1}, large_), Lines{"> result 2.1 8000000 bytes"});
}

TEST_F(LargeAnswers, that_wait_are_held_as_the_broker_sees_it) {
  finish({1, 1}, large_);
  finish({2, 1}, large_);

  EXPECT_EQ(hear(wire::Heartbeat{}), Lines{"> heartbeat 2.1 3.1 4.1 5.1"});
  EXPECT_EQ(hear(offer(2)), Lines{});
  EXPECT_EQ(hear(stale({2, 1})), Lines{});
  EXPECT_EQ(pass(kTakes), Lines{});
}

TEST_F(LargeAnswers, go_at_a_pace_to_a_broker_that_knows_nothing_of_them) {
  finish({1, 1}, large_);
  finish({2, 1}, large_);

  EXPECT_EQ(hear(unknown_session()),
            (Lines{"> ready chat,embed capacity=5", "> heartbeat 3.1 4.1 5.1 2.1 1.1",
                   "> result 1.1 8000000 bytes"}));
  EXPECT_EQ(pass(kTakes), Lines{"> result 2.1 8000000 bytes"});
}

TEST_F(LargeAnswers, that_wait_are_all_said_before_a_goodbye) {
  for (std::uint64_t job = 3; job <= 5; ++job)
    finish({job, 1});
  drain(milliseconds(10'000));
  finish({1, 1}, large_);

  EXPECT_EQ(finish({2, 1}, large_), (Lines{"> result 2.1 8000000 bytes", "> bye"}));
}

TEST_F(LargeAnswers, that_wait_are_said_when_the_worker_leaves_now) {
  finish({1, 1}, large_);
  finish({2, 1}, large_);

  EXPECT_EQ(leave(),
            (Lines{"> result 2.1 8000000 bytes", "> bye", "cancel 3.1", "cancel 4.1", "cancel 5.1", "left"}));
}

TEST_F(SessionTest, introduces_itself_and_serves_when_welcomed) {
  EXPECT_EQ(connect(), Lines{"> ready chat,embed capacity=2"});
  EXPECT_EQ(hear(wire::Welcome{.session = "s", .heartbeat_ms = 1000}), Lines{"welcomed"});
  EXPECT_EQ(hear(offer(7, 1, "embed")), Lines{"start 7.1 service 1"});
  EXPECT_EQ(finish({7, 1}, "answer"), Lines{"> result 7.1 answer"});
}

TEST_F(SessionTest, takes_a_job_without_a_service_for_its_only_one) {
  SessionOptions one = options();
  one.services = {"chat"};
  Session session(one);
  Effects effects;
  session.connected(now_);
  session.receive(wire::Welcome{.session = "s"}, now_, effects);
  effects.clear();

  session.receive(offer(1, 1, {}), now_, effects);

  ASSERT_EQ(effects.size(), 1u);
  EXPECT_EQ(EffectPrinter{}(std::get<StartJob>(effects[0])), "start 1.1 service 0");
}

TEST_F(SessionTest, says_a_large_body_in_a_frame_of_its_own) {
  serve();
  hear(offer(1));
  hear(offer(2));
  Effects effects;

  session_.finish({1, 1}, JobOutcome::success(Blob::copy(std::string(limits::inline_bytes_max, 'x')), {}, {}),
                  now_, effects);
  session_.finish({2, 1},
                  JobOutcome::success(Blob::copy(std::string(limits::inline_bytes_max + 1, 'x')), {}, {}),
                  now_, effects);

  EXPECT_EQ(session_.outbox().front().body, nullptr);
  EXPECT_TRUE(has_inline_body(session_.outbox().front().header));
  session_.outbox().pop();
  ASSERT_NE(session_.outbox().front().body, nullptr);
  EXPECT_EQ(session_.outbox().front().body->size(), limits::inline_bytes_max + 1);
  EXPECT_FALSE(has_inline_body(session_.outbox().front().header));
}

TEST_F(SessionTest, keeps_outcomes_until_they_are_acknowledged) {
  serve();
  hear(offer(1));
  hear(offer(2));
  finish({1, 1}, "a");
  finish({2, 1}, "b");

  hear(wire::Acked{.jobs = {{1, 1}}});

  EXPECT_EQ(session_.outcomes(), 1u);
  EXPECT_EQ(hear(unknown_session()),
            (Lines{"> ready chat,embed capacity=2", "> heartbeat 2.1", "> result 2.1 b"}));
}

TEST_F(SessionTest, an_acknowledgement_of_a_running_job_changes_nothing) {
  serve();
  hear(offer(1));

  hear(wire::Acked{.jobs = {{1, 1}, {99, 1}}});

  EXPECT_EQ(session_.running(), 1u);
  EXPECT_EQ(finish({1, 1}), Lines{"> result 1.1 ok"});
}

TEST_F(SessionTest, where_nobody_listens_it_knocks_elsewhere_when_told_and_not_before) {
  connect();

  session_.found_nobody(now_ + milliseconds(100));

  EXPECT_EQ(pass(milliseconds(99)), Lines{});
  EXPECT_EQ(pass(milliseconds(1)), Lines{"reconnect"});
}

TEST_F(SessionTest, a_broker_that_is_gone_for_good_is_given_up_before_it_is_silent_for_long) {
  serve();

  session_.found_nobody(now_);

  EXPECT_EQ(pass(milliseconds(1)), Lines{"reconnect"});
}

TEST_F(SessionTest, knows_the_default_lane_of_the_newest_welcome) {
  connect();
  EXPECT_EQ(session_.default_lane(), "");

  hear(wire::Welcome{.session = "s", .default_lane = "usual"});
  EXPECT_EQ(session_.default_lane(), "usual");
  hear(wire::Welcome{.session = "s", .default_lane = "other"});
  EXPECT_EQ(session_.default_lane(), "other");
}

TEST_F(SessionTest, a_job_that_ends_while_no_broker_is_there_is_handed_in_later) {
  serve();
  hear(offer(1));
  pass(milliseconds(3000));
  connect();

  EXPECT_EQ(finish({1, 1}, "one"), Lines{"> result 1.1 one"});  // into the void
  pass(milliseconds(3000));
  EXPECT_EQ(connect(), (Lines{"> ready chat,embed capacity=2", "> heartbeat 1.1", "> result 1.1 one"}));
}

TEST_F(SessionTest, tells_of_a_refusal) {
  connect();
  wire::WorkerRefusal refusal;
  refusal.code = "bad_request";
  refusal.message = "unknown lane\n\"x\"";

  EXPECT_EQ(hear(refusal), Lines{"refused for ever"});
  EXPECT_EQ(session_.refusal(), "bad_request: unknown lane\\x0a\"x\"");
  refusal.code = "full";
  EXPECT_EQ(hear(refusal), Lines{"refused"});
}

TEST_F(SessionTest, a_job_that_cannot_be_read_ends) {
  serve();
  hear(offer(1));

  session_.refuse_unreadable({2, 1}, "field \"meta\" is not UTF-8");
  EXPECT_EQ(said(), Lines{"> error 2.1 permanent bad_job"});
  session_.refuse_unreadable({1, 1}, "it runs already");
  EXPECT_EQ(said(), Lines{});
  EXPECT_EQ(finish({1, 1}), Lines{"> result 1.1 ok"});
}

TEST_F(SessionTest, a_broker_restarted_during_the_goodbye_is_told_once_more) {
  serve();
  hear(offer(1));
  drain(milliseconds(5000));
  finish({1, 1}, "one");

  EXPECT_EQ(hear(unknown_session()),
            (Lines{"> ready chat,embed capacity=1", "> heartbeat 1.1", "> result 1.1 one", "> bye"}));
  EXPECT_EQ(hear(unknown_session()), Lines{});
  EXPECT_EQ(hear(wire::Acked{.jobs = {{1, 1}}}), Lines{"left"});
}

TEST_F(SessionTest, drains_through_a_reconnect) {
  serve();
  hear(offer(1));
  drain(milliseconds(60'000));
  EXPECT_EQ(hear(unknown_session()), (Lines{"> ready chat,embed capacity=1", "> heartbeat 1.1"}));
  EXPECT_EQ(finish({1, 1}), Lines{"> result 1.1 ok"});

  EXPECT_EQ(hear(wire::Welcome{.session = "t"}), (Lines{"> bye", "welcomed"}));
}

TEST_F(SessionTest, says_all_of_a_failure) {
  serve();
  hear(offer(1));
  wire::Usage usage;
  usage.requests = 1;
  Effects effects;

  session_.finish({1, 1},
                  JobOutcome::failure({.error_class = ErrorClass::limited,
                                       .code = "upstream_429",
                                       .message = "slow\x1b down",
                                       .retry_after = milliseconds(1500),
                                       .body = Blob::copy("{}"),
                                       .usage = usage}),
                  now_, effects);

  Decoder decoder;
  wire::WorkerReport report;
  ASSERT_EQ(decoder.decode(session_.outbox().front().header, report), nullptr);
  const auto& failure = std::get<wire::Failure>(report);
  EXPECT_EQ(failure.error_class, "limited");
  EXPECT_EQ(failure.message, "slow\\x1b down");
  EXPECT_EQ(failure.retry_after_ms, 1500);
  EXPECT_EQ(failure.usage->requests, 1);
  EXPECT_EQ(decoder.body(), "{}");
}

TEST_F(SessionTest, forgets_the_oldest_outcomes_of_a_broker_that_never_acknowledges) {
  serve();
  for (std::uint64_t job = 1; job <= kOutcomesMax + 10; ++job) {
    hear(offer(job));
    finish({job, 1});
  }

  EXPECT_EQ(session_.outcomes(), kOutcomesMax);
  EXPECT_EQ(session_.counters().outcomes_dropped, 10u);
  const Lines again = hear(unknown_session());
  ASSERT_EQ(again.size(), 2 + kOutcomesMax);
  EXPECT_EQ(again[2], "> result 11.1 ok");
  // The inventory holds what fits, the newest first.
  EXPECT_NE(again[1].find(" " + std::to_string(kOutcomesMax + 10) + ".1"), std::string::npos);
  EXPECT_EQ(again[1].find(" 11.1"), std::string::npos);
}

// ---- streams ------------------------------------------------------------------------------------------

TEST_F(SessionTest, pieces_of_one_turn_are_one_message_where_the_broker_takes_batches) {
  connect();
  hear(wire::Welcome{.session = "s", .heartbeat_ms = 1000, .batch = 256});
  start_stream({1, 1});
  start_stream({2, 1});

  session_.chunk({.lease = {1, 1}, .body = Blob::copy("a")}, now_, effects_);
  session_.chunk({.lease = {2, 1}, .body = Blob::copy("b")}, now_, effects_);
  session_.chunk({.lease = {1, 1}, .body = Blob::copy("c")}, now_, effects_);

  EXPECT_EQ(said(), (Lines{"> 1/3 chunk 1.1 0 a", "> 2/3 chunk 2.1 0 b", "> 3/3 chunk 1.1 1 c"}));
}

TEST_F(SessionTest, the_window_counts_bytes_and_is_exceeded_by_one_piece_at_most) {
  serve();
  const auto gate = start_stream({1, 1});
  const std::string half(limits::stream_bytes_max / 2, 'h');

  hand_in(*gate, {1, 1}, 1, half);
  EXPECT_EQ(hand_in(*gate, {1, 1}, 1, half), StreamGate::Verdict::wait);
  hand_in(*gate, {1, 1}, 1, "x");
  EXPECT_EQ(said().size(), 2u);
  EXPECT_EQ(window({1, 1}, 0), Lines{"> chunk 1.1 2 x"});
  window({1, 1}, 1);
  hand_in(*gate, {1, 1}, 1, half + half + half);
  hand_in(*gate, {1, 1}, 1, "y");
  EXPECT_EQ(said(), Lines{"> chunk 1.1 3 393216 bytes"});
  EXPECT_EQ(window({1, 1}, 3), (Lines{"> chunk 1.1 4 y", "resume 1.1"}));
}

TEST_F(SessionTest, an_outcome_waits_until_its_pieces_are_sent) {
  serve();
  const auto gate = start_stream({1, 1});
  hand_in(*gate, {1, 1}, limits::stream_chunks_max + 1);
  said();

  EXPECT_EQ(finish({1, 1}, ""), Lines{});
  EXPECT_EQ(hear(wire::Heartbeat{}), Lines{"> heartbeat 1.1"});
  EXPECT_EQ(session_.running(), 1u);
  EXPECT_EQ(window({1, 1}, 0), (Lines{"> chunk 1.1 64 x", "> result 1.1 "}));
  EXPECT_EQ(session_.running(), 0u);
}

TEST_F(SessionTest, a_draining_worker_leaves_when_a_slow_reader_has_all) {
  serve();
  const auto gate = start_stream({1, 1});
  hand_in(*gate, {1, 1}, limits::stream_chunks_max + 1);
  finish({1, 1}, "");

  EXPECT_EQ(drain(milliseconds(5'000)), Lines{"> ready chat,embed capacity=1"});
  EXPECT_EQ(window({1, 1}, 63), (Lines{"> chunk 1.1 64 x", "> result 1.1 ", "> bye"}));
  EXPECT_EQ(hear(wire::Acked{.jobs = {{1, 1}}}), Lines{"left"});
}

TEST_F(SessionTest, a_window_beyond_what_was_sent_frees_no_more_than_that) {
  serve();
  const auto gate = start_stream({1, 1});
  hand_in(*gate, {1, 1}, limits::stream_chunks_max + 1);
  said();

  EXPECT_EQ(window({1, 1}, 1'000'000), (Lines{"> chunk 1.1 64 x", "resume 1.1"}));
  EXPECT_EQ(window({1, 1}, -5), Lines{});
  EXPECT_EQ(window({9, 1}, 5), Lines{});
  EXPECT_EQ(hear(unknown_session()),
            (Lines{"> ready chat,embed capacity=2", "> heartbeat 1.1", "> chunk 1.1 64 x"}));
}

TEST_F(SessionTest, a_cancelled_stream_says_no_more_pieces) {
  serve();
  const auto gate = start_stream({1, 1});
  hand_in(*gate, {1, 1}, limits::stream_chunks_max + 1);
  said();

  EXPECT_EQ(hear(wire::CancelJob{.job = 1, .attempt = 1, .reason = {}}), Lines{"cancel 1.1"});
  EXPECT_EQ(gate->enter(1), StreamGate::Verdict::closed);
  EXPECT_EQ(chunk({1, 1}, "late"), Lines{});
  EXPECT_EQ(window({1, 1}, 63), Lines{});
  EXPECT_EQ(finish({1, 1}, ""), Lines{"> result 1.1 "});
}

TEST_F(SessionTest, an_outcome_that_waited_goes_at_once_when_its_pieces_are_not_wanted) {
  serve();
  const auto cancelled = start_stream({1, 1});
  hand_in(*cancelled, {1, 1}, limits::stream_chunks_max + 1);
  finish({1, 1}, "");
  const auto superseded = start_stream({2, 1});
  hand_in(*superseded, {2, 1}, limits::stream_chunks_max + 1);
  finish({2, 1}, "");

  EXPECT_EQ(hear(wire::CancelJob{.job = 1, .attempt = 1, .reason = {}}), Lines{"> result 1.1 "});
  EXPECT_EQ(hear(offer(2, 2)), (Lines{"> result 2.1 ", "start 2.2 service 0"}));
  EXPECT_EQ(session_.running(), 1u);
}

TEST_F(SessionTest, a_stale_stream_is_dropped_with_all_that_it_had) {
  serve();
  const auto running = start_stream({1, 1});
  chunk({1, 1}, "a");
  const auto done = start_stream({2, 1});
  hand_in(*done, {2, 1}, limits::stream_chunks_max + 1);
  finish({2, 1}, "");

  EXPECT_EQ(hear(stale({1, 1})), Lines{"cancel 1.1"});
  EXPECT_EQ(running->enter(1), StreamGate::Verdict::closed);
  EXPECT_EQ(hear(stale({2, 1})), Lines{});
  EXPECT_EQ(session_.running(), 0u);
  EXPECT_EQ(finish({1, 1}, ""), Lines{});
  EXPECT_EQ(hear(unknown_session()), (Lines{"> ready chat,embed capacity=2", "> heartbeat"}));
}

TEST_F(SessionTest, a_handler_that_does_not_stop_loses_its_job) {
  serve();
  const auto gate = start_stream({1, 1});
  ASSERT_EQ(hand_in(*gate, {1, 1}, limits::stream_chunks_max), StreamGate::Verdict::wait);
  said();

  EXPECT_EQ(hand_in(*gate, {1, 1}, kSurplusChunksMax), StreamGate::Verdict::wait);
  EXPECT_EQ(gate->enter(1), StreamGate::Verdict::overrun);
  EXPECT_EQ(gate->enter(1), StreamGate::Verdict::closed);
  EXPECT_EQ(overrun({1, 1}), (Lines{"> error 1.1 permanent stream_overrun", "cancel 1.1"}));
  EXPECT_EQ(finish({1, 1}, ""), Lines{});
  EXPECT_EQ(session_.running(), 0u);
}

TEST_F(SessionTest, the_bytes_behind_a_slow_reader_are_bounded_too) {
  StreamGate gate;
  const std::size_t step = limits::stream_bytes_max / 4;
  for (std::size_t bytes = step; bytes < limits::stream_bytes_max; bytes += step)
    ASSERT_EQ(gate.enter(step), StreamGate::Verdict::more);
  ASSERT_EQ(gate.enter(step), StreamGate::Verdict::wait);

  for (std::size_t bytes = 0; bytes < kSurplusBytesMax; bytes += step)
    ASSERT_EQ(gate.enter(step), StreamGate::Verdict::wait);
  EXPECT_EQ(gate.enter(step), StreamGate::Verdict::overrun);
}

TEST_F(SessionTest, pieces_that_cannot_be_sent_end_the_job) {
  serve(100);
  hear(offer(1));
  start_stream({2, 1});

  EXPECT_EQ(chunk({1, 1}, "a"), (Lines{"> error 1.1 permanent not_a_stream", "cancel 1.1"}));
  EXPECT_EQ(chunk({2, 1}, std::string(101, 'x')), (Lines{"> error 2.1 permanent too_large", "cancel 2.1"}));
}

TEST_F(SessionTest, passes_the_status_of_the_upstream_on) {
  serve();
  hear(offer(1));
  session_.finish({1, 1}, JobOutcome::failure({.code = "429", .upstream_status = 429}), now_, effects_);

  Decoder decoder;
  wire::WorkerReport report;
  ASSERT_EQ(decoder.decode(session_.outbox().front().header, report), nullptr);
  EXPECT_EQ(std::get<wire::Failure>(report).upstream_status, 429);
}

TEST_F(SessionTest, says_which_kind_of_limit_refused) {
  serve();
  hear(offer(1));
  session_.finish({1, 1},
                  JobOutcome::failure(
                      {.error_class = ErrorClass::limited, .code = "429", .limited_by = LimitedBy::slope}),
                  now_, effects_);

  Decoder decoder;
  wire::WorkerReport report;
  ASSERT_EQ(decoder.decode(session_.outbox().front().header, report), nullptr);
  EXPECT_EQ(std::get<wire::Failure>(report).limited_by, "slope");
}

TEST_F(SessionTest, fewer_places_count_when_the_broker_has_confirmed_them) {
  serve();

  session_.set_capacity(1);

  EXPECT_EQ(said(), Lines{"> ready chat,embed capacity=1"});
  EXPECT_EQ(session_.places(), 2u);
  // These two were under way.
  EXPECT_EQ(hear(offer(1)), Lines{"start 1.1 service 0"});
  EXPECT_EQ(hear(offer(2)), Lines{"start 2.1 service 0"});
  EXPECT_EQ(hear(welcome("")), Lines{});
  EXPECT_EQ(session_.places(), 2u);
  finish({1, 1});
  EXPECT_EQ(session_.places(), 1u);
  EXPECT_EQ(hear(offer(3)), Lines{"> error 3.1 released full"});
}

TEST_F(SessionTest, more_places_count_at_once) {
  serve();
  session_.set_capacity(0);
  hear(welcome(""));
  ASSERT_EQ(session_.places(), 0u);

  session_.set_capacity(2);

  EXPECT_EQ(said(), Lines{"> ready chat,embed capacity=2"});
  EXPECT_EQ(session_.places(), 2u);
}

TEST_F(SessionTest, each_ready_is_confirmed_on_its_own) {
  serve();
  session_.set_capacity(0);
  session_.set_capacity(1);
  session_.set_capacity(0);

  hear(welcome(""));
  hear(welcome(""));
  EXPECT_EQ(session_.places(), 2u);
  hear(welcome(""));
  EXPECT_EQ(session_.places(), 0u);
}

TEST_F(SessionTest, fewer_places_count_at_once_where_no_broker_has_heard_of_more) {
  connect();
  hear(wire::Bye{});

  session_.set_capacity(1);

  EXPECT_EQ(said(), Lines{});
  EXPECT_EQ(session_.places(), 1u);
  EXPECT_EQ(connect(), Lines{"> ready chat,embed capacity=1"});
}

TEST_F(SessionTest, knows_the_most_that_ran_at_once) {
  serve();
  hear(offer(1));
  hear(offer(2));
  finish({1, 1});

  EXPECT_EQ(session_.take_peak(), 2u);
  EXPECT_EQ(session_.take_peak(), 1u);
}

/// A session that a broker of shard `a` has welcomed, with a job that runs and one that is done.
class ShardSession : public SessionTest {
 protected:
  ShardSession() {
    connect();
    hear(welcome("a"));
    hear(offer(1));
    hear(offer(2));
    finish({2, 1});
  }
};

TEST_F(ShardSession, says_what_it_holds_when_the_broker_has_said_whose_it_is) {
  EXPECT_EQ(connect(), Lines{"> ready chat,embed capacity=2"});
  EXPECT_EQ(finish({1, 1}, "late"), Lines{});

  EXPECT_EQ(hear(welcome("a")), (Lines{"> heartbeat 1.1 2.1", "> result 2.1 ok", "> result 1.1 late",
                                       "shards list", "welcomed"}));
}

TEST_F(ShardSession, ends_a_stream_behind_the_pieces_that_it_held_back) {
  finish({1, 1});
  hear(wire::Acked{.jobs = {{1, 1}, {2, 1}}});
  const auto gate = start_stream({3, 1});
  connect();
  EXPECT_EQ(chunk({3, 1}, "one"), Lines{});
  EXPECT_EQ(chunk({3, 1}, "two"), Lines{});
  EXPECT_EQ(finish({3, 1}, ""), Lines{});

  EXPECT_EQ(hear(welcome("a")), (Lines{"> heartbeat 3.1", "> chunk 3.1 0 one", "> chunk 3.1 1 two",
                                       "> result 3.1 ", "shards list", "welcomed"}));
}

TEST_F(ShardSession, says_nothing_to_a_broker_of_another_shard) {
  connect();

  EXPECT_EQ(hear(welcome("b")), (Lines{"> bye", "refused"}));
  EXPECT_EQ(hear(wire::Heartbeat{}), Lines{});
  // Numbers of that shard.
  EXPECT_EQ(hear(offer(1, 2)), Lines{});
  EXPECT_EQ(hear(wire::CancelJob{.job = 1, .attempt = 1, .reason = "unknown"}), Lines{});
  EXPECT_EQ(hear(stale({2, 1})), Lines{});
  EXPECT_EQ(hear(unknown_session()), Lines{});
  EXPECT_EQ(pass(milliseconds(1000)), Lines{"reconnect"});
  EXPECT_EQ(session_.shard(), "a");
  EXPECT_EQ(session_.running(), 1u);
}

TEST_F(ShardSession, goes_on_with_a_broker_that_has_no_shards_any_more) {
  connect();

  EXPECT_EQ(hear(welcome("")), (Lines{"> heartbeat 1.1 2.1", "> result 2.1 ok", "shards list", "welcomed"}));
}

TEST_F(ShardSession, is_of_another_shard_when_it_holds_nothing) {
  finish({1, 1});
  hear(wire::Acked{.jobs = {{1, 1}, {2, 1}}});
  connect();

  EXPECT_EQ(hear(welcome("b")), (Lines{"> heartbeat", "shards list", "welcomed"}));
  EXPECT_EQ(session_.shard(), "b");
}

TEST_F(ShardSession, hands_in_what_it_has_before_it_says_bye) {
  finish({1, 1});
  connect();
  EXPECT_EQ(drain(milliseconds(5'000)), Lines{});

  EXPECT_EQ(hear(welcome("a")), (Lines{"> heartbeat 1.1 2.1", "> result 2.1 ok", "> result 1.1 ok", "> bye",
                                       "shards list", "welcomed"}));
}

TEST_F(ShardSession, leaves_without_its_broker_when_the_drain_is_over) {
  finish({1, 1});
  connect();
  drain(milliseconds(500));

  EXPECT_EQ(pass(milliseconds(500)), (Lines{"> bye", "left"}));
}

TEST_F(SessionTest, of_a_given_shard_serves_no_other_one) {
  SessionOptions of = options();
  of.shard = "b";
  Session session(of);
  Effects effects;
  session.connected(now_);

  session.receive(welcome("a"), now_, effects);

  EXPECT_FALSE(session.serves());
  session.receive(welcome("b"), now_, effects);
  EXPECT_TRUE(session.serves());
}

}  // namespace
}  // namespace lanemq::worker
