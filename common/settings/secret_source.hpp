// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/settings/environment.hpp"
#include "common/settings/usage_error.hpp"

namespace lanemq::settings {

/// Whether a word names the place of a secret: `env:VARIABLE`, `file:PATH` or `credential:NAME`.
bool is_secret_source(std::string_view word);

/// Whether a value holds no control characters but tabs: one with a line end could forge headers.
bool is_clean(std::string_view value);

/// The secret that stands there: the variable; the content of the file, or of the credential that systemd
/// keeps in $CREDENTIALS_DIRECTORY, without its last line ends. Throws UsageError, which names the variable
/// or file, never a value; and where `source` is none, without a word of it, as it may be a secret in the
/// wrong place.
std::string read_secret(const std::string& source, const Environment& environment);

}  // namespace lanemq::settings
