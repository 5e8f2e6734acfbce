// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace lanemq::http {

/// Things of several owners that wait. Owners take turns, so that an owner with many delays only itself; of
/// one owner the oldest is first. Has no bound of its own.
template <class Thing>
class FairLine {
 public:
  void push(const std::string& owner, Thing thing) {
    const auto [at, is_new] = lines_.try_emplace(owner);
    at->second.push_back(std::move(thing));
    if (is_new) turns_.push_back(at);
    ++size_;
  }
  /// The next one; empty: the line is empty.
  std::optional<Thing> pop() {
    if (turns_.empty()) return std::nullopt;
    const auto at = turns_.front();
    turns_.pop_front();
    std::optional<Thing> next(std::move(at->second.front()));
    at->second.pop_front();
    --size_;
    if (at->second.empty())
      lines_.erase(at);
    else
      turns_.push_back(at);
    return next;
  }
  std::size_t size() const { return size_; }
  void clear() {
    turns_.clear();
    lines_.clear();
    size_ = 0;
  }

 private:
  using Lines = std::map<std::string, std::deque<Thing>>;

  Lines lines_;  ///< none is empty
  std::deque<typename Lines::iterator> turns_;
  std::size_t size_ = 0;
};

}  // namespace lanemq::http
