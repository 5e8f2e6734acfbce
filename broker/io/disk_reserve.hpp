// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace lanemq::io {

/// What a store asks the disk besides its own file. Tests bring a disk of their own.
class Disk {
 public:
  virtual ~Disk() = default;
  /// Bytes that may still be written where `path` lies; none: unknown.
  virtual std::optional<std::uint64_t> free_bytes(const std::string& path) const;
  /// The size of a file, 0 where there is none.
  virtual std::uint64_t file_bytes(const std::string& path) const;
  /// Makes a file of `bytes` that takes its room on the disk; false: there is no room, and no file.
  virtual bool allocate(const std::string& path, std::uint64_t bytes);
  virtual void remove(const std::string& path);
};

/// Room on the disk that is kept back, so that running work can finish when there is none left: a file beside
/// the store's. A disk that has less free than that is called full before anything fails.
///
/// Used by one thread at a time.
class DiskReserve {
 public:
  /// `store`: the path of the store's file; `bytes_max`: what to keep back, but never more than a quarter of
  /// what the store has and could have.
  DiskReserve(Disk& disk, std::string store, std::uint64_t bytes_max);

  /// Takes the room, if there is as much and that again. Whether it is held now.
  bool hold();
  /// Gives the room to the store.
  void release();
  bool held() const { return held_; }
  /// Whether `room`, besides what is kept back, is so little that the disk is to be called full.
  bool is_low(std::uint64_t room) const;
  /// Whether `room` is so much that it need no longer be called so.
  bool has_again(std::uint64_t room) const;
  /// How much is kept back.
  std::uint64_t bytes() const { return bytes_; }
  /// What is free now, without what is kept back; none: unknown.
  std::optional<std::uint64_t> free_bytes() const { return disk_.free_bytes(store_); }

 private:
  Disk& disk_;
  std::string store_, path_;
  std::uint64_t bytes_ = 0;
  bool held_ = false;
};

}  // namespace lanemq::io
