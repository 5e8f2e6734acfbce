// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

/// A binary heap of objects that know their place in it: one whose key has changed is moved, and any can be
/// taken out, in O(log n). Keys stand in the heap itself, so that the objects are not looked at for comparing
/// them.
///
/// `At` is where an object notes its place: kNowhere while it is in no heap.
/// Owns nothing: an object must stay at its address while it is in the heap.
template <class T, class Key, std::size_t T::*At>
class PlacedHeap {
 public:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  bool empty() const { return all_.empty(); }
  std::size_t size() const { return all_.size(); }
  /// The one with the lowest key, null when there is none.
  T* front() const { return all_.empty() ? nullptr : all_.front().element; }
  /// Requires: not empty.
  const Key& front_key() const { return all_.front().key; }

  /// Calls `tell` for a bounded number of items: the one with the lowest key, and then others.
  template <class Tell>
  void each_of(std::size_t most, Tell tell) const {
    for (std::size_t at = 0; at < all_.size() && at < most; ++at)
      tell(*all_[at].element);
  }

  /// Requires: it is in no heap.
  void push(T& element, const Key& key) {
    LANEMQ_CHECK(element.*At == kNowhere);
    all_.emplace_back();
    rise({key, &element}, all_.size() - 1);
  }
  /// Requires: it is in this heap.
  void remove(T& element) {
    const std::size_t at = element.*At;
    LANEMQ_CHECK(at < all_.size() && all_[at].element == &element);
    const Entry last = all_.back();
    all_.pop_back();
    element.*At = kNowhere;
    if (last.element != &element) move(last, at);
  }
  /// Gives the element another key and moves it. Requires: it is in this heap.
  void update(T& element, const Key& key) { move({key, &element}, element.*At); }

 private:
  struct Entry {
    Key key;
    T* element;
  };

  void place(const Entry& entry, std::size_t at) {
    all_[at] = entry;
    entry.element->*At = at;
  }
  /// Puts an entry where its key belongs. Requires: the place `at` is free.
  void move(const Entry& entry, std::size_t at) {
    if (at > 0 && entry.key < all_[(at - 1) / 2].key)
      rise(entry, at);
    else
      sink(entry, at);
  }
  void rise(const Entry& entry, std::size_t at) {
    while (at > 0) {
      const std::size_t above = (at - 1) / 2;
      if (!(entry.key < all_[above].key)) break;
      place(all_[above], at);
      at = above;
    }
    place(entry, at);
  }
  void sink(const Entry& entry, std::size_t at) {
    while (true) {
      std::size_t below = 2 * at + 1;
      if (below >= all_.size()) break;
      if (below + 1 < all_.size() && all_[below + 1].key < all_[below].key) ++below;
      if (!(all_[below].key < entry.key)) break;
      place(all_[below], at);
      at = below;
    }
    place(entry, at);
  }

  std::vector<Entry> all_;
};

}  // namespace lanemq::core
