// SPDX-License-Identifier: Apache-2.0
// POST /v1/completions.
#include <array>

#include "tests/support/upstream/api.hpp"
#include "tests/support/upstream/openai.hpp"

namespace lanemq::upstream {
namespace {

constexpr auto kCompletionsParameters =
    std::to_array<std::string_view>({"best_of", "echo", "frequency_penalty", "logit_bias", "logprobs",
                                     "max_tokens", "model", "n", "presence_penalty", "prompt", "seed", "stop",
                                     "stream", "stream_options", "suffix", "temperature", "top_p", "user"});

/// The object that a completion is, and every chunk of its stream.
OrderedJson text_completion(const Completion& completion, std::string_view text, const char* finish) {
  return {{"id", "cmpl-" + completion.id},
          {"object", "text_completion"},
          {"created", completion.created_s},
          {"model", completion.request.model},
          {"choices", OrderedJson::array(
                          {OrderedJson{{"text", text},
                                       {"index", 0},
                                       {"logprobs", nullptr},
                                       {"finish_reason", finish ? OrderedJson(finish) : OrderedJson()}}})}};
}

const char* completion_finish(const Completion& completion) {
  return completion.answer.cut ? "length" : "stop";
}

class CompletionEvents final : public EventWriter {
 public:
  explicit CompletionEvents(const Completion& completion) : completion_(completion) {}

  std::string opening() override { return {}; }
  std::string delta(const Delta& delta) override {
    return chunk(text_completion(completion_, delta.text, nullptr));
  }
  std::string error(const ApiError& error) override { return openai_error_event(error); }

  std::string closing() override {
    std::string end = chunk(text_completion(completion_, "", completion_finish(completion_)));
    if (completion_.request.include_usage) {
      OrderedJson usage = text_completion(completion_, "", nullptr);
      usage["choices"] = OrderedJson::array();
      usage["usage"] = chat_usage(completion_);
      end += data_event(usage.dump());
    }
    return end + std::string(kDone);
  }

 private:
  std::string chunk(OrderedJson json) const {
    if (completion_.request.include_usage) json["usage"] = nullptr;
    return data_event(json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  }

  const Completion& completion_;
};

class Completions final : public Api {
 public:
  std::string_view path() const override { return "/v1/completions"; }
  Dialect dialect() const override { return Dialect::openai; }
  std::span<const std::string_view> parameters() const override { return kCompletionsParameters; }

  ModelRequest parse(const Json& json) const override {
    ModelRequest request;
    read_openai_basics(json, request);
    read_openai_stream(json, request);
    refuse_several(json);
    const Json& text = member(json, "prompt");
    if (text.is_null()) refuse_missing("prompt");
    const bool alone = text.is_array() && text.size() == 1 && text[0].is_string();
    if (!text.is_string() && !alone) refuse_value("prompt", "expected a string, or an array of one string.");
    PromptText prompt;
    prompt.add((alone ? text[0] : text).get_ref<const std::string&>());
    prompt.store_in(request);
    read_openai_max_tokens(json, {"max_tokens"}, request);
    return request;
  }

  std::string body(const Completion& completion) const override {
    OrderedJson json =
        text_completion(completion, completion.answer.parts.back().content, completion_finish(completion));
    json["usage"] = chat_usage(completion);
    return written(json);
  }

  std::unique_ptr<EventWriter> events(const Completion& completion) const override {
    return std::make_unique<CompletionEvents>(completion);
  }
};

}  // namespace

const Api& completions_api() {
  static const Completions api;
  return api;
}

}  // namespace lanemq::upstream
