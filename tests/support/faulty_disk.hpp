// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <sqlite3.h>

#include "broker/io/store/sqlite/disk_reserve.hpp"

namespace lanemq::test {

/// A disk in memory, under SQLite (as a file system layer of its own) and under a store's reserve: it fails
/// where a test says, has as much room as a test says, and knows what a loss of power would leave.
///
/// What was written and not synced may be lost in any part: each write is torn at 512 bytes, and each piece
/// is kept or not. The making and the removing of a file are never lost.
///
/// Safe to use from the store's thread and the test's. Outlives the stores on it.
class FaultyDisk final : public io::Disk {
 public:
  using Files = std::map<std::string, std::string>;
  using Random = std::mt19937_64;
  enum class Call : std::uint8_t { read, write, sync, truncate };
  static constexpr int kCalls = 4;
  static constexpr std::int64_t kForGood = INT64_MAX;

  explicit FaultyDisk(const Files& files = {});
  ~FaultyDisk() override;
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  /// The name of the layer, for SQLite.
  const std::string& vfs() const { return name_; }

  /// The calls of that kind from the `nth` on (the first is 1), `times` of them, return `code` and do
  /// nothing.
  void fail(Call call, std::int64_t nth, int code, std::int64_t times = 1);
  std::int64_t calls(Call call) const;
  /// Bytes that all files may have together.
  void set_capacity(std::uint64_t bytes);
  /// `hook` is called before each sync does anything, on the thread that syncs.
  void before_sync(std::function<void()> hook);

  /// What a process finds that starts after this one was killed.
  Files files() const;
  /// What one finds after a loss of power: one of many, by chance.
  Files files_after_power_loss(Random& random) const;

  // io::Disk: the reserve's file is here too.
  std::optional<std::uint64_t> free_bytes(const std::string& path) const override;
  std::uint64_t file_bytes(const std::string& path) const override;
  bool allocate(const std::string& path, std::uint64_t bytes) override;
  void remove(const std::string& path) override;

 private:
  struct Change {
    std::size_t at = 0;
    std::string bytes;  ///< what is written at `at`; a truncation to `at` has none
    bool truncates = false;
  };
  struct File {
    std::string content, synced;
    std::vector<Change> unsynced;
  };
  struct Handle;
  struct Layer;
  struct Failing {
    std::int64_t first = kForGood, times = 0;
    int code = SQLITE_OK;
  };

  /// What the next call of that kind is to return; counts it.
  int next(Call call);
  std::uint64_t used() const;
  bool has_room(std::uint64_t more) const { return used() + more <= capacity_; }

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<File>> files_;
  Failing failing_[kCalls];
  std::int64_t calls_[kCalls] = {};
  std::uint64_t capacity_ = UINT64_MAX / 4;
  std::function<void()> before_sync_;
  std::string name_;
  std::unique_ptr<sqlite3_vfs> vfs_;
};

}  // namespace lanemq::test
