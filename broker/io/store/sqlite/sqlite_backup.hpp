// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <lanemq/result.hpp>

#include "common/sqlite/database.hpp"

namespace lanemq::io {

/// Copies a store to a new file, in steps between commits. Later commits are in the copy, too: they use the
/// same connection, so SQLite copies changed pages again.
///
/// Writes PATH.part, and renames it when it is whole and on disk.
class SqliteBackup {
 public:
  /// Creates PATH.part. An error names what is in the way.
  static Result<SqliteBackup> begin(sqlite::Database& source, const std::string& path);
  SqliteBackup(SqliteBackup&&) = default;
  /// Removes an unfinished part.
  ~SqliteBackup();

  /// Copies some pages. True: the copy is in its place. An error ends the backup.
  Result<bool> step();

 private:
  /// An open file; closes it.
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
  Descriptor part_;  ///< of PATH.part; closed after SQLite's own, since closing one drops the locks of all
  sqlite::Database target_;
  std::unique_ptr<sqlite3_backup, Finish> copy_;
};

}  // namespace lanemq::io
