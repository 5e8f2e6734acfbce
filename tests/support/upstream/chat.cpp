// SPDX-License-Identifier: Apache-2.0
// POST /v1/chat/completions.
#include <array>

#include "tests/support/upstream/api.hpp"
#include "tests/support/upstream/calls.hpp"
#include "tests/support/upstream/openai.hpp"
#include "tests/support/upstream/schema_sample.hpp"

namespace lanemq::upstream {
namespace {

constexpr auto kChatParameters = std::to_array<std::string_view>({"audio",
                                                                  "frequency_penalty",
                                                                  "function_call",
                                                                  "functions",
                                                                  "logit_bias",
                                                                  "logprobs",
                                                                  "max_completion_tokens",
                                                                  "max_tokens",
                                                                  "messages",
                                                                  "metadata",
                                                                  "modalities",
                                                                  "model",
                                                                  "moderation",
                                                                  "n",
                                                                  "parallel_tool_calls",
                                                                  "prediction",
                                                                  "presence_penalty",
                                                                  "prompt_cache_key",
                                                                  "prompt_cache_options",
                                                                  "prompt_cache_retention",
                                                                  "reasoning_effort",
                                                                  "response_format",
                                                                  "safety_identifier",
                                                                  "seed",
                                                                  "service_tier",
                                                                  "stop",
                                                                  "store",
                                                                  "stream",
                                                                  "stream_options",
                                                                  "temperature",
                                                                  "tool_choice",
                                                                  "tools",
                                                                  "top_logprobs",
                                                                  "top_p",
                                                                  "user",
                                                                  "verbosity",
                                                                  "web_search_options"});

constexpr const char* kFingerprint = "fp_lanemq_upstream";

// A tool is called unless its result is there already, or calling is forbidden.
void choose_tool(const Json& json, ModelRequest& request) {
  const Json& tools = member(json, "tools");
  if (tools.is_null()) return;
  if (!tools.is_array() || tools.empty()) refuse_value("tools", "expected an array with at least one tool.");
  const Json& choice = member(json, "tool_choice");
  if (choice == "none" || answers_a_tool(json.at("messages"))) return;
  std::vector<OfferedTool> functions;
  for (const Json& tool : tools) {
    const Json& function = tool.is_object() ? member(tool, "function") : tool;
    if (!function.is_object() || !member(function, "name").is_string())
      refuse_value("tools", "expected functions with names.");
    functions.push_back(
        {.name = function.at("name").get<std::string>(), .schema = &member(function, "parameters")});
  }
  const Json forced = choice.is_object() ? member(member(choice, "function"), "name") : Json();
  choose_call(functions, forced, request);
  if (request.tool.empty() && !forced.is_null())
    refuse_value("tool_choice", "there is no such function among the tools.");
}

void choose_format(const Json& json, ModelRequest& request) {
  const Json& format = member(json, "response_format");
  if (format.is_null() || !request.tool.empty()) return;
  if (!format.is_object()) refuse_value("response_format", "expected an object.");
  const Json& type = member(format, "type");
  if (type == "json_object") {
    request.fitting = R"({"answer":"text"})";
  } else if (type == "json_schema") {
    const Json& schema = member(member(format, "json_schema"), "schema");
    if (!schema.is_object()) refuse_value("response_format.json_schema.schema", "expected an object.");
    request.fitting = sample_of(schema).dump();
  } else if (type != "text") {
    refuse_value("response_format.type", "expected text, json_object or json_schema.");
  }
}

OrderedJson tool_call(const Completion& completion, const Part& part) {
  return {{"id", "call_" + completion.id},
          {"type", "function"},
          {"function", {{"name", completion.request.tool}, {"arguments", part.content}}}};
}

const char* chat_finish(const Completion& completion) {
  if (completion.answer.cut) return "length";
  return completion.request.tool.empty() ? "stop" : "tool_calls";
}

class ChatEvents final : public EventWriter {
 public:
  explicit ChatEvents(const Completion& completion)
      : completion_(completion),
        head_(R"({"id":"chatcmpl-)" + completion.id + R"(","object":"chat.completion.chunk","created":)" +
              std::to_string(completion.created_s) + R"(,"model":)" + json_string(completion.request.model) +
              R"(,"service_tier":"default","system_fingerprint":")" + kFingerprint + R"(","choices":[)"),
        tail_(completion.request.include_usage ? "],\"usage\":null}" : "]}") {}

