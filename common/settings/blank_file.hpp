// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace lanemq::settings {

/// Why a running program does not read its configuration again: the file holds only white space, as after an
/// editor or a full disk cut it off, and would reset all options. Empty: it may be read; also for an empty
/// `path`, or one that is no regular file.
std::optional<std::string> why_not_read_again(const std::string& path);

}  // namespace lanemq::settings
