// SPDX-License-Identifier: Apache-2.0
#include "common/log/journal.hpp"

#include <string>

#include <sys/stat.h>

namespace lanemq::log {

bool is_journal(const char* stream, int descriptor) {
  struct stat about {};
  if (stream == nullptr || fstat(descriptor, &about) != 0) return false;
  return std::to_string(about.st_dev) + ":" + std::to_string(about.st_ino) == stream;
}

const char* priority_of(Level level) {
  switch (level) {
    case Level::debug:
      return "<7>";
    case Level::info:
      return "<6>";
    case Level::warning:
      return "<4>";
    case Level::error:
    case Level::off:
      break;
  }
  return "<3>";
}

}  // namespace lanemq::log
