// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/pool_handler.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/worker/exec_stage.hpp"
#include "worker/base/shard_lease.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using PoolJson = nlohmann::json;

/// What every script of a process begins with.
constexpr const char* kBegin =
    "import json, os, sys, time\n"
    "def say(op, job, **fields): print(json.dumps({'op': op, 'job': job['job'], **fields}), flush=True)\n";

class PoolHandlerTest : public ExecStage {
 protected:
  std::unique_ptr<PoolHandler> pool(const std::string& script, ExecOptions options = {}) {
    if (options.processes == 0) options.processes = 1;
    const Program program{.path = "/usr/bin/python3",
                          .arguments = {"python3", "-c", kBegin + script},
                          .variables = {"PATH=/usr/bin:/bin"}};
    return std::make_unique<PoolHandler>(host_, program, std::move(options), "s", log_);
  }
  /// A process that does `each` with every job.
  std::unique_ptr<PoolHandler> each(const std::string& each, ExecOptions options = {}) {
    return pool(
        "for line in sys.stdin:\n job = json.loads(line)\n if job['op'] != 'job': continue\n " + each + "\n",
        std::move(options));
  }
  bool logged(const std::string& part) const {
    return std::any_of(lines_.begin(), lines_.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

  std::vector<std::string> lines_;
  Log log_{.level = LogLevel::debug,
           .write = [this](LogLevel, std::string_view line) { lines_.emplace_back(line); }};
};

TEST_F(PoolHandlerTest, one_process_answers_job_after_job) {
  const auto handler = each("say('result', job, body=job['body'].upper() + str(os.getpid()))");

  start(*handler, 1, "a");
  start(*handler, 2, "b");

  const std::string first = answer(*handler, 1), second = answer(*handler, 2);
  EXPECT_EQ(first[0], 'A');
  EXPECT_EQ(second[0], 'B');
  EXPECT_EQ(first.substr(1), second.substr(1));
}

TEST_F(PoolHandlerTest, a_job_is_a_line_with_the_fields_of_the_protocol) {
  const auto handler = each("say('result', job, body=line)", {.timeout = seconds(7)});

  start(*handler, 3, "b\"\n\xC3\xA4", std::make_shared<StreamGate>());

  PoolJson said = PoolJson::parse(answer(*handler, 3));
  EXPECT_GT(said["timeout_ms"], 6000);
  said.erase("timeout_ms");
  EXPECT_EQ(said, (PoolJson{{"op", "job"},
                            {"job", 3},
                            {"attempt", 1},
                            {"id", "the-id"},
                            {"service", "s"},
                            {"lane", "high"},
                            {"stream", true},
                            {"body", "b\"\n\xC3\xA4"}}));
}

TEST_F(PoolHandlerTest, meta_and_extras_come_as_json) {
  JobCall call;
  call.lease = {1, 2};
  const std::string meta = "\x82\xA1\x61\x01\xA1\x62\x92\xC3\xC0", extra = "\xA3x-y\xA1z";
  call.meta = {meta};
  call.extras = {.count = 1, .bytes = extra};

  const PoolJson line = PoolJson::parse(job_line(call) + job_line_end(milliseconds(5)));

  EXPECT_EQ(line["meta"], PoolJson::parse(R"({"a": 1, "b": [true, null]})"));
  EXPECT_EQ(line["x-y"], "z");
  EXPECT_EQ(line["attempt"], 2);
  EXPECT_EQ(line["body"], "");
}

TEST_F(PoolHandlerTest, a_process_says_how_far_its_job_is) {
  const auto handler = each(
      "say('progress', job, pct=40, note='reads'); say('progress', job, pct=101); "
      "say('result', job, body='done')");

  start(*handler, 1);

  EXPECT_EQ(answer(*handler, 1), "done");
  EXPECT_EQ(words_[1].pct, 100);
  EXPECT_EQ(words_[1].note, "") << "each takes the place of the one before";
}

TEST_F(PoolHandlerTest, bytes_that_are_no_text_go_in_base64) {
  const auto handler = each("say('result', job, body_base64=job['body_base64'])");
  const std::string bytes("\x00\xFF\xFE\n", 4);
  start(*handler, 1, bytes);
  EXPECT_EQ(answer(*handler, 1), bytes);
}

TEST_F(PoolHandlerTest, a_long_body_goes_through) {
  const auto handler = each("say('result', job, body=job['body'])");
  const std::string body(std::size_t{3} << 20, 'x');
  start(*handler, 1, body);
  EXPECT_EQ(answer(*handler, 1), body);
}

TEST_F(PoolHandlerTest, an_error_says_all_that_the_protocol_has) {
  const auto handler = each(
      "say('error', job, attempt=1, **{'class': 'limited'}, code='busy', message='later', retry_after_ms=70,"
      " body='why', upstream_status=429, usage={'requests': 1, 'input_tokens': 9}, "
      "limits={'remaining_tokens': 0, 'limit_concurrency': 3}, limited_by='concurrency')");

  start(*handler, 1);

  EXPECT_EQ(failure(*handler, 1), "limited busy");
  const JobOutcome& ended = outcomes_.at(1);
  EXPECT_EQ(message(1), "later");
  EXPECT_EQ(ended.body.bytes(), "why");
  EXPECT_EQ(ended.report->retry_after, milliseconds(70));
  EXPECT_EQ(ended.report->upstream_status, 429);
  EXPECT_EQ(ended.report->usage->input_tokens, 9);
  EXPECT_EQ(ended.report->limits->remaining_tokens, 0);
  EXPECT_EQ(ended.report->limits->limit_concurrency, 3);
  EXPECT_EQ(ended.report->limited_by, LimitedBy::concurrency);
}

TEST_F(PoolHandlerTest, jobs_are_spread_over_free_processes) {
  const auto handler = each("time.sleep(0.3); say('result', job, body=str(os.getpid()))", {.processes = 4});
  for (std::uint64_t job = 1; job <= 4; ++job)
    start(*handler, job);
  std::set<std::string> processes;
  for (std::uint64_t job = 1; job <= 4; ++job)
    processes.insert(answer(*handler, job));
  EXPECT_EQ(processes.size(), 4u);
}

TEST_F(PoolHandlerTest, jobs_of_two_shards_with_one_number_are_told_apart) {
  const auto handler = each(
      "jobs = [job, json.loads(sys.stdin.readline())]\n"
      " for job in reversed(jobs): say('result', job, body=f\"{job['job']} {job['body']}\")",
      {.jobs_per_process = 2});
  const std::uint64_t other = inside(1, {7, 1}).job;

  start(*handler, 7, "first");
  start(*handler, other, "second");

  EXPECT_EQ(answer(*handler, 7), "7 first");
  // What every language has exactly.
  EXPECT_EQ(answer(*handler, other), "9007199254740991 second");
}

TEST_F(PoolHandlerTest, a_process_may_have_several_jobs) {
  const auto handler = pool(
      "jobs = [json.loads(sys.stdin.readline()) for _ in range(3)]\n"
      "for job in reversed(jobs): say('result', job, body=job['body'])\nsys.stdin.read()",
      {.jobs_per_process = 3});
  for (std::uint64_t job = 1; job <= 3; ++job)
    start(*handler, job, std::to_string(job));
  for (std::uint64_t job = 1; job <= 3; ++job)
    EXPECT_EQ(answer(*handler, job), std::to_string(job));
}

TEST_F(PoolHandlerTest, a_stream_comes_in_chunks) {
  const auto handler =
      each("[say('chunk', job, seq=i, body=str(i)) for i in range(3)]; say('result', job, body='end')");
  start(*handler, 1, "", std::make_shared<StreamGate>());
  EXPECT_EQ(answer(*handler, 1), "end");
  EXPECT_EQ(streamed_[1], "012");
}

TEST_F(PoolHandlerTest, a_process_that_heeds_windows_streams_on) {
  // It has 64 chunks under way at the most, as the protocol says.
  const auto handler = pool(
      "job = json.loads(sys.stdin.readline())\ntaken = -1\n"
      "for seq in range(500):\n"
      " while seq - taken > 64: taken = json.loads(sys.stdin.readline())['seq']\n"
      " say('chunk', job, seq=seq, body='x')\n"
      "say('result', job, body='end')\nsys.stdin.read()",
      {.jobs_per_process = 2});
  const auto gate = std::make_shared<StreamGate>();
  start(*handler, 1, "", gate);
  std::size_t taken = 0;
  ASSERT_TRUE(turn_until(*handler, [&] {
    take();
    if (gate->taken(pieces_[1] - taken, pieces_[1] - taken)) handler->resume({1, 1});
    taken = pieces_[1];
    return !outcomes_.empty();
  }));
  EXPECT_TRUE(outcomes_.at(1).succeeded());
  EXPECT_EQ(streamed_[1].size(), 500u);
}

TEST_F(PoolHandlerTest, a_slow_reader_makes_its_process_wait) {
  const auto handler = each("[say('chunk', job, body='x' * 10000) for i in range(500)]; say('result', job)");
  const auto gate = std::make_shared<StreamGate>();
  start(*handler, 1, "", gate);
  ASSERT_TRUE(turn_until(*handler, [&] {
    take();
    return gate->verdict() == StreamGate::Verdict::wait;
  }));
  EXPECT_FALSE(turn_until(
      *handler, [&] { return take(), !outcomes_.empty(); }, milliseconds(100)));
  EXPECT_LE(streamed_[1].size(), limits::stream_bytes_max + 2 * (std::size_t{64} << 10));

  std::size_t taken_bytes = 0, taken_pieces = 0;
  ASSERT_TRUE(turn_until(*handler, [&] {
    take();
    if (gate->taken(pieces_[1] - taken_pieces, streamed_[1].size() - taken_bytes)) handler->resume({1, 1});
    taken_pieces = pieces_[1];
    taken_bytes = streamed_[1].size();
    return !outcomes_.empty();
  }));
  EXPECT_EQ(streamed_[1].size(), 5'000'000u);
}

TEST_F(PoolHandlerTest, a_process_that_dies_fails_its_job_and_is_replaced) {
  const auto handler = each(
      "\n if job['body'] == 'die': print('aargh', file=sys.stderr, flush=True); os._exit(3)\n"
      " say('result', job, body='alive')");
  start(*handler, 1, "x");
  EXPECT_EQ(answer(*handler, 1), "alive");
  start(*handler, 2, "die");
  EXPECT_EQ(failure(*handler, 2), "retry process_ended");
  EXPECT_EQ(message(2), "the process that had the job ended with 3; aargh");
  start(*handler, 3, "x");
  EXPECT_EQ(answer(*handler, 3), "alive");
  EXPECT_TRUE(
      logged("exec.process_ended service=s program=/usr/bin/python3 how=\"ended with 3\" jobs=1 said=aargh"))
      << lines_.back();
}

TEST_F(PoolHandlerTest, a_program_that_never_comes_up_holds_no_job) {
  const auto handler = pool("sys.exit('no model')", {.processes = 2});
  const TimePoint began = std::chrono::steady_clock::now();
  start(*handler, 1);
  start(*handler, 2);
  start(*handler, 3);
  for (std::uint64_t job = 1; job <= 3; ++job) {
    EXPECT_EQ(failure(*handler, job).substr(0, 6), "retry ");
    EXPECT_NE(message(job).find("no model"), std::string::npos) << message(job);
  }
  EXPECT_GE(*handler->next_wakeup(), began + PoolHandler::kPauseMin);
}

TEST_F(PoolHandlerTest, what_is_no_answer_ends_the_process) {
  const std::pair<const char*, const char*> kLines[] = {
      {"hello", "is no JSON"},
      {"[]", "is no JSON object"},
      {R"({"op": "sing", "job": 1})", "op is \"sing\""},
      {R"({"op": "result"})", "job is missing"},
      {R"({"op": "result", "job": -1})", "job must be a whole number"},
      {R"({"op": "result", "job": 1, "body": 5})", "body must be a string"},
      {R"({"op": "result", "job": 1, "body": "a", "body_base64": "YQ=="})", "there are body and body_base64"},
      {R"({"op": "result", "job": 1, "body_base64": "?"})", "body_base64 is no base64"},
      {R"({"op": "error", "job": 1})", "class is missing"},
      {R"({"op": "result", "job": 1, "usage": 5})", "usage must be an object"},
      {R"({"op": "chunk", "job": 1, "body": "a"})", "a chunk of a job without stream"}};
  for (const auto& [line, why] : kLines) {
    outcomes_.clear();
    const auto handler = each("print(" + PoolJson(line).dump() + ", flush=True); time.sleep(100)");
    start(*handler, 1);
    EXPECT_EQ(failure(*handler, 1), "retry process_killed");
    EXPECT_NE(message(1).find(why), std::string::npos) << message(1);
  }
}

TEST_F(PoolHandlerTest, a_line_without_end_ends_the_process) {
  const auto handler =
      each("sys.stdout.write('x' * (1 << 20)); sys.stdout.flush(); time.sleep(100)", {.output_max = 100'000});
  start(*handler, 1);
  EXPECT_EQ(failure(*handler, 1), "retry process_killed");
  EXPECT_NE(message(1).find("output_max"), std::string::npos) << message(1);
}

TEST_F(PoolHandlerTest, answers_to_no_job_are_ignored) {
  const auto handler = each(
      "say('result', {'job': 77}, body='?'); say('result', job, attempt=9); print(flush=True);"
      " say('result', job, attempt=1, body='once'); say('result', job, body='twice')");
  start(*handler, 1);
  EXPECT_EQ(answer(*handler, 1), "once");
  start(*handler, 2);
  EXPECT_EQ(answer(*handler, 2), "once");
  EXPECT_TRUE(logged("exec.answer_ignored service=s job=77"));
}

TEST_F(PoolHandlerTest, a_cancel_is_told_and_may_be_answered) {
  const auto handler = pool(
      "job = json.loads(sys.stdin.readline())\nsay('chunk', job, body='ready')\n"
      "told = json.loads(sys.stdin.readline())\n"
      "say('error', job, **{'class': 'retry'}, code='stopped', message=json.dumps(told))\nsys.stdin.read()",
      {.grace = seconds(60)});
  start(*handler, 1, "", std::make_shared<StreamGate>());
  ASSERT_TRUE(turn_until(*handler, [this] { return take(), streamed_[1] == "ready"; }));

  handler->cancel({1, 1});

  EXPECT_EQ(failure(*handler, 1), "retry stopped");
  EXPECT_EQ(PoolJson::parse(message(1)),
            PoolJson::parse(R"({"op":"cancel","job":1,"attempt":1,"reason":"cancelled"})"));
}

TEST_F(PoolHandlerTest, a_process_that_does_not_heed_a_cancel_is_killed) {
  const auto handler =
      each("say('chunk', job, body=str(os.getpid())); time.sleep(100)", {.grace = milliseconds(50)});
  start(*handler, 1, "", std::make_shared<StreamGate>());
  ASSERT_TRUE(turn_until(*handler, [this] { return take(), !streamed_[1].empty(); }));
  start(*handler, 2);
  handler->cancel({2, 1});
  handler->cancel({1, 1});
  EXPECT_EQ(failure(*handler, 1), "retry cancelled");
  EXPECT_EQ(failure(*handler, 2), "retry cancelled");
  EXPECT_TRUE(is_gone(streamed_[1]));
}

TEST_F(PoolHandlerTest, time_is_a_bound) {
  const auto handler = each("time.sleep(100)", {.timeout = milliseconds(30), .grace = milliseconds(30)});
  start(*handler, 1);
  EXPECT_EQ(failure(*handler, 1), "retry timeout");
  start(*handler, 2, "", nullptr, std::chrono::steady_clock::now() + milliseconds(10));
  EXPECT_EQ(failure(*handler, 2), "deadline timeout");
}

TEST_F(PoolHandlerTest, a_process_is_replaced_after_its_share_of_jobs) {
  const auto handler = each("say('result', job, body=str(os.getpid()))", {.recycle_after = 2});
  std::vector<std::string> processes;
  for (std::uint64_t job = 1; job <= 6; ++job) {
    start(*handler, job);
    processes.push_back(answer(*handler, job));
  }
  EXPECT_EQ(processes[0], processes[1]);
  EXPECT_NE(processes[1], processes[2]);
  EXPECT_EQ(processes[2], processes[3]);
  EXPECT_NE(processes[3], processes[4]);
  EXPECT_FALSE(logged("exec.process_ended"));
}

TEST_F(PoolHandlerTest, one_that_reads_nothing_holds_nobody_up) {
  const auto handler = pool("time.sleep(100)", {.timeout = milliseconds(100), .grace = milliseconds(10)});
  start(*handler, 1, std::string(std::size_t{8} << 20, 'x'));
  EXPECT_EQ(failure(*handler, 1), "retry timeout");
}

}  // namespace
}  // namespace lanemq::worker
