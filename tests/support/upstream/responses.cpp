// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses.
#include <array>

#include "tests/support/upstream/api.hpp"
#include "tests/support/upstream/calls.hpp"
#include "tests/support/upstream/openai.hpp"
#include "tests/support/upstream/schema_sample.hpp"

namespace lanemq::upstream {
namespace {

constexpr auto kResponsesParameters = std::to_array<std::string_view>({"background",
                                                                       "client_metadata",
                                                                       "context_management",
                                                                       "conversation",
                                                                       "include",
                                                                       "input",
                                                                       "instructions",
                                                                       "max_output_tokens",
                                                                       "max_tool_calls",
                                                                       "metadata",
                                                                       "model",
                                                                       "moderation",
                                                                       "parallel_tool_calls",
                                                                       "previous_response_id",
                                                                       "prompt",
                                                                       "prompt_cache_key",
                                                                       "prompt_cache_options",
                                                                       "prompt_cache_retention",
                                                                       "reasoning",
                                                                       "safety_identifier",
                                                                       "service_tier",
                                                                       "store",
                                                                       "stream",
                                                                       "stream_options",
                                                                       "temperature",
                                                                       "text",
                                                                       "tool_choice",
                                                                       "tools",
                                                                       "top_logprobs",
                                                                       "top_p",
                                                                       "truncation",
                                                                       "user"});

void read_input(const Json& json, ModelRequest& request) {
  PromptText prompt;
  prompt.add_content(member(json, "instructions"), "instructions");
  const Json& input = member(json, "input");
  if (input.is_null()) refuse_missing("input");
  if (!input.is_string() && !input.is_array())
    refuse_value("input", "expected a string or an array of items.");
  if (input.is_array())
    prompt.add_items(input, "input");
  else
    prompt.add_content(input, "input");
  prompt.store_in(request);
}

void choose_function(const Json& json, ModelRequest& request) {
  const Json& tools = member(json, "tools");
  if (tools.is_null()) return;
  if (!tools.is_array()) refuse_value("tools", "expected an array.");
  const Json& choice = member(json, "tool_choice");
  if (choice == "none" || answers_a_tool(member(json, "input"))) return;
  std::vector<OfferedTool> functions;
  for (const Json& tool : tools) {
    if (!tool.is_object()) refuse_value("tools", "expected objects.");
    if (member(tool, "type") != "function") continue;
    if (!member(tool, "name").is_string()) refuse_value("tools", "expected functions with names.");
    functions.push_back({.name = tool.at("name").get<std::string>(), .schema = &member(tool, "parameters")});
  }
  choose_call(functions, choice.is_object() ? member(choice, "name") : Json(), request);
}

void choose_text_format(const Json& json, ModelRequest& request) {
  const Json& text = member(json, "text");
  if (text.is_null() || !request.tool.empty()) return;
  if (!text.is_object()) refuse_value("text", "expected an object.");
  const Json& format = member(text, "format");
  if (format.is_null()) return;
  if (!format.is_object()) refuse_value("text.format", "expected an object.");
  if (member(format, "type") == "json_object") request.fitting = R"({"answer":"text"})";
  if (member(format, "type") != "json_schema") return;
  if (!member(format, "schema").is_object()) refuse_value("text.format.schema", "expected an object.");
  request.fitting = sample_of(format.at("schema")).dump();
}

OrderedJson content_part(std::string_view text) {
  return {{"type", "output_text"},
          {"annotations", OrderedJson::array()},
          {"logprobs", OrderedJson::array()},
          {"text", text}};
}

std::string item_id(const Completion& completion) {
  return (completion.request.tool.empty() ? "msg_" : "fc_") + completion.id;
}

OrderedJson output_item(const Completion& completion, bool done) {
  const std::string& content = completion.answer.parts.back().content;
  const char* const status = done ? "completed" : "in_progress";
  if (!completion.request.tool.empty())
    return {{"id", item_id(completion)},
            {"type", "function_call"},
            {"status", status},
            {"arguments", done ? content : ""},
            {"call_id", "call_" + completion.id},
            {"name", completion.request.tool}};
  OrderedJson parts = OrderedJson::array();
  if (done) parts.push_back(content_part(content));
  return {{"id", item_id(completion)},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", parts}};
}

OrderedJson response(const Completion& completion, bool done) {
  const bool cut = done && completion.answer.cut;
  OrderedJson output = OrderedJson::array();
  OrderedJson usage;
  if (done) {
    output.push_back(output_item(completion, true));
    usage = {{"input_tokens", completion.request.prompt_tokens},
             {"input_tokens_details", {{"cached_tokens", 0}}},
             {"output_tokens", completion.answer.tokens},
             {"output_tokens_details", {{"reasoning_tokens", 0}}},
             {"total_tokens", completion.request.prompt_tokens + completion.answer.tokens}};
  }
  return {{"id", "resp_" + completion.id},
          {"object", "response"},
          {"created_at", completion.created_s},
          {"status", cut    ? "incomplete"
                     : done ? "completed"
                            : "in_progress"},
          {"background", false},
          {"error", nullptr},
          {"incomplete_details", cut ? OrderedJson{{"reason", "max_output_tokens"}} : OrderedJson()},
          {"instructions", nullptr},
          {"max_output_tokens",
           completion.request.max_tokens_asked ? OrderedJson(completion.request.max_tokens) : OrderedJson()},
          {"model", completion.request.model},
          {"output", output},
          {"parallel_tool_calls", true},
          {"previous_response_id", nullptr},
          {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
          {"service_tier", "default"},
          {"store", true},
          {"temperature", 1.0},
          {"text", {{"format", {{"type", "text"}}}}},
          {"tool_choice", "auto"},
          {"tools", OrderedJson::array()},
          {"top_p", 1.0},
          {"truncation", "disabled"},
          {"usage", usage},
          {"user", nullptr},
          {"metadata", OrderedJson::object()}};
}

class ResponseEvents final : public EventWriter {
 public:
  explicit ResponseEvents(const Completion& completion) : completion_(completion) {}

  std::string opening() override {
    std::string events = event("response.created", {{"response", response(completion_, false)}});
    events += event("response.in_progress", {{"response", response(completion_, false)}});
    events +=
        event("response.output_item.added", {{"output_index", 0}, {"item", output_item(completion_, false)}});
    if (words()) events += event("response.content_part.added", in_item({{"part", content_part("")}}));
    return events;
  }

  std::string delta(const Delta& delta) override {
    if (words())
      return event("response.output_text.delta",
                   in_item({{"delta", delta.text}, {"logprobs", OrderedJson::array()}}));
    return event("response.function_call_arguments.delta",
                 {{"item_id", item_id(completion_)}, {"output_index", 0}, {"delta", delta.text}});
  }

  std::string closing() override {
    const std::string& content = completion_.answer.parts.back().content;
    std::string events;
    if (words()) {
      events = event("response.output_text.done",
                     in_item({{"text", content}, {"logprobs", OrderedJson::array()}}));
      events += event("response.content_part.done", in_item({{"part", content_part(content)}}));
    } else {
      events = event("response.function_call_arguments.done", {{"item_id", item_id(completion_)},
                                                               {"name", completion_.request.tool},
                                                               {"output_index", 0},
                                                               {"arguments", content}});
    }
    events +=
        event("response.output_item.done", {{"output_index", 0}, {"item", output_item(completion_, true)}});
    events += event(completion_.answer.cut ? "response.incomplete" : "response.completed",
                    {{"response", response(completion_, true)}});
    return events;
  }

  std::string error(const ApiError& error) override {
    return event("error", {{"code", error.code}, {"message", error.message}, {"param", nullptr}});
  }

 private:
  bool words() const { return completion_.request.tool.empty(); }

  OrderedJson in_item(const OrderedJson& fields) const {
    OrderedJson all = {{"item_id", item_id(completion_)}, {"output_index", 0}, {"content_index", 0}};
    all.update(fields);
    return all;
  }

  std::string event(const char* type, const OrderedJson& fields) {
    OrderedJson data = {{"type", type}, {"sequence_number", sequence_++}};
    data.update(fields);
    return "event: " + std::string(type) + "\n" +
           data_event(data.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  }

  const Completion& completion_;
  std::uint64_t sequence_ = 0;
};

class Responses final : public Api {
 public:
  std::string_view path() const override { return "/v1/responses"; }
  Dialect dialect() const override { return Dialect::openai; }
  std::span<const std::string_view> parameters() const override { return kResponsesParameters; }

  ModelRequest parse(const Json& json) const override {
    ModelRequest request;
    read_openai_basics(json, request);
    request.stream = bool_or(json, "stream", false);
    read_input(json, request);
    read_openai_max_tokens(json, {"max_output_tokens"}, request);
    choose_function(json, request);
    choose_text_format(json, request);
    return request;
  }

  std::string body(const Completion& completion) const override {
    return written(response(completion, true));
  }

  std::unique_ptr<EventWriter> events(const Completion& completion) const override {
    return std::make_unique<ResponseEvents>(completion);
  }
};

}  // namespace

const Api& responses_api() {
  static const Responses api;
  return api;
}

}  // namespace lanemq::upstream
