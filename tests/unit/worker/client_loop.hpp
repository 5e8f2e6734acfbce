// SPDX-License-Identifier: Apache-2.0
// The worker's loop without a worker: what turns an HttpClient or a Handler while a test waits for what it
// answers.
#pragma once

#include <algorithm>
#include <chrono>

#include <poll.h>

#include "worker/handlers/http/http_client.hpp"
#include "worker/session/completion.hpp"

namespace lanemq::worker {

inline void let_read(HttpClient& client, TimePoint) {
  client.on_readable();
}
inline void let_read(Handler& handler, TimePoint now) {
  handler.on_readable(now);
}

/// How long a busy machine may hold others up; not how fast they are.
constexpr auto kPatience = std::chrono::minutes(2);

/// Turns it until something has happened. False when it does not happen for so long.
template <class Turned, class Happened>
bool turn_until(Turned& turned, Happened happened, std::chrono::milliseconds patience = kPatience) {
  using Clock = std::chrono::steady_clock;
  const TimePoint give_up = Clock::now() + patience;
  while (!happened()) {
    const TimePoint due = std::min(give_up, turned.next_wakeup().value_or(give_up));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now()).count();
    pollfd readable{turned.descriptor(), POLLIN, 0};
    if (poll(&readable, 1, static_cast<int>(std::clamp<long long>(left, 0, 10'000))) == 1)
      let_read(turned, Clock::now());
    turned.advance(Clock::now());
    if (Clock::now() >= give_up) return happened();
  }
  return true;
}

/// Turns it until the sink has something.
template <class Turned>
bool turn_until_answered(Turned& turned, CompletionSink& sink,
                         std::chrono::milliseconds patience = kPatience) {
  return turn_until(
      turned, [&] { return sink.has_local(); }, patience);
}

}  // namespace lanemq::worker
