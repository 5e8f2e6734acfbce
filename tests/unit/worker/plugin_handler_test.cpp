// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/plugin/plugin_handler.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <dirent.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.hpp"
#include "worker/session/completion.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

std::string file_of(const std::string& name) {
  return std::string(LANEMQ_TEST_PLUGINS) + "/" + name + ".so";
}

class PluginHandlerTest : public testing::Test {
 protected:
  PluginHandlerTest() { sink_->adopt_thread(); }

  std::unique_ptr<PluginHandler> make(const std::string& name, const std::string& argument = "",
                                      std::vector<std::pair<std::string, std::string>> settings = {}) {
    const PluginOptions options{.file = file_of(name), .argument = argument, .settings = std::move(settings)};
    return std::make_unique<PluginHandler>("tried", options, 16, log_);
  }
  std::string why_not(const std::string& name, const std::string& argument = "",
                      milliseconds at_most = std::chrono::minutes(1)) {
    return why_no_plugin("tried", {.file = file_of(name), .argument = argument, .settings = {}}, 16, log_,
                         at_most)
        .value_or("");
  }
  void start(PluginHandler& handler, wire::Lease lease, std::string_view body,
             const std::shared_ptr<StreamGate>& gate = nullptr) {
    JobCall job;
    job.lease = lease;
    job.service = "tried";
    job.body = Blob::copy(body);
    job.answer_bytes_max = 1000;
    job.stream = gate != nullptr;
    handler.start(job, Completion(sink_, lease, gate));
  }
  /// Waits until so many jobs are over.
  std::vector<FinishedJob> finished(std::size_t count) {
    std::vector<FinishedJob> jobs;
    while (jobs.size() < count) {
      CompletionSink::HandedIn all;
      sink_->take(all);
      for (FinishedJob& job : all.finished)
        jobs.push_back(std::move(job));
      for (StreamPiece& piece : all.pieces)
        pieces_ += piece.body.bytes();
      for (ProgressWord& word : all.words)
        words_.push_back((word.said.pct ? std::to_string(*word.said.pct) : "-") + " " + word.said.note);
      std::this_thread::yield();
    }
    return jobs;
  }
  /// How a job with this body ends at the hostile plugin: its answer, or CLASS/CODE.
  std::string end_of(PluginHandler& handler, std::string_view body,
                     const std::shared_ptr<StreamGate>& gate = nullptr) {
    start(handler, {++last_job_, 1}, body, gate);
    std::vector<FinishedJob> jobs = finished(1);
    EXPECT_EQ(jobs.size(), 1u);
    EXPECT_EQ(jobs[0].lease.job, last_job_);
    last_ = std::move(jobs[0].outcome);
    if (last_.succeeded()) return std::string(last_.body.bytes());
    return std::string(name_of(*last_.report->error_class)) + "/" + last_.report->code;
  }

  std::string logged_;
  const Log log_{.json = false, .level = LogLevel::debug, .write = [this](LogLevel, std::string_view line) {
                   logged_ += std::string(line) + "\n";
                 }};
  std::shared_ptr<CompletionSink> sink_ = std::make_shared<CompletionSink>();
  std::string pieces_;
  std::vector<std::string> words_;
  std::uint64_t last_job_ = 0;
  JobOutcome last_;
};

TEST_F(PluginHandlerTest, a_plugin_in_c_answers) {
  const auto handler = make("reverse");
  EXPECT_EQ(end_of(*handler, "lane"), "enal");
  EXPECT_EQ(end_of(*handler, ""), "");
}

TEST_F(PluginHandlerTest, a_plugin_with_threads_answers_and_streams) {
  const auto handler = make("word_count", "", {{"threads", "3"}});
  EXPECT_EQ(end_of(*handler, "one two  three\n"), "3\n");
  EXPECT_EQ(end_of(*handler, "one two", std::make_shared<StreamGate>()), "");
  EXPECT_EQ(pieces_, "1 one\n2 two\n");
}

TEST_F(PluginHandlerTest, a_plugin_waits_for_a_slow_reader_and_goes_on) {
  const auto handler = make("word_count");
  std::string body;
  for (std::size_t i = 0; i < 4 * limits::stream_chunks_max; ++i)
    body += "word ";
  const auto gate = std::make_shared<StreamGate>();
  start(*handler, {7, 1}, body, gate);
  std::size_t lines = 0;
  CompletionSink::HandedIn all;
  const std::vector<FinishedJob>& jobs = all.finished;
  while (jobs.empty()) {
    sink_->take(all);
    for (const StreamPiece& piece : all.pieces) {
      ASSERT_FALSE(piece.overrun);
      ++lines;
      if (gate->taken(1, piece.body.size())) handler->resume({7, 1});
    }
    all.pieces.clear();
    std::this_thread::yield();
  }
  EXPECT_TRUE(jobs[0].outcome.succeeded());
  EXPECT_EQ(lines, 4 * limits::stream_chunks_max);
}

