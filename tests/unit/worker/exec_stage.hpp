// SPDX-License-Identifier: Apache-2.0
// What the tests of the handlers that run programs share: jobs, their answers, and whether a process is gone.
#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/unit/worker/client_loop.hpp"
#include "worker/handlers/exec/process_host.hpp"
#include "worker/session/completion.hpp"

namespace lanemq::worker {

class ExecStage : public testing::Test {
 protected:
  ExecStage() {
    std::signal(SIGPIPE, SIG_IGN);
    sink_->adopt_thread();
  }
  /// Whatever a test has done, no process is left of it, not even a dead one.
  ~ExecStage() override {
    host_.reset();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  static Program shell(const std::string& script) {
    return {.path = "/bin/sh", .arguments = {"sh", "-c", script}, .variables = {"PATH=/usr/bin:/bin"}};
  }

  void start(Handler& handler, std::uint64_t job, std::string_view body = {},
             const std::shared_ptr<StreamGate>& gate = nullptr, std::optional<TimePoint> deadline = {}) {
    JobCall call;
    call.lease = {job, 1};
    call.id = "the-id";
    call.lane = "high";
    call.service = "s";
    call.body = Blob::copy(body);
    call.now = std::chrono::steady_clock::now();
    call.deadline = deadline;
    call.answer_bytes_max = std::size_t{64} << 20;
    call.stream = gate != nullptr;
    handler.start(call, Completion(sink_, call.lease, gate));
  }

  /// Takes what was handed in.
  void take() {
    CompletionSink::HandedIn all;
    sink_->take(all);
    for (ProgressWord& word : all.words)
      words_[word.lease.job] = std::move(word.said);
    for (StreamPiece& piece : all.pieces) {
      streamed_[piece.lease.job] += piece.body.bytes();
      ++pieces_[piece.lease.job];
    }
    for (FinishedJob& job : all.finished)
      EXPECT_TRUE(outcomes_.emplace(job.lease.job, std::move(job.outcome)).second) << "answered twice";
  }
  /// The outcome of a job; waits for it.
  const JobOutcome& outcome(Handler& handler, std::uint64_t job) {
    const bool there = turn_until(handler, [&] {
      take();
      return outcomes_.contains(job);
    });
    static const JobOutcome kNone = JobOutcome::failure({.code = "none came"});
    return there ? outcomes_.at(job) : kNone;
  }
  std::string answer(Handler& handler, std::uint64_t job) {
    const JobOutcome& ended = outcome(handler, job);
    if (!ended.succeeded()) return "failed: " + ended.report->code + " " + ended.report->message;
    return std::string(ended.body.bytes());
  }
  /// `class code` of a failure.
  std::string failure(Handler& handler, std::uint64_t job) {
    const JobOutcome& ended = outcome(handler, job);
    if (ended.succeeded()) return "succeeded";
    return std::string(name_of(*ended.report->error_class)) + " " + ended.report->code;
  }
  const std::string& message(std::uint64_t job) { return outcomes_.at(job).report->message; }

  /// Whether no process has this number, not even one that has ended.
  static bool is_gone(const std::string& number) { return kill(std::stoi(number), 0) != 0 && errno == ESRCH; }

  std::shared_ptr<CompletionSink> sink_ = std::make_shared<CompletionSink>();
  std::shared_ptr<ProcessHost> host_ = std::make_shared<ProcessHost>();
  std::map<std::uint64_t, JobOutcome> outcomes_;
  std::map<std::uint64_t, std::string> streamed_;
  std::map<std::uint64_t, std::size_t> pieces_;
  std::map<std::uint64_t, JobProgress> words_;  // the last of each job
};

}  // namespace lanemq::worker
