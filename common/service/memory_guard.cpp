// SPDX-License-Identifier: Apache-2.0
#include "common/service/memory_guard.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>

namespace lanemq::service {
namespace {

/// The hard limit stays, so that open_memory() can raise the soft one again.
void limit_cores(bool none) {
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = none ? 0 : limit.rlim_max;
  setrlimit(RLIMIT_CORE, &limit);
}

}  // namespace

void guard_memory() {
  limit_cores(true);
  // Counts also where cores go to a program, for which the limit does not.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void open_memory() {
  limit_cores(false);
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

}  // namespace lanemq::service
