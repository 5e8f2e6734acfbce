// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <queue>
#include <vector>

#include "broker/core/base/time.hpp"

namespace lanemq::sim {

/// Virtual time: what is to happen, in order of time and then of being asked for.
class Scheduler {
 public:
  core::TimePoint now() const { return now_; }
  std::size_t events() const { return events_; }

  void at(core::TimePoint when, std::function<void()> what) {
    queue_.push({std::max(when, now_), next_++, std::move(what)});
  }
  void after(core::Duration wait, std::function<void()> what) { at(now_ + wait, std::move(what)); }

  /// Lets the next thing happen. False when there is none before or at `end`, which is then the time.
  bool step(core::TimePoint end) {
    if (queue_.empty() || queue_.top().when > end) {
      now_ = std::max(now_, end);
      return false;
    }
    // The queue gives only const access to what it is about to drop.
    const std::function<void()> what = std::move(const_cast<Entry&>(queue_.top()).what);
    now_ = queue_.top().when;
    queue_.pop();
    ++events_;
    what();
    return true;
  }

 private:
  struct Entry {
    core::TimePoint when;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Entry& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };
  std::priority_queue<Entry> queue_;
  core::TimePoint now_{};
  std::uint64_t next_ = 0;
  std::size_t events_ = 0;
};

}  // namespace lanemq::sim
