// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "broker/io/postgres/net_writes.hpp"
#include "broker/io/postgres/owner_row.hpp"
#include "broker/io/postgres/postgres_place.hpp"
#include "broker/io/store_exchange.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// Commits what was submitted to a store in PostgreSQL, as its owner.
///
/// Each transaction begins with the fence (OwnerRow): it commits only while this process owns the store. An
/// owner that another one has deposed cannot commit, whatever clocks and networks do.
///
/// A lost connection is made anew, for a lease and `away_max`: by then another broker may serve, whom this
/// one cannot see. The row's ticket then tells whether the last transaction is in; if not the same one is
/// sent again. Nothing is done twice and nothing is told that is not in: what the row says after a reconnect
/// is told behind a commit of our own, since it may be on that server alone.
///
/// run() and give_back() belong to one thread; all else to any.
class PostgresCommits {
 public:
  /// `place` and `exchange` outlive it. `owned`: as this process has made it just now.
  /// `lease`: after which a candidate takes the store over; `away_max`: how much longer to try.
  PostgresCommits(const PostgresPlace& place, StoreExchange& exchange, OwnerRow owned,
                  std::chrono::milliseconds lease, std::chrono::milliseconds away_max);

  /// Commits until the exchange ends and nothing is left.
  void run();
  /// Gives up a database that does not answer for so long; zero: never.
  void end_within(std::chrono::milliseconds time);
  /// Lets candidates know that they need not wait for the lease. Requires: run() has returned.
  void give_back();

  /// As Store::away().
  bool away() const;
  /// As Store::pulse(). A server that does not answer is no reason to end the process.
  std::uint64_t pulse() const { return pulse_.load(std::memory_order_relaxed); }
  /// Writes that were committed.
  std::uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }

 private:
  using Clock = postgres::Clock;
  /// What has become of a transaction.
  enum class End : std::uint8_t {
    committed,
    in_by_row,  ///< the row says so, which may be that server's word alone
    again,      ///< it is not in, and is to be sent again
    full,       ///< the same; the server has no room
    lost,       ///< nobody knows: the connection is gone
    over,       ///< nothing is committed any more; the condition says why
  };

  /// Since the last commit that succeeded was sent.
  struct Patience {
    std::chrono::nanoseconds away_after, over_after;
  };

  void commit_next();
  void commit_batch(std::size_t count);
  End settle(const NetWrites& net);
  bool wait_for_room();
  End send_and_wait(const NetWrites& net);
  End outcome_of(const postgres::Fault& fault);
  End read_row_again();
  End judge(const OwnerRow& row);
  End reconnect();
  postgres::Outcome<OwnerRow> connect();
  bool another_is_primary();
  bool may_go_on();
  void say_away(const std::string& why);
  End set_full(const std::string& why);
  End fail(const std::string& why, const std::string& what_to_do);

  const PostgresPlace& place_;
  StoreExchange& exchange_;
  std::atomic<std::uint64_t> pulse_{0}, writes_{0};
  std::atomic<std::int64_t> end_by_{0};  ///< of Clock's counts; 0: never
  postgres::Connection connection_;
  std::string server_;  ///< which one the connection has reached
  OwnerRow owned_;      ///< with the ticket of the last transaction that is in
  StoreExchange::Queue<core::Writes> turns_;
  Clock::time_point beat_at_{};
  const Patience patience_;
  /// When the last commit that succeeded was sent, by since_boot().
  std::atomic<std::chrono::nanoseconds> good_at_;
};

}  // namespace lanemq::io
