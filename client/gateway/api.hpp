// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lanemq::gateway {

/// Whose API a caller speaks, and so how errors, pings and limits are said to it. LaneMQ's own paths speak
/// as OpenAI's do.
enum class Api : unsigned char { openai, anthropic };

}  // namespace lanemq::gateway
