// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace lanemq::settings {

/// Why a program that runs does not read its configuration again: the file has nothing but white space, as
/// one does that an editor or a full disk has cut off, and would set everything back to its default. Empty:
/// it may be read. A `path` that is empty, or names no regular file, is no matter of this.
std::optional<std::string> why_not_read_again(const std::string& path);

}  // namespace lanemq::settings
