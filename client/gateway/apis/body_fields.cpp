// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/body_fields.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include <nlohmann/json.hpp>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "common/json/cursor.hpp"
#include "common/json/members.hpp"

namespace lanemq::gateway {
namespace {

using json = nlohmann::ordered_json;  // keeps the providers' order

constexpr std::string_view kSpace = " \t\r\n";

/// Steps over JSON, token by token. Views that it returns have no data where the text is invalid or ends.
class Steps {
 public:
  explicit Steps(std::string_view text) : text_(text) {}

  bool take(char expected) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }
  bool at_end() {
    skip_space();
    return at_ >= text_.size();
  }
  std::size_t position() const { return at_; }

  /// A string with its quotes.
  std::string_view text() {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != '"') return {};
    const std::size_t begin = at_;
    return skip_text() ? text_.substr(begin, at_ - begin) : std::string_view();
  }
  std::string_view value() {
    skip_space();
    if (at_ >= text_.size()) return {};
    const std::size_t begin = at_;
    const char first = text_[at_];
    bool whole = true;
    if (first == '"')
      whole = skip_text();
    else if (first == '{' || first == '[')
      whole = skip_nested();
    else
      at_ = std::min(text_.find_first_of(",}] \t\r\n", at_), text_.size());
    return whole && at_ > begin ? text_.substr(begin, at_ - begin) : std::string_view();
  }

