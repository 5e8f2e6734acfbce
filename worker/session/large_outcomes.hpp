// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

#include <lanemq/worker.hpp>

namespace lanemq::worker {

/// Decides when large outcomes go to the broker.
///
/// All messages of a worker share one connection, in order: behind eight answers of 8 MB a small one waits
/// for 64 MB. So large outcomes go at a pace that a connection within a machine keeps up with, and small
/// messages go between them. Acknowledgements do not help: the broker collects them. Pure; not thread-safe.
class LargeOutcomes {
 public:
  static constexpr std::size_t kFrom = std::size_t{256} * 1024;  ///< smaller outcomes never wait
  static constexpr std::size_t kBytesPerMillisecond = std::size_t{256} * 1024;

  /// An outcome with so many bytes is ready. True: send it now; false: it waits for next().
  bool may_go(wire::Lease lease, std::size_t bytes, TimePoint now);
  /// The outcome is not needed any more.
  void forget(wire::Lease lease);
  bool waits(wire::Lease lease) const;
  bool any_wait() const { return !waiting_.empty(); }
  /// The next outcome, if it may go by now. Requires: any_wait().
  std::optional<wire::Lease> next(TimePoint now);
  /// The next outcome, regardless of the pace. Requires: any_wait().
  wire::Lease next_at_once(TimePoint now);
  /// When next() returns one; max(): none waits.
  TimePoint due() const { return any_wait() ? free_at_ : TimePoint::max(); }
  void clear() { *this = LargeOutcomes(); }

 private:
  struct Waiting {
    wire::Lease lease;
    std::size_t bytes = 0;
  };

  void set_off(std::size_t bytes, TimePoint now);

  std::deque<Waiting> waiting_;
  TimePoint free_at_{};  ///< by then the last one has arrived
};

}  // namespace lanemq::worker
