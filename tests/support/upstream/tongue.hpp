// SPDX-License-Identifier: Apache-2.0
// As whom the double tells of its limits.
#pragma once

#include "tests/support/upstream/api.hpp"

namespace lanemq::upstream {

/// Whose words the limits have: the headers of all answers, and what a refusal looks like. All else, other
/// errors too, has the form of the endpoint.
enum class Tongue {
  by_endpoint,  ///< OpenAI's or Anthropic's.
  openai,
  anthropic,
  gemini,
  azure,
  deepseek,
  openrouter,
  groq,
  ietf,
  none,  ///< A bare 429.
};

/// How much of these words is said.
enum class Tells {
  all,
  retry_after,  ///< Retry-After on refusals alone, in whole seconds.
  none,
};

/// Never by_endpoint.
constexpr Tongue tongue_at(Tongue asked, Dialect dialect) {
  if (asked != Tongue::by_endpoint) return asked;
  return dialect == Dialect::openai ? Tongue::openai : Tongue::anthropic;
}

}  // namespace lanemq::upstream
