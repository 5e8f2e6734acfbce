// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/whole_answer.hpp"

#include <utility>

#include <nlohmann/json.hpp>

namespace lanemq::gateway {
namespace {

using json = nlohmann::ordered_json;  // keeps the providers' order

std::string written(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json member(const json& object, const char* key, json otherwise = nullptr) {
  const auto at = object.find(key);
  return at == object.end() ? std::move(otherwise) : *at;
}

bool has_list(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_array();
}

// ---- OpenAI's chat and completions: data alone ---------------------------------------------------------

constexpr std::string_view kDone = "data: [DONE]\n\n";

std::string data_of(const json& value) {
  return "data: " + written(value) + "\n\n";
}

/// An event with all of the message, then one with its finish reason, and the usage.
std::string chat_events(json answer) {
  json choices = std::exchange(answer["choices"], json::array());
  json usage = member(answer, "usage");
  answer.erase("usage");
  answer["object"] = "chat.completion.chunk";
  json said = json::array(), ended = json::array();
  for (json& choice : choices) {
    if (!choice.is_object()) continue;
    json delta = member(choice, "message", json::object());
    if (has_list(delta, "tool_calls"))
      for (std::size_t i = 0; i < delta["tool_calls"].size(); ++i)
        if (delta["tool_calls"][i].is_object()) delta["tool_calls"][i]["index"] = i;
    const json index = member(choice, "index", 0);
    json first = {{"index", index}, {"delta", std::move(delta)}, {"finish_reason", nullptr}};
    if (choice.contains("logprobs")) first["logprobs"] = choice["logprobs"];
    said.push_back(std::move(first));
    ended.push_back({{"index", index},
                     {"delta", json::object()},
                     {"finish_reason", member(choice, "finish_reason", "stop")}});
  }
  answer["choices"] = std::move(said);
  std::string events = data_of(answer);
  answer["choices"] = std::move(ended);
  if (!usage.is_null()) answer["usage"] = std::move(usage);
  return events + data_of(answer) + std::string(kDone);
}

// ---- OpenAI's responses --------------------------------------------------------------------------------

class NamedEvents {
 public:
  explicit NamedEvents(bool numbered) : numbered_(numbered) {}

  void add(const char* type, json event) {
    json whole = {{"type", type}};
    if (numbered_) whole["sequence_number"] = number_++;
    whole.update(event);
    text_.append("event: ").append(type).append("\ndata: ").append(written(whole)).append("\n\n");
  }
  std::string take() { return std::move(text_); }

 private:
  const bool numbered_;
  int number_ = 0;
  std::string text_;
};

void add_text(NamedEvents& events, json place, const json& part) {
  const json text = member(part, "text", "");
  json empty = part;
  empty["text"] = "";
  json begun = place, delta = place, done = place, ended = place;
  begun["part"] = std::move(empty);
  events.add("response.content_part.added", std::move(begun));
  delta["delta"] = text;
  events.add("response.output_text.delta", std::move(delta));
  done["text"] = text;
  events.add("response.output_text.done", std::move(done));
  ended["part"] = part;
  events.add("response.content_part.done", std::move(ended));
}

std::string response_events(const json& answer) {
  NamedEvents events(true);
  json begun = answer;
  begun["status"] = "in_progress";
  begun["output"] = json::array();
  events.add("response.created", {{"response", std::move(begun)}});
  const json& output = answer["output"];
  for (std::size_t i = 0; i < output.size(); ++i) {
    const json& item = output[i];
    if (!item.is_object()) continue;
    json empty = item;
    const bool has_parts = has_list(item, "content");
    if (has_parts) empty["content"] = json::array();
    events.add("response.output_item.added", {{"output_index", i}, {"item", std::move(empty)}});
    for (std::size_t j = 0; has_parts && j < item["content"].size(); ++j)
      if (const json& part = item["content"][j]; part.is_object() && member(part, "type") == "output_text")
        add_text(events, {{"item_id", member(item, "id", "")}, {"output_index", i}, {"content_index", j}},
                 part);
    events.add("response.output_item.done", {{"output_index", i}, {"item", item}});
  }
  const json status = member(answer, "status", "completed");
  events.add(status == "incomplete" ? "response.incomplete"
             : status == "failed"   ? "response.failed"
                                    : "response.completed",
             {{"response", answer}});
  return events.take();
}

// ---- Anthropic's messages ------------------------------------------------------------------------------

/// Adds a block's events: its start without content, and one delta with the content.
void add_block(NamedEvents& events, std::size_t index, json block) {
  const json type = member(block, "type");
  std::vector<json> deltas;
  if (type == "text")
    deltas.push_back({{"type", "text_delta"}, {"text", std::exchange(block["text"], "")}});
  else if (type == "tool_use")
    deltas.push_back({{"type", "input_json_delta"},
                      {"partial_json", written(std::exchange(block["input"], json::object()))}});
  else if (type == "thinking") {
    deltas.push_back({{"type", "thinking_delta"}, {"thinking", std::exchange(block["thinking"], "")}});
    deltas.push_back({{"type", "signature_delta"}, {"signature", std::exchange(block["signature"], "")}});
  }
  events.add("content_block_start", {{"index", index}, {"content_block", std::move(block)}});
  for (json& delta : deltas)
    events.add("content_block_delta", {{"index", index}, {"delta", std::move(delta)}});
  events.add("content_block_stop", {{"index", index}});
}

std::string message_events(json answer) {
  NamedEvents events(false);
  json content = std::exchange(answer["content"], json::array());
  const json usage = member(answer, "usage", json::object());
  json end = {{"stop_reason", member(answer, "stop_reason", "end_turn")},
              {"stop_sequence", member(answer, "stop_sequence")}};
  answer["stop_reason"] = nullptr;
  events.add("message_start", {{"message", answer}});
  for (std::size_t i = 0; i < content.size(); ++i)
    if (content[i].is_object()) add_block(events, i, std::move(content[i]));
  events.add("message_delta",
             {{"delta", std::move(end)}, {"usage", {{"output_tokens", member(usage, "output_tokens", 0)}}}});
  events.add("message_stop", json::object());
  return events.take();
}

}  // namespace

std::optional<std::string> openai_events_of_whole(std::string_view path, std::string_view text) {
  json answer = json::parse(text, nullptr, false);
  if (!answer.is_object()) return std::nullopt;
  if (path == "/v1/chat/completions" && has_list(answer, "choices")) return chat_events(std::move(answer));
  if (path == "/v1/completions" && has_list(answer, "choices")) return data_of(answer) + std::string(kDone);
  if (path.starts_with("/v1/responses") && has_list(answer, "output")) return response_events(answer);
  return std::nullopt;
}

std::optional<std::string> anthropic_events_of_whole(std::string_view path, std::string_view text) {
  json answer = json::parse(text, nullptr, false);
  if (!answer.is_object()) return std::nullopt;
  if (path == "/v1/messages" && has_list(answer, "content")) return message_events(std::move(answer));
  return std::nullopt;
}

}  // namespace lanemq::gateway
