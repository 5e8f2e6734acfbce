// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: bytes through the reader of HTTP requests, cut at every place.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "tests/http/checks.hpp"

namespace {

/// libFuzzer counts inputs, each of which is read once for each place where it is cut.
struct Readings {
  std::uint64_t count = 0;
  ~Readings() { std::fprintf(stderr, "stat::readings: %llu\n", static_cast<unsigned long long>(count)); }
};
Readings readings;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  readings.count += lanemq::http::test::check_cuts({reinterpret_cast<const char*>(data), size});
  return 0;
}
