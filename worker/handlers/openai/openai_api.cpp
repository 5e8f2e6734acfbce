// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/openai/openai_api.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "common/json/cursor.hpp"

namespace lanemq::worker {
namespace {

constexpr std::string_view kDone = "[DONE]";
constexpr std::uint64_t kFarChoice = 63;

bool says_something(std::string_view value) {
  return value != "null" && value != "\"\"" && value != "[]" && value != "{}";
}

/// What the `choices` of a chunk hold.
struct Choices {
  bool present = false, empty = true, content = false;
  std::size_t bytes = 0;  ///< of content
  std::uint64_t seen = 0, ended = 0;
};

/// A `delta` with nothing but a role is no content.
bool delta_has_content(JsonCursor& cursor, std::size_t& bytes) {
  if (!cursor.enter_object()) {
    cursor.value();
    return false;
  }
  bool content = false;
  std::string_view key;
  while (cursor.member(key)) {
    const std::string_view value = cursor.value();
    if (key == "role" || !says_something(value)) continue;
    content = true;
    bytes += value.size();
  }
  return content;
}

/// The bit of a choice. The last one stands for all that are further, and is never taken for ended.
std::uint64_t choice_bit(std::string_view index) {
  if (index.size() == 1) return std::uint64_t{1} << (index.front() & 15);  // nearly always
  std::uint64_t number = 0;
  std::from_chars(index.data(), index.data() + index.size(), number);
  return std::uint64_t{1} << std::min(number, kFarChoice);
}

bool read_choice(JsonCursor& cursor, Choices& choices) {
  if (!cursor.enter_object()) {
    cursor.value();
    return true;
  }
  std::size_t& bytes = choices.bytes;
  bool content = false, ended = false;
  std::uint64_t bit = 1;
  std::string_view key;
  while (cursor.member(key)) {
    if (key == "delta") {
      content = delta_has_content(cursor, bytes) || content;
    } else {
      const std::string_view value = cursor.value();
      if (key == "text") {
        content = content || says_something(value);
        bytes += value.size();
      } else if (key == "finish_reason") {
        ended = says_something(value);
        content = content || ended;
      } else if (key == "index") {
        bit = choice_bit(value);
      }
    }
  }
  choices.seen |= bit;
  if (ended) choices.ended |= bit & ~(std::uint64_t{1} << kFarChoice);
  return content;
}

Choices read_choices(JsonCursor& cursor) {
  Choices choices{.present = true};
  if (!cursor.enter_array()) {
    cursor.value();
    return choices;
  }
  while (cursor.element()) {
    choices.empty = false;
    choices.content = read_choice(cursor, choices) || choices.content;
  }
  return choices;
}

/// Reads the `response` in events of the Responses API: only two of its members count.
void read_response(JsonCursor& cursor, EventFacts& facts) {
  if (!cursor.enter_object()) {
    cursor.value();
    return;
  }
  std::string_view key;
  while (cursor.member(key)) {
    const std::string_view value = cursor.value();
    if (key == "usage" && value.starts_with('{')) facts.usage = value;
    if (key == "error" && value.starts_with('{')) facts.error = value;
  }
}

/// The kind of an event of the Responses API, which has a type.
EventKind kind_of_type(std::string_view type) {
  static constexpr std::string_view kOpenings[] = {
      "response.created",           "response.in_progress",        "response.queued",
      "response.output_item.added", "response.content_part.added", "response.reasoning_summary_part.added"};
  for (const std::string_view opening : kOpenings)
    if (type == opening) return EventKind::opening;
  if (type == "response.completed" || type == "response.incomplete") return EventKind::last;
  if (type == "response.failed" || type == "error") return EventKind::error;
  return EventKind::content;
}

EventFacts read_openai_event(const SseEvent& event) {
  EventFacts facts;
  if (event.data.starts_with(kDone)) {
    facts.kind = EventKind::last;
    return facts;
  }
  JsonCursor cursor(event.data);
  if (!cursor.enter_object()) return facts;
  Choices choices;
  std::string_view key, type;
  while (cursor.member(key)) {
    if (key == "choices") {
      choices = read_choices(cursor);
    } else if (key == "response") {
      read_response(cursor, facts);
    } else {
      const std::string_view value = cursor.value();
      if (key == "usage" && value.starts_with('{')) facts.usage = value;
      if (key == "error" && says_something(value)) facts.error = value;
      if (key == "delta") facts.content_bytes = value.size();
      if (key == "type" && value.starts_with('"')) type = value.substr(1, value.size() - 2);
    }
  }
  // Broken JSON is passed on, for the caller to see.
  if (cursor.failed()) return {};
  if (!type.empty()) facts.kind = kind_of_type(type);
  if (event.name == "error") facts.kind = EventKind::error;
  if (facts.kind == EventKind::error && facts.error.empty()) facts.error = event.data;
  if (!facts.error.empty()) {
    facts.kind = EventKind::error;
  } else if (choices.present) {
    facts.kind = choices.content ? EventKind::content : EventKind::opening;
    facts.has_only_usage = choices.empty && !facts.usage.empty();
    facts.content_bytes = choices.bytes;
    facts.choices = choices.seen;
    facts.ended_choices = choices.ended;
  }
  return facts;
}

bool has_usage_option(std::string_view path) {
  path = path.substr(0, path.find('?'));
  return path == "/chat/completions" || path == "/completions";
}

std::string openai_path(std::string asked, std::string_view) {
  return asked.empty() ? std::string("/chat/completions") : asked;
}

}  // namespace

const ModelApi kOpenaiApi{.name = "openai",
                          .path = openai_path,
                          .streams = [](std::string_view) { return false; },
                          .key_variable = "OPENAI_API_KEY",
                          .key_header = "Authorization",
                          .key_prefix = "Bearer ",
                          .version_header = {},
                          .version = {},
                          .has_usage_option = has_usage_option,
                          .end_of_choices = "data: [DONE]\n\n",
                          .read_event = read_openai_event};

}  // namespace lanemq::worker
