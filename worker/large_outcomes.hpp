// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>

#include <lanemq/worker.hpp>

namespace lanemq::worker {

/// Which large outcomes are on their way to the broker, and which wait until those have arrived.
///
/// All of a worker's messages share one connection, in order: behind eight answers of 8 MB a small one waits
/// for 64 MB. So large ones go one at a time, and what is small goes between them. What is known of a lease
/// here is forgotten with its outcome. Pure; not thread-safe.
class LargeOutcomes {
 public:
  static constexpr std::size_t kFrom = std::size_t{256} * 1024;  ///< smaller ones never wait
  /// On their way at once; one that is larger goes alone.
  static constexpr std::size_t kBytesAhead = std::size_t{1024} * 1024;
  /// A broker acknowledges what is durable when its disk has it: after so long the next one goes even so.
  static constexpr std::chrono::milliseconds kPatience{1000};

  /// An outcome with a body of so many bytes is to be said. True: now; false: it waits for next().
  bool may_go(wire::Lease lease, std::size_t bytes, TimePoint now);
  /// The broker has answered it, or nobody wants it any more.
  void forget(wire::Lease lease);
  bool waits(wire::Lease lease) const;
  bool any_wait() const { return !waiting_.empty(); }
  /// The next one that may go, which is on its way then. Requires: any_wait().
  std::optional<wire::Lease> next(TimePoint now);
  /// The next one, whatever is on its way. Requires: any_wait().
  wire::Lease next_at_once(TimePoint now);
  /// When next() is to be asked though nothing was forgotten.
  TimePoint due() const { return any_wait() ? next_by_ : TimePoint::max(); }
  void clear() { *this = LargeOutcomes(); }

 private:
  struct Waiting {
    wire::Lease lease;
    std::size_t bytes = 0;
  };
  struct ByJob {
    bool operator()(const wire::Lease& a, const wire::Lease& b) const {
      return a.job != b.job ? a.job < b.job : a.attempt < b.attempt;
    }
  };

  void set_off(wire::Lease lease, std::size_t bytes, TimePoint now);

  std::deque<Waiting> waiting_;
  std::map<wire::Lease, std::size_t, ByJob> on_the_way_;
  std::size_t bytes_ = 0;  ///< of those on their way
  TimePoint next_by_{};
};

}  // namespace lanemq::worker
