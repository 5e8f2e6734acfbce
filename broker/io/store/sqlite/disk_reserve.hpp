// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace lanemq::io {

/// A store's requests to the disk besides its own file. Tests bring their own.
class Disk {
 public:
  virtual ~Disk() = default;
  /// Bytes that may still be written where `path` lies; none: unknown.
  virtual std::optional<std::uint64_t> free_bytes(const std::string& path) const;
  /// The size of a file; 0: there is none.
  virtual std::uint64_t file_bytes(const std::string& path) const;
  /// Makes a file of `bytes` and allocates its room; false, and no file, where there is no room.
  virtual bool allocate(const std::string& path, std::uint64_t bytes);
  virtual void remove(const std::string& path);
};

/// Room on the disk that is kept back in a file beside the store's, so that running work can finish when no
/// other room is left. A disk with less free room than that is called full before any write fails.
///
/// Used by one thread at a time.
class DiskReserve {
 public:
  /// `store`: the path of the store's file. `bytes_max`: the size of the reserve, but never more than a
  /// quarter of what the store has and could have.
  DiskReserve(Disk& disk, std::string store, std::uint64_t bytes_max);

  /// Takes the room, if twice as much is free. Returns whether it is held.
  bool hold();
  /// Gives the room to the store, by deleting the file.
  void release();
  bool held() const { return held_; }
  /// Whether `room`, without the reserve, is so little that the disk counts as full.
  bool is_low(std::uint64_t room) const;
  /// Whether `room` is so much that the disk no longer counts as full.
  bool has_again(std::uint64_t room) const;
  /// Bytes of the reserve.
  std::uint64_t bytes() const { return bytes_; }
  /// Bytes of the store's file and its log.
  std::uint64_t store_bytes() const { return disk_.file_bytes(store_) + disk_.file_bytes(store_ + "-wal"); }
  /// Free bytes now, without the reserve; none: unknown.
  std::optional<std::uint64_t> free_bytes() const { return disk_.free_bytes(store_); }

 private:
  Disk& disk_;
  std::string store_, path_;
  std::uint64_t bytes_ = 0;
  bool held_ = false;
};

}  // namespace lanemq::io
