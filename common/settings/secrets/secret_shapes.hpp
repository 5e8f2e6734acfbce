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

/// Without what URLs in it have of secrets: user and password, and parameters that are named so. Names stay
/// as they are, whatever they look like.
std::string without_url_secrets(std::string_view text);

/// A configuration as --print-config prints it: URLs as above, and where a secret's source is named nothing
/// that looks like the secret itself. All else can be read again as it stands.
std::string without_secrets_in_config(std::string_view text);

/// A database's connection string without the passwords in it, as words (`password=... host=a`, in quotes or
/// not) or as a URI: what stands there instead is `...`. What is no connection string stays as it is.
std::string without_passwords(std::string_view connection);

}  // namespace lanemq::settings