 private:
  void skip_space() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }

  /// Prompts are long, so it searches for quotes by memchr.
  bool skip_text() {
    const std::size_t begin = at_ + 1;
    for (std::size_t from = begin; from < text_.size();) {
      const void* quote = std::memchr(text_.data() + from, '"', text_.size() - from);
      if (!quote) break;
      const auto found = static_cast<std::size_t>(static_cast<const char*>(quote) - text_.data());
      std::size_t backslashes = 0;
      while (found - backslashes > begin && text_[found - backslashes - 1] == '\\')
        ++backslashes;
      from = found + 1;
      if (backslashes % 2 == 0) {
        at_ = from;
        return true;
      }
    }
    at_ = text_.size();
    return false;
  }

  bool skip_nested() {
    std::size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        if (!skip_text()) return false;
        continue;
      }
      ++at_;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return true;
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// The text of a string token; none for another token.
std::optional<std::string> text_of(std::string_view token) {
  if (token.size() < 2 || token.front() != '"') return std::nullopt;
  const std::string_view inside = token.substr(1, token.size() - 2);
  if (inside.find('\\') == std::string_view::npos) return std::string(inside);
  const json value = json::parse(token, nullptr, false);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

/// Reads the wanted members, and counts how often each occurs.
class Reader {
 public:
  explicit Reader(Look look) : look_(look) {}

  std::optional<ApiError> take(std::string_view key, std::string_view value) {
    // Characters beyond ASCII may fold to an s or a k.
    const unsigned char first = key.empty() ? 0 : static_cast<unsigned char>(key.front());
    for (const std::string_view name :
         {"model", "service_tier", "stream", "previous_response_id", "conversation", "container", "thread"}) {
      if (first < 0x80 && (first | 0x20) != name.front()) continue;
      if (key != name && reads_as(key, name)) return twin(key, name);
    }
    if (look_ == Look::stored) {
      for (const std::string_view name : {"input", "tools"})
        if (reads_as(key, name)) return key == name ? look_into(key, value) : twin(key, name);
      if (reads_as(key, "background"))
        return key == "background" ? take_flag(key, value, fields_.background, seen_background_)
                                   : twin(key, "background");
    }
    if (key == "model") return take_text(key, value, fields_.model, seen_model_);
    if (key == "service_tier") return take_text(key, value, fields_.service_tier, seen_tier_);
    if (key == "previous_response_id") {
      if (std::exchange(seen_previous_, true)) return twice(key);
      if (value == "null") return std::nullopt;
      std::optional<std::string> id = text_of(value);
      if (!id) return bad_request("previous_response_id must be a string", std::string(key));
      if (!id->empty()) fields_.stored.push_back({.param = std::string(key), .id = *std::move(id)});
      return std::nullopt;
    }
    if (key == "container") return take_stored(key, value, "id", seen_container_);
    if (key == "thread") return take_stored(key, value, "previous_message_id", seen_thread_);
    // The upstream checks what they hold; values of another type mean nothing in any API.
    if (key == "conversation") {
      if (std::exchange(seen_conversation_, true)) return twice(key);
      if (!begins_with_one_of(value, "\"{n"))
        return bad_request("conversation must be a string or an object", std::string(key));
      fields_.in_conversation = value != "null";
      return std::nullopt;
    }
    if (key == "prompt" && !begins_with_one_of(value, "\"[{n"))
      return bad_request("prompt must be a string, an array or an object", std::string(key));
    return key == "stream" ? take_flag(key, value, fields_.stream, seen_stream_) : std::nullopt;
  }
  BodyFields fields() { return std::move(fields_); }

 private:
  static bool begins_with_one_of(std::string_view value, std::string_view firsts) {
    return firsts.find(value.front()) != std::string_view::npos;
  }
  std::optional<ApiError> look_into(std::string_view key, std::string_view value) {
    const bool is_input = key == "input";
    if (std::exchange(is_input ? seen_input_ : seen_tools_, true)) return twice(key);
    if (!begins_with_one_of(value, is_input ? "\"[n" : "[n"))
      return bad_request(
          std::string(key) + (is_input ? " must be a string or an array" : " must be an array"),
          std::string(key));
    const auto added = is_input ? add_references_of_input(value, fields_.stored)
                                : add_references_of_tools(value, fields_.stored);
    return added ? std::nullopt : std::optional(added.error());
  }
  /// Anthropic's: the id of something that is there, or an object which may have it as its `member`.
  std::optional<ApiError> take_stored(std::string_view name, std::string_view value, std::string_view member,
                                      bool& seen) {
    const std::string param(name);
    if (std::exchange(seen, true)) return twice(name);
    if (!begins_with_one_of(value, "\"{n"))
      return bad_request(param + " must be a string or an object", param);
    std::string_view id = value;
    if (value.starts_with('{')) {
      id = {};
      JsonCursor cursor(value);
      cursor.enter_object();
      for (std::string_view key; cursor.member(key);) {
        const std::string_view said = cursor.value();
        if (!reads_as(key, member)) continue;
        if (key != member || !id.empty())
          return bad_request(param + " says its " + std::string(member) + " twice, or in another case",
                             param);
        id = said;
      }
      if (cursor.failed()) return bad_request(param + " is no JSON that can be read", param);
    }
    if (std::optional<std::string> text = text_of(id); text && !text->empty())
      fields_.stored.push_back({.param = param, .id = *std::move(text)});
    return std::nullopt;
  }
  static std::optional<ApiError> take_flag(std::string_view key, std::string_view value, bool& flag,
                                           bool& seen) {
    if (std::exchange(seen, true)) return twice(key);
    if (value != "true" && value != "false" && value != "null")
      return bad_request(std::string(key) + " must be true or false", std::string(key));
    flag = value == "true";
    return std::nullopt;
  }
  static ApiError twin(std::string_view key, std::string_view name) {
    return bad_request("the body says `" + printable(key) + "`, which some upstreams take for `" +
                           std::string(name) + "`; write it in lower case, once",
                       std::string(name));
  }
  static ApiError twice(std::string_view key) {
    return bad_request(std::string(key) + " stands in the body twice", std::string(key));
  }
  static std::optional<ApiError> take_text(std::string_view key, std::string_view value, std::string& field,
                                           bool& seen) {
    if (std::exchange(seen, true)) return twice(key);
    if (value == "null") return std::nullopt;
    std::optional<std::string> text = text_of(value);
    if (!text) return bad_request(std::string(key) + " must be a string", std::string(key));
    if (text->size() > limits::name_bytes_max || !is_utf8(*text))
      return bad_request(
          std::string(key) + " must be at most " + std::to_string(limits::name_bytes_max) + " bytes of UTF-8",
          std::string(key));
    field = std::move(*text);
    return std::nullopt;
  }

  const Look look_;
  BodyFields fields_;
  bool seen_background_ = false, seen_model_ = false, seen_tier_ = false, seen_stream_ = false,
       seen_previous_ = false, seen_conversation_ = false, seen_container_ = false, seen_thread_ = false,
       seen_input_ = false, seen_tools_ = false;
};

ApiError broken(const Steps& steps) {
  return bad_request("the body is no JSON object that can be read: it is broken near byte " +
                     std::to_string(steps.position()));
}

}  // namespace

BodyFields in_one_piece(BodyFields fields) {
  fields.stream = false;
  return fields;
}

BodyFields fields_of_query(const HttpRequest& request) {
  BodyFields fields;
  fields.stream = request.query_param("stream") == "true";
  return fields;
}

tl::expected<BodyFields, ApiError> read_body_fields(std::string_view body, Look look) {
  Steps steps(body);
  if (steps.at_end()) return wrong("the body is empty; send a JSON object");
  if (!steps.take('{')) return wrong("the body must be a JSON object");
  Reader reader(look);
  if (!steps.take('}')) {
    do {
      const std::optional<std::string> key = text_of(steps.text());
      if (!key || !steps.take(':')) return tl::unexpected(broken(steps));
      const std::string_view value = steps.value();
      if (value.empty()) return tl::unexpected(broken(steps));
      if (std::optional<ApiError> error = reader.take(*key, value)) return tl::unexpected(std::move(*error));
    } while (steps.take(','));
    if (!steps.take('}')) return tl::unexpected(broken(steps));
  }
  if (!steps.at_end()) return tl::unexpected(broken(steps));
  return reader.fields();
}

}  // namespace lanemq::gateway
