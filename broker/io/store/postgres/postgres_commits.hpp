// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "broker/io/store/postgres/commit_fence.hpp"
#include "broker/io/store/postgres/database/owner_row.hpp"
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "broker/io/store/postgres/database/primary.hpp"
#include "broker/io/store/postgres/net_writes.hpp"
#include "broker/io/store/postgres/postgres_bodies.hpp"
#include "broker/io/store/store_exchange.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// Commits what was submitted to a store in PostgreSQL, as its owner.
///
/// Each transaction begins with the fence (OwnerRow): it commits only while this process owns the store. An
/// owner that another one has deposed cannot commit, whatever clocks and networks do.
///
/// A lost connection is made anew, for a lease and `away_max`: by then another broker may serve, whom this
/// one cannot see. CommitFence decides what is sent again and what may be told: nothing is done twice, and
/// nothing is told that is not in.
///
/// run(), give_back() and successor() belong to one thread; all else to any.
class PostgresCommits {
 public:
  struct Patience {
    std::chrono::milliseconds lease;     ///< after which a candidate takes the store over
    std::chrono::milliseconds away_max;  ///< how much longer to try
  };
  /// DatabaseLook::ask_promise().
  using AskPromise = std::function<bool(postgres::Connection& connection, std::uint64_t connections)>;
  /// The first three outlive it. `owned`: as this process has made it just now. `ask_promise` is called by
  /// the thread of run().
  PostgresCommits(const PostgresPlace& place, StoreExchange& exchange, PostgresBodies& bodies, OwnerRow owned,
                  Patience patience, AskPromise ask_promise);

  /// Commits until the exchange ends and nothing is left.
  void run();
  /// Gives up a database that does not answer for so long; zero: never.
  void end_within(std::chrono::milliseconds time);
  /// Lets candidates know that they need not wait for the lease. False: it could not. Requires: run() has
  /// returned.
  bool give_back();
  /// Waits for who takes the store. Empty: nobody has. Requires: give_back().
  std::string successor(std::chrono::milliseconds patience);

  /// As Store::away().
  bool away() const;
  /// As Store::pulse(). A server that does not answer is no reason to end the process.
  std::uint64_t pulse() const { return pulse_.load(std::memory_order_relaxed); }
  /// How long ago the last commit that succeeded was sent; at first since this process owns the store.
  std::chrono::milliseconds since_commit() const;
  /// Writes that were committed.
  std::uint64_t writes() const { return counts_.writes.load(std::memory_order_relaxed); }
  StoreTransactions transactions() const;
  /// Connections that were made so far: each may have reached another server. Wakes the exchange's threads.
  std::uint64_t connections() const { return counts_.connections.load(std::memory_order_acquire); }

 private:
  using Clock = postgres::Clock;
  void commit_next();
  void commit_batch(std::size_t count);
  // False: nothing is committed any more; the condition says why.
  bool settle(NetWrites& net, bool has_changes);
  bool wait_for_room();
  bool send_and_wait(NetWrites& net);
  bool take_fault(const postgres::Fault& fault, std::span<const std::size_t> looks, NetWrites& net);
  bool lose();
  bool read_row();
  bool take_row(const OwnerRow& row);
  bool reconnect();
  bool may_go_on();
  bool fail(const std::string& why, const std::string& what_to_do);

  postgres::Outcome<OwnerRow> connect();
  bool another_is_primary();
  void say_away(const std::string& why);
  void say_full(const std::string& why);

  const PostgresPlace& place_;
  StoreExchange& exchange_;
  PostgresBodies& bodies_;
  const AskPromise ask_promise_;
  std::atomic<std::uint64_t> pulse_{0};
  struct {
    std::atomic<std::uint64_t> connections{0}, transactions{0}, writes{0}, bytes{0}, microseconds{0},
        doubts{0};
  } counts_;                             ///< as StoreTransactions has them
  std::atomic<std::int64_t> end_by_{0};  ///< of Clock's counts; 0: never
  postgres::Connection connection_;
  struct {
    std::string reached;           ///< by the connection
    std::optional<Primary> other;  ///< as another_is_primary() has found it
  } server_;
  CommitFence fence_;
  StoreExchange::Queue<core::Writes> turns_;
  Clock::time_point beat_at_{};
  std::atomic<CommitFence::Time> good_at_;  ///< fence_'s, for all threads
};

}  // namespace lanemq::io
