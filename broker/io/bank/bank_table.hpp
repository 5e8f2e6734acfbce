// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <string>

#include "broker/io/bank/bank_rows.hpp"
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "broker/io/store/postgres/database/primary.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// The banks' rows in a table of PostgreSQL, in a schema of its own: `quota`, a row for each shared budget.
/// Each change is one transaction of two round trips, which holds the row's lock in between: the server ends
/// a shard that stalls meanwhile after kHeldMax, so that it keeps no other waiting.
///
/// Now and then the table looks, beside the draws, whether another server has been promoted since the one
/// that it draws at, which may live on: shards that draw at two servers have twice the limit.
///
/// A commit counts only without a warning: a wait for a standby that was cancelled succeeds with one, and the
/// standby that is promoted next may not know of it.
class BankTable final : public BankRows {
 public:
  static constexpr std::chrono::milliseconds kHeldMax{1000};
  static constexpr std::chrono::seconds kSearchEvery{10};

  /// Nothing is connected yet.
  BankTable(PostgresPlace place, std::string schema) : place_(std::move(place)), schema_(std::move(schema)) {}

  /// Whether draws could be done there, with this role. Changes nothing; a Fault says what is missing.
  static postgres::Outcome<void> check(const PostgresPlace& place, const std::string& schema);

  Result<void> change(const std::string& budget, const Change& change) override;
  Result<void> look() override;
  std::string name() const override { return place_.text; }

 private:
  postgres::Outcome<void> connect();
  postgres::Outcome<void> use(Primary primary);
  void look_for_newer();
  postgres::Outcome<std::string> lock_row(const std::string& budget, core::BankClock& clock);
  postgres::Outcome<void> write_row(const std::string& budget, const std::string& row);
  postgres::Outcome<bool> answered();

  PostgresPlace place_;
  std::string schema_;
  postgres::Connection connection_;
  std::int64_t timeline_ = 0;  ///< of the server that it has reached
  std::future<postgres::Outcome<Primary>> search_;
  postgres::Clock::time_point search_at_{};
};

}  // namespace lanemq::io
