// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace lanemq::gateway {

/// Whether one of those that share `bound` places, of which `used` are taken, may take one more: it holds no
/// more than `times_free` times what then stays free (dynamic thresholds; Choudhury & Hahne, 1998). So one
/// alone has nearly all, and who comes next finds some, however long the first keeps its own. A bound of one
/// place has no share to keep.
inline bool may_take_one_of(std::size_t bound, std::size_t used, std::size_t held, std::size_t times_free) {
  return used < bound && held < std::max<std::size_t>(1, times_free * (bound - used - 1));
}

/// Places that several owners share: how many each has, and whether it may take one more (may_take_one_of).
class PlacesByOwner {
 public:
  PlacesByOwner(std::size_t bound, std::size_t times_free) : bound_(bound), times_free_(times_free) {}

  bool may_take(std::string_view owner) const {
    const auto at = held_.find(owner);
    return may_take_one_of(bound_, used_, at == held_.end() ? 0 : at->second, times_free_);
  }
  void take(const std::string& owner) {
    ++held_[owner];
    ++used_;
  }
  /// Requires: the owner has one.
  void give_back(std::string_view owner) {
    const auto at = held_.find(owner);
    if (--at->second == 0) held_.erase(at);
    --used_;
  }

 private:
  const std::size_t bound_, times_free_;
  std::map<std::string, std::size_t, std::less<>> held_;  ///< none is 0
  std::size_t used_ = 0;
};

/// Things that are kept for several owners, each with a weight. Who needs room takes the oldest of the owner
/// with the most, so that others keep theirs.
template <class Thing>
class KeptByOwner {
 public:
  void push(const std::string& owner, Thing thing, std::size_t weight = 1) {
    Line& line = lines_[owner];
    line.things.emplace_back(std::move(thing), weight);
    line.weight += weight;
    weight_ += weight;
    ++size_;
  }
  std::size_t size() const { return size_; }
  std::size_t weight() const { return weight_; }
  /// Takes the oldest of the owner with the most. Requires: there is something.
  Thing take_of_most() {
    return take(std::max_element(lines_.begin(), lines_.end(), [](const auto& a, const auto& b) {
      return a.second.weight < b.second.weight;
    }));
  }
  /// Takes the oldest of an owner while they are such, and tells of each.
  template <class Such, class Tell>
  void take_while(std::string_view owner, Such such, Tell tell) {
    for (auto at = lines_.find(owner); at != lines_.end() && such(at->second.things.front().first);
         at = lines_.find(owner))
      tell(take(at));
  }
  /// The same of each owner.
  template <class Such, class Tell>
  void take_while(Such such, Tell tell) {
    for (auto at = lines_.begin(); at != lines_.end();) {
      const auto next = std::next(at);
      std::size_t left = at->second.things.size();
      while (left-- > 0 && such(at->second.things.front().first))
        tell(take(at));
      at = next;
    }
  }

 private:
  struct Line {
    std::deque<std::pair<Thing, std::size_t>> things{};  ///< with their weights; not empty
    std::size_t weight = 0;
  };
  using Lines = std::map<std::string, Line, std::less<>>;

  Thing take(typename Lines::iterator at) {
    auto [thing, weight] = std::move(at->second.things.front());
    at->second.things.pop_front();
    at->second.weight -= weight;
    weight_ -= weight;
    --size_;
    if (at->second.things.empty()) lines_.erase(at);
    return std::move(thing);
  }

  Lines lines_;
  std::size_t size_ = 0, weight_ = 0;
};

}  // namespace lanemq::gateway
