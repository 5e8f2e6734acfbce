// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/gateway/door/settings.hpp"
#include "common/settings/asked.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/option.hpp"

namespace lanemq::gateway {

using settings::Environment;

/// What parse() returns.
struct Request {
  settings::Asked::For what = settings::Asked::For::run;
  Settings settings{};
  std::string text{};                        ///< to print: the help, the version or the configuration
  std::string aside{};                       ///< to print to the standard error, behind `text`
  std::vector<std::string> stop_keys{};      ///< whose work the running gateway is to end; empty: none is
  std::string file{};                        ///< the configuration file that was read; empty: none
  std::vector<settings::OldSpelling> old{};  ///< options in the spelling of the version before
};

/// All options, without [[key]] and [[model]].
const settings::Options<Settings>& option_table();

/// Reads the command line, the environment and the file of --config. A flag wins over a variable, a variable
/// over the file. Reads keys' secrets and keeps only their hashes. Throws UsageError.
Request parse(int argc, const char* const* argv, const Environment& environment);

}  // namespace lanemq::gateway
