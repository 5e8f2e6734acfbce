// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/counter.hpp"

#include "tests/support/upstream/bucket.hpp"
#include "tests/support/upstream/sliding_window.hpp"
#include "tests/support/upstream/whole_windows.hpp"

namespace lanemq::upstream {

const char* name_of(WindowKind kind) {
  switch (kind) {
    case WindowKind::sliding:
      return "sliding";
    case WindowKind::bucket:
      return "bucket";
    case WindowKind::fixed:
      return "fixed";
    case WindowKind::clock:
      break;
  }
  return "clock";
}

std::unique_ptr<Counter> make_counter(const CounterShape& shape) {
  if (shape.allowance.limit == 0) return nullptr;
  switch (shape.kind) {
    case WindowKind::sliding:
      return std::make_unique<SlidingWindow>(shape.allowance.limit, shape.period);
    case WindowKind::bucket:
      return std::make_unique<Bucket>(shape.allowance.limit, shape.allowance.capacity, shape.period);
    case WindowKind::fixed:
      return std::make_unique<FixedWindow>(shape.allowance.limit, shape.period);
    case WindowKind::clock:
      break;
  }
  return std::make_unique<ClockWindow>(shape.allowance.limit, shape.period, shape.clock_edge);
}

}  // namespace lanemq::upstream
