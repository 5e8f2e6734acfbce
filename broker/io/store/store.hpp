// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/result.hpp>

#include "broker/core/base/writes.hpp"
#include "broker/io/base/options.hpp"

namespace lanemq::io {

/// The condition of a store.
enum class StoreCondition : std::uint8_t {
  good,
  full,        ///< no room for new jobs; running ones may finish. Ends when there is room.
  failed,      ///< disk and memory may differ: nothing is committed any more
  deposed,     ///< another broker owns the store: nothing is committed by this one any more
  broken_off,  ///< its database went away in the middle of load(), of which the reader has a part
};

/// Whether nothing is committed any more, for good.
constexpr bool is_over(StoreCondition condition) {
  return condition == StoreCondition::failed || condition == StoreCondition::deposed ||
         condition == StoreCondition::broken_off;
}

/// Whether nothing is wrong with the store, and a broker that is started again goes on with it, or waits for
/// it.
constexpr bool is_for_next_start(StoreCondition condition) {
  return condition == StoreCondition::deposed || condition == StoreCondition::broken_off;
}

/// The room of a store.
struct StoreRoom {
  std::uint64_t file_bytes = 0;               ///< of its files, the reserve apart
  std::uint64_t reserve_bytes = 0;            ///< kept back (DiskReserve)
  std::optional<std::uint64_t> free_bytes{};  ///< on its disk, as last looked at; none: unknown
};

/// The commits of a store in a database since this process owns it.
struct StoreTransactions {
  std::uint64_t count = 0;            ///< with writes; signs of life are none
  std::uint64_t writes = 0;           ///< as the core made them, in all of these
  std::uint64_t bytes = 0;            ///< of these
  std::chrono::microseconds time{0};  ///< from sending to success, in all
  std::uint64_t doubts = 0;  ///< whose answers were lost, and of which was found out whether they are in
};

/// How the database is that a store lies in, as of some seconds ago. None: this broker's role may not see it,
/// or nobody has looked yet.
struct StoreDatabase {
  std::optional<std::uint64_t> dead_rows{};  ///< of the store's tables
  /// How long the oldest snapshot of the database is held already: no row that is dead since can go.
  std::optional<std::chrono::milliseconds> oldest_snapshot{};
  std::optional<std::uint64_t> standbys{};    ///< that are synchronous
  std::optional<std::uint64_t> candidates{};  ///< brokers that wait for the store
};

/// Whether a store can keep what durable jobs are told: that the process's end does not lose them, and of a
/// shared store, that no one machine's end does.
enum class StorePromise : unsigned char {
  kept,
  unknown,  ///< it is being found out
  broken,
};

/// The owner's knowledge of its part in a store that several brokers share.
struct StoreOwnership {
  std::string instance;    ///< its own name
  std::int64_t epoch = 0;  ///< counts owners
  std::chrono::milliseconds since_commit{0};
  StoreTransactions transactions{};
  StoreDatabase database{};
  std::string_view replication{};  ///< what keeps commits beside the database's machine: name_of(Replication)
};

/// A job's body or a result that was read back.
struct StoredBody {
  std::uint64_t number = 0;
  std::optional<Blob> body;  ///< none: the store has no such job, or no such result
  bool of_result = false;
  std::string record{};  ///< of a result
};

/// Receives what load() reads. Views are valid during the call. An error ends the reading, and load() returns
/// it.
class StoreReader {
 public:
  virtual ~StoreReader() = default;
  virtual Result<void> note(std::string_view name, std::string_view record) = 0;
  /// `body`: null where it stays in the store, since it is large.
  virtual Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                           std::optional<std::string_view> body, std::size_t body_bytes) = 0;
  /// The same for a result.
  virtual Result<void> result(std::uint64_t number, std::string_view record,
                              std::optional<std::string_view> body, std::size_t body_bytes) = 0;
};

