// SPDX-License-Identifier: Apache-2.0
#include "common/settings/environment.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include <unistd.h>

namespace lanemq::settings {
namespace {

/// What was hidden, by its name. A value stays at its address.
struct Hidden {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> values;
};

Hidden& hidden() {
  static Hidden kept;
  return kept;
}

}  // namespace

const char* process_environment(const std::string& name) {
  {
    const std::lock_guard lock(hidden().mutex);
    const auto found = hidden().values.find(name);
    if (found != hidden().values.end()) return found->second.c_str();
  }
  return std::getenv(name.c_str());
}

void hide_variable(const std::string& name) {
  const std::lock_guard lock(hidden().mutex);
  // In place and not by unsetenv(): that would leave the bytes, and move what other threads read.
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.size() <= name.size() || !text.starts_with(name) || text[name.size()] != '=') continue;
    hidden().values.try_emplace(name, text.substr(name.size() + 1));
    explicit_bzero(*entry, text.size());
  }
}

}  // namespace lanemq::settings
