// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lanemq/result.hpp>

#include "broker/io/store/postgres/database/database_look.hpp"
#include "broker/io/store/postgres/database/owner_row.hpp"
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "broker/io/store/store.hpp"
#include "broker/io/store/store_exchange.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// Reads back what a store in PostgreSQL holds, removes dead rows, and looks how the database is, by a
/// connection of its own: neither holds commits up. Used by one thread at a time.
class PostgresReads {
 public:
  /// What the commits tell. Any thread may ask.
  struct Commits {
    std::function<std::uint64_t()> writes;       ///< how many were committed so far
    std::function<std::uint64_t()> connections;  ///< PostgresCommits::connections()
  };
  /// `place` and `exchange` outlive it. `owned`: as this process has made it.
  PostgresReads(const PostgresPlace& place, StoreExchange& exchange, OwnerRow owned, Replication replication,
                Commits commits)
      : place_(place),
        exchange_(exchange),
        owned_(std::move(owned)),
        commits_(std::move(commits)),
        look_(place, exchange, replication, commits_.connections) {}

  /// The server's clock; none: it does not answer.
  std::optional<std::int64_t> unix_us();
  /// As Store::load(), from a server that knows this owner: it is looked for until the exchange is over.
  /// `parts`: gets the keys of all parts that rows name.
  Result<void> load(StoreReader& reader, std::vector<std::int64_t>& parts);
  /// Serves what is asked for until the exchange ends. What the server does not answer by then is given up: a
  /// broker that ends, or that another one has deposed, waits for no server.
  void run();
  /// How the database is, for any thread.
  const DatabaseLook& seen() const { return look_; }
  DatabaseLook& seen() { return look_; }

 private:
  using Clock = postgres::Clock;

  bool is_elsewhere() const;
  bool is_over() const;
  bool can_serve(const StoreExchange::Lock& lock) const;
  void read_next();
  void vacuum();
  void look();
  void look_for_candidates();
  postgres::Outcome<void> connect();
  postgres::Outcome<void> find_owned();

  const PostgresPlace& place_;
  StoreExchange& exchange_;
  const OwnerRow owned_;
  const Commits commits_;
  postgres::Connection connection_;
  StoreExchange::Queue<StoreExchange::Asked> asks_;
  Clock::time_point vacuum_at_{};
  std::uint64_t vacuumed_ = 0;  ///< writes at the last vacuum
  std::uint64_t reached_ = 0;   ///< connections of the commits, when this one was made
  bool runs_ = false;           ///< in run(), and no load is under way
  struct {
    bool no_vacuum = false, refused = false;
  } said_;  ///< to the operator: its role may not vacuum, a read was refused for now
  DatabaseLook look_;
};

}  // namespace lanemq::io
