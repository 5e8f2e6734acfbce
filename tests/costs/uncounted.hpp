// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <valgrind/callgrind.h>

namespace lanemq::costs {

/// While it lives, what is done is not counted: the work of the path's other end, which is no product. Not to
/// be nested.
class Uncounted {
 public:
  Uncounted() { CALLGRIND_TOGGLE_COLLECT; }
  ~Uncounted() { CALLGRIND_TOGGLE_COLLECT; }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;
};

}  // namespace lanemq::costs
