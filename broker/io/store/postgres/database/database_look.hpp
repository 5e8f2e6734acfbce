// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "broker/io/base/options.hpp"
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "broker/io/store/store.hpp"
#include "broker/io/store/store_exchange.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// How the database of a store in PostgreSQL is: whether commits wait for a standby, and some figures. What
/// was seen counts for the server that commits had reached by then. Commits ask for the promise when they
/// connect, so that it is known from then on; figures come when the reader has connected there as well.
///
/// Methods under `the reader` belong to one thread, those under `all` to any.
class DatabaseLook {
 public:
  using Clock = postgres::Clock;

  /// How often it is looked, and again where the database did not answer.
  static constexpr std::chrono::milliseconds kPause{10'000}, kAgain{500};
  /// How many candidates there are is not known from a look that is older.
  static constexpr std::chrono::seconds kCandidatesKnown{10};

  /// `place` and `exchange` outlive it. `connections`: as PostgresCommits::connections(), for any thread.
  DatabaseLook(const PostgresPlace& place, StoreExchange& exchange, Replication replication,
               std::function<std::uint64_t()> connections)
      : place_(place), exchange_(exchange), replication_(replication), connections_(std::move(connections)) {}

  // ---- the reader ----

  Clock::time_point due_at() const { return due_at_; }
  /// Commits have connected anew, and nothing has failed since: the next look is not waited for.
  bool at_once() const { return !failed_ && is_elsewhere(); }
  /// Asks, and wakes the loop. `connections`: as they were before `connection` was made or kept. False: it
  /// did not answer, and is of no use any more.
  bool ask(postgres::Connection& connection, std::uint64_t connections);
  /// Asks which brokers wait for the store, which changes sooner than the rest. False: as above.
  bool ask_candidates(postgres::Connection& connection);
  void failed() {
    failed_ = true;
    due_at_ = Clock::now() + kAgain;
  }

  // ---- all ----

  /// Commits may be at another server than was looked at.
  bool is_elsewhere() const { return looked_at_.load(std::memory_order_acquire) != connections_(); }
  StoreDatabase figures() const;
  /// As Store::promise() and Store::promise_trouble().
  StorePromise promise() const;
  std::string promise_trouble() const;
  /// Asks for the promise alone, by the connection that makes `connections` of the commits: the answer counts
  /// from that number of connections on. False: it did not answer.
  bool ask_promise(postgres::Connection& connection, std::uint64_t connections);

 private:
  bool ask_figures(postgres::Connection& connection);

  const PostgresPlace& place_;
  StoreExchange& exchange_;
  const Replication replication_;
  const std::function<std::uint64_t()> connections_;
  Clock::time_point due_at_{};
  bool failed_ = false;
  std::atomic<std::uint64_t> looked_at_{0};  ///< connections of commits when it was looked last
  mutable std::mutex mutex_;                 ///< of what follows
  StoreDatabase figures_;
  std::optional<std::uint64_t> candidates_;
  Clock::time_point candidates_at_{};
  struct {
    std::uint64_t connections = 0;  ///< of commits, when it was asked
    StorePromise seen = StorePromise::unknown;
    std::string trouble;
  } promise_;
};

}  // namespace lanemq::io
