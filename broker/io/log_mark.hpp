// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/sqlite_file.hpp"

namespace lanemq::io {

/// Which write-ahead log it is, and how many of its pages are committed.
struct LogExtent {
  std::uint64_t salts = 0;  ///< SQLite's, another pair each time the log is begun anew
  std::uint64_t pages = 0;  ///< 0: nothing is said of any log
  bool operator==(const LogExtent&) const = default;

  /// Where the salts are in a log, and what they are.
  static constexpr int kSaltsAt = 16;
  static std::uint64_t salts_of(const char* bytes);
};

/// How far the log must reach, in a small file PATH-mark beside the store's.
///
/// SQLite reads its log up to the first page whose checksum is wrong, and takes the rest for what a crash
/// left. So a log that was damaged or cut off would lose what was committed without a word. The mark is
/// written after each commit, when that is on the disk, and is not synced: it may be older than the log, but
/// never says more than what was on the disk before it. Before a log is removed, the mark is cleared, with a
/// sync.
///
/// One thread at a time.
class LogMark {
 public:
  /// Opens the mark of a store for writing. A code of SQLite's.
  int open(const std::string& store, const std::string& vfs);
  int write(const LogExtent& extent);
  /// Takes back what the mark says.
  int clear();

  /// What a mark says; none if there is none, or it was torn. One of 0 pages says nothing of the log, but
  /// that a store was here: it is opened for writing only when that is on the disk.
  static std::optional<LogExtent> read(const std::string& store, const std::string& vfs);

 private:
  sqlite::File file_;
  bool says_something_ = true;
};

/// The committed pages of a store's log, as SQLite will find them: up to the first that is not right. None:
/// no log with a right header is there.
std::optional<LogExtent> read_log(const std::string& store, const std::string& vfs);

/// Whether a store's log has everything that its mark says. The error says what is missing, for people.
Result<void> check_log(const std::string& store, const std::string& vfs);

}  // namespace lanemq::io
