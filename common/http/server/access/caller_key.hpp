// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/settings/environment.hpp"

namespace lanemq::http {

/// What a table of a caller's key says of its secret.
struct SaidSecret {
  const std::string& name;    ///< the key's
  const std::string& secret;  ///< the secret's source: env:VARIABLE, file:PATH, credential:NAME; or empty
  const std::string& sha256;  ///< instead of it
  std::string_view maker;     ///< the command that makes a new key, for messages
};

/// The hash of a key's secret. Throws settings::UsageError: neither or both are said, the secret cannot be
/// read, or is so short that it can be guessed.
std::string hash_of_key(const SaidSecret& said, const settings::Environment& environment);

/// 64 hexadecimal digits, as they are. Throws settings::UsageError.
std::string parse_hash(const std::string& text);

/// A table for the configuration with a new key's hash: the secret is for the key's holder alone. `block`:
/// the table's name; `rest`: its further lines.
std::string new_key_table(std::string_view block, const std::string& secret, std::string_view rest = {});

}  // namespace lanemq::http
