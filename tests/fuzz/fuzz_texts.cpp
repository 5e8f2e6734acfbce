// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: bytes through the check of texts that the build names in LANEMQ_FUZZ_CHECK.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/texts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lanemq::fuzz::LANEMQ_FUZZ_CHECK({reinterpret_cast<const char*>(data), size});
  return 0;
}
