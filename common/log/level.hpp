// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lanemq::log {

/// The lowest first. `off` is above all of them: no line has it.
enum class Level : unsigned char { debug, info, warning, error, off };
/// As options have them, in the enum's order.
inline constexpr std::string_view kLevelNames[] = {"debug", "info", "warning", "error", "off"};

/// How a line reads: for people, `worker.lost name=w1 jobs=3`; for programs, an object of JSON.
enum class Format : unsigned char { text, json };
inline constexpr std::string_view kFormatNames[] = {"text", "json"};

}  // namespace lanemq::log