  std::string opening() override {
    const bool words = completion_.request.tool.empty();
    return chunk(
        std::string(R"({"role":"assistant","content":)") + (words ? "\"\"" : "null") + R"(,"refusal":null})",
        "null");
  }

  std::string delta(const Delta& delta) override {
    if (completion_.request.tool.empty())
      return chunk(R"({"content":)" + json_string(delta.text) + "}", "null");
    std::string call = R"({"tool_calls":[{"index":0,)";
    if (delta.first) {
      call += R"("id":"call_)" + completion_.id + R"(","type":"function","function":{"name":)" +
              json_string(completion_.request.tool) + ",";
    } else {
      call += R"("function":{)";
    }
    return chunk(call + R"("arguments":)" + json_string(delta.text) + "}}]}", "null");
  }

  std::string closing() override {
    std::string end = chunk("{}", "\"" + std::string(chat_finish(completion_)) + "\"");
    if (completion_.request.include_usage)
      end += data_event(head_ + R"(],"usage":)" + chat_usage(completion_).dump() + "}");
    return end + std::string(kDone);
  }

  std::string error(const ApiError& error) override { return openai_error_event(error); }

 private:
  std::string chunk(const std::string& delta, const std::string& finish) const {
    static constexpr std::string_view kDelta = R"({"index":0,"delta":)",
                                      kFinish = R"(,"logprobs":null,"finish_reason":)";
    std::string event;
    event.reserve(head_.size() + kDelta.size() + delta.size() + kFinish.size() + finish.size() +
                  tail_.size() + 16);
    event.append("data: ").append(head_).append(kDelta).append(delta);
    return event.append(kFinish).append(finish).append("}").append(tail_).append("\n\n");
  }

  const Completion& completion_;
  std::string head_;
  std::string tail_;
};

class Chat final : public Api {
 public:
  std::string_view path() const override { return "/v1/chat/completions"; }
  Dialect dialect() const override { return Dialect::openai; }
  std::span<const std::string_view> parameters() const override { return kChatParameters; }

  ModelRequest parse(const Json& json) const override {
    ModelRequest request;
    read_openai_basics(json, request);
    read_openai_stream(json, request);
    refuse_several(json);
    PromptText prompt;
    prompt.add_messages(json);
    prompt.store_in(request);
    read_openai_max_tokens(json, {"max_completion_tokens", "max_tokens"}, request);
    choose_tool(json, request);
    choose_format(json, request);
    return request;
  }

  std::string body(const Completion& completion) const override {
    const Part& part = completion.answer.parts.back();
    OrderedJson message = {{"role", "assistant"}, {"content", nullptr}, {"refusal", nullptr}};
    if (part.kind == PartKind::tool)
      message["tool_calls"] = OrderedJson::array({tool_call(completion, part)});
    else
      message["content"] = part.content;
    return written(
        {{"id", "chatcmpl-" + completion.id},
         {"object", "chat.completion"},
         {"created", completion.created_s},
         {"model", completion.request.model},
         {"choices", OrderedJson::array({OrderedJson{{"index", 0},
                                                     {"message", message},
                                                     {"logprobs", nullptr},
                                                     {"finish_reason", chat_finish(completion)}}})},
         {"usage", chat_usage(completion)},
         {"service_tier", "default"},
         {"system_fingerprint", kFingerprint}});
  }

  std::unique_ptr<EventWriter> events(const Completion& completion) const override {
    return std::make_unique<ChatEvents>(completion);
  }
};

}  // namespace

const Api& chat_api() {
  static const Chat api;
  return api;
}

}  // namespace lanemq::upstream
