// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "broker/core/stream.hpp"

namespace lanemq::core {

/// Streams, and what their heads cost: whoever costs little enough is found by a look along one block of
/// memory, and that there is none mostly by a look at one number.
///
/// `At` is where a stream notes its place. Owns nothing: streams must stay at their address.
template <std::size_t Stream::*At>
class HeadCosts {
 public:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  bool empty() const { return all_.empty(); }
  /// Requires: it is in no such list.
  void add(Stream& stream, std::int64_t cost, std::int64_t tag) {
    stream.*At = all_.size();
    all_.push_back({&stream, cost, tag});
    least_ = std::min(least_, cost);
    if (cost >= most_) rises_to(cost);
  }
  void change(const Stream& stream, std::int64_t cost, std::int64_t tag) {
    Entry& entry = all_[stream.*At];
    const std::int64_t before = entry.cost;
    entry.cost = cost;
    entry.tag = tag;
    least_ = std::min(least_, cost);
    if (cost >= most_)
      rises_to(cost);
    else if (before == most_)
      most_may_be_less_ = true;
  }
  void remove(Stream& stream) {
    Entry& entry = all_[stream.*At];
    if (entry.cost == most_) most_may_be_less_ = true;
    all_.back().stream->*At = stream.*At;
    entry = all_.back();
    all_.pop_back();
    stream.*At = kNowhere;
  }

  /// Of those whose heads cost at most `cost_max` the one with the lowest tag; null when there is none.
  Stream* first_within(std::int64_t cost_max) {
    if (least_ > cost_max) return nullptr;
    const Entry* first = nullptr;
    least_ = std::numeric_limits<std::int64_t>::max();
    for (const Entry& entry : all_) {
      least_ = std::min(least_, entry.cost);
      if (entry.cost <= cost_max && (first == nullptr || entry.tag < first->tag)) first = &entry;
    }
    return first != nullptr ? first->stream : nullptr;
  }
  /// The greatest cost; 0 when there is none.
  std::int64_t most() {
    if (!most_may_be_less_) return most_;
    most_ = 0;
    for (const Entry& entry : all_)
      most_ = std::max(most_, entry.cost);
    most_may_be_less_ = false;
    return most_;
  }
  /// Calls `tell` with each stream until it returns true; whether it did.
  template <class Tell>
  bool any_of(Tell tell) const {
    return std::any_of(all_.begin(), all_.end(), [&](const Entry& entry) { return tell(*entry.stream); });
  }

 private:
  struct Entry {
    Stream* stream;
    std::int64_t cost, tag;
  };

  void rises_to(std::int64_t cost) {
    most_ = cost;
    most_may_be_less_ = false;
  }

  std::vector<Entry> all_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();  // no cost is lower
  std::int64_t most_ = 0;
  bool most_may_be_less_ = false;
};

}  // namespace lanemq::core
