// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/json.hpp"

#include <algorithm>
#include <stdexcept>

#include "tests/support/upstream/calls.hpp"

namespace lanemq::upstream {
namespace {

// Thrown through the parser, which has no depth limit of its own.
struct TooDeep : std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool refuse_too_deep(int depth, Json::parse_event_t, Json&) {
  if (depth > kJsonDepthMax) {
    throw TooDeep("The JSON body nests deeper than " + std::to_string(kJsonDepthMax) +
                  " levels; flatten it.");
  }
  return true;
}

bool has(const Json& object, const char* name, std::initializer_list<std::string_view> values) {
  const Json& value = member(object, name);
  return value.is_string() &&
         std::find(values.begin(), values.end(), value.get_ref<const std::string&>()) != values.end();
}

// A message or an item that the model wrote.
bool is_assistant(const Json& turn) {
  return has(turn, "role", {"assistant"}) || has(turn, "type", {"function_call", "custom_tool_call"});
}

// A message or an item that is a tool's result, or has one among its blocks.
bool is_result(const Json& turn) {
  if (has(turn, "role", {"tool", "function"})) return true;
  if (has(turn, "type", {"function_call_output", "custom_tool_call_output"})) return true;
  const Json& content = member(turn, "content");
  return content.is_array() && std::any_of(content.begin(), content.end(), [](const Json& block) {
           return block.is_object() && has(block, "type", {"tool_result"});
         });
}

}  // namespace

bool answers_a_tool(const Json& turns) {
  if (!turns.is_array()) return false;
  for (auto turn = turns.rbegin(); turn != turns.rend() && turn->is_object() && !is_assistant(*turn); ++turn)
    if (is_result(*turn)) return true;
  return false;
}

std::uint64_t tokens_of(std::size_t bytes) {
  return std::max<std::uint64_t>(1, (bytes + kBytesPerToken - 1) / kBytesPerToken);
}

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

tl::expected<Json, ApiError> parse_object(std::string_view body) {
  try {
    Json json = Json::parse(body, refuse_too_deep);
    if (json.is_object()) return json;
    return tl::unexpected(ApiError{.message = "The body must be a JSON object."});
  } catch (const Json::parse_error& error) {
    return tl::unexpected(ApiError{.message = "We could not parse the JSON body of your request (byte " +
                                              std::to_string(error.byte) + "). It must be one JSON object."});
  } catch (const Json::out_of_range&) {
    return tl::unexpected(ApiError{.message = "A number in the JSON body of your request is too large."});
  } catch (const TooDeep& error) {
    return tl::unexpected(ApiError{.message = error.what()});
  }
}

void refuse_value(const std::string& param, const std::string& problem) {
  throw Refusal{{.message = "Invalid '" + param + "': " + problem, .param = param, .code = "invalid_value"}};
}

void refuse_missing(const std::string& param) {
  throw Refusal{{.message = "Missing required parameter: '" + param + "'.",
                 .param = param,
                 .code = "missing_required_parameter"}};
}

const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

std::string string_or(const Json& object, const char* name, std::string_view fallback) {
  const Json& value = member(object, name);
  if (value.is_null()) return std::string(fallback);
  if (!value.is_string()) refuse_value(name, "expected a string.");
  return value.get<std::string>();
}

bool bool_or(const Json& object, const char* name, bool fallback) {
  const Json& value = member(object, name);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) refuse_value(name, "expected true or false.");
  return value.get<bool>();
}

std::uint64_t tokens_or_none(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const Json& value = member(object, name);
    if (value.is_null()) continue;
    if (value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
        value.get<std::uint64_t>() <= kMaxTokensMax)
      return value.get<std::uint64_t>();
    refuse_value(name, "expected an integer from 1 to " + std::to_string(kMaxTokensMax) + ".");
  }
  return 0;
}

void PromptText::add(std::string_view text) {
  bytes_ += text.size();
  text_ += text;
  text_ += '\0';  // So that "ab", "c" is another prompt than "a", "bc".
}

void PromptText::add_content(const Json& content, const std::string& name) {
  if (content.is_null()) return;
  if (content.is_string()) return add(content.get_ref<const std::string&>());
  if (!content.is_array()) refuse_value(name, "expected a string or an array of content parts.");
  for (const Json& part : content)
    add_part(part, name);
}

void PromptText::add_part(const Json& part, const std::string& name) {
  if (!part.is_object()) refuse_value(name, "expected a string or an array of content parts.");
  if (const Json& text = member(part, "text"); text.is_string()) add(text.get_ref<const std::string&>());
  if (const Json& inner = member(part, "content"); !inner.is_null()) add_content(inner, name + ".content");
  // Of a response's items: a call, and its result, which may be an object, too.
  if (const Json& call = member(part, "arguments"); call.is_string()) add(call.get_ref<const std::string&>());
  if (const Json& result = member(part, "output"); !result.is_object()) add_content(result, name + ".output");
}

void PromptText::add_messages(const Json& request) {
  const Json& messages = member(request, "messages");
  if (messages.is_null()) refuse_missing("messages");
  if (!messages.is_array() || messages.empty())
    refuse_value("messages", "expected an array with at least one message.");
  for (std::size_t index = 0; index < messages.size(); ++index) {
    const std::string name = "messages[" + std::to_string(index) + "]";
    if (!messages[index].is_object()) refuse_value(name, "expected an object.");
    add_content(member(messages[index], "content"), name + ".content");
    if (is_assistant(messages[index])) end_turn();
  }
}

void PromptText::add_items(const Json& items, const std::string& name) {
  for (const Json& item : items) {
    add_part(item, name);
    if (is_assistant(item)) end_turn();
  }
}

void PromptText::store_in(ModelRequest& request) const {
  request.prompt_tokens = tokens_of(bytes_);
  request.prompt_hash = fnv1a(text_);
  read_asked_call(std::string_view(text_).substr(turn_), request);
}

std::string json_string(std::string_view text) {
  // Most text stands for itself.
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; })) {
    std::string quoted;
    quoted.reserve(text.size() + 2);
    quoted += '"';
    quoted += text;
    quoted += '"';
    return quoted;
  }
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string written(const OrderedJson& body) {
  return body.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace lanemq::upstream
