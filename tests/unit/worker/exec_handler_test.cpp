// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/exec_handler.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "common/settings/usage_error.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/unit/worker/exec_stage.hpp"
#include "worker/handlers/exec/program.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ExecHandlerTest : public ExecStage {
 protected:
  std::unique_ptr<ExecHandler> runs(const std::string& script, ExecOptions options = {}) {
    return std::make_unique<ExecHandler>(host_, shell(script), std::move(options));
  }
};

TEST_F(ExecHandlerTest, answers_with_what_the_program_writes) {
  const auto handler = runs("tr a-z A-Z");

  start(*handler, 1, "hello");

  EXPECT_EQ(answer(*handler, 1), "HELLO");
}

TEST_F(ExecHandlerTest, an_empty_body_is_an_empty_stdin) {
  const auto handler = runs("wc -c");
  start(*handler, 1);
  EXPECT_EQ(answer(*handler, 1), "0\n");
}

TEST_F(ExecHandlerTest, a_body_larger_than_a_pipe_goes_through) {
  const auto handler = runs("cat");
  const std::string body(std::size_t{5} << 20, 'x');
  start(*handler, 1, body);
  EXPECT_EQ(answer(*handler, 1), body);
}

TEST_F(ExecHandlerTest, a_program_may_leave_its_stdin_unread) {
  const auto handler = runs("echo enough");
  start(*handler, 1, std::string(std::size_t{1} << 20, 'x'));
  EXPECT_EQ(answer(*handler, 1), "enough\n");
}

TEST_F(ExecHandlerTest, the_exit_code_is_the_class) {
  const auto exits = [this](const std::string& script) {
    outcomes_.clear();
    const auto handler = runs(script);
    start(*handler, 1);
    return failure(*handler, 1);
  };
  EXPECT_EQ(exits("exit 75"), "retry exit_75");
  EXPECT_EQ(exits("exit 69"), "overloaded exit_69");
  EXPECT_EQ(exits("exit 1"), "permanent exit_1");
  EXPECT_EQ(exits("exit 255"), "permanent exit_255");
  EXPECT_EQ(exits("kill -9 $$"), "retry signal_9");
  EXPECT_EQ(exits("kill -9 $PPID; sleep 100"), "retry guard_lost");
}

TEST_F(ExecHandlerTest, the_message_ends_with_what_was_said_last) {
  const auto handler =
      runs("i=0; while [ $i -lt 3000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; echo out; exit 3");

  start(*handler, 1);

  EXPECT_EQ(failure(*handler, 1), "permanent exit_3");
  EXPECT_TRUE(message(1).starts_with("/bin/sh ended with 3; ")) << message(1);
  EXPECT_TRUE(message(1).ends_with("line 2998 | line 2999")) << message(1);
  EXPECT_GT(message(1).size(), 3000u);
  EXPECT_LE(message(1).size(), 4096u);
  EXPECT_EQ(outcomes_.at(1).body.bytes(), "out\n");
}

TEST_F(ExecHandlerTest, a_line_of_stderr_says_how_far_a_program_is) {
  const auto handler = runs(
      "echo 'lanemq-progress 10 reads its input' >&2; echo 'a warning' >&2; read more;"
      "echo lanemq-progress 90 >&2; echo '  lanemq-progress 91' >&2; echo 'is bad' >&2; exit 3");

  start(*handler, 1, "go on\n");

  EXPECT_EQ(outcome(*handler, 1).report->code, "exit_3");
  ASSERT_TRUE(words_.contains(1));
  EXPECT_EQ(words_[1].pct, 90);
  EXPECT_EQ(words_[1].note, "");
  EXPECT_NE(message(1).find("a warning"), std::string::npos);
  EXPECT_EQ(message(1).find("lanemq-progress 10"), std::string::npos) << message(1);
}

TEST_F(ExecHandlerTest, a_stream_comes_in_pieces_as_they_are_written) {
  // The program goes on when the test has seen the first piece.
  const test::TemporaryDirectory folder;
  const std::string go = folder.path("go");
  const auto handler = runs("echo one; while [ ! -e " + go + " ]; do sleep 0.01; done; echo two");

  start(*handler, 1, "", std::make_shared<StreamGate>());

  ASSERT_TRUE(turn_until(*handler, [this] {
    take();
    return streamed_[1] == "one\n";
  }));
  std::ofstream(go).put('\n');
  EXPECT_EQ(answer(*handler, 1), "");
  EXPECT_EQ(streamed_[1], "one\ntwo\n");
}

