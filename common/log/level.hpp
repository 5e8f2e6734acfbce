// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lanemq::log {

/// In rising order. No line has `off`, so it disables all.
enum class Level : unsigned char { debug, info, warning, error, off };
/// The names in options, in the enum's order.
inline constexpr std::string_view kLevelNames[] = {"debug", "info", "warning", "error", "off"};

/// The form of a line: `worker.lost name=w1 jobs=3` for people, a JSON object for programs.
enum class Format : unsigned char { text, json };
inline constexpr std::string_view kFormatNames[] = {"text", "json"};

}  // namespace lanemq::log
