// SPDX-License-Identifier: Apache-2.0
// The worker's loop without a worker: what turns an HttpClient while a test waits for what it answers.
#pragma once

#include <algorithm>
#include <chrono>

#include <poll.h>

#include "worker/completion.hpp"
#include "worker/handlers/http/http_client.hpp"

namespace lanemq::worker {

/// Turns the client until the sink has something. False when nothing comes for so long.
inline bool turn_until_answered(HttpClient& client, CompletionSink& sink,
                                std::chrono::milliseconds patience = std::chrono::seconds(10)) {
  using Clock = std::chrono::steady_clock;
  const TimePoint give_up = Clock::now() + patience;
  while (!sink.has_local()) {
    const TimePoint due = std::min(give_up, client.next_wakeup().value_or(give_up));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now()).count();
    pollfd readable{client.descriptor(), POLLIN, 0};
    if (poll(&readable, 1, static_cast<int>(std::clamp<long long>(left, 0, 10'000))) == 1)
      client.on_readable();
    client.advance(Clock::now());
    if (Clock::now() >= give_up) return sink.has_local();
  }
  return true;
}

}  // namespace lanemq::worker
