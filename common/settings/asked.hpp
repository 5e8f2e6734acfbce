// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/settings/values.hpp"

namespace lanemq::settings {

/// Something that is written as the version before did.
struct OldSpelling {
  std::string place;  ///< the flag, the variable, or the file's line
  std::string write;  ///< how it is written now
};

/// What is known of who said what.
struct Heard {
  /// Who said an option last, by its key (`lane.batch.timeout` in a table): the flag, the variable, or the
  /// file's line.
  std::map<std::string, std::string, std::less<>> places{};
  std::vector<OldSpelling> old{};
};

/// What a program is asked to do.
struct Asked {
  enum class For : unsigned char { run, check, print_config, print };
  For what = For::run;
  std::string text{};                                  ///< to print: the help or the version
  std::string file{};                                  ///< that was read; empty: none was named
  std::map<std::string, Values, std::less<>> flags{};  ///< ProgramText::flags that were given
  Heard heard{};
};

}  // namespace lanemq::settings
