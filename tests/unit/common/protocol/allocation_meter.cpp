// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/protocol/allocation_meter.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local bool metered = false;
thread_local std::size_t metered_bytes = 0;
}  // namespace

// The program's operator new: the forms for arrays and without exceptions call this one.
void* operator new(std::size_t size) {
  if (metered) metered_bytes += size;
  if (void* place = std::malloc(size > 0 ? size : 1)) return place;
  throw std::bad_alloc();
}
void operator delete(void* place) noexcept {
  std::free(place);
}
void operator delete(void* place, std::size_t) noexcept {
  std::free(place);
}

namespace lanemq {

AllocationMeter::AllocationMeter() {
  metered_bytes = 0;
  metered = true;
}
AllocationMeter::~AllocationMeter() {
  metered = false;
}
std::size_t AllocationMeter::bytes() const {
  return metered_bytes;
}

}  // namespace lanemq
