// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <lanemq/result.hpp>

#include "common/sqlite/database.hpp"

namespace lanemq::io {

/// A copy of a store to a new file, made in steps between commits. What is committed meanwhile is in it too:
/// SQLite repeats changes of pages that were copied already, since they come through the same connection.
///
/// Written beside its place as PATH.part, and moved there when it is whole and on the disk.
class SqliteBackup {
 public:
  /// Makes PATH.part. An error names what is in the way.
  static Result<SqliteBackup> begin(sqlite::Database& source, const std::string& path);
  SqliteBackup(SqliteBackup&&) = default;
  /// Removes what is not whole.
  ~SqliteBackup();

  /// Copies some more. Returns true when the copy is in its place; an error ends it.
  Result<bool> step();

 private:
  /// Of an open file, closed with it.
  class Descriptor {
   public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor();
    int number() const { return number_; }

   private:
    int number_;
  };

  SqliteBackup(std::string path, Descriptor part, sqlite::Database target, sqlite3_backup* copy)
      : path_(std::move(path)), part_(std::move(part)), target_(std::move(target)), copy_(copy) {}
  Result<bool> finish();

  struct Finish {
    void operator()(sqlite3_backup* copy) const { sqlite3_backup_finish(copy); }
  };
  std::string path_;
  Descriptor part_;  ///< of PATH.part, closed after SQLite's own: closing one gives up the locks of all
  sqlite::Database target_;
  std::unique_ptr<sqlite3_backup, Finish> copy_;
};

}  // namespace lanemq::io
