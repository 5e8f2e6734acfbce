// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/sqlite_rows.hpp"

#include <utility>

#include "broker/io/store/row_checksums.hpp"
#include "broker/io/store/sqlite/sqlite_schema.hpp"

namespace lanemq::io {
namespace {

using core::Write;
using core::Writes;
using sqlite::Fault;
using sqlite::Outcome;

std::int64_t key(std::uint64_t number) {
  return static_cast<std::int64_t>(number);
}

bool in_row(std::size_t body_bytes) {
  return body_bytes <= kBodyInRowBytesMax;
}

tl::unexpected<Fault> damaged(const std::string& what) {
  return tl::unexpected(Fault{.code = SQLITE_CORRUPT, .message = what + " is not what was written"});
}

std::string row_name(const char* kind, std::int64_t number) {
  return kind + (" " + std::to_string(number));
}

}  // namespace

Outcome<StoreRows> StoreRows::prepare(sqlite::Database& database) {
  StoreRows rows(database);
  const std::pair<sqlite::Statement*, const char*> statements[] = {
      {&rows.begin_, "BEGIN IMMEDIATE"},
      {&rows.commit_, "COMMIT"},
      {&rows.rollback_, "ROLLBACK"},
      {&rows.insert_job_,
       "INSERT INTO job (number, state, state_checksum, record, body, body_bytes, checksum) "
       "VALUES (?, ?, ?, ?, ?, ?, ?)"},
      {&rows.insert_body_, "INSERT INTO body (number, checksum, bytes) VALUES (?, ?, ?)"},
      {&rows.update_job_, "UPDATE job SET state = ?, state_checksum = ? WHERE number = ?"},
      {&rows.rename_job_, "UPDATE job SET number = ?, state = ?, state_checksum = ? WHERE number = ?"},
      {&rows.rename_body_, "UPDATE body SET number = ? WHERE number = ?"},
      {&rows.erase_job_, "DELETE FROM job WHERE number = ?"},
      {&rows.erase_body_, "DELETE FROM body WHERE number = ?"},
      {&rows.insert_result_,
       "INSERT INTO result (number, checksum, record, body, body_bytes) VALUES (?, ?, ?, ?, ?)"},
      {&rows.insert_result_body_, "INSERT INTO result_body (number, checksum, bytes) VALUES (?, ?, ?)"},
      {&rows.erase_result_, "DELETE FROM result WHERE number = ?"},
      {&rows.erase_result_body_, "DELETE FROM result_body WHERE number = ?"},
      {&rows.put_note_, "INSERT OR REPLACE INTO note (name, checksum, record) VALUES (?, ?, ?)"},
      {&rows.erase_note_, "DELETE FROM note WHERE name = ?"},
      {&rows.read_job_, "SELECT record, body, body_bytes, checksum FROM job WHERE number = ?"},
      {&rows.read_body_, "SELECT bytes, checksum FROM body WHERE number = ?"},
      {&rows.read_result_, "SELECT record, body, body_bytes, checksum FROM result WHERE number = ?"},
      {&rows.read_result_body_, "SELECT bytes, checksum FROM result_body WHERE number = ?"},
  };
  for (const auto& [statement, sql] : statements) {
    auto prepared = database.prepare(sql);
    if (!prepared) return tl::unexpected(std::move(prepared.error()));
    *statement = std::move(*prepared);
  }
  return rows;
}

void StoreRows::rollback() {
  // After some errors SQLite has rolled back by itself. An error of this statement says nothing new.
  if (database_->in_transaction()) (void)rollback_.run();
}

Outcome<void> StoreRows::apply(const Writes& writes, const Write& write) {
  const std::string_view record = writes.record(write);
  switch (write.kind) {
    case Write::Kind::insert_job:
      return insert_job(writes, write);
    case Write::Kind::update_job:
      update_job_.bind(1, writes.state(write));
      update_job_.bind(2, state_checksum(write.number, writes.state(write)));
      update_job_.bind(3, key(write.number));
      return run_on_one(update_job_, write.number);
    case Write::Kind::rename_job:
      return rename_job(writes, write);
    case Write::Kind::erase_job:
      erase_job_.bind(1, key(write.number));
      erase_body_.bind(1, key(write.number));
      return erase_job_.run().and_then([&] { return erase_body_.run(); });
    case Write::Kind::insert_result:
      return insert_result(writes, write);
    case Write::Kind::erase_result:
      erase_result_.bind(1, key(write.number));
      erase_result_body_.bind(1, key(write.number));
      return erase_result_.run().and_then([&] { return erase_result_body_.run(); });
    case Write::Kind::put_note:
      put_note_.bind_text(1, writes.state(write));
      put_note_.bind(2, note_checksum(writes.state(write), record));
      put_note_.bind(3, record);
      return put_note_.run();
    case Write::Kind::erase_note:
      erase_note_.bind_text(1, writes.state(write));
      return erase_note_.run();
  }
  return tl::unexpected(Fault{.code = SQLITE_MISUSE, .message = "a write of a kind that is not known"});
}

Outcome<void> StoreRows::insert_job(const Writes& writes, const Write& write) {
  const std::string_view body = writes.body(write);
  const std::string_view record = writes.record(write);
  const std::string_view row_body = in_row(body.size()) ? body : std::string_view();
  insert_job_.bind(1, key(write.number));
  insert_job_.bind(2, writes.state(write));
  insert_job_.bind(3, state_checksum(write.number, writes.state(write)));
  insert_job_.bind(4, record);
  if (in_row(body.size()))
    insert_job_.bind(5, row_body);
  else
    insert_job_.bind_null(5);
  insert_job_.bind(6, static_cast<std::int64_t>(body.size()));
  insert_job_.bind(7, job_checksum(record, row_body, body.size()));
  if (auto done = insert_job_.run(); !done || in_row(body.size())) return done;
  insert_body_.bind(1, key(write.number));
  insert_body_.bind(2, body_checksum(body));
  insert_body_.bind(3, body);
  return insert_body_.run();
}

Outcome<void> StoreRows::insert_result(const Writes& writes, const Write& write) {
  const std::string_view body = writes.body(write);
  const std::string_view record = writes.record(write);
  const std::string_view row_body = in_row(body.size()) ? body : std::string_view();
  const std::size_t apart_bytes = body.size() - row_body.size();
  insert_result_.bind(1, key(write.number));
  insert_result_.bind(2, result_checksum(write.number, record, row_body, apart_bytes));
  insert_result_.bind(3, record);
  insert_result_.bind(4, row_body);
  insert_result_.bind(5, static_cast<std::int64_t>(apart_bytes));
  if (auto done = insert_result_.run(); !done || apart_bytes == 0) return done;
  insert_result_body_.bind(1, key(write.number));
  insert_result_body_.bind(2, body_checksum(body));
  insert_result_body_.bind(3, body);
  return insert_result_body_.run();
}

Outcome<void> StoreRows::rename_job(const Writes& writes, const Write& write) {
  rename_job_.bind(1, key(write.renamed));
  rename_job_.bind(2, writes.state(write));
  rename_job_.bind(3, state_checksum(write.renamed, writes.state(write)));
  rename_job_.bind(4, key(write.number));
  rename_body_.bind(1, key(write.renamed));
  rename_body_.bind(2, key(write.number));
  return run_on_one(rename_job_, write.number).and_then([&] { return rename_body_.run(); });
}

/// Runs a change that must hit one row; else it is SQLITE_CORRUPT.
Outcome<void> StoreRows::run_on_one(sqlite::Statement& statement, std::uint64_t number) {
  auto done = statement.run();
  if (done && database_->changes() != 1)
    return tl::unexpected(
        Fault{.code = SQLITE_CORRUPT,
              .message = row_name("job", key(number)) + " was to be changed and is not there"});
  return done;
}

Outcome<std::optional<Blob>> StoreRows::body(std::uint64_t number) {
  read_job_.bind(1, key(number));
  const auto row = read_job_.step();
  if (!row) return tl::unexpected(row.error());
  if (!*row) return std::optional<Blob>();
  const std::string_view row_body = read_job_.bytes(1);
  const auto body_bytes = static_cast<std::size_t>(read_job_.integer(2));
  const bool believed = job_checksum(read_job_.bytes(0), row_body, body_bytes) == read_job_.integer(3);
  std::optional<Blob> body;
  if (in_row(body_bytes)) body = Blob::copy(row_body);
  read_job_.reset();
  if (!believed) return damaged(row_name("job", key(number)));
  if (body) return body;

  read_body_.bind(1, key(number));
  const auto apart = read_body_.step();
  if (!apart) return tl::unexpected(apart.error());
  if (!*apart) return damaged(row_name("the body of job", key(number)));
  const std::string_view bytes = read_body_.bytes(0);
  const bool same = bytes.size() == body_bytes && body_checksum(bytes) == read_body_.integer(1);
  if (same) body = Blob::copy(bytes);
  read_body_.reset();
  if (!same) return damaged(row_name("the body of job", key(number)));
  return body;
}

Outcome<std::optional<StoreRows::ResultRow>> StoreRows::result(std::uint64_t number) {
  read_result_.bind(1, key(number));
  const auto row = read_result_.step();
  if (!row) return tl::unexpected(row.error());
  if (!*row) return std::optional<ResultRow>();
  ResultRow result{.record = std::string(read_result_.bytes(0)), .body = Blob::copy(read_result_.bytes(1))};
  const auto apart_bytes = static_cast<std::size_t>(read_result_.integer(2));
  const bool believed =
      result_checksum(number, result.record, result.body.bytes(), apart_bytes) == read_result_.integer(3);
  read_result_.reset();
  if (!believed) return damaged(row_name("result", key(number)));
  if (apart_bytes == 0) return std::optional(std::move(result));

  read_result_body_.bind(1, key(number));
  const auto apart = read_result_body_.step();
  if (!apart) return tl::unexpected(apart.error());
  if (!*apart) return damaged(row_name("the body of result", key(number)));
  const std::string_view bytes = read_result_body_.bytes(0);
  const bool same = bytes.size() == apart_bytes && body_checksum(bytes) == read_result_body_.integer(1);
  if (same) result.body = Blob::copy(bytes);
  read_result_body_.reset();
  if (!same) return damaged(row_name("the body of result", key(number)));
  return std::optional(std::move(result));
}

namespace {

/// Calls `each(statement)` for each row of a query; an error of `each` ends the reading.
template <class Each>
Result<void> for_rows(sqlite::Database& database, const std::string& path, const char* sql,
                      const Each& each) {
  const auto unreadable = [&](const Fault& fault) {
    return failure(ErrorCode::internal, "the store " + path + " cannot be read: " + fault.message + "; " +
                                            what_to_do_when_damaged(path));
  };
  auto statement = database.prepare(sql);
  if (!statement) return unreadable(statement.error());
  while (true) {
    const auto row = statement->step();
    if (!row) return unreadable(row.error());
    if (!*row) return {};
    if (auto done = each(*statement); !done) return done;
  }
}

tl::unexpected<Error> not_believed(const std::string& path, const std::string& what) {
  return failure(ErrorCode::internal, "the store " + path + " cannot be used: " + what +
                                          " is not what was written (its checksum differs); " +
                                          what_to_do_when_damaged(path));
}

}  // namespace

Result<void> StoreRows::tell(StoreReader& reader, const std::string& path) {
  using Row = sqlite::Statement;
  const auto note = [&](const Row& row) -> Result<void> {
    const std::string_view name = row.bytes(0), record = row.bytes(1);
    if (note_checksum(name, record) != row.integer(2))
      return not_believed(path, "the note \"" + std::string(name) + "\"");
    return reader.note(name, record);
  };
  const auto job = [&](const Row& row) -> Result<void> {
    const std::int64_t number = row.integer(0);
    const std::string_view state = row.bytes(1), record = row.bytes(3), body = row.bytes(4);
    const auto body_bytes = static_cast<std::size_t>(row.integer(5));
    if (state_checksum(static_cast<std::uint64_t>(number), state) != row.integer(2) ||
        job_checksum(record, body, body_bytes) != row.integer(6))
      return not_believed(path, row_name("job", number));
    return reader.job(static_cast<std::uint64_t>(number), state, record,
                      in_row(body_bytes) ? std::optional(body) : std::nullopt, body_bytes);
  };
  const auto result = [&](const Row& row) -> Result<void> {
    const std::int64_t number = row.integer(0);
    const std::string_view record = row.bytes(1), body = row.bytes(2);
    const auto apart_bytes = static_cast<std::size_t>(row.integer(3));
    if (result_checksum(static_cast<std::uint64_t>(number), record, body, apart_bytes) != row.integer(4))
      return not_believed(path, row_name("result", number));
    if (apart_bytes > 0)
      return reader.result(static_cast<std::uint64_t>(number), record, std::nullopt, apart_bytes);
    return reader.result(static_cast<std::uint64_t>(number), record, body, body.size());
  };
  return for_rows(*database_, path, "SELECT name, record, checksum FROM note ORDER BY name", note)
      .and_then([&] {
        return for_rows(*database_, path,
                        "SELECT number, state, state_checksum, record, body, body_bytes, checksum "
                        "FROM job ORDER BY number",
                        job);
      })
      .and_then([&] {
        return for_rows(*database_, path,
                        "SELECT number, record, body, body_bytes, checksum FROM result ORDER BY number",
                        result);
      });
}

}  // namespace lanemq::io
