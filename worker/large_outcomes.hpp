// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

#include <lanemq/worker.hpp>

namespace lanemq::worker {

/// When large outcomes go to the broker.
///
/// All of a worker's messages share one connection, in order: behind eight answers of 8 MB a small one waits
/// for 64 MB. So large ones go at a pace that a connection within a machine keeps up with, and what is small
/// goes between them. An acknowledgement would tell when one has arrived, but the broker collects those.
/// Pure; not thread-safe.
class LargeOutcomes {
 public:
  static constexpr std::size_t kFrom = std::size_t{256} * 1024;  ///< smaller ones never wait
  static constexpr std::size_t kBytesPerMillisecond = std::size_t{256} * 1024;

  /// An outcome with a body of so many bytes is to be said. True: now; false: it waits for next().
  bool may_go(wire::Lease lease, std::size_t bytes, TimePoint now);
  /// Nobody wants it any more.
  void forget(wire::Lease lease);
  bool waits(wire::Lease lease) const;
  bool any_wait() const { return !waiting_.empty(); }
  /// The next one, if it may go by now. Requires: any_wait().
  std::optional<wire::Lease> next(TimePoint now);
  /// The next one, whatever went before it. Requires: any_wait().
  wire::Lease next_at_once(TimePoint now);
  /// When next() has one.
  TimePoint due() const { return any_wait() ? free_at_ : TimePoint::max(); }
  void clear() { *this = LargeOutcomes(); }

 private:
  struct Waiting {
    wire::Lease lease;
    std::size_t bytes = 0;
  };

  void set_off(std::size_t bytes, TimePoint now);

  std::deque<Waiting> waiting_;
  TimePoint free_at_{};  ///< what went has arrived by then
};

}  // namespace lanemq::worker
