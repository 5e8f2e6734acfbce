// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "broker/core/base/writes.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// What the loop and a store's own threads hand each other: turns of writes and requests for bodies one way,
/// commits, bodies and the store's condition the other. It starts no thread, and outlives those of its store.
///
/// Methods under `the loop` belong to the loop's thread; those under `the store` to the store's threads, of
/// which one alone takes and commits turns; the others to all. A `Lock` is the caller's proof that it holds
/// this exchange; all methods without one take it themselves, or need none. What the loop submits is bounded
/// by who calls (CommitQueue, BodyReads).
class StoreExchange {
 public:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;

  /// A body or result to read once everything up to `after` is committed.
  struct Asked {
    std::uint64_t number = 0;
    std::uint64_t after = 0;  ///< a ticket
    bool of_result = false;
  };
  /// Work that a store's thread has taken, in order; used up from the front.
  template <class T>
  struct Queue {
    std::vector<T> items;
    std::size_t next = 0;

    bool empty() const { return next == items.size(); }
    T& front() { return items[next]; }
    const T& front() const { return items[next]; }
  };

  StoreExchange();
  ~StoreExchange();
  StoreExchange(const StoreExchange&) = delete;
  StoreExchange& operator=(const StoreExchange&) = delete;

  /// The last ticket that is committed.
  std::uint64_t committed() const { return committed_.load(std::memory_order_acquire); }
  std::size_t backlog_bytes() const { return backlog_bytes_.load(std::memory_order_relaxed); }
  StoreCondition condition() const { return condition_.load(std::memory_order_acquire); }
  bool is(StoreCondition condition) const { return condition_.load(std::memory_order_relaxed) == condition; }
  /// Whether nothing is committed any more.
  bool over() const { return is_over(condition()); }
  std::string trouble() const;
  /// The holder of the lock may also guard with it what a store hands its threads beside this.
  [[nodiscard]] Lock lock() const { return Lock(mutex_); }
  /// Wakes the store's threads that wait, after a change under the lock of what they wait for.
  void wake() { work_.notify_all(); }

  // ---- the loop ----

  /// As Store::submit(). After a failure the writes are dropped.
  std::uint64_t submit(core::Writes& writes);
  /// Asks for bodies or results as they are after the submits so far.
  void ask(const std::vector<std::uint64_t>& numbers, bool of_result);
  /// As Store::take_bodies().
  void take_bodies(std::vector<StoredBody>& bodies);
  int descriptor() const { return signal_; }
  /// The caller then looks at everything: commits, bodies, condition, and what the store has beside these.
  void clear_signal();
  /// As Store::take_remark().
  std::string take_remark();
  /// Waits until the store has said that it is idle. Does not begin to wait after a failure.
  void flush();
  /// Asks the store's threads to end.
  void end();

  // ---- the store ----

  bool ends(const Lock&) const { return shared_.ends; }
  bool has_turns(const Lock&) const { return !shared_.turns.empty(); }
  bool has_asks(const Lock&) const { return !shared_.asked.empty(); }
  /// Moves all turns to `turns`, whose own are used up, and takes the memory of these.
  void take(const Lock&, Queue<core::Writes>& turns);
  /// Moves all requests to `asks`, whose own are used up.
  void take(const Lock&, Queue<Asked>& asks);
  /// Whether all that was submitted is committed, or cannot be. To be said before each wait for turns, after
  /// a failure, too, since flush() waits for it. Each submit() ends it.
  void set_idle(const Lock&, bool idle);
  /// Waits until `ready`, which is asked under the lock: at once, and at each submit(), ask(), commit, change
  /// of the condition, end() and wake().
  template <class Ready>
  void wait(Lock& lock, const Ready& ready) {
    work_.wait(lock, ready);
  }
  template <class Ready>
  void wait_until(Lock& lock, Clock::time_point end, const Ready& ready) {
    work_.wait_until(lock, end, ready);
  }
  /// The first `count` of `turns` are committed: tells the loop and the store's threads, and uses them up.
  /// Returns their bytes.
  std::size_t committed_now(Queue<core::Writes>& turns, std::size_t count);
  /// Gives the loop what was read, if anything was, and leaves `found` empty.
  void give(std::vector<StoredBody>& found);
  /// Sets the condition and its text for people, in one. Tells the loop and the store's threads where the
  /// condition is another than before, and returns whether it is. A condition that is_over() is final: the
  /// first that sets it gives the reason, and later calls change nothing.
  bool set_condition(StoreCondition condition, std::string trouble);
  /// A remark for operators; one that comes before the last was taken is appended to that.
  void remark(const std::string& text);
  /// Wakes the loop, after a change of what it looks at. One wake-up stands for all that happened since the
  /// last, since the loop looks at everything.
  void signal();

 private:
  /// Writes of committed turns that are kept, to use their memory again.
  static constexpr std::size_t kSpareMax = 32;

  struct Shared {
    std::vector<core::Writes> turns;  ///< submitted, not taken
    std::vector<core::Writes> spare;  ///< empty, kept for their memory
    std::vector<Asked> asked;         ///< not taken
    std::vector<StoredBody> bodies;   ///< for the loop
    std::string trouble, remark;
    bool idle = true;
    bool ends = false;
  };

  const int signal_;             ///< an eventfd
  std::uint64_t submitted_ = 0;  ///< of the loop's thread
  // Written under the mutex, so that no thread that waits for one of them misses it; read without.
  std::atomic<std::uint64_t> committed_{0};
  std::atomic<StoreCondition> condition_{StoreCondition::good};

  std::atomic<std::size_t> backlog_bytes_{0};
  std::atomic<bool> signalled_{false}, has_remark_{false};

  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  Shared shared_;  ///< under the mutex
};

/// Bounds of one transaction: every turn in it waits for its one commit.
inline constexpr std::size_t kTransactionWritesMax = 4096;
inline constexpr std::size_t kTransactionBytesMax = 8u << 20;

/// How many of `turns` go into the next transaction: the first, however large, and those after it that fit.
/// None of none.
std::size_t turns_of_transaction(const StoreExchange::Queue<core::Writes>& turns);

}  // namespace lanemq::io
