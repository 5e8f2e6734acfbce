// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lanemq::io {

/// The row that says who owns a store. `epoch` counts its owners, `ticket` the commits of the present one: a
/// commit is made only where both are what its maker believes, so that one who was deposed cannot commit.
struct OwnerRow {
  std::int64_t epoch = 0, ticket = 0;
  std::string instance;    ///< of the owner; empty: it has given the store back
  std::int64_t claim = 0;  ///< drawn by chance with each takeover: servers that went on apart may both know
                           ///< an owner of one epoch and name, and only one of them what it goes by

  bool operator==(const OwnerRow&) const = default;
  bool is_of(const OwnerRow& owner) const {
    return epoch == owner.epoch && instance == owner.instance && claim == owner.claim;
  }
};

/// Decides when a candidate may take a store over: once its owner has committed nothing for a lease, by the
/// candidate's own clock. No two machines' clocks are compared. What it decides is safe at any time, since
/// the fence of each commit refuses the former owner; the lease keeps owners that are alive from being
/// deposed. Pure; not thread-safe.
class OwnerWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// An owner commits at least so often, so that candidates see that it is alive.
  static constexpr std::chrono::milliseconds kBeat{1000};
  /// The lease of an owner that only an earlier process of this machine can be. Not zero: a second machine
  /// may have the name by mistake, and the two would take the store from each other for ever.
  static constexpr std::chrono::milliseconds kOwnLease{2500};

  /// `instance`: of this process. `alone`: no other process of this machine has that instance, so that an
  /// owner of its name is dead.
  OwnerWatch(std::string instance, bool alone, std::chrono::milliseconds lease)
      : instance_(std::move(instance)), alone_(alone), lease_(lease) {}

  /// The row was read, asked for at `now`. True: take it over, from exactly this row.
  bool may_take(const OwnerRow& row, TimePoint now) {
    if (!seen_ || *seen_ != row) {
      seen_ = row;
      since_ = now;
    }
    const bool was_ours = alone_ && row.instance == instance_;
    return row.instance.empty() || now - since_ >= (was_ours ? std::min(lease_, kOwnLease) : lease_);
  }
  /// For how long the row was seen to stand still.
  std::chrono::milliseconds stands(TimePoint now) const {
    return seen_ ? std::chrono::duration_cast<std::chrono::milliseconds>(now - since_)
                 : std::chrono::milliseconds(0);
  }
  /// The row could not be read: what passed meanwhile does not count, since nobody saw whether it moved.
  void blind() { seen_.reset(); }

 private:
  const std::string instance_;
  const bool alone_;
  const std::chrono::milliseconds lease_;
  std::optional<OwnerRow> seen_;
  TimePoint since_{};
};

}  // namespace lanemq::io
