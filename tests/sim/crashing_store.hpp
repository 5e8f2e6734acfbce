// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>

#include "tests/support/store_model.hpp"

namespace lanemq::sim {

/// A store that is behind: what turns wrote is there when it is committed, in order, some turns at once, all
/// of them or none. What is not committed at a crash never was. Whoever drives it says when.
class CrashingStore {
 public:
  /// Takes a turn's writes. Returns its number: the first is 1, and it rises by one.
  std::uint64_t submit(core::Writes& writes) {
    waiting_.emplace_back();
    waiting_.back().swap(writes);
    return ++submitted_;
  }
  std::uint64_t submitted() const { return submitted_; }
  std::uint64_t committed() const { return submitted_ - waiting_.size(); }
  /// All turns up to that one are on disk. Throws std::logic_error at a write that does not fit.
  void commit(std::uint64_t number) {
    while (committed() < number) {
      rows_.apply(waiting_.front());
      waiting_.pop_front();
    }
  }
  /// What waits was never written; turns are counted from there on.
  void crash() {
    submitted_ -= waiting_.size();
    waiting_.clear();
  }
  const StoreModel& rows() const { return rows_; }

 private:
  std::deque<core::Writes> waiting_;
  std::uint64_t submitted_ = 0;
  StoreModel rows_;
};

}  // namespace lanemq::sim
