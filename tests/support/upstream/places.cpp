// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/places.hpp"

namespace lanemq::upstream {

bool Places::free(TimePoint now) {
  while (!ends_.empty() && ends_.front() <= now)
    ends_.pop_front();
  return used() < most_;
}

}  // namespace lanemq::upstream
