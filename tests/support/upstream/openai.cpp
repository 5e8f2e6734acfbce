// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/openai.hpp"

#include "tests/support/upstream/errors.hpp"

namespace lanemq::upstream {
namespace {

constexpr std::string_view kModelDefault = "gpt-4o-mini";

}  // namespace

std::string data_event(std::string_view data) {
  return "data: " + std::string(data) + "\n\n";
}

std::string openai_error_event(const ApiError& error) {
  return data_event(openai_error(error).dump());
}

void read_openai_basics(const Json& json, ModelRequest& request) {
  request.model = string_or(json, "model", kModelDefault);
  request.service_tier = string_or(json, "service_tier", "");
}

void read_openai_stream(const Json& json, ModelRequest& request) {
  request.stream = bool_or(json, "stream", false);
  const Json& options = member(json, "stream_options");
  if (options.is_null()) return;
  if (!request.stream) refuse_value("stream_options", "only allowed when stream is true.");
  if (!options.is_object()) refuse_value("stream_options", "expected an object.");
  request.include_usage = bool_or(options, "include_usage", false);
}

void read_openai_max_tokens(const Json& json, std::initializer_list<const char*> names,
                            ModelRequest& request) {
  const std::uint64_t asked = tokens_or_none(json, names);
  request.max_tokens_asked = asked != 0;
  request.max_tokens = asked ? asked : kMaxTokensDefault;
}

void refuse_several(const Json& json) {
  const Json& count = member(json, "n");
  if (!count.is_null() && count != 1)
    throw Refusal{{.message = "This upstream gives one answer; leave 'n' out.",
                   .param = "n",
                   .code = "unsupported_value"}};
}

OrderedJson chat_usage(const Completion& completion) {
  return {{"prompt_tokens", completion.request.prompt_tokens},
          {"completion_tokens", completion.answer.tokens},
          {"total_tokens", completion.request.prompt_tokens + completion.answer.tokens},
          {"prompt_tokens_details", {{"cached_tokens", 0}}},
          {"completion_tokens_details", {{"reasoning_tokens", 0}}}};
}

}  // namespace lanemq::upstream
