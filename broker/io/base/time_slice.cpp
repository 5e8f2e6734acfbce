// SPDX-License-Identifier: Apache-2.0
#include "broker/io/base/time_slice.hpp"

#include <cstdint>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lanemq::io {
namespace {

/// The first version of the kernel's struct sched_attr (sched_setattr(2)); glibc 2.36 has neither it nor the
/// function.
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;  ///< nanoseconds
};

}  // namespace

bool ask_for_time_slice(std::chrono::nanoseconds slice) noexcept {
  Attributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return false;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return false;
  attributes.size = sizeof attributes;
  attributes.runtime = static_cast<std::uint64_t>(slice.count());
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

}  // namespace lanemq::io
