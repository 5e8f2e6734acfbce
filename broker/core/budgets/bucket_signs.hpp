// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// Whether the words of an upstream show that it counts in a bucket, which is refilled continuously.
///
/// A bucket's reset is the part of a period that is missing of the limit, whatever was sent. So is that of a
/// window now and then: at its middle, or where it is full. So for half a period all words must be like that,
/// and either tell of clearly different amounts, or of far less than was sent, which a window would count.
/// Three in a row that are not like that show a window.
class BucketSigns {
 public:
  /// When a bucket is full of which so much is used.
  static Duration full_in(std::int64_t used, std::int64_t whole, Duration period) {
    return Duration(static_cast<std::int64_t>(static_cast<Int128>(period.count()) * used / whole));
  }
  /// Whether `reset` differs from the time in which a bucket with `used` taken is full again.
  static bool differs(Duration reset, std::int64_t used, std::int64_t whole, Duration period);

  /// Notes the words of an answer. `sent`: the amount sent in the last period. True if shown() has changed.
  bool heard(Duration reset, std::int64_t used, std::int64_t whole, std::int64_t sent, Duration period,
             TimePoint now);
  bool shown() const { return shown_; }
  /// As it was before a restart.
  void restore(bool shown) { shown_ = shown; }

 private:
  TimePoint since_ = kNever;           // words in a row are like those of a bucket
  std::int64_t least_ = 0, most_ = 0;  // that they tell of as used
  int doubts_ = 0;                     // later words in a row that are unlike those of a bucket
  bool shown_ = false;
};

}  // namespace lanemq::core
