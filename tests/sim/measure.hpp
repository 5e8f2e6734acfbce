// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lanemq::sim {

/// While one lives, what is allocated is the core's, until it is freed, whoever frees it. Every allocation of
/// the program is counted by an operator new of its own, so that what a broker holds is measured and not
/// asked of it.
class InCore {
 public:
  InCore();
  ~InCore();
  InCore(const InCore&) = delete;
  InCore& operator=(const InCore&) = delete;
};

/// The bytes that were allocated so and not freed. 0 under a sanitizer, which has an operator new itself.
std::int64_t core_bytes();

}  // namespace lanemq::sim
