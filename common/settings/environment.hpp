// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <functional>
#include <string>

namespace lanemq::settings {

/// The value of a variable; nullptr: not set.
using Environment = std::function<const char*(const std::string& name)>;

/// The environment of the process.
inline const char* process_environment(const std::string& name) {
  return std::getenv(name.c_str());
}

}  // namespace lanemq::settings
