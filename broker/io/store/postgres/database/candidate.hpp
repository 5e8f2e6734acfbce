// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "broker/io/base/options.hpp"
#include "broker/io/store/postgres/database/owner_row.hpp"
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "broker/io/store/postgres/database/primary.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// A process that waits to own a store in PostgreSQL. Not thread-safe.
class Candidate {
 public:
  Candidate(const PostgresPlace& place, const StoreOptions& options)
      : place_(place),
        instance_(options.instance),
        shard_(options.shard),
        watch_(options.instance, options.alone, options.lease) {}

  /// Looks once. The row: this process has made itself the owner. None: not yet, waiting() says why. A Fault
  /// (never one that is_for_now()) will not pass by itself; one that is_for_operator() may be waited for.
  postgres::Outcome<std::optional<OwnerRow>> look();
  const StoreWaiting& waiting() const { return waiting_; }

 private:
  postgres::Outcome<void> connect();
  postgres::Outcome<void> use(Primary primary);
  postgres::Outcome<bool> find_newer(const OwnerRow& row);
  postgres::Outcome<std::optional<OwnerRow>> read_and_take();
  postgres::Outcome<std::optional<OwnerRow>> end_holder();
  std::optional<OwnerRow> wait(std::string why);

  const PostgresPlace& place_;
  const std::string instance_, shard_;
  OwnerWatch watch_;
  postgres::Connection connection_;
  std::int64_t timeline_ = 0;    ///< of the server that it has reached
  std::int64_t epoch_seen_ = 0;  ///< the highest
  StoreWaiting waiting_;
};

}  // namespace lanemq::io
