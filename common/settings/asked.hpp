// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/settings/values.hpp"

namespace lanemq::settings {

/// An option in the spelling of the version before.
struct OldSpelling {
  std::string place;  ///< of the old one: the flag, the variable, or the file's line
  std::string write;  ///< the present spelling
};

/// Where options were set.
struct Heard {
  /// Where an option was last set, by its key (`lane.batch.timeout` in a table): the flag, the variable, or
  /// the file's line.
  std::map<std::string, std::string, std::less<>> places{};
  std::vector<OldSpelling> old{};
};

/// What the command line asks a program to do.
struct Asked {
  enum class For : unsigned char { run, check, print_config, print };
  For what = For::run;
  std::string text{};                                  ///< to print: the help or the version
  std::string aside{};                                 ///< to print to the standard error, behind `text`
  std::string file{};                                  ///< the configuration file that was read; empty: none
  std::map<std::string, Values, std::less<>> flags{};  ///< the ProgramText::flags that were given
  Heard heard{};
};

}  // namespace lanemq::settings
