// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// How much room a limit had at each time of the last period. An upstream's `remaining` is of the time at
/// which it took the request in, not of the time at which its answer arrives.
class HeadroomHistory {
 public:
  static constexpr std::size_t kSlices = 600;  ///< to a period

  /// Requires: period >= 1 ms.
  explicit HeadroomHistory(Duration period) : slice_length_(period / kSlices), slices_(kSlices) {}

  /// Notes what was left after something was sent.
  void note(std::int64_t headroom, TimePoint now) {
    Slice& slice = slices_[place_of(now)];
    const std::int64_t value = headroom + foreign_;
    if (slice.number == number_of(now) && slice.headroom <= value) return;
    slice = {number_of(now), value};
  }
  /// So much of what was sent at that time never was.
  void unsend(std::int64_t amount, TimePoint sent_at, TimePoint now) {
    const std::int64_t last = number_of(now), first = last - static_cast<std::int64_t>(kSlices) + 1;
    for (std::int64_t number = std::max(number_of(sent_at), first); number <= last; ++number)
      if (Slice& slice = slices_[static_cast<std::size_t>(number) % kSlices]; slice.number == number)
        slice.headroom += amount;
  }
  /// Others have used up so much: lowers all that is noted.
  void lower(std::int64_t foreign) { foreign_ += foreign; }
  std::int64_t foreign() const { return foreign_; }
  /// The least that was left around `when`; none where nothing was sent then, or it is too long ago.
  std::optional<std::int64_t> at(TimePoint when) const {
    const Slice& slice = slices_[place_of(when)];
    if (slice.number != number_of(when)) return std::nullopt;
    return slice.headroom - foreign_;
  }

 private:
  struct Slice {
    std::int64_t number = -1, headroom = 0;
  };

  std::int64_t number_of(TimePoint when) const { return when.time_since_epoch() / slice_length_; }
  std::size_t place_of(TimePoint when) const { return static_cast<std::size_t>(number_of(when)) % kSlices; }

  Duration slice_length_;
  std::vector<Slice> slices_;
  std::int64_t foreign_ = 0;  // in all; slices hold their headroom as if it were 0
};

}  // namespace lanemq::core
