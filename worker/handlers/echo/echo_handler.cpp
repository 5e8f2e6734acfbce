// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/echo/echo_handler.hpp"

#include <algorithm>
#include <string_view>

namespace lanemq::worker {
namespace {

/// The line that begins at `from`, with its line end. Requires: `from` lies inside the body.
Blob line_of(const Blob& body, std::size_t from) {
  const std::string_view rest = body.bytes().substr(from);
  const std::size_t end = rest.find('\n');
  return Blob::own(body.owner(), end == std::string_view::npos ? rest : rest.substr(0, end + 1));
}

}  // namespace

void EchoHandler::start(const JobCall& job, Completion done) {
  Answer answer{.lease = job.lease, .body = job.body, .done = std::move(done), .stream = job.stream};
  if (delay_ > std::chrono::milliseconds(0))
    wait(std::move(answer), job.now + delay_);
  else
    go_on(std::move(answer), job.now);
}

void EchoHandler::wait(Answer answer, TimePoint due) {
  waiting_.emplace(std::pair(due, ++started_), std::move(answer));
}

/// Sends what is due: the answer, or its lines until a delay or a slow reader.
void EchoHandler::go_on(Answer answer, TimePoint now) {
  if (!answer.stream) return answer.done.success(std::move(answer.body));
  while (answer.said < answer.body.size()) {
    Blob line = line_of(answer.body, answer.said);
    answer.said += line.size();
    const bool more = answer.done.chunk(std::move(line));
    if (answer.said == answer.body.size()) break;
    if (!more) {
      answer.next_due = now + delay_;
      paused_.push_back(std::move(answer));
      return;
    }
    if (delay_ > std::chrono::milliseconds(0)) return wait(std::move(answer), now + delay_);
  }
  answer.done.success({});
}

void EchoHandler::cancel(wire::Lease lease) {
  const auto fail = [](Answer& answer) {
    answer.done.failure(
        {.error_class = ErrorClass::retry, .code = "cancelled", .message = "cancelled while it waited"});
  };
  const auto waiting = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const auto& entry) { return entry.second.lease == lease; });
  if (waiting != waiting_.end()) {
    fail(waiting->second);
    waiting_.erase(waiting);
  }
  const auto paused =
      std::find_if(paused_.begin(), paused_.end(), [&](const Answer& one) { return one.lease == lease; });
  if (paused == paused_.end()) return;
  fail(*paused);
  paused_.erase(paused);
}

void EchoHandler::resume(wire::Lease lease) {
  const auto paused =
      std::find_if(paused_.begin(), paused_.end(), [&](const Answer& one) { return one.lease == lease; });
  if (paused == paused_.end()) return;
  Answer answer = std::move(*paused);
  paused_.erase(paused);
  const TimePoint due = answer.next_due;
  wait(std::move(answer), due);  // its next line may be due already; the worker asks after this call
}

std::optional<TimePoint> EchoHandler::next_wakeup() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first.first;
}

void EchoHandler::advance(TimePoint now) {
  while (!waiting_.empty() && waiting_.begin()->first.first <= now) {
    Answer due = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    go_on(std::move(due), now);
  }
}

}  // namespace lanemq::worker
