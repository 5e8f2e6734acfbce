// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/gateway/door/settings.hpp"
#include "client/gateway/run/options.hpp"

namespace lanemq::gateway {

/// Reads the settings, and takes the secrets that they name out of the process's environment.
Request read_settings(int argc, const char* const* argv);
/// The settings as they are now. Throws UsageError, whatever is wrong: a running gateway goes on.
Settings read_anew(int argc, const char* const* argv);

/// Refuses what a start would refuse, and changes nothing.
void check_start(const Settings& settings);

/// Has the running gateway end what keys have left, and prints what that was.
void stop_keys(const Settings& settings, const std::vector<std::string>& names);

}  // namespace lanemq::gateway
