// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "client/cli/check/finding.hpp"

namespace lanemq::cli {

/// Asks `url` (http://HOST:PORT or https://HOST:PORT) for its /readyz and looks at its certificates, whether
/// they are trusted or not. Blocks for up to `patience`, and for the look-up of the host's name.
GatewayFacts look_at_gateway(const std::string& url, std::chrono::milliseconds patience);

}  // namespace lanemq::cli
