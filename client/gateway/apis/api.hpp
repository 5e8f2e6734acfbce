// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lanemq::gateway {

/// The API of a caller, which decides the form of errors, pings and limits. LaneMQ's own paths use OpenAI's.
enum class Api : unsigned char { openai, anthropic };

}  // namespace lanemq::gateway
