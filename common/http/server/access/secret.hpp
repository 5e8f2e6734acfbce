// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/http/server/base/message.hpp"

namespace lanemq::http {

/// The SHA-256 hash as 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

/// A secret for a caller's key: 192 random bits behind `lanemq-`. Throws std::runtime_error where the system
/// has none.
std::string fresh_secret();

/// The hash of the secret that a request shows, by `authorization: Bearer` or `x-api-key`; empty: there is
/// none. Computed once per request, which asks for it at its head and at its body.
const std::string& secret_hash_of(const HttpRequest& request);

}  // namespace lanemq::http
