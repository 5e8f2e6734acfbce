// SPDX-License-Identifier: Apache-2.0
#include "common/sqlite/database.hpp"

#include <cerrno>
#include <utility>

namespace lanemq::sqlite {
namespace {

tl::unexpected<Fault> refused(sqlite3* database) {
  int code = sqlite3_extended_errcode(database);
  // SQLite reports only ENOSPC as full; a quota that is used up is the same for callers.
  if (code == SQLITE_IOERR_WRITE && sqlite3_system_errno(database) == EDQUOT) code = SQLITE_FULL;
  std::string text = sqlite3_errmsg(database);
  // SQLite has one text, "disk I/O error", for forty errors; errno tells them apart.
  if ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN) {
    const int system = sqlite3_system_errno(database);
    if (system != 0) text += ", errno " + std::to_string(system);
  }
  return tl::unexpected(Fault{.code = code, .message = text + " (" + std::to_string(code) + ")"});
}

}  // namespace

Outcome<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_.get());
    return false;
  }
  auto fault = refused(sqlite3_db_handle(statement_.get()));
  sqlite3_reset(statement_.get());
  return fault;
}

Outcome<void> Statement::run() {
  while (true) {
    const auto row = step();
    if (!row) return tl::unexpected(row.error());
    if (!*row) return {};
  }
}

Outcome<Database> Database::open(const std::string& path, Mode mode, const std::string& vfs) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                    (mode == Mode::create ? SQLITE_OPEN_CREATE : 0);
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, vfs.empty() ? nullptr : vfs.c_str());
  Database database;
  database.database_.reset(handle);
  if (code != SQLITE_OK) return refused(handle);
  return database;
}

Outcome<void> Database::execute(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return refused(database_.get());
  return {};
}

Outcome<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v3(database_.get(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &handle, nullptr) != SQLITE_OK)
    return refused(database_.get());
  Statement statement;
  statement.statement_.reset(handle);
  return statement;
}

Outcome<std::int64_t> Database::integer(std::string_view sql) {
  auto statement = prepare(sql);
  if (!statement) return tl::unexpected(std::move(statement.error()));
  const auto row = statement->step();
  if (!row) return tl::unexpected(row.error());
  return *row ? statement->integer(0) : 0;
}

Fault Database::fault() const {
  return refused(database_.get()).value();
}

}  // namespace lanemq::sqlite
