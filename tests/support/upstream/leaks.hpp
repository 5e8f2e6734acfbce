// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/support/upstream/exchange.hpp"
#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {

/// The most names that leaks_of() tells.
inline constexpr std::size_t kLeaksMax = 16;

/// Whether SDKs may call the double themselves.
enum class SdkHeaders { refused, allowed };

/// What a gateway should have kept to itself, by name: header fields, parameters that the API does not know,
/// a model's name with `@`.
std::vector<std::string> leaks_of(const Request& request, const Api& api, const Json& body,
                                  SdkHeaders sdk_headers);

}  // namespace lanemq::upstream
