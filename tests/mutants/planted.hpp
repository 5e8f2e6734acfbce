// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <cstring>

/// Whether the bug of tests/mutants/rooms.txt with this name is switched on: LANEMQ_PLANTED names it, from
/// the first question to the end of the process. Only copies that `scripts/mutants --rooms` makes include
/// this.
inline bool lanemq_planted(const char* name) {
  static const char* const on = std::getenv("LANEMQ_PLANTED");
  return on != nullptr && std::strcmp(on, name) == 0;
}
