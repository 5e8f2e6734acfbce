// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

#include <poll.h>

namespace lanemq::core {

/// The reader of stderr may have stopped reading, which must not hold up the end.
[[noreturn]] inline void end_of_check(const char* condition, const char* file, int line) {
  pollfd writable{.fd = 2, .events = POLLOUT, .revents = 0};
  if (poll(&writable, 1, 1000) > 0)
    std::fprintf(stderr, "lanemq: check failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace lanemq::core

/// Stops the program when our own reasoning is wrong. Kept in all builds: going on would break a promise.
#define LANEMQ_CHECK(condition)                                     \
  do {                                                              \
    if (!(condition)) [[unlikely]]                                  \
      ::lanemq::core::end_of_check(#condition, __FILE__, __LINE__); \
  } while (false)