TEST_F(PluginHandlerTest, a_cancelled_job_ends_also_while_it_waits) {
  const auto handler = make("word_count", "", {{"threads", "1"}});
  std::string body;
  for (std::size_t i = 0; i < 4 * limits::stream_chunks_max; ++i)
    body += "word ";
  start(*handler, {1, 1}, body, std::make_shared<StreamGate>());  // nobody reads it, so its thread waits
  start(*handler, {2, 1}, "never counted");
  handler->cancel({2, 1});
  handler->cancel({1, 1});
  handler->cancel({99, 1});
  for (const FinishedJob& job : finished(2))
    EXPECT_EQ(job.outcome.report->code, "cancelled");
}

TEST_F(PluginHandlerTest, what_cannot_be_used_is_refused_with_the_reason) {
  const std::map<std::string, std::string> reasons{
      {"no_symbol", "it exports no lanemq_get_handler_plugin(), which lanemq/handler_plugin.h declares"},
      {"other_version",
       "it is made for version 99 of lanemq/handler_plugin.h, and this program has version 1; compile it "
       "anew"},
      {"missing", "it cannot be read: No such file or directory"}};
  for (const auto& [name, reason] : reasons) {
    EXPECT_EQ(why_not(name), reason);
    EXPECT_THROW(make(name), plugin::PluginError) << name;
  }
  EXPECT_EQ(why_not("reverse"), "");
  EXPECT_EQ(why_not("hostile"), "");
}

TEST_F(PluginHandlerTest, a_plugin_that_goes_wrong_at_its_start_does_so_in_the_probe) {
  const std::map<std::string, std::string> reasons{{"crash", "it crashes: signal 6 (Aborted)"},
                                                   {"exit", "it ends its process, with exit code 7"},
                                                   {"throw", "create() threw: no luck"},
                                                   {"throw_number", "create() threw"},
                                                   {"null", "create() gave no reason"},
                                                   {"endless_reason", std::string(1023, 'x')},
                                                   {"descriptor", "its descriptor 1048576 is not open"}};
  for (const auto& [argument, reason] : reasons)
    EXPECT_EQ(why_not("hostile", argument), reason) << argument;
  EXPECT_EQ(why_not("hostile", "hang", milliseconds(50)),
            "it is not ready within 50 ms; let create() return, and work later");
}