TEST_F(ExecHandlerTest, a_slow_reader_makes_the_program_wait) {
  const auto handler = runs("head -c 20000000 /dev/zero");
  const auto gate = std::make_shared<StreamGate>();
  start(*handler, 1, "", gate);

  // Nobody takes anything: what comes is a window, and what one read gave beyond it.
  ASSERT_TRUE(turn_until(*handler, [this, &gate] {
    take();
    return gate->verdict() == StreamGate::Verdict::wait;
  }));
  EXPECT_FALSE(turn_until(
      *handler, [this] { return take(), !outcomes_.empty(); }, milliseconds(100)));
  EXPECT_LE(streamed_[1].size(), limits::stream_bytes_max + (std::size_t{64} << 10));

  std::size_t taken_bytes = 0, taken_pieces = 0;
  ASSERT_TRUE(turn_until(*handler, [&] {
    take();
    if (gate->taken(pieces_[1] - taken_pieces, streamed_[1].size() - taken_bytes)) handler->resume({1, 1});
    taken_pieces = pieces_[1];
    taken_bytes = streamed_[1].size();
    return !outcomes_.empty();
  }));
  EXPECT_TRUE(outcomes_.at(1).succeeded());
  EXPECT_EQ(streamed_[1].size(), 20'000'000u);
}

