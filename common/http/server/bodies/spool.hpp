// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <lanemq/blob.hpp>

#include "common/http/server/bodies/byte_pot.hpp"

namespace lanemq::http {

/// A body that is too large for memory: a nameless file, which disappears when nothing refers to it. Its
/// calls may wait for the disk, and belong to Loop::Side::disk, one at a time.
class Spool : public std::enable_shared_from_this<Spool> {
 public:
  /// A body stays in memory up to this size; so much more of it may be on its way to the disk.
  static constexpr std::size_t kFrom = std::size_t{1} << 20;

  /// `room`: counts its bytes while this lives.
  Spool(std::string folder, BytePot::Hold room) : folder_(std::move(folder)), room_(std::move(room)) {}
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Counts the bytes that append() will bring. Thread-safe.
  BytePot::Over take_room(std::size_t bytes) { return room_.take(bytes); }
  void append(std::string_view bytes) noexcept;
  /// The whole body, mapped: the system reads from disk what is accessed. Read it under DiskFaults. The Blob
  /// keeps the spool alive.
  Blob look() noexcept;
  /// Why the disk refused; empty: it did not.
  const std::string& problem() const { return problem_; }

 private:
  void refuse(int error);

  const std::string folder_;
  BytePot::Hold room_;
  int fd_ = -1;
  std::size_t bytes_ = 0;
  void* mapped_ = nullptr;
  std::string problem_;
};

}  // namespace lanemq::http
