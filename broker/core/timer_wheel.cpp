// SPDX-License-Identifier: Apache-2.0
#include "broker/core/timer_wheel.hpp"

#include <algorithm>
#include <bit>
namespace lanemq::core {
namespace {

void make_empty(Timer& head) {
  head.previous = head.next = &head;
}

bool is_empty(const Timer& head) {
  return head.next == &head;
}

void append(Timer& head, Timer& timer) {
  timer.previous = head.previous;
  timer.next = &head;
  head.previous->next = &timer;
  head.previous = &timer;
}

void detach(Timer& timer) {
  timer.previous->next = timer.next;
  timer.next->previous = timer.previous;
  timer.previous = timer.next = nullptr;
}

}  // namespace

TimerWheel::TimerWheel() {
  for (Level& level : levels_)
    for (Timer& head : level.slots)
      make_empty(head);
  make_empty(due_);
}

void TimerWheel::set(Timer& timer, TimePoint when) {
  clear(timer);
  const std::int64_t us = std::max<std::int64_t>(when.time_since_epoch().count(), 0);
  const auto tick = (static_cast<std::uint64_t>(us) + 999) / 1000;  // rounded up: never early
  // What lies beyond the highest level waits in its last slot: there is none behind it to wrap around to.
  timer.tick = std::min(std::max(tick, current_ + 1), kSpan);
  link(timer);
  ++size_;
}

void TimerWheel::clear(Timer& timer) {
  if (!timer.is_set()) return;
  // The slot keeps its mark even if it is empty now: a wake-up too many is cheaper than finding the slot.
  detach(timer);
  --size_;
}

void TimerWheel::link(Timer& timer) {
  // The level is that of the highest byte in which the time differs from now: below it, slots are exact
  // enough.
  const std::uint64_t difference = (timer.tick ^ current_) | 1;
  const int level = std::min((63 - std::countl_zero(difference)) / kSlotBits, kLevels - 1);
  const std::size_t slot = timer.tick >> (level * kSlotBits) & (kSlots - 1);
  Level& place = levels_[static_cast<std::size_t>(level)];
  append(place.slots[slot], timer);
  place.occupied[slot / 64] |= std::uint64_t{1} << (slot % 64);
}

std::optional<std::uint64_t> TimerWheel::next_tick() const {
  std::optional<std::uint64_t> best;
  for (int level = 0; level < kLevels; ++level) {
    const int shift = level * kSlotBits;
    const std::uint64_t here = current_ >> shift & (kSlots - 1);
    const auto& occupied = levels_[static_cast<std::size_t>(level)].occupied;
    for (std::uint64_t word = here / 64; word < 4; ++word) {
      std::uint64_t bits = occupied[word];
      if (word == here / 64) bits &= ~std::uint64_t{0} << (here % 64);
      if (bits == 0) continue;
      const std::uint64_t slot = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
      const std::uint64_t base = current_ >> shift >> kSlotBits << kSlotBits << shift;
      const std::uint64_t tick = base + (slot << shift);
      if (!best || tick < *best) best = tick;
      break;
    }
  }
  return best;
}

void TimerWheel::cascade() {
  for (int level = kLevels - 1; level >= 0; --level) {
    const int shift = level * kSlotBits;
    if ((current_ & ((std::uint64_t{1} << shift) - 1)) != 0) continue;  // not at the start of a slot there
    const std::size_t slot = current_ >> shift & (kSlots - 1);
    Level& place = levels_[static_cast<std::size_t>(level)];
    Timer& head = place.slots[slot];
    place.occupied[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
    while (!is_empty(head)) {
      Timer& timer = *head.next;
      detach(timer);
      if (timer.tick <= current_)
        append(due_, timer);
      else
        link(timer);
    }
  }
}

Timer* TimerWheel::pop_due(TimePoint now) {
  const auto now_tick =
      static_cast<std::uint64_t>(std::max<std::int64_t>(now.time_since_epoch().count(), 0)) / 1000;
  while (is_empty(due_)) {
    const auto tick = next_tick();
    if (!tick || *tick > now_tick) {
      current_ = std::max(current_, now_tick);
      return nullptr;
    }
    current_ = std::max(current_, *tick);
    cascade();
  }
  Timer& timer = *due_.next;
  detach(timer);
  --size_;
  return &timer;
}

std::optional<TimePoint> TimerWheel::next_wakeup() const {
  if (!is_empty(due_)) return TimePoint(Duration(static_cast<std::int64_t>(current_) * 1000));
  const auto tick = next_tick();
  if (!tick) return std::nullopt;
  return TimePoint(Duration(static_cast<std::int64_t>(*tick) * 1000));
}

}  // namespace lanemq::core
