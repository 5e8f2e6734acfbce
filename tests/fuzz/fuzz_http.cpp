// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: bytes through the reader of HTTP requests, cut at every place.
#include <cstddef>
#include <cstdint>

#include "tests/http/checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lanemq::http::test::check_cuts({reinterpret_cast<const char*>(data), size});
  return 0;
}
