// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/store/sqlite/sqlite_file.hpp"

namespace lanemq::io {

/// A write-ahead log, and how many of its pages are committed.
struct LogExtent {
  std::uint64_t salts = 0;  ///< SQLite's; a new pair each time the log begins anew
  std::uint64_t pages = 0;  ///< 0: the mark says nothing about a log
  bool operator==(const LogExtent&) const = default;

  /// Where a log's header has the salts.
  static constexpr int kSaltsAt = 16;
  static std::uint64_t salts_of(const char* bytes);
};

/// How far the log must reach, in a small file PATH-mark beside the store's.
///
/// SQLite reads its log up to the first page with a wrong checksum, and takes the rest for the leftover of a
/// crash. So a damaged or truncated log would lose commits silently. The store writes the mark after each
/// commit that is on disk, without a sync: it may be older than the log, but never claims more than was on
/// disk. Before a log is removed the mark is cleared, with a sync.
///
/// Used by one thread at a time.
class LogMark {
 public:
  /// Opens the mark of a store for writing. Returns SQLite's code.
  int open(const std::string& store, const std::string& vfs);
  int write(const LogExtent& extent);
  /// Clears the mark.
  int clear();

  /// Reads a mark; none: there is none, or it was torn. A mark with 0 pages only says that a store was here:
  /// it is created when the store is on disk.
  static std::optional<LogExtent> read(const std::string& store, const std::string& vfs);

 private:
  sqlite::File file_;
  bool says_something_ = true;
};

/// The committed pages of a store's log, as SQLite will find them: up to the first wrong checksum. None:
/// there is no log with a right header.
std::optional<LogExtent> read_log(const std::string& store, const std::string& vfs);

/// Whether a store's log reaches as far as its mark says. The error tells a person what is missing.
Result<void> check_log(const std::string& store, const std::string& vfs);

}  // namespace lanemq::io
