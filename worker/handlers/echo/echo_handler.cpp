// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/echo/echo_handler.hpp"

#include <algorithm>

namespace lanemq::worker {

void EchoHandler::start(const JobCall& job, Completion done) {
  if (delay_ <= std::chrono::milliseconds(0)) return done.success(job.body);
  waiting_.emplace(std::pair(job.now + delay_, ++started_), Waiting{job.lease, job.body, std::move(done)});
}

void EchoHandler::cancel(wire::Lease lease) {
  const auto place = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const auto& entry) { return entry.second.lease == lease; });
  if (place == waiting_.end()) return;
  place->second.done.failure(
      {.error_class = ErrorClass::retry, .code = "cancelled", .message = "cancelled while it waited"});
  waiting_.erase(place);
}

std::optional<TimePoint> EchoHandler::next_wakeup() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first.first;
}

void EchoHandler::advance(TimePoint now) {
  while (!waiting_.empty() && waiting_.begin()->first.first <= now) {
    Waiting& due = waiting_.begin()->second;
    due.done.success(std::move(due.body));
    waiting_.erase(waiting_.begin());
  }
}

}  // namespace lanemq::worker
