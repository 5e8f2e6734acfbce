// SPDX-License-Identifier: Apache-2.0
#include "common/url/climbing_path.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace lanemq {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string decoded_once(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const int high = text[at] == '%' && at + 2 < text.size() ? hex_digit(text[at + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[at + 2]) : -1;
    if (low < 0) {
      plain += text[at];
      continue;
    }
    plain += static_cast<char>(high << 4 | low);
    at += 2;
  }
  return plain;
}

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
    std::string next = decoded_once(text);
    if (next == text) return false;
    text = std::move(next);
  }
  return true;
}

}  // namespace lanemq