TEST_F(ExecHandlerTest, too_long_an_answer_ends_its_program) {
  const auto handler = runs("echo $$ >&2; exec head -c 1000000000 /dev/zero", {.output_max = 100'000});

  start(*handler, 1);

  EXPECT_EQ(failure(*handler, 1), "permanent too_large");
  EXPECT_TRUE(is_gone(message(1).substr(message(1).rfind(' ') + 1))) << message(1);
}

TEST_F(ExecHandlerTest, whatever_it_has_started_ends_with_a_program) {
  // In its group, out of its session, and as a grandchild that nobody waits for; all hold stdout open.
  const auto handler = runs(
      "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; "
      "setsid sh -c 'setsid sleep 1000 & echo $!; exit' </dev/null & wait $!");

  start(*handler, 1);

  const std::string numbers = answer(*handler, 1);
  std::size_t count = 0, at = 0;
  for (std::size_t end; (end = numbers.find('\n', at)) != std::string::npos; at = end + 1, ++count)
    EXPECT_TRUE(is_gone(numbers.substr(at, end - at))) << numbers;
  EXPECT_EQ(count, 3u) << numbers;
}

TEST_F(ExecHandlerTest, a_cancelled_program_is_asked_first) {
  const auto handler = runs("trap 'echo asked >&2; exit 0' TERM; echo ready; while :; do sleep 0.01; done",
                            {.grace = seconds(60)});
  start(*handler, 1, "", std::make_shared<StreamGate>());
  ASSERT_TRUE(turn_until(*handler, [this] { return take(), streamed_[1] == "ready\n"; }));

  handler->cancel({1, 1});
  handler->cancel({7, 1});

  EXPECT_EQ(failure(*handler, 1), "retry cancelled");
  EXPECT_TRUE(message(1).ends_with("asked")) << message(1);
}

TEST_F(ExecHandlerTest, one_that_does_not_listen_is_killed) {
  const auto handler =
      runs("trap '' TERM; echo ready; while :; do sleep 0.01; done", {.grace = milliseconds(50)});
  start(*handler, 1, "", std::make_shared<StreamGate>());
  ASSERT_TRUE(turn_until(*handler, [this] { return take(), streamed_[1] == "ready\n"; }));

  handler->cancel({1, 1});

  EXPECT_EQ(failure(*handler, 1), "retry cancelled");
}

TEST_F(ExecHandlerTest, its_time_and_the_jobs_own_time_are_bounds) {
  const auto slow = runs("exec sleep 1000", {.timeout = milliseconds(50)});
  start(*slow, 1);
  EXPECT_EQ(failure(*slow, 1), "retry timeout");
  EXPECT_EQ(message(1), "not done within 50ms (timeout)");

  start(*slow, 2, "", nullptr, std::chrono::steady_clock::now() + milliseconds(20));
  EXPECT_EQ(failure(*slow, 2), "deadline timeout");
  start(*slow, 3, "", nullptr, std::chrono::steady_clock::now() - milliseconds(1));
  EXPECT_EQ(failure(*slow, 3), "deadline timeout");
}

TEST_F(ExecHandlerTest, the_program_hears_of_its_job_and_of_nothing_else) {
  setenv("EXEC_TEST_SECRET", "secret", 1);
  Program program = shell("env | sort | sed s/_MS=.*/_MS=/");
  ExecHandler handler(host_, program, {});

  start(handler, 5);

  EXPECT_EQ(answer(handler, 5),
            "LANEMQ_ATTEMPT=1\nLANEMQ_ID=the-id\nLANEMQ_JOB=5\nLANEMQ_LANE=high\nLANEMQ_SERVICE=s\n"
            "LANEMQ_TIMEOUT_MS=\nPATH=/usr/bin:/bin\nPWD=" +
                std::filesystem::current_path().string() + "\n");
}

TEST_F(ExecHandlerTest, it_has_no_descriptor_no_core_and_no_signal_of_the_workers) {
  Program program =
      shell("ls /proc/self/fd | wc -l; ulimit -c; ulimit -n; grep -E 'SigBlk|SigIgn' /proc/self/status");
  program.files_max = 64;
  ExecHandler handler(host_, program, {});

  start(handler, 1);

  // 0, 1, 2, and the folder that ls reads.
  EXPECT_EQ(answer(handler, 1), "4\n0\n64\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(ExecHandlerTest, its_memory_is_bounded) {
  Program program{.path = "/usr/bin/python3",
                  .arguments = {"python3", "-c", "bytearray(1 << 30)"},
                  .memory_max = std::uint64_t{256} << 20};
  ExecHandler handler(host_, program, {});
  start(handler, 1);
  EXPECT_EQ(failure(handler, 1), "permanent exit_1");
  EXPECT_NE(message(1).find("MemoryError"), std::string::npos) << message(1);
}

TEST_F(ExecHandlerTest, one_that_cannot_be_started_says_why) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer makes vfork() a fork(), whose child shares no memory to say it in";
#endif
  Program program{.path = "/nowhere/at/all", .arguments = {"all"}};
  ExecHandler handler(host_, program, {});
  start(handler, 1);
  EXPECT_EQ(failure(handler, 1), "retry not_started");
  EXPECT_EQ(message(1), "/nowhere/at/all: cannot start the program: No such file or directory");

  Program elsewhere = shell("true");
  elsewhere.directory = "/nowhere";
  ExecHandler lost(host_, elsewhere, {});
  start(lost, 2);
  EXPECT_EQ(failure(lost, 2), "retry not_started");
  EXPECT_EQ(message(2), "/bin/sh: cannot enter its directory: No such file or directory");

  Program wordy = shell("true");
  wordy.variables.push_back("X=" + std::string(kGuardRequestBytesMax, 'x'));
  ExecHandler full(host_, wordy, {});
  start(full, 3);
  EXPECT_EQ(failure(full, 3), "overloaded not_started");
}

TEST_F(ExecHandlerTest, a_name_that_no_variable_can_hold_is_refused) {
  const auto handler = runs("true");
  JobCall call;
  call.lease = {1, 1};
  call.id = std::string_view("a\0b", 3);
  handler->start(call, Completion(sink_, call.lease));
  EXPECT_EQ(failure(*handler, 1), "permanent bad_name");
}

TEST_F(ExecHandlerTest, guards_are_used_again) {
  const auto handler = runs("cat");
  for (std::uint64_t job = 1; job <= 20; ++job) {
    start(*handler, job, "x");
    EXPECT_EQ(answer(*handler, job), "x");
  }
  EXPECT_EQ(host_->guards(), 1u);
}

TEST_F(ExecHandlerTest, jobs_run_side_by_side) {
  const auto handler = runs("cat; sleep 0.2");
  const TimePoint began = std::chrono::steady_clock::now();
  for (std::uint64_t job = 1; job <= 20; ++job)
    start(*handler, job, std::to_string(job));
  for (std::uint64_t job = 1; job <= 20; ++job)
    EXPECT_EQ(answer(*handler, job), std::to_string(job));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(3));
}

TEST_F(ExecHandlerTest, starts_are_bounded) {
  const auto handler = runs("cat", {.starts_per_second = 1});
  const TimePoint now = std::chrono::steady_clock::now();
  start(*handler, 1, "x");
  start(*handler, 2, "x");

  handler->advance(now);

  EXPECT_EQ(handler->next_wakeup(), now + seconds(1));
  EXPECT_EQ(answer(*handler, 1), "x");
  handler->cancel({2, 1});
  EXPECT_EQ(failure(*handler, 2), "retry cancelled");
}

TEST(StartRate, allows_so_many_at_once_and_then_evenly) {
  const TimePoint now{std::chrono::hours(1)};
  StartRate rate(4);
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(rate.take(now));
  EXPECT_FALSE(rate.take(now));
  EXPECT_EQ(rate.next(), now + milliseconds(250));
  EXPECT_TRUE(rate.take(now + milliseconds(250)));
  EXPECT_FALSE(rate.take(now + milliseconds(250)));
}

TEST_F(ExecHandlerTest, a_handler_that_ends_takes_its_programs_along) {
  auto handler = runs("echo $$; setsid sleep 1000 & echo $!; wait");
  start(*handler, 1, "", std::make_shared<StreamGate>());
  ASSERT_TRUE(turn_until(*handler, [this] {
    take();
    return std::count(streamed_[1].begin(), streamed_[1].end(), '\n') == 2;
  }));

  handler.reset();
  host_.reset();

  const std::size_t middle = streamed_[1].find('\n');
  EXPECT_TRUE(is_gone(streamed_[1].substr(0, middle)));
  EXPECT_TRUE(is_gone(streamed_[1].substr(middle + 1)));
}

TEST_F(ExecHandlerTest, a_killed_keeper_is_replaced) {
  // The guard's parent is the keeper.
  const auto handler = runs("kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 1000");
  start(*handler, 1);
  EXPECT_EQ(failure(*handler, 1), "retry guard_lost");

  const auto next = runs("cat");
  start(*next, 2, "x");
  EXPECT_EQ(answer(*next, 2), "x");
}

// ---- the program --------------------------------------------------------------------------------------

std::string why_not(const ExecOptions& options) {
  try {
    find_program(options, [](const std::string& name) { return std::getenv(name.c_str()); });
    return "";
  } catch (const settings::UsageError& error) {
    return error.what();
  }
}

TEST(FindProgram, looks_into_path_and_says_what_is_wrong) {
  const test::TemporaryDirectory folder;
  const std::string file = folder.path("plain");
  std::ofstream(file).put('\n');

  EXPECT_EQ(why_not({.argv = {"sh"}}), "");
  EXPECT_EQ(why_not({.argv = {"/bin/sh"}}), "");
  EXPECT_EQ(why_not({}), "needs argv = [\"PROGRAM\", …], or exec:PROGRAM");
  EXPECT_EQ(
      why_not({.argv = {"no-such-program"}}),
      "program \"no-such-program\" is in no folder of PATH: No such file or directory; write its whole path");
  EXPECT_EQ(why_not({.argv = {"/no/such"}}), "program \"/no/such\" cannot be run: No such file or directory");
  EXPECT_EQ(why_not({.argv = {file}}), "program \"" + file + "\" cannot be run: Permission denied");
  EXPECT_EQ(why_not({.argv = {"/tmp"}}), "program \"/tmp\" cannot be run: Is a directory");
  EXPECT_EQ(why_not({.argv = {"sh"}, .directory = file}), "directory \"" + file + "\" is none");
  EXPECT_NE(why_not({.argv = {"sh"}, .environment = {"LANEMQ_ID=x"}}), "");
  EXPECT_NE(why_not({.argv = {"sh"}, .environment = {"=x"}}), "");
  EXPECT_EQ(why_not({.argv = {"sh"}, .environment = {"T=env:NOT_SET_HERE"}}).substr(0, 15),
            "environment: T:");
  const std::string secret = "sk-proj-0123456789abcdefghij";
  const std::string why = why_not({.argv = {"sh"}, .environment = {"OPENAI_API_KEY=" + secret}});
  EXPECT_EQ(why.substr(0, 59), "environment: OPENAI_API_KEY: its value looks like a secret,");
  EXPECT_EQ(why.find(secret), std::string::npos);
  EXPECT_EQ(
      why_not({.argv = {"sh"}, .environment = {"MODEL_SHA256=" + secret, "SORT_KEY=name", "api_token="}}), "")
      << "no secrets, by their names or their values";
}

TEST(FindProgram, passes_on_what_the_list_names) {
  const auto environment = [](const std::string& name) -> const char* {
    if (name == "PATH") return "/usr/bin:/bin";
    if (name == "HOME") return "/home/h";
    if (name == "API_KEY") return "secret";
    if (name == "MODEL_HOME") return "/models";
    return nullptr;
  };
  const Program program = find_program(
      {.argv = {"sh"},
       .environment = {"MODEL_HOME", "MISSING", "EXTRA=a=b", "HOME=/other", "TOKEN=env:API_KEY"}},
      environment);
  EXPECT_EQ(program.variables, (std::vector<std::string>{"PATH=/usr/bin:/bin", "MODEL_HOME=/models",
                                                         "EXTRA=a=b", "HOME=/other", "TOKEN=secret"}));
  EXPECT_EQ(program.path, "/usr/bin/sh");
}

}  // namespace
}  // namespace lanemq::worker