/// Where accepted jobs outlive the broker. A turn's writes are committed before messages that depend on them
/// are sent: durable before visible. All calls come from the loop's thread; a store may have a thread of its
/// own.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::string_view name() const = 0;
  /// Whether commits outlive a crash; `accepted` tells clients.
  virtual bool durable() const = 0;

  /// Whether another process may go on from the store while this one does not know that it has to end.
  virtual bool shared() const { return false; }

  /// Whether nothing has been committed for so long that another process may soon own the store, or does. By
  /// a clock that runs through a suspend.
  virtual bool away() const { return false; }

  /// Where it is not kept no new durable job may be taken.
  virtual StorePromise promise() const { return StorePromise::kept; }
  /// Why it is broken, for people.
  virtual std::string promise_trouble() const { return {}; }

  /// None: it is nobody's but this process's.
  virtual std::optional<StoreOwnership> ownership() const { return std::nullopt; }

  /// The store's own wall clock, in Unix time; none: it has none, and its machine's counts. Where owners on
  /// several machines follow each other it tells how long nobody owned the store, whatever their clocks say.
  /// Requires: before the first submit().
  virtual std::optional<std::int64_t> unix_us() { return std::nullopt; }

  /// Passes everything that was committed: notes, then jobs by number, then results by number. Requires:
  /// before the first submit().
  virtual Result<void> load(StoreReader& reader) = 0;

  /// The store is served from now on: it maintains itself, also while it gets no requests. Requires: after
  /// load(), before the first submit().
  virtual void begin() {}

  /// Takes a turn's writes. It commits them all or none, after those of earlier calls. Leaves `writes` empty,
  /// with memory to use again. Returns their ticket: 1, 2, 3, ... Requires: `writes` is not empty.
  virtual std::uint64_t submit(core::Writes& writes) = 0;
  /// The last ticket on disk; all earlier ones are there, too.
  virtual std::uint64_t committed() const = 0;
  /// Bytes that were submitted and are not committed.
  virtual std::size_t backlog_bytes() const = 0;

  /// Whether a body of this size, of a job or a result, is to be put ahead of the submit() that needs it,
  /// since it would hold up what is committed with it.
  virtual bool wants_ahead(std::size_t) const { return false; }
  /// Puts a body that owns its bytes, and keeps it until take_put() has told that it is in. A submit()
  /// with that very Blob then refers to it. Requires: wants_ahead().
  virtual void put_ahead(const Blob&) {}
  /// Appends those that are in by now, in the order of the calls. One that the store refused is among them,
  /// and goes with its submit() as any other.
  virtual void take_put(std::vector<Blob>&) {}
  /// A body that take_put() has told of goes into no submit().
  virtual void drop_put(const Blob&) {}
  /// Bytes of bodies that are in, and whose submit() is not committed: backlog_bytes() may count them, though
  /// they hold nothing up.
  virtual std::size_t put_bytes() const { return 0; }

  /// Asks for bodies of jobs as they are after the submits so far.
  virtual void read(const std::vector<std::uint64_t>& numbers) = 0;
  /// Asks for results in the same way.
  virtual void read_results(const std::vector<std::uint64_t>& numbers) = 0;
  /// Appends what was read since the last call.
  virtual void take_bodies(std::vector<StoredBody>& bodies) = 0;

  /// Odd while the store's own thread works, even while it waits for work; another number for each piece of
  /// work. One that stays odd tells of a disk that holds the thread up. Stores without a thread have 0.
  virtual std::uint64_t pulse() const { return 0; }
  virtual StoreCondition condition() const = 0;
  /// None: it keeps nothing on a disk. Asks no disk, which may hang.
  virtual std::optional<StoreRoom> disk_room() const { return std::nullopt; }
  /// The fault, for people, with what to do.
  virtual std::string trouble() const = 0;

  /// Remarks for operators that nothing else reports, once each; empty: nothing new. Asked in every turn.
  virtual std::string take_remark() { return {}; }

  /// A descriptor that becomes readable when committed(), bodies, condition or backup have changed; -1:
  /// never. Call clear_signal() before looking at these.
  virtual int descriptor() const = 0;
  virtual void clear_signal() = 0;

  /// Begins to copy everything committed to a new file, while work goes on. One copy at a time.
  virtual Result<void> begin_backup(const std::string& path) = 0;
  /// How the backup ended, once; none: it still runs, or there was none.
  virtual std::optional<Result<void>> take_backup() = 0;

  /// The store is given back at its end so that another process goes on. The destructor then waits for who
  /// does, kSuccessorMax at most, and calls `told` with that one's instance; empty: nobody has come. Without
  /// it a process that is started again at once could take the store back. Requires: ownership().
  virtual void hand_over_at_end(std::function<void(std::string_view successor)> told) {
    static_cast<void>(told);
  }
  static constexpr std::chrono::milliseconds kSuccessorMax{2000};

  /// For the end: waits until everything submitted is committed, or the store is not good.
  virtual void flush() = 0;
};

}  // namespace lanemq::io
