// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <sqlite3.h>
#include <tl/expected.hpp>

/// SQLite with owners and results. Independent of the project. A Database and its Statements are used by one
/// thread at a time.
namespace lanemq::sqlite {

/// An error of SQLite.
struct Fault {
  int code = SQLITE_ERROR;  ///< the extended code
  std::string message;      ///< its text, with the code, as in `database or disk is full (13)`

  int kind() const { return code & 0xff; }
  /// Whether the disk is full. Then nothing was changed.
  bool full() const { return kind() == SQLITE_FULL; }
};

template <class T>
using Outcome = tl::expected<T, Fault>;

/// A prepared statement. Bound bytes are not copied: they must live until run() or reset(). Column values are
/// valid until the next step() or reset().
class Statement {
 public:
  Statement() = default;

  void bind(int index, std::int64_t value) { sqlite3_bind_int64(statement_.get(), index, value); }
  void bind(int index, std::string_view blob) {
    // An empty view may have a null address, which SQLite would store as NULL.
    sqlite3_bind_blob64(statement_.get(), index, blob.empty() ? "" : blob.data(), blob.size(), SQLITE_STATIC);
  }
  void bind_text(int index, std::string_view text) {
    sqlite3_bind_text64(statement_.get(), index, text.empty() ? "" : text.data(), text.size(), SQLITE_STATIC,
                        SQLITE_UTF8);
  }
  void bind_null(int index) { sqlite3_bind_null(statement_.get(), index); }

  /// Steps to the next row; false: there is none. A caller that stops earlier calls reset().
  Outcome<bool> step();
  /// Runs the statement to its end, and makes it ready to be bound and run again.
  Outcome<void> run();
  void reset() { sqlite3_reset(statement_.get()); }

  bool is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string_view bytes(int column) const {
    const void* const data = sqlite3_column_blob(statement_.get(), column);
    return {static_cast<const char*>(data),
            static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
  }

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// A connection to a file. Its Statements must be destroyed before it.
class Database {
 public:
  enum class Mode : std::uint8_t { existing, create };

  Database() = default;
  /// `vfs`: SQLite's file system layer; empty: the default.
  static Outcome<Database> open(const std::string& path, Mode mode, const std::string& vfs = {});

  /// Runs one or more statements and drops their rows.
  Outcome<void> execute(const std::string& sql);
  Outcome<Statement> prepare(std::string_view sql);
  /// The first column of the first row, as an integer; 0 where there is no row.
  Outcome<std::int64_t> integer(std::string_view sql);
  bool in_transaction() const { return sqlite3_get_autocommit(database_.get()) == 0; }
  /// The number of rows that the last statement changed.
  int changes() const { return sqlite3_changes(database_.get()); }
  /// The error of the last call.
  Fault fault() const;
  sqlite3* handle() const { return database_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace lanemq::sqlite
