// SPDX-License-Identifier: Apache-2.0
#include "common/url/climbing_path.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "common/url/percent.hpp"

namespace lanemq {
namespace {

bool climbs_as_it_stands(std::string_view path) {
  while (true) {
    const std::size_t end = std::min(path.find_first_of("/\\"), path.size());
    const std::string_view segment = path.substr(0, end), name = segment.substr(0, segment.find(';'));
    if (name == "." || name == "..") return true;
    if (end == path.size()) return false;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

bool path_climbs(std::string_view path) {
  path = path.substr(0, path.find('?'));
  if (path.find('%') == std::string_view::npos) return climbs_as_it_stands(path);
  // Each round takes at least two bytes of each escape, so it ends; nobody decodes as often.
  constexpr int kRoundsMax = 8;
  std::string text(path);
  for (int round = 0; round < kRoundsMax; ++round) {
    if (climbs_as_it_stands(text)) return true;
    std::string next = percent_decoded(text);
    if (next == text) return false;
    text = std::move(next);
  }
  return true;
}

}  // namespace lanemq
