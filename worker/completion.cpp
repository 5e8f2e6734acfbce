// SPDX-License-Identifier: Apache-2.0
#include "worker/completion.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace lanemq {

namespace worker {

JobOutcome JobOutcome::success(Blob body, std::optional<wire::Usage> usage,
                               std::optional<wire::UpstreamLimits> limits) {
  JobOutcome outcome{.body = std::move(body), .report = nullptr};
  if (!usage && !limits) return outcome;
  outcome.report = std::make_unique<Report>();
  outcome.report->usage = usage;
  outcome.report->limits = limits;
  return outcome;
}

JobOutcome JobOutcome::failure(JobFailure failure) {
  JobOutcome outcome{.body = std::move(failure.body), .report = std::make_unique<Report>()};
  Report& report = *outcome.report;
  report.error_class = failure.error_class;
  report.code = std::move(failure.code);
  report.message = std::move(failure.message);
  report.retry_after = failure.retry_after;
  report.usage = failure.usage;
  report.limits = failure.limits;
  return outcome;
}

}  // namespace worker

Completion::Completion(std::shared_ptr<CompletionSink> sink, wire::Lease lease)
    : sink_(std::move(sink)), lease_(lease) {}

Completion::~Completion() {
  if (sink_) failure({.code = "abandoned", .message = "the handler dropped the job without an outcome"});
}

Completion& Completion::operator=(Completion&& other) noexcept {
  // By way of a temporary, so that a job this one still owes an outcome gets it.
  Completion moved(std::move(other));
  std::swap(sink_, moved.sink_);
  std::swap(lease_, moved.lease_);
  return *this;
}

void Completion::success(Blob body, std::optional<wire::Usage> usage,
                         std::optional<wire::UpstreamLimits> limits) {
  if (!sink_) return;
  if (!body.owns()) body = body.owned();
  std::exchange(sink_, nullptr)->finish(lease_, worker::JobOutcome::success(std::move(body), usage, limits));
}

void Completion::failure(JobFailure failure) {
  if (!sink_) return;
  failure.body = failure.body.owned();
  std::exchange(sink_, nullptr)->finish(lease_, worker::JobOutcome::failure(std::move(failure)));
}

CompletionSink::CompletionSink() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::runtime_error(std::string("no event descriptor: ") + std::strerror(errno));
}

CompletionSink::~CompletionSink() {
  close(descriptor_);
}

void CompletionSink::finish(wire::Lease lease, worker::JobOutcome outcome) {
  if (std::this_thread::get_id() == owner_) {
    local_.push_back({lease, std::move(outcome)});
    return;
  }
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = remote_.empty();
    remote_.push_back({lease, std::move(outcome)});
  }
  if (first) wake();
}

void CompletionSink::take(std::vector<worker::FinishedJob>& into) {
  std::swap(into, local_);
  const std::lock_guard lock(mutex_);
  if (into.empty()) {
    std::swap(into, remote_);
    return;
  }
  for (worker::FinishedJob& job : remote_)
    into.push_back(std::move(job));
  remote_.clear();
}

void CompletionSink::clear_wake() {
  std::uint64_t count = 0;
  static_cast<void>(!read(descriptor_, &count, sizeof count));
}

void CompletionSink::wake() noexcept {
  const int saved = errno;
  const std::uint64_t one = 1;
  // A full counter means that the worker is being woken already.
  static_cast<void>(!write(descriptor_, &one, sizeof one));
  errno = saved;
}

}  // namespace lanemq
