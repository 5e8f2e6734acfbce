// SPDX-License-Identifier: Apache-2.0
#include "tests/http/checks.hpp"

#include <stdexcept>
#include <string>

#include "tests/http/shapes.hpp"

namespace lanemq::http::test {
namespace {

constexpr std::size_t kEveryCutBytesMax =
    300;  ///< of bytes that are cut at every place: the work grows with the square

void compare(const Reading& cut, const Reading& whole, const std::string& how) {
  if (cut.all != whole.all || cut.does != whole.does)
    throw std::logic_error("read otherwise " + how + ": " + cut.does + ", whole: " + whole.does);
}

}  // namespace

std::size_t check_cuts(std::string_view bytes) {
  const Reading whole = reading_of(bytes, [] { return SIZE_MAX; });
  compare(reading_of(bytes, [] { return std::size_t{1}; }), whole, "byte by byte");
  std::size_t size = 1;
  compare(reading_of(bytes, [&] { return size = size % 7 + 1; }), whole, "in pieces of 2 to 7");
  std::size_t readings = 3;
  if (bytes.size() > kEveryCutBytesMax) return readings;
  for_every_cut(bytes, [&](std::size_t place, const Reading& cut) {
    compare(cut, whole, "cut behind " + std::to_string(place) + " bytes");
    ++readings;
  });
  return readings;
}

}  // namespace lanemq::http::test
