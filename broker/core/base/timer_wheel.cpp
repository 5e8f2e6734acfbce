// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/timer_wheel.hpp"

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

/// Appends all timers of one list to another. Requires: it is not empty.
void splice(Timer& head, Timer& from) {
  from.next->previous = head.previous;
  head.previous->next = from.next;
  from.previous->next = &head;
  head.previous = from.previous;
  make_empty(from);
}

}  // namespace

void TimerWheel::Level::mark(std::uint64_t number) {
  const std::uint64_t slot = number % kSlots;
  occupied[slot / 64] |= std::uint64_t{1} << (slot % 64);
}

void TimerWheel::Level::unmark(std::uint64_t number) {
  const std::uint64_t slot = number % kSlots;
  occupied[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
}

std::optional<std::uint64_t> TimerWheel::Level::next_after(std::uint64_t number) const {
  const std::uint64_t here = number % kSlots, bit = here % 64;
  // Around the ring: the first word is looked at twice, for slots after `here` and for those before it.
  for (std::size_t i = 0; i <= occupied.size(); ++i) {
    const std::uint64_t word = (here / 64 + i) % occupied.size();
    std::uint64_t bits = occupied[word];
    if (i == 0) bits &= ~std::uint64_t{1} << bit;
    if (i == occupied.size()) bits &= (std::uint64_t{1} << bit) - 1;
    if (bits == 0) continue;
    const std::uint64_t slot = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
    return number + (slot - here) % kSlots;
  }
  return std::nullopt;
}

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
  // A time beyond the highest level waits in its last slot: no slot follows that to wrap around to.
  timer.tick = std::min(std::max(tick, current_ + 1), kSpan) & kSpan;
  link(timer);
  ++size_;
}

void TimerWheel::clear(Timer& timer) {
  if (!timer.is_set()) return;
  // The slot keeps its bit even if it is empty now: a wake-up too many is cheaper than finding the slot.
  detach(timer);
  --size_;
}

void TimerWheel::link(Timer& timer) {
  // The lowest level whose ring reaches the time. Above level 0 the slot is never the present one nor the
  // next: those are being emptied.
  int level = 0;
  while (level < kLevels - 1 && slot_of(timer.tick, level) - slot_of(current_, level) >= kSlots)
    ++level;
  Level& place = levels_[static_cast<std::size_t>(level)];
  const std::uint64_t slot = slot_of(timer.tick, level);
  append(place.head(slot), timer);
  place.mark(slot);
  quiet_until_ = std::min(quiet_until_, slot << (level * kLevelBits));
}

/// When the next slot begins that may hold timers.
std::optional<std::uint64_t> TimerWheel::next_tick() const {
  std::optional<std::uint64_t> best;
  for (int level = 0; level < kLevels; ++level) {
    const auto slot = levels_[static_cast<std::size_t>(level)].next_after(slot_of(current_, level));
    if (!slot) continue;
    const std::uint64_t tick = *slot << (level * kLevelBits);
    if (!best || tick < *best) best = tick;
  }
  return best;
}

/// Empties the slots that begin now: takes out due timers, and moves down those that no earlier tick moved.
void TimerWheel::enter_slots() {
  for (int level = kLevels - 1; level > 0; --level) {
    const std::uint64_t slot = slot_of(current_, level);
    if (slot << (level * kLevelBits) != current_) continue;
    Level& place = levels_[static_cast<std::size_t>(level)];
    place.unmark(slot);
    for (Timer& head = place.head(slot); !is_empty(head);) {
      Timer& timer = *head.next;
      detach(timer);
      if (timer.tick <= current_)
        append(due_, timer);
      else
        link(timer);
    }
  }
  Level& lowest = levels_[0];
  lowest.unmark(current_);
  if (Timer& head = lowest.head(current_); !is_empty(head)) splice(due_, head);
}

void TimerWheel::move_ahead() {
  std::size_t left = kMovedAhead;
  for (int level = 1; level < kLevels; ++level) {
    Level& place = levels_[static_cast<std::size_t>(level)];
    const std::uint64_t slot = slot_of(current_, level) + 1;
    Timer& head = place.head(slot);
    for (; !is_empty(head); --left) {
      if (left == 0) return;
      Timer& timer = *head.next;
      detach(timer);
      link(timer);
    }
    place.unmark(slot);
  }
}

Timer* TimerWheel::pop_due(TimePoint now) {
  const auto now_tick =
      static_cast<std::uint64_t>(std::max<std::int64_t>(now.time_since_epoch().count(), 0)) / 1000;
  while (is_empty(due_)) {
    // Most turns find nothing due, and no slot that begins: they need not look for the next one.
    if (now_tick >= quiet_until_) quiet_until_ = next_tick().value_or(kNoTick);
    if (now_tick < quiet_until_) {
      current_ = std::max(current_, now_tick);
      move_ahead();
      return nullptr;
    }
    current_ = quiet_until_;
    enter_slots();
    move_ahead();
  }
  Timer& timer = *due_.next;
  detach(timer);
  --size_;
  return &timer;
}

std::optional<TimePoint> TimerWheel::next_wakeup() const {
  const auto at = [](std::uint64_t tick) {
    return TimePoint(Duration(static_cast<std::int64_t>(tick) * 1000));
  };
  if (!is_empty(due_)) return at(current_);
  std::optional<std::uint64_t> best;
  for (int level = 0; level < kLevels; ++level) {
    const auto slot = levels_[static_cast<std::size_t>(level)].next_after(slot_of(current_, level));
    if (!slot) continue;
    // Above the lowest level timers are moved down while the slot before theirs passes.
    const std::uint64_t tick =
        level == 0 ? *slot : std::max((*slot - 1) << (level * kLevelBits), current_ + 1);
    if (!best || tick < *best) best = tick;
  }
  return best ? std::optional(at(*best)) : std::nullopt;
}

}  // namespace lanemq::core
