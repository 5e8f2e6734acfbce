// SPDX-License-Identifier: Apache-2.0
#include "worker/session/completion.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include <lanemq/text.hpp>

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
  report.detail = std::move(failure.detail);
  report.retry_after = failure.retry_after;
  report.usage = failure.usage;
  report.limits = failure.limits;
  report.upstream_status = failure.upstream_status;
  report.limited_by = failure.limited_by;
  return outcome;
}

StreamGate::Verdict StreamGate::enter(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (closed_) return Verdict::closed;
  if (waiting_) {
    ++surplus_chunks_;
    surplus_bytes_ += bytes;
    if (surplus_chunks_ > kSurplusChunksMax || surplus_bytes_ > kSurplusBytesMax) {
      closed_ = true;
      return Verdict::overrun;
    }
  }
  ++chunks_;
  bytes_ += bytes;
  if (chunks_ >= limits::stream_chunks_max || bytes_ >= limits::stream_bytes_max) waiting_ = true;
  return waiting_ ? Verdict::wait : Verdict::more;
}

StreamGate::Verdict StreamGate::verdict() const {
  const std::lock_guard lock(mutex_);
  return closed_ ? Verdict::closed : waiting_ ? Verdict::wait : Verdict::more;
}

bool StreamGate::taken(std::size_t chunks, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  chunks_ -= chunks;
  bytes_ -= bytes;
  if (!waiting_ || closed_) return false;
  if (chunks_ > limits::stream_chunks_max / 2 || bytes_ > limits::stream_bytes_max / 2) return false;
  waiting_ = false;
  surplus_chunks_ = surplus_bytes_ = 0;
  return true;
}

void StreamGate::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace worker

Completion::Completion(std::shared_ptr<CompletionSink> sink, wire::Lease lease,
                       std::shared_ptr<worker::StreamGate> gate)
    : sink_(std::move(sink)), gate_(std::move(gate)), lease_(lease) {}

Completion::~Completion() {
  if (sink_) failure({.code = "abandoned", .message = "the handler dropped the job without an outcome"});
}

Completion& Completion::operator=(Completion&& other) noexcept {
  // By way of a temporary: if this one still owes an outcome, its job gets one.
  Completion moved(std::move(other));
  std::swap(sink_, moved.sink_);
  std::swap(gate_, moved.gate_);
  std::swap(lease_, moved.lease_);
  return *this;
}

bool Completion::chunk(Blob piece) {
  using Verdict = worker::StreamGate::Verdict;
  if (!sink_) return true;
  if (piece.empty()) return !gate_ || gate_->verdict() != Verdict::wait;
  // Without a gate the job asked for no stream; the session makes that a failure.
  const Verdict verdict = gate_ ? gate_->enter(piece.size()) : Verdict::more;
  if (verdict == Verdict::closed) return true;
  if (verdict == Verdict::overrun)
    sink_->chunk({.lease = lease_, .body = {}, .overrun = true});
  else
    sink_->chunk({.lease = lease_, .body = piece.owned()});
  return verdict == Verdict::more;
}

void Completion::progress(JobProgress said) {
  if (!sink_) return;
  if (said.pct) said.pct = std::clamp(*said.pct, 0, static_cast<int>(limits::progress_pct_max));
  // Escaping adds a few bytes.
  said.note =
      beginning(printable(said.note, limits::progress_note_bytes_max), limits::progress_note_bytes_max);
  sink_->progress({lease_, std::move(said)});
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

template <class Add>
void CompletionSink::hand_in(Add add) {
  if (std::this_thread::get_id() == owner_) return add(local_);
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = remote_.empty();
    add(remote_);
  }
  if (first) wake();
}

void CompletionSink::finish(wire::Lease lease, worker::JobOutcome outcome) {
  hand_in([&](HandedIn& all) { all.finished.push_back({lease, std::move(outcome)}); });
}

void CompletionSink::chunk(worker::StreamPiece piece) {
  hand_in([&](HandedIn& all) { all.pieces.push_back(std::move(piece)); });
}

void CompletionSink::progress(worker::ProgressWord word) {
  hand_in([&](HandedIn& all) {
    const auto same = std::find_if(all.words.begin(), all.words.end(),
                                   [&](const worker::ProgressWord& one) { return one.lease == word.lease; });
    if (same == all.words.end())
      all.words.push_back(std::move(word));
    else
      same->said = std::move(word.said);
  });
}

void CompletionSink::take(HandedIn& all) {
  std::swap(all, local_);
  const auto append = [](auto& into, auto& from) {
    if (into.empty()) return std::swap(into, from);
    into.insert(into.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    from.clear();
  };
  const std::lock_guard lock(mutex_);
  append(all.finished, remote_.finished);
  append(all.pieces, remote_.pieces);
  append(all.words, remote_.words);
}

void CompletionSink::clear_wake() {
  std::uint64_t count = 0;
  static_cast<void>(!read(descriptor_, &count, sizeof count));
}

void CompletionSink::wake() noexcept {
  const int saved = errno;
  const std::uint64_t one = 1;
  // If the counter is full the worker is being woken already.
  static_cast<void>(!write(descriptor_, &one, sizeof one));
  errno = saved;
}

}  // namespace lanemq
