// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include <sys/types.h>

namespace lanemq::io {

/// Whether the names of a store's files still lead to the files that it has open: PATH, its log and its mark.
/// A commit into files without names is gone with the process, and the next start reads other files there.
///
/// look() and due() belong to one thread, the others to all.
class StoreNames {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kLookEvery{1};

  /// `store`: the path of its file. Requires: the store has its files open.
  explicit StoreNames(const std::string& store);

  /// When look() looks next.
  Clock::time_point due() const { return due_; }
  /// Looks, where it is time. Returns whether it sees something else than before.
  bool look();
  bool gone() const { return gone_.load(std::memory_order_relaxed); }
  /// Which are not there, for people.
  std::string trouble() const;

 private:
  /// A name and the file that it led to; a name that led nowhere is not looked at.
  struct Named {
    std::string path;
    dev_t device = 0;
    ino_t file = 0;
  };
  static std::string why_not(const Named& named);

  std::array<Named, 3> names_;
  Clock::time_point due_{};
  std::atomic<bool> gone_{false};
  mutable std::mutex mutex_;
  std::string trouble_;  // under mutex_
};

}  // namespace lanemq::io
