// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/settings/environment.hpp"
#include "common/settings/usage_error.hpp"

namespace lanemq::settings {

/// Whether a word is a secret's source: `env:VARIABLE`, `file:PATH` or `credential:NAME`.
bool is_secret_source(std::string_view word);

/// Whether a value has no control characters but tabs: one with a line end could forge headers.
bool is_clean(std::string_view value);

/// Reads a secret: the variable's value; or the content of the file, or of systemd's credential in
/// $CREDENTIALS_DIRECTORY, without line ends at its end. Throws UsageError with the variable or file, never
/// with a value. A file that others may read is noted (exposed_files.hpp). For an invalid `source` the
/// message does not repeat it: it may be a secret in the wrong place.
std::string read_secret(const std::string& source, const Environment& environment);

/// Why a path is no plain file that can be read, as in `is a folder`; none: it is one.
std::optional<std::string> why_no_plain_file(const std::string& path);

/// Why a file could not be opened, by the number of the error, with the user where that may not read it.
std::string why_unreadable(int error);

/// The file of systemd's credential; none: it is taken as given. Throws UsageError.
std::optional<std::string> credential_file(const std::string& name, const Environment& environment);

/// For whoever checks a configuration beside the service manager, which shows credentials to the service
/// alone: from now on, where there is no $CREDENTIALS_DIRECTORY, a credential is looked for as `UNIT.NAME` in
/// the folders where the packages' units have theirs; one that is not there, or may not be read, is taken as
/// given: read_secret() returns a text that can be any secret. No unit: from now on all have to be there, as
/// at first.
void take_credentials_as_given(std::optional<std::string> unit);
/// The names of those that were. Thread-safe.
std::vector<std::string> credentials_as_given();

/// Takes the variable of a source out of this process's environment (hide_variable()), where the source is
/// one: to be called when it was read.
void hide_secret(std::string_view source);

}  // namespace lanemq::settings
