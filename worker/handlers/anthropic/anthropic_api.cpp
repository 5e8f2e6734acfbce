// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/anthropic/anthropic_api.hpp"

#include "common/json/cursor.hpp"

namespace lanemq::worker {
namespace {

/// The value of a member of the next object; empty: there is none.
std::string_view member_of(std::string_view object, std::string_view name) {
  JsonCursor cursor(object);
  std::string_view key;
  if (!cursor.enter_object()) return {};
  while (cursor.member(key)) {
    const std::string_view value = cursor.value();
    if (key == name) return value;
  }
  return {};
}

std::string_view unquoted(std::string_view value) {
  return value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2) : std::string_view();
}

bool is_object(std::string_view value) {
  return value.starts_with('{');
}

/// A text block begins empty; a tool's block names the tool.
bool opens_empty(std::string_view block) {
  const std::string_view type = unquoted(member_of(block, "type"));
  return type == "text" || type == "thinking";
}

EventFacts read_anthropic_event(const SseEvent& event) {
  EventFacts facts;
  std::string_view type = unquoted(member_of(event.data, "type"));
  if (type.empty()) type = event.name;
  if (type == "content_block_delta") {
    const std::string_view delta = member_of(event.data, "delta");
    for (const std::string_view text : {"text", "thinking", "partial_json"})
      facts.content_bytes += member_of(delta, text).size();
    return facts;
  }
  if (type == "ping") {
    facts.kind = EventKind::opening;  // passed on at once: it shows the reader that the upstream is alive
  } else if (type == "message_start") {
    facts.kind = EventKind::opening;
    facts.usage = member_of(member_of(event.data, "message"), "usage");
    facts.usage_is_whole = false;
  } else if (type == "content_block_start") {
    if (opens_empty(member_of(event.data, "content_block"))) facts.kind = EventKind::opening;
  } else if (type == "message_delta") {
    facts.usage = member_of(event.data, "usage");
  } else if (type == "message_stop") {
    facts.kind = EventKind::last;
  } else if (type == "error") {
    facts.kind = EventKind::error;
    facts.error = member_of(event.data, "error");
    if (!is_object(facts.error)) facts.error = event.data;
  }
  if (!is_object(facts.usage)) facts.usage = {};
  return facts;
}

bool has_no_usage_option(std::string_view) {
  return false;
}

std::string anthropic_path(std::string asked, std::string_view) {
  return asked.empty() ? std::string("/v1/messages") : asked;
}

}  // namespace

const ModelApi kAnthropicApi{.name = "anthropic",
                             .path = anthropic_path,
                             .streams = [](std::string_view) { return false; },
                             .key_variable = "ANTHROPIC_API_KEY",
                             .key_header = "x-api-key",
                             .key_prefix = {},
                             .version_header = "anthropic-version",
                             .version = "2023-06-01",
                             .has_usage_option = has_no_usage_option,
                             .end_of_choices = {},
                             .read_event = read_anthropic_event};

}  // namespace lanemq::worker
