// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace lanemq::plugin {

/// How long a plugin may take to load, to begin and to end.
inline constexpr std::chrono::seconds kProbeTime{5};

/// Runs `attempt` in a process that is thrown away: a plugin that crashes, ends its process or hangs does it
/// there. Returns why not: what `attempt` has thrown, or how the process ended; none: all is well.
///
/// Requires: the process has one thread, since the probe is a fork of it.
std::optional<std::string> why_not(const std::function<void()>& attempt,
                                   std::chrono::milliseconds at_most = kProbeTime);

}  // namespace lanemq::plugin
