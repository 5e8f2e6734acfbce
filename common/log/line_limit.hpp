// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace lanemq::log {

/// Bounds the lines of one kind, so that a stranger cannot fill the log: so many in a second, and the next
/// one that is written says how many were left out. Not thread-safe.
class LineLimit {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit LineLimit(std::uint64_t per_second) : per_second_(per_second) {}

  /// Whether a line may be written now; one that may not is counted.
  bool may_write(TimePoint now) {
    if (!began_ || now - *began_ >= std::chrono::seconds(1)) {
      began_ = now;
      lines_ = 0;
    }
    const bool may = lines_ < per_second_;
    ++(may ? lines_ : left_out_);
    return may;
  }
  /// Lines left out since it was last asked: the field `left_out`.
  std::uint64_t take_left_out() { return std::exchange(left_out_, 0); }

 private:
  std::uint64_t per_second_, lines_ = 0, left_out_ = 0;
  std::optional<TimePoint> began_;
};

}  // namespace lanemq::log
