// SPDX-License-Identifier: Apache-2.0
#include "common/settings/blank_file.hpp"

#include <filesystem>
#include <fstream>

#include <lanemq/text.hpp>

namespace lanemq::settings {

std::optional<std::string> why_not_read_again(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path);
  char any = 0;
  if (!file || file >> any) return std::nullopt;  // `>>` skips white space
  return printable(path) +
         " is empty, as a file is that was cut off; write it again, or put a comment into it where "
         "everything "
         "shall go back to its default";
}

}  // namespace lanemq::settings
