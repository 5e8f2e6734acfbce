// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lanemq::log {

/// Appends ` name=value` to a line. A text that is more than one plain word stands in quotes; inside them a
/// quote and a backslash have a backslash before them, and what a terminal would obey is `\xNN`. So no value,
/// whoever chose it, looks like another field or another line. Long ones are cut with `...`.
void append_field(std::string& line, std::string_view name, std::string_view value);

}  // namespace lanemq::log
