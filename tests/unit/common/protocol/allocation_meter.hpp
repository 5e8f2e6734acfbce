// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace lanemq {

/// Counts the bytes that this thread asks operator new for while the meter lives. One at a time.
class AllocationMeter {
 public:
  AllocationMeter();
  ~AllocationMeter();
  AllocationMeter(const AllocationMeter&) = delete;
  AllocationMeter& operator=(const AllocationMeter&) = delete;

  std::size_t bytes() const;
};

}  // namespace lanemq
