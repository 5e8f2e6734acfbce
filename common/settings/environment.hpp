// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace lanemq::settings {

/// The value of a variable; nullptr: not set.
using Environment = std::function<const char*(const std::string& name)>;

/// The environment of the process, with what hide_variable() has taken out of it. The value stays valid.
/// Thread-safe.
const char* process_environment(const std::string& name);

/// Takes a variable out of the process's environment: its bytes are overwritten, so that /proc/PID/environ,
/// getenv() and programs that this one starts no longer have it. Only process_environment() still knows the
/// value, for a configuration that is read again. Does nothing for a variable that is not set. Thread-safe,
/// also beside getenv() of other variables.
void hide_variable(const std::string& name);

}  // namespace lanemq::settings
