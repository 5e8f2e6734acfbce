// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "tests/support/upstream/api.hpp"

namespace lanemq::upstream {

/// The code by which Anthropic's SDK knows that it has to go on without a thread.
inline constexpr std::string_view kThreadUnsupported = "thread_unsupported_request";

/// The `error` object as OpenAI writes it.
OrderedJson openai_error(const ApiError& error);
/// The error as Anthropic writes it; the type follows from the status, but that it says a code of Anthropic's
/// itself.
OrderedJson anthropic_error(unsigned status, const ApiError& error, std::string_view request_id);

/// The body of a refusal.
std::string error_body(Dialect dialect, unsigned status, const ApiError& error, std::string_view request_id);

/// What a service says beside such a status, whatever the reason.
ApiError error_of_status(unsigned status);

}  // namespace lanemq::upstream
