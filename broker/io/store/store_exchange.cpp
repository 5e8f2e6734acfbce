// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/store_exchange.hpp"

#include <iterator>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "broker/core/base/check.hpp"

namespace lanemq::io {

StoreExchange::StoreExchange() : signal_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  LANEMQ_CHECK(signal_ >= 0);
}

StoreExchange::~StoreExchange() {
  ::close(signal_);
}

std::string StoreExchange::trouble() const {
  const Lock held = lock();
  return shared_.trouble;
}

// ---- the loop -----------------------------------------------------------------------------------------

std::uint64_t StoreExchange::submit(core::Writes& writes) {
  LANEMQ_CHECK(!writes.empty());
  ++submitted_;
  if (over()) {
    writes.clear();
    return submitted_;
  }
  backlog_bytes_.fetch_add(writes.bytes(), std::memory_order_relaxed);
  {
    const Lock held = lock();
    core::Writes& place = shared_.turns.emplace_back();
    place.swap(writes);
    if (!shared_.spare.empty()) {
      writes.swap(shared_.spare.back());
      shared_.spare.pop_back();
    }
    shared_.idle = false;
  }
  wake();
  return submitted_;
}

void StoreExchange::ask(const std::vector<std::uint64_t>& numbers, bool of_result) {
  {
    const Lock held = lock();
    for (const std::uint64_t number : numbers)
      shared_.asked.push_back({.number = number, .after = submitted_, .of_result = of_result});
  }
  wake();
}

void StoreExchange::take_bodies(std::vector<StoredBody>& bodies) {
  const Lock held = lock();
  bodies.insert(bodies.end(), std::make_move_iterator(shared_.bodies.begin()),
                std::make_move_iterator(shared_.bodies.end()));
  shared_.bodies.clear();
}

void StoreExchange::clear_signal() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(signal_, &count, sizeof count);
  // After the read: a signal in between is not lost, since the caller looks at everything now.
  signalled_.exchange(false);
}

void StoreExchange::flush() {
  Lock held = lock();
  // After a failure nobody works on what was submitted.
  done_.wait(held, [this] { return shared_.idle || over(); });
}

void StoreExchange::end() {
  {
    const Lock held = lock();
    shared_.ends = true;
  }
  wake();
}

// ---- the store ----------------------------------------------------------------------------------------

void StoreExchange::take(const Lock&, Queue<core::Writes>& turns) {
  LANEMQ_CHECK(turns.empty());
  for (core::Writes& writes : turns.items)
    if (shared_.spare.size() < kSpareMax) shared_.spare.emplace_back().swap(writes);
  turns.items.clear();
  turns.next = 0;
  turns.items.swap(shared_.turns);
}

void StoreExchange::take(const Lock&, Queue<Asked>& asks) {
  LANEMQ_CHECK(asks.empty());
  asks.items.clear();
  asks.next = 0;
  asks.items.swap(shared_.asked);
}

void StoreExchange::set_idle(const Lock&, bool idle) {
  shared_.idle = idle;
  if (idle) done_.notify_all();
}

std::size_t StoreExchange::committed_now(Queue<core::Writes>& turns, std::size_t count) {
  {
    const Lock held = lock();
    committed_.fetch_add(count, std::memory_order_release);
  }
  signal();
  wake();
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    core::Writes& writes = turns.items[turns.next++];
    bytes += writes.bytes();
    writes.clear();
  }
  backlog_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return bytes;
}

void StoreExchange::give(std::vector<StoredBody>& found) {
  if (found.empty()) return;
  {
    const Lock held = lock();
    shared_.bodies.insert(shared_.bodies.end(), std::make_move_iterator(found.begin()),
                          std::make_move_iterator(found.end()));
  }
  found.clear();
  signal();
}

bool StoreExchange::set_condition(StoreCondition condition, std::string trouble) {
  {
    const Lock held = lock();
    if (over()) return false;
    shared_.trouble = std::move(trouble);
    if (condition_.exchange(condition) == condition) return false;
  }
  signal();
  wake();
  return true;
}

void StoreExchange::remark(const std::string& text) {
  {
    const Lock held = lock();
    shared_.remark += (shared_.remark.empty() ? "" : "; ") + text;
    has_remark_.store(true, std::memory_order_release);
  }
  signal();
}

std::string StoreExchange::take_remark() {
  if (!has_remark_.load(std::memory_order_acquire)) return {};
  const Lock held = lock();
  has_remark_.store(false, std::memory_order_relaxed);
  return std::exchange(shared_.remark, {});
}

void StoreExchange::signal() {
  if (signalled_.exchange(true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(signal_, &one, sizeof one);
}

std::size_t turns_of_transaction(const StoreExchange::Queue<core::Writes>& turns) {
  std::size_t count = 0, writes = 0, bytes = 0;
  for (std::size_t at = turns.next; at < turns.items.size(); ++at) {
    writes += turns.items[at].size();
    bytes += turns.items[at].bytes();
    if (count > 0 && (writes > kTransactionWritesMax || bytes > kTransactionBytesMax)) break;
    ++count;
  }
  return count;
}

}  // namespace lanemq::io
