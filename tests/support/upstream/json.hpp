// SPDX-License-Identifier: Apache-2.0
// Reading requests in JSON: what all APIs have in common. Only for sources that read or write JSON.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "tests/support/upstream/request.hpp"

namespace lanemq::upstream {

using Json = nlohmann::json;
/// Replies keep the order in which the real services write their fields.
using OrderedJson = nlohmann::ordered_json;

/// Thrown while a request is read, and caught by Api::parse()'s caller.
struct Refusal {
  ApiError error;
};

/// One JSON object of at most kJsonDepthMax levels, or why not.
tl::expected<Json, ApiError> parse_object(std::string_view body);

/// Throws a Refusal that names `param`.
[[noreturn]] void refuse_value(const std::string& param, const std::string& problem);
/// Throws a Refusal: `param` is missing.
[[noreturn]] void refuse_missing(const std::string& param);

/// The member, or null where there is none. `object` must be an object or null.
const Json& member(const Json& object, const char* name);
/// Throw a Refusal unless the member is of that kind; absent and null give the default.
std::string string_or(const Json& object, const char* name, std::string_view fallback);
bool bool_or(const Json& object, const char* name, bool fallback);
/// The first of these members that is there, a whole number from 1 to kMaxTokensMax; nothing: 0.
std::uint64_t tokens_or_none(const Json& object, std::initializer_list<const char*> names);

/// Whether the caller's last turn, behind the last of the assistant's messages or items, brings a tool's
/// result. Whatever else stands beside it: clients add reminders of their own.
bool answers_a_tool(const Json& turns);

/// All texts of a request, one after the other: what is charged for, and what an answer depends on.
class PromptText {
 public:
  void add(std::string_view text);
  /// A string, or a list of parts whose `text` counts; null is no text. Throws a Refusal.
  void add_content(const Json& content, const std::string& name);
  /// A list of messages, at least one, each an object with `content`. Throws a Refusal.
  void add_messages(const Json& request);
  /// The items of a response's input: messages, calls and their results. Throws a Refusal.
  void add_items(const Json& items, const std::string& name);
  /// Also what the texts behind the last of the assistant's ask to have called.
  void store_in(ModelRequest& request) const;

 private:
  void add_part(const Json& part, const std::string& name);
  void end_turn() { turn_ = text_.size(); }

  std::string text_;
  std::size_t bytes_ = 0;
  std::size_t turn_ = 0;  ///< Where in text_ the caller's last turn begins.
};

/// Writes text as a JSON string; what is no UTF-8 is replaced.
std::string json_string(std::string_view text);
/// The body of a reply.
std::string written(const OrderedJson& body);

}  // namespace lanemq::upstream
