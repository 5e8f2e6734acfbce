// SPDX-License-Identifier: Apache-2.0
// POST /v1/messages and /v1/messages/count_tokens.
#include <array>

#include "tests/support/upstream/api.hpp"
#include "tests/support/upstream/calls.hpp"
#include "tests/support/upstream/errors.hpp"
#include "tests/support/upstream/schema_sample.hpp"

namespace lanemq::upstream {
namespace {

constexpr auto kMessagesParameters = std::to_array<std::string_view>({"billing_policy",
                                                                      "cache_control",
                                                                      "compaction",
                                                                      "container",
                                                                      "context_management",
                                                                      "diagnostics",
                                                                      "fallback_credit_token",
                                                                      "fallbacks",
                                                                      "inference_geo",
                                                                      "max_tokens",
                                                                      "mcp_servers",
                                                                      "messages",
                                                                      "metadata",
                                                                      "model",
                                                                      "output_config",
                                                                      "output_format",
                                                                      "service_tier",
                                                                      "speed",
                                                                      "stop_sequences",
                                                                      "stream",
                                                                      "system",
                                                                      "temperature",
                                                                      "thinking",
                                                                      "thread",
                                                                      "tool_choice",
                                                                      "tools",
                                                                      "top_k",
                                                                      "top_p"});
constexpr auto kCountTokensParameters = std::to_array<std::string_view>(
    {"cache_control", "context_management", "mcp_servers", "messages", "model", "output_config",
     "output_format", "speed", "system", "thinking", "tool_choice", "tools"});

/// The least tokens that thinking may be given.
constexpr std::uint64_t kThinkingBudgetMin = 1024;
constexpr std::string_view kSignature = "c2lnbmVkIGJ5IGxhbmVtcS11cHN0cmVhbQ==";

// The first tool of the caller's, or the one it names; tools of the service itself have no input_schema.
void choose_own_tool(const Json& json, ModelRequest& request) {
  const Json& tools = member(json, "tools");
  if (tools.is_null()) return;
  if (!tools.is_array()) refuse_value("tools", "expected an array.");
  const Json& choice = member(json, "tool_choice");
  if (!choice.is_null() && !choice.is_object()) refuse_value("tool_choice", "expected an object.");
  if (member(choice, "type") == "none" || answers_a_tool(json.at("messages"))) return;
  std::vector<OfferedTool> own;
  for (const Json& tool : tools) {
    if (!tool.is_object() || !member(tool, "name").is_string())
      refuse_value("tools", "expected tools with names.");
    if (member(tool, "input_schema").is_object())
      own.push_back({.name = tool.at("name").get<std::string>(), .schema = &tool.at("input_schema")});
  }
  choose_call(own, member(choice, "name"), request);
}

void choose_output(const Json& json, ModelRequest& request) {
  const Json& config = member(json, "output_config");
  if (!config.is_null() && !config.is_object()) refuse_value("output_config", "expected an object.");
  const Json& format =
      config.is_object() && config.contains("format") ? config.at("format") : member(json, "output_format");
  if (!format.is_object() || !request.tool.empty()) return;
  if (member(format, "type") != "json_schema" || !member(format, "schema").is_object())
    refuse_value("output_config.format", "expected a json_schema with its schema.");
  request.fitting = sample_of(format.at("schema")).dump();
}

void choose_thinking(const Json& json, ModelRequest& request) {
  const Json& thinking = member(json, "thinking");
  if (thinking.is_null()) return;
  if (!thinking.is_object()) refuse_value("thinking", "expected an object.");
  const Json& type = member(thinking, "type");
  request.thinking = type == "enabled" || type == "adaptive";
  if (type != "enabled") return;
  const std::uint64_t budget = tokens_or_none(thinking, {"budget_tokens"});
  if (budget < kThinkingBudgetMin) refuse_value("thinking.budget_tokens", "expected at least 1024.");
  if (budget >= request.max_tokens) refuse_value("max_tokens", "expected more than thinking.budget_tokens.");
}

void read_prompt(const Json& json, ModelRequest& request) {
  request.model = string_or(json, "model", "");
  if (request.model.empty()) refuse_missing("model");
  PromptText prompt;
  prompt.add_content(member(json, "system"), "system");
  prompt.add_messages(json);
  prompt.store_in(request);
}

// Conversations that the server holds; the SDK goes on without when it is told so in these words.
void refuse_thread(const Json& json) {
  if (!member(json, "thread").is_null())
    throw Refusal{{.message = "thread: this upstream holds no conversations; leave it out.",
                   .param = "thread",
                   .code = std::string(kThreadUnsupported)}};
}

const char* stop_reason(const Completion& completion) {
  if (completion.answer.cut) return "max_tokens";
  return completion.request.tool.empty() ? "end_turn" : "tool_use";
}

OrderedJson message_usage(const Completion& completion, std::uint64_t output_tokens) {
  return {{"input_tokens", completion.request.prompt_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", 0},
          {"output_tokens", output_tokens},
          {"service_tier", "standard"}};
}

OrderedJson message_head(const Completion& completion) {
  return {{"id", "msg_" + completion.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", completion.request.model},
          {"content", OrderedJson::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

OrderedJson block(const Completion& completion, const Part& part) {
  switch (part.kind) {
    case PartKind::thinking:
      return {{"type", "thinking"}, {"thinking", part.content}, {"signature", kSignature}};
    case PartKind::text:
      return {{"type", "text"}, {"text", part.content}};
    case PartKind::tool:
      break;
  }
  const auto input = OrderedJson::parse(part.content, nullptr, false);
  return {{"type", "tool_use"},
          {"id", "toolu_" + completion.id},
          {"name", completion.request.tool},
          {"input", input.is_object() ? input : OrderedJson::object()}};
}

std::string named_event(std::string_view name, std::string_view data) {
  return "event: " + std::string(name) + "\ndata: " + std::string(data) + "\n\n";
}

class MessageEvents final : public EventWriter {
 public:
  explicit MessageEvents(const Completion& completion) : completion_(completion) {}

  std::string opening() override {
    OrderedJson message = message_head(completion_);
    message["usage"] = message_usage(completion_, 1);
    return named_event("message_start", OrderedJson{{"type", "message_start"}, {"message", message}}.dump());
  }

  std::string delta(const Delta& delta) override {
    const PartKind kind = completion_.answer.parts[delta.part].kind;
    const std::string index = std::to_string(delta.part);
    std::string events;
    if (delta.first) events = begin_block(kind, index);
    if (delta.first && delta.part == 0) events += named_event("ping", R"({"type": "ping"})");
    events += block_delta(index, fields_of(kind), delta.text);
    if (!delta.last) return events;
    if (kind == PartKind::thinking)
      events += block_delta(index, R"("type":"signature_delta","signature":)", kSignature);
    return events +
           named_event("content_block_stop", R"({"type":"content_block_stop","index":)" + index + "}");
  }

  std::string closing() override {
    const OrderedJson end = {
        {"type", "message_delta"},
        {"delta", {{"stop_reason", stop_reason(completion_)}, {"stop_sequence", nullptr}}},
        {"usage",
         {{"input_tokens", completion_.request.prompt_tokens},
          {"output_tokens", completion_.answer.tokens}}}};
    return named_event("message_delta", end.dump()) +
           named_event("message_stop", R"({"type":"message_stop"})");
  }

  std::string error(const ApiError& error) override {
    return named_event("error", anthropic_error(529, error, "").dump());
  }

 private:
  std::string begin_block(PartKind kind, const std::string& index) const {
    OrderedJson begun = block(completion_, {.kind = kind, .content = ""});
    if (kind == PartKind::thinking) begun["signature"] = "";
    return named_event("content_block_start", R"({"type":"content_block_start","index":)" + index +
                                                  R"(,"content_block":)" + begun.dump() + "}");
  }

  static std::string_view fields_of(PartKind kind) {
    switch (kind) {
      case PartKind::thinking:
        return R"("type":"thinking_delta","thinking":)";
      case PartKind::tool:
        return R"("type":"input_json_delta","partial_json":)";
      case PartKind::text:
        break;
    }
    return R"("type":"text_delta","text":)";
  }

  static std::string block_delta(const std::string& index, std::string_view fields, std::string_view text) {
    return named_event("content_block_delta", R"({"type":"content_block_delta","index":)" + index +
                                                  R"(,"delta":{)" + std::string(fields) + json_string(text) +
                                                  "}}");
  }

  const Completion& completion_;
};

class Messages final : public Api {
 public:
  std::string_view path() const override { return "/v1/messages"; }
  Dialect dialect() const override { return Dialect::anthropic; }
  std::span<const std::string_view> parameters() const override { return kMessagesParameters; }

  ModelRequest parse(const Json& json) const override {
    ModelRequest request;
    refuse_thread(json);
    read_prompt(json, request);
    request.max_tokens = tokens_or_none(json, {"max_tokens"});
    if (request.max_tokens == 0) refuse_missing("max_tokens");
    request.max_tokens_asked = true;
    request.stream = bool_or(json, "stream", false);
    request.service_tier = string_or(json, "service_tier", "");
    choose_thinking(json, request);
    choose_own_tool(json, request);
    choose_output(json, request);
    return request;
  }

  std::string body(const Completion& completion) const override {
    OrderedJson message = message_head(completion);
    for (const Part& part : completion.answer.parts)
      message["content"].push_back(block(completion, part));
    message["stop_reason"] = stop_reason(completion);
    message["usage"] = message_usage(completion, completion.answer.tokens);
    return written(message);
  }

  std::unique_ptr<EventWriter> events(const Completion& completion) const override {
    return std::make_unique<MessageEvents>(completion);
  }
};

class CountTokens final : public Api {
 public:
  std::string_view path() const override { return "/v1/messages/count_tokens"; }
  Dialect dialect() const override { return Dialect::anthropic; }
  std::span<const std::string_view> parameters() const override { return kCountTokensParameters; }

  ModelRequest parse(const Json& json) const override {
    ModelRequest request;
    read_prompt(json, request);
    request.max_tokens = 0;
    return request;
  }

  std::string body(const Completion& completion) const override {
    return written({{"input_tokens", completion.request.prompt_tokens}});
  }
};

}  // namespace

const Api& messages_api() {
  static const Messages api;
  return api;
}

const Api& count_tokens_api() {
  static const CountTokens api;
  return api;
}

}  // namespace lanemq::upstream
