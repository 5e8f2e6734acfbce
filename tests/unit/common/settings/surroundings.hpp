// SPDX-License-Identifier: Apache-2.0
// What settings refer to, made up: variables and files.
#pragma once

#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/settings/environment.hpp"

namespace lanemq::settings {

using Variables = std::map<std::string, std::string>;

/// `variables` must outlive it.
inline Environment environment(const Variables& variables) {
  return [&variables](const std::string& name) -> const char* {
    const auto place = variables.find(name);
    return place == variables.end() ? nullptr : place->second.c_str();
  };
}

/// A file that lives as long as the test.
class File {
 public:
  explicit File(const std::string& content) {
    const int descriptor = mkstemp(path_.data());
    EXPECT_GE(descriptor, 0);
    close(descriptor);
    write(content);
  }
  ~File() { remove(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const char* path() const { return path_.c_str(); }
  void write(const std::string& content) const { std::ofstream(path_) << content; }
  void remove() const { std::remove(path_.c_str()); }

 private:
  std::string path_ = testing::TempDir() + "lanemq-settings-XXXXXX";
};

}  // namespace lanemq::settings
