// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: bytes as a header in one direction, which the build names in LANEMQ_FUZZ_DIRECTION.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/frames.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lanemq::fuzz::check_frame(lanemq::fuzz::Direction::LANEMQ_FUZZ_DIRECTION,
                            {reinterpret_cast<const char*>(data), size});
  return 0;
}
