// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/result.hpp>

#include "broker/core/base/writes.hpp"
#include "broker/io/store/store.hpp"
#include "common/sqlite/database.hpp"

namespace lanemq::io {

/// The rows of a store's file: turns writes into statements, and reads and checks rows. Borrows the
/// connection, which outlives it. Used by one thread at a time.
class StoreRows {
 public:
  static sqlite::Outcome<StoreRows> prepare(sqlite::Database& database);

  sqlite::Outcome<void> begin() { return begin_.run(); }
  sqlite::Outcome<void> commit() { return commit_.run(); }
  /// Undoes a transaction that could not be committed.
  void rollback();

  /// Applies one write, inside a transaction. Uses the bytes of `writes` until it returns.
  sqlite::Outcome<void> apply(const core::Writes& writes, const core::Write& write);

  /// The body of a job; none: there is no such job. An Outcome of SQLITE_CORRUPT: its checksum is wrong.
  sqlite::Outcome<std::optional<Blob>> body(std::uint64_t number);

  /// A result; none: there is no such result. Errors as of body().
  struct ResultRow {
    std::string record;
    Blob body;
  };
  sqlite::Outcome<std::optional<ResultRow>> result(std::uint64_t number);

  /// Passes all rows to the reader: notes, jobs, results. An error names `path`.
  Result<void> tell(StoreReader& reader, const std::string& path);

 private:
  explicit StoreRows(sqlite::Database& database) : database_(&database) {}
  sqlite::Outcome<void> insert_job(const core::Writes& writes, const core::Write& write);
  sqlite::Outcome<void> insert_result(const core::Writes& writes, const core::Write& write);
  sqlite::Outcome<void> rename_job(const core::Writes& writes, const core::Write& write);
  sqlite::Outcome<void> run_on_one(sqlite::Statement& statement, std::uint64_t number);

  sqlite::Database* database_;
  sqlite::Statement begin_, commit_, rollback_;
  sqlite::Statement insert_job_, insert_body_, update_job_, rename_job_, rename_body_, erase_job_,
      erase_body_;
  sqlite::Statement insert_result_, insert_result_body_, erase_result_, erase_result_body_, put_note_,
      erase_note_;
  sqlite::Statement read_job_, read_body_, read_result_, read_result_body_;
};

}  // namespace lanemq::io
