// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

/// The links of one object in one list at a time.
template <class T>
struct ListHook {
  T* previous = nullptr;
  T* next = nullptr;
};

/// A doubly linked list through hooks inside its elements: O(1) everywhere and no allocation.
///
/// Owns nothing: an element must stay at its address while it is listed, and be in one list per hook.
template <class T, ListHook<T> T::*Hook>
class IntrusiveList {
 public:
  bool empty() const { return first_ == nullptr; }
  std::size_t size() const { return size_; }
  T* front() const { return first_; }
  T* back() const { return last_; }
  T* next(const T& element) const { return (element.*Hook).next; }
  T* previous(const T& element) const { return (element.*Hook).previous; }

  void push_back(T& element) {
    ListHook<T>& hook = element.*Hook;
    hook = {last_, nullptr};
    (last_ != nullptr ? (last_->*Hook).next : first_) = &element;
    last_ = &element;
    ++size_;
  }

  /// Requires: the element is in this list.
  void remove(T& element) {
    LANEMQ_CHECK(size_ > 0);
    ListHook<T>& hook = element.*Hook;
    (hook.previous != nullptr ? (hook.previous->*Hook).next : first_) = hook.next;
    (hook.next != nullptr ? (hook.next->*Hook).previous : last_) = hook.previous;
    hook = {};
    --size_;
  }

  /// Removes and returns the first element, null when there is none.
  T* pop_front() {
    T* element = first_;
    if (element != nullptr) remove(*element);
    return element;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lanemq::core
