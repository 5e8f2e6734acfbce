// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace lanemq::test {

/// The pages of the protocol as one text, in the order of their names. Throws where the folder has none.
inline std::string protocol_pages(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".md") paths.push_back(entry.path());
  if (paths.empty()) throw std::runtime_error(folder.string() + " has no pages");
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& path : paths) {
    std::ifstream file(path);
    text.append(std::istreambuf_iterator<char>(file), {}).push_back('\n');
  }
  return text;
}

}  // namespace lanemq::test
