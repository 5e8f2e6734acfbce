// SPDX-License-Identifier: Apache-2.0
// What OpenAI's APIs have in common.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/support/upstream/answer.hpp"
#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {

/// The end of a stream of chunks.
inline constexpr std::string_view kDone = "data: [DONE]\n\n";

std::string data_event(std::string_view data);
/// An error in a stream of chunks.
std::string openai_error_event(const ApiError& error);

// Each throws a Refusal for what it does not understand.
/// `model`, which may be left out, and `service_tier`.
void read_openai_basics(const Json& json, ModelRequest& request);
/// `stream` and `stream_options`.
void read_openai_stream(const Json& json, ModelRequest& request);
/// The first of these parameters that is there; kMaxTokensDefault where none is.
void read_openai_max_tokens(const Json& json, std::initializer_list<const char*> names,
                            ModelRequest& request);
/// `n` above 1: the double gives one answer.
void refuse_several(const Json& json);

/// The `usage` object of chats and completions.
OrderedJson chat_usage(const Completion& completion);

}  // namespace lanemq::upstream
