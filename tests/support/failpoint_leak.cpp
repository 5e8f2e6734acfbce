// SPDX-License-Identifier: Apache-2.0
// For lanemq-broker-leaking, a broker that the soak has to find out: each turn that hands jobs over leaves
// memory behind, and now and then a descriptor.
#include <atomic>
#include <cstddef>
#include <cstring>

#include <fcntl.h>

#include "broker/io/base/failpoint.hpp"

namespace lanemq::io {
namespace {

constexpr std::size_t kLeftBehind = 16384;  // bytes a turn
constexpr unsigned kDescriptorEvery = 25;

// What a compiler can see to be lost, it need not allocate.
std::atomic<char*> newest{nullptr};

}  // namespace

void reached(Failpoint point) {
  if (point != Failpoint::loop_after_dispatch) return;
  static std::atomic<unsigned> turns{0};
  char* const left = new char[kLeftBehind];
  std::memset(left, 1, kLeftBehind);
  newest = left;
  if (++turns % kDescriptorEvery == 0) (void)::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

}  // namespace lanemq::io