TEST_F(PluginHandlerTest, a_file_that_is_none_or_that_all_may_write_is_refused) {
  const test::TemporaryDirectory folder;
  const std::string copy = folder.path("copy.so");
  std::filesystem::copy_file(file_of("reverse"), copy);
  std::filesystem::permissions(copy, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  const auto why = [&](const std::string& file) {
    return why_no_plugin("tried", {.file = file, .argument = {}, .settings = {}}, 1, log_).value_or("");
  };
  EXPECT_EQ(why(copy), "everybody may write to it; take that away with chmod o-w");
  EXPECT_EQ(why(folder.path("")), "it is no file");
  EXPECT_EQ(why(folder.write("text.so", "no library")), "it cannot be loaded: file too short");
}

TEST_F(PluginHandlerTest, settings_and_argument_reach_the_plugin) {
  try {
    make("hostile", "settings", {{"threads", "4"}, {"models", "a"}, {"models", "b"}, {"cache.size", "1MiB"}});
    FAIL();
  } catch (const plugin::PluginError& error) {
    EXPECT_STREQ(error.what(), "threads=4;models=a;models=b;cache.size=1MiB;");
  }
  try {
    make("word_count", "", {{"thraeds", "4"}});
    FAIL();
  } catch (const plugin::PluginError& error) {
    EXPECT_STREQ(error.what(), "there is no setting \"thraeds\"; there is threads");
  }
}

TEST_F(PluginHandlerTest, a_hostile_plugin_ends_its_job_once_and_harms_no_other) {
  const auto handler = make("hostile");
  EXPECT_EQ(end_of(*handler, "throw"), "retry/plugin_threw");
  EXPECT_EQ(end_of(*handler, "throw_behind"), "first");
  EXPECT_EQ(end_of(*handler, "twice"), "once");
  EXPECT_EQ(end_of(*handler, "invented"), "mine");
  EXPECT_EQ(end_of(*handler, "nowhere"), "permanent/bad_answer");
  EXPECT_EQ(end_of(*handler, "huge"), "permanent/bad_answer");
  EXPECT_EQ(end_of(*handler, "huge_piece", std::make_shared<StreamGate>()), "permanent/bad_answer");
  EXPECT_EQ(end_of(*handler, "piece"), "permanent/bad_answer");
  EXPECT_EQ(end_of(*handler, "null_failure"), "retry/plugin_failed");
  EXPECT_EQ(end_of(*handler, "thread"), "from a thread");
  EXPECT_EQ(end_of(*handler, "log"), "logged");
  EXPECT_NE(logged_.find("plugin.says service=tried text=\"two\\x0alines\""), std::string::npos) << logged_;
  EXPECT_NE(logged_.find("plugin.threw service=tried function=start what=cannot"), std::string::npos)
      << logged_;
  CompletionSink::HandedIn more;
  sink_->take(more);
  EXPECT_TRUE(more.empty());
}

TEST_F(PluginHandlerTest, says_how_far_its_jobs_are) {
  const auto handler = make("hostile");

  EXPECT_EQ(end_of(*handler, "progress"), "done");
  // Of words that nobody took in between the last one is left; bytes at no place are none.
  EXPECT_EQ(words_, (std::vector<std::string>{"100 " + std::string(256, 'n')}));
  words_.clear();
  EXPECT_EQ(end_of(*handler, "progress_without"), "done");
  EXPECT_EQ(words_, std::vector<std::string>{"- "});
}

TEST_F(PluginHandlerTest, garbage_in_a_failure_is_bounded) {
  const auto handler = make("hostile");
  EXPECT_EQ(end_of(*handler, "garbage"), "retry/plugin_failed");
  EXPECT_EQ(last_.report->message, "\\xff\\xfe\\x1b[2J");
  EXPECT_EQ(last_.report->retry_after, std::chrono::hours(24));
  EXPECT_EQ(last_.report->upstream_status, std::nullopt);
  ASSERT_TRUE(last_.report->usage);
  EXPECT_EQ(last_.report->usage->requests, std::nullopt);
}

TEST_F(PluginHandlerTest, says_which_kind_of_limit_refused_unless_it_is_older) {
  const auto handler = make("hostile");

  EXPECT_EQ(end_of(*handler, "limited"), "limited/busy");
  EXPECT_EQ(last_.report->limited_by, LimitedBy::concurrency);
  EXPECT_EQ(last_.report->limits->limit_concurrency, 3);

  EXPECT_EQ(end_of(*handler, "limited_by_an_older_one"), "limited/busy");
  EXPECT_EQ(last_.report->limited_by, std::nullopt);
  EXPECT_EQ(last_.report->limits->limit_requests, 60);
  EXPECT_EQ(last_.report->limits->limit_concurrency, std::nullopt);
}

TEST_F(PluginHandlerTest, odd_times_and_exceptions_in_other_calls_do_no_harm) {
  const auto odd = make("hostile", "odd_time");
  EXPECT_EQ(odd->next_wakeup(), std::nullopt);
  EXPECT_EQ(make("hostile")->next_wakeup(), std::nullopt);
  EXPECT_EQ(make("reverse")->next_wakeup(), std::nullopt);
  const auto throws = make("hostile", "throw_in_cancel");
  throws->cancel({1, 1});
  EXPECT_NE(logged_.find("plugin.threw service=tried function=cancel"), std::string::npos) << logged_;
  make("hostile", "throw_at_the_end");
  EXPECT_NE(logged_.find("function=destroy"), std::string::npos) << logged_;
}

TEST_F(PluginHandlerTest, an_answer_behind_the_cancel_counts_once) {
  const auto handler = make("hostile");
  start(*handler, {5, 2}, "keep");
  handler->cancel({5, 2});
  const auto jobs = finished(1);
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].outcome.body.bytes(), "late");
}

TEST_F(PluginHandlerTest, a_call_that_holds_up_the_loop_is_logged) {
  const auto handler = make("hostile");
  EXPECT_EQ(end_of(*handler, "slow"), "at last");
  EXPECT_NE(logged_.find("plugin.slow service=tried function=start ms="), std::string::npos) << logged_;
}

TEST_F(PluginHandlerTest, jobs_that_a_plugin_forgets_go_to_others) {
  auto handler = make("hostile");
  start(*handler, {5, 1}, "keep");
  start(*handler, {6, 1}, "nothing that it knows");
  handler.reset();
  for (const FinishedJob& job : finished(2)) {
    EXPECT_EQ(job.outcome.report->error_class, ErrorClass::retry);
    EXPECT_EQ(job.outcome.report->code, "abandoned");
  }
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += !entry.path().empty();
  return count;
}

TEST_F(PluginHandlerTest, a_thousand_loads_and_unloads_under_load_leave_nothing) {
  const std::size_t before = open_descriptors();
  std::size_t ended = 0;
  for (int round = 0; round < 1000; ++round) {
    const auto handler = make("word_count", "", {{"threads", "2"}});
    for (std::uint64_t job = 1; job <= 4; ++job)
      start(*handler, {job, 1}, "some words of a job");
    CompletionSink::HandedIn all;
    sink_->take(all);
    ended += all.finished.size();
  }
  CompletionSink::HandedIn all;
  sink_->take(all);
  EXPECT_EQ(ended + all.finished.size(), 4000u);  // answered, or handed back
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace lanemq::worker
