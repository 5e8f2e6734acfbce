// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <lanemq/end_times.hpp>
#include <lanemq/messages.hpp>

namespace lanemq::client {

/// The questions after jobs whose answers may be lost.
///
/// A living connection may lose an answer: a broker drops what a slow reader leaves unread. So the states of
/// jobs of which nothing was heard for kAfter are asked for, of each every kEvery. Where more wait than one
/// question names, a fifth of them is asked for each second, so that no broker is asked after all at once.
/// Without a socket and a clock, as its session.
class Probes {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kAfter = end_times::probe_after, kEvery = end_times::probe_every,
                                             kTurn = end_times::probe_turn;
  /// Ids of the largest size in one question: so many surely fit a header, and about so many states the
  /// answer's.
  static constexpr std::size_t kAtOnce = end_times::probed_at_once;
  /// The ref of the questions. Refs of requests count from 1.
  static constexpr std::uint64_t kRef = (std::uint64_t{1} << 53) - 1;

  /// A job of which nothing was heard for kAfter. `due`: when it is asked for; the id as long as the call.
  struct Job {
    TimePoint due;
    std::uint64_t ref;
    std::string_view id;
  };

  explicit Probes(TimePoint now) : at_(now + kAfter) {}

  /// When ask() is due.
  TimePoint at() const { return at_; }
  /// Jobs are waited for from now on, and none was before.
  void begin(TimePoint now) { at_ = std::max(at_, now + kAfter); }
  /// Another connection: nothing was asked on it.
  void begin_anew(TimePoint now);
  /// Where one answer was lost others may be.
  void hurry(TimePoint now) { at_ = now; }

  /// Makes questions after those that are due, those first whose turn came first. Returns the refs of those
  /// that are asked for.
  std::vector<std::uint64_t> ask(std::vector<Job> waiting, TimePoint now);
  /// The next question; empty: there is none.
  std::string_view next() const { return headers_.empty() ? std::string_view() : headers_.front(); }
  void sent() { headers_.pop_front(); }

  /// Calls `over` with the ref of each request whose job was asked for, and with the state that an answer
  /// says.
  void answered(const wire::StatusReply& reply,
                const std::function<void(std::uint64_t ref, std::string_view state)>& over);

 private:
  void forget(const std::vector<Job>& waiting);

  TimePoint at_;
  std::deque<std::string> headers_;
  std::unordered_map<std::string, std::vector<std::uint64_t>> asked_;  ///< by id; some have ended
};

}  // namespace lanemq::client
