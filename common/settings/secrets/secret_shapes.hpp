// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lanemq::settings {

/// A message for people without what looks like a secret: whoever gives one in the wrong place finds it in no
/// log. Of a long word that mixes letters and digits (sk-..., 20 bytes or more, no part of a path) and of 40
/// characters as lanemq keygen makes them the first four remain, then `...`; of what stands before the @ of a
/// URL's host, and of a parameter of its query that is named as secrets are (key, token, sig), nothing does.
/// A password that looks like a word is not recognized.
std::string without_secrets(std::string_view message);

/// The same of a configuration as --print-config prints it, line by line: but for comments, and for keys that
/// are no secrets by their name (sha256, public_key, broker_key), or are printed by without_passwords()
/// (store, bank).
std::string without_secrets_in_config(std::string_view text);

/// A database's connection string without the passwords in it, as words (`password=... host=a`, in quotes or
/// not) or as a URI: what stands there instead is `...`. What is no connection string stays as it is.
std::string without_passwords(std::string_view connection);

}  // namespace lanemq::settings
