// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "broker/core/base/times.hpp"

namespace lanemq::io {

/// How long the turns of the loop take, and the longest of the last minute.
class TurnTimes {
 public:
  void note(core::Duration turn, core::TimePoint now) {
    times_.record(turn, now);
    if (now >= next_) move_on(now);
    if (turn <= parts_[at_]) return;
    parts_[at_] = turn;
  }
  core::Times& times() { return times_; }
  core::Duration longest_of_last_minute(core::TimePoint now) {
    if (now >= next_) move_on(now);
    return *std::max_element(parts_.begin(), parts_.end());
  }

 private:
  static constexpr core::Duration kPart = std::chrono::seconds(10);

  void move_on(core::TimePoint now) {
    for (std::size_t moved = 0; now >= next_ && moved < parts_.size(); ++moved, next_ += kPart) {
      at_ = (at_ + 1) % parts_.size();
      parts_[at_] = {};
    }
    if (now >= next_) next_ = now + kPart;
  }

  core::Times times_;
  std::array<core::Duration, 7> parts_{};  ///< the longest of the last 10 s, of those before, ...
  std::size_t at_ = 0;
  core::TimePoint next_{};
};

// The adapters' counts since the start, and what they hold now; as LANEMQ_CORE_COUNTERS: X(name, meaning).
// clang-format off
#define LANEMQ_TRANSPORT_COUNTERS(X)                                                       \
  X(frames_refused, "messages that were none, or broke the protocol")                      \
  X(sends_undeliverable, "messages for a peer that was gone")                              \
  X(sends_dropped_slow, "messages for a peer that did not read, whose bound was reached")  \
  X(backlog_bytes, "bytes that wait for peers that read slowly, now")                      \
  X(lent_bytes, "bytes of bodies on their way to workers, now")                            \
  X(store_backlog_bytes, "bytes that wait for the store's disk, now")                      \
  X(connections, "connections of clients and workers, now")                                \
  X(connections_silent, "those that have said nothing yet, now")                           \
  X(connections_gave_way, "connections that had said nothing, and gave way to others")     \
  X(connections_refused, "connections that came when there were connections_max")          \
  X(connections_cut, "connections that sent without end what is no message")               \
  X(keys_refused, "connections that were refused for their keys")                          \
  X(receiving_bytes, "bytes of messages that are not whole yet, of busy connections, now")       \
  X(spans_sent, "spans that the collector of `otlp` has taken")                            \
  X(spans_lost, "spans that found no room, or that the collector did not take")
// clang-format on

/// Open descriptors of this process. Counting them takes long where there are tens of thousands and the
/// kernel does not know their number (before Linux 6.2), so a number is used for some seconds.
class Descriptors {
 public:
  std::size_t used(core::TimePoint now);

 private:
  std::size_t used_ = 0;
  core::TimePoint counts_until_{};
};

/// The draws at the bank of budgets that shards share, since the start.
struct BankFigures {
  std::uint64_t draws = 0, lost = 0;  ///< lost: not done, or not known to be done
  std::chrono::microseconds time{0};  ///< of all draws that were done
  std::string trouble{};              ///< of the last draw; empty: it was done
};

struct TransportStats {
#define LANEMQ_COUNTER(name, meaning) std::uint64_t name = 0;
  LANEMQ_TRANSPORT_COUNTERS(LANEMQ_COUNTER)
#undef LANEMQ_COUNTER
  bool draining = false;  ///< it is about to stop
  TurnTimes turns;
  core::Times commits;  ///< from a turn's writes to when the loop finds them on disk; one at a time is timed
  Descriptors descriptors;
  std::optional<BankFigures> bank;  ///< none: no budget is shared, or nobody has looked at the bank yet
};

}  // namespace lanemq::io
