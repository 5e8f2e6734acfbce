// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <lanemq/blob.hpp>

#include "client/gateway/http/byte_pot.hpp"

namespace lanemq::gateway {

/// A body that is too large for memory: a file without a name, which is gone when nobody looks at it. What
/// it does may wait for the disk, and belongs to Loop::Side::disk, one thing at a time.
class Spool : public std::enable_shared_from_this<Spool> {
 public:
  /// So much of a body is in memory before it goes to the disk, and so much more on its way there.
  static constexpr std::size_t kFrom = std::size_t{1} << 20;

  /// `room`: what its bytes count in, for as long as this is kept.
  Spool(std::string folder, BytePot::Hold room) : folder_(std::move(folder)), room_(std::move(room)) {}
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Counts what append() will bring. From any thread.
  BytePot::Over take_room(std::size_t bytes) { return room_.take(bytes); }
  void append(std::string_view bytes) noexcept;
  /// Everything, as if it were in memory: the system reads from the disk what is looked at, under the eyes of
  /// DiskFaults. It keeps the spool.
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

}  // namespace lanemq::gateway
