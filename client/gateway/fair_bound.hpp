// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace lanemq::gateway {

/// Whether one of those that share `bound` places, of which `used` are taken, may take one more: it holds no
/// more than `times_free` times what then stays free (dynamic thresholds; Choudhury & Hahne, 1998). So one
/// alone has nearly all, and who comes next finds some, however long the first keeps its own. A bound of one
/// place has no share to keep.
inline bool may_take_one_of(std::size_t bound, std::size_t used, std::size_t held, std::size_t times_free) {
  return used < bound && held < std::max<std::size_t>(1, times_free * (bound - used - 1));
}

}  // namespace lanemq::gateway
