// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/answers.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace lanemq::upstream {
namespace {

// Replies keep the order in which the real service writes its fields.
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kModelDefault = "gpt-4o-mini";
constexpr std::array kModels = {"gpt-4o-mini", "gpt-4o", "gpt-4.1-mini", "o4-mini"};

constexpr std::array<std::string_view, 24> kSentences = {
    "Let us go through this step by step. ",
    "First we note what is given and what is asked. ",
    "The total is the sum of the parts, so we add them up. ",
    "That leaves half of the original amount. ",
    "Multiplying both sides gives the same ratio. ",
    "We can check this against the numbers in the question. ",
    "In other words, the second group is three times as large as the first. ",
    "This means that each of them receives an equal share. ",
    "After the first day there are 42 left. ",
    "Subtracting what was already used, we get 18. ",
    "The remaining part costs $7.50 per unit. ",
    "At that rate it takes two and a half hours. ",
    "Note that the order of these steps does not matter. ",
    "If we had started from the other end, the result would be the same. ",
    "There are, however, two cases to consider. ",
    "In the first case the answer follows directly. ",
    "In the second case we need one more step. ",
    "Putting both together, we arrive at the final figure. ",
    "It helps to write the quantities in a small table. ",
    "The percentage is taken of the new price, not of the old one. ",
    "So the difference between them is 12. ",
    "Rounding is not needed here. ",
    "Therefore the answer is 24. ",
    "I hope this makes the reasoning clear. ",
};

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

OrderedJson or_null(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

ApiError invalid(const std::string& param, const std::string& problem) {
  return {.message = "Invalid '" + param + "': " + problem, .param = param, .code = "invalid_value"};
}

// The bytes of text in a message's content: a string, a list of parts some of which are text, or null.
std::optional<std::size_t> text_bytes(const Json& content) {
  if (content.is_null()) return 0;
  if (content.is_string()) return content.get_ref<const std::string&>().size();
  if (!content.is_array()) return std::nullopt;
  std::size_t bytes = 0;
  for (const Json& part : content) {
    if (!part.is_object()) return std::nullopt;
    const auto text = part.find("text");
    if (text != part.end() && text->is_string()) bytes += text->get_ref<const std::string&>().size();
  }
  return bytes;
}

tl::expected<std::uint64_t, ApiError> parse_prompt_tokens(const Json& request) {
  const auto messages = request.find("messages");
  if (messages == request.end()) {
    return tl::unexpected(ApiError{.message = "Missing required parameter: 'messages'.",
                                   .param = "messages",
                                   .code = "missing_required_parameter"});
  }
  if (!messages->is_array() || messages->empty()) {
    return tl::unexpected(invalid("messages", "expected an array with at least one message."));
  }
  std::size_t bytes = 0;
  for (std::size_t index = 0; index < messages->size(); ++index) {
    const Json& message = (*messages)[index];
    const std::string name = "messages[" + std::to_string(index) + "]";
    if (!message.is_object()) return tl::unexpected(invalid(name, "expected an object."));
    const auto content = message.find("content");
    const auto text = content == message.end() ? std::optional<std::size_t>(0) : text_bytes(*content);
    if (!text)
      return tl::unexpected(invalid(name + ".content", "expected a string or an array of content parts."));
    bytes += *text;
  }
  return std::max<std::uint64_t>(1, (bytes + kBytesPerToken - 1) / kBytesPerToken);
}

tl::expected<std::uint64_t, ApiError> parse_max_tokens(const Json& request) {
  for (const char* name : {"max_completion_tokens", "max_tokens"}) {
    const auto field = request.find(name);
    if (field == request.end() || field->is_null()) continue;
    const bool fits = field->is_number_unsigned() && field->get<std::uint64_t>() >= 1 &&
                      field->get<std::uint64_t>() <= kMaxTokensMax;
    if (fits) return field->get<std::uint64_t>();
    return tl::unexpected(
        invalid(name, "expected an integer from 1 to " + std::to_string(kMaxTokensMax) + "."));
  }
  return kMaxTokensDefault;
}

tl::expected<ChatRequest, ApiError> read_fields(const Json& json) {
  if (!json.is_object()) return tl::unexpected(ApiError{.message = "The body must be a JSON object."});
  const Json model = json.value("model", Json());
  if (!model.is_null() && !model.is_string()) return tl::unexpected(invalid("model", "expected a string."));
  if (json.value("stream", Json()) == Json(true)) {
    return tl::unexpected(ApiError{.message = "This upstream does not stream; leave 'stream' out.",
                                   .param = "stream",
                                   .code = "unsupported_value"});
  }
  const auto prompt_tokens = parse_prompt_tokens(json);
  if (!prompt_tokens) return tl::unexpected(prompt_tokens.error());
  const auto max_tokens = parse_max_tokens(json);
  if (!max_tokens) return tl::unexpected(max_tokens.error());
  return ChatRequest{.model = model.is_string() ? model.get<std::string>() : kModelDefault,
                     .prompt_tokens = *prompt_tokens,
                     .max_tokens = *max_tokens};
}

OrderedJson limit_or_null(std::uint64_t limit) {
  return limit == 0 ? OrderedJson() : OrderedJson(limit);
}

}  // namespace

tl::expected<ChatRequest, ApiError> parse_chat(std::string_view body) {
  try {
    return read_fields(Json::parse(body, refuse_too_deep));
  } catch (const Json::parse_error& error) {
    return tl::unexpected(ApiError{.message = "We could not parse the JSON body of your request (byte " +
                                              std::to_string(error.byte) + "). It must be one JSON object."});
  } catch (const TooDeep& error) {
    return tl::unexpected(ApiError{.message = error.what()});
  }
}

std::string error_body(const ApiError& error) {
  const OrderedJson body = {{"error",
                             {{"message", error.message},
                              {"type", error.type},
                              {"param", or_null(error.param)},
                              {"code", or_null(error.code)}}}};
  return body.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

Answer draw_answer(Draws& draws, std::uint64_t tokens_max) {
  const std::uint64_t allowed = std::min(tokens_max, kAnswerTokensMax);
  const std::uint64_t tokens = draws.answer_tokens(allowed);
  const std::size_t bytes = tokens * kBytesPerToken;
  std::string text;
  text.reserve(bytes + 128);
  while (text.size() < bytes)
    text += kSentences[draws.below(kSentences.size())];
  text.resize(bytes);
  return {.text = std::move(text), .tokens = tokens, .cut = tokens == tokens_max};
}

std::string completion_body(std::string_view id, std::int64_t created_s, const ChatRequest& request,
                            const Answer& answer) {
  const OrderedJson body = {
      {"id", id},
      {"object", "chat.completion"},
      {"created", created_s},
      {"model", request.model},
      {"choices", OrderedJson::array({OrderedJson{
                      {"index", 0},
                      {"message", {{"role", "assistant"}, {"content", answer.text}, {"refusal", nullptr}}},
                      {"logprobs", nullptr},
                      {"finish_reason", answer.cut ? "length" : "stop"}}})},
      {"usage",
       {{"prompt_tokens", request.prompt_tokens},
        {"completion_tokens", answer.tokens},
        {"total_tokens", request.prompt_tokens + answer.tokens},
        {"prompt_tokens_details", {{"cached_tokens", 0}}},
        {"completion_tokens_details", {{"reasoning_tokens", 0}}}}},
      {"system_fingerprint", "fp_lanemq_upstream"}};
  return body.dump(2);
}

std::string models_body(std::int64_t created_s) {
  OrderedJson models = OrderedJson::array();
  for (const char* id : kModels) {
    models.push_back(
        {{"id", id}, {"object", "model"}, {"created", created_s}, {"owned_by", "lanemq-upstream"}});
  }
  return OrderedJson{{"object", "list"}, {"data", models}}.dump(2);
}

std::string stats_body(const Stats& stats, const Quota& quota, std::uint64_t calls_peak,
                       std::uint64_t tokens_peak, Duration uptime) {
  OrderedJson keys = OrderedJson::object();
  for (const auto& [name, key] : stats.keys)
    keys[name] = {{"accepted", key.accepted},
                  {"rejected_429", key.rejected_429},
                  {"refused_dead", key.refused_dead},
                  {"peak_calls_60s", key.peak_calls_60s},
                  {"peak_tokens_60s", key.peak_tokens_60s}};
  const OrderedJson body = {
      {"uptime_ms", std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count()},
      {"window", quota.window == WindowKind::sliding ? "sliding" : "bucket"},
      {"limit_rpm", limit_or_null(quota.requests_per_minute)},
      {"limit_tpm", limit_or_null(quota.tokens_per_minute)},
      {"calls", stats.calls},
      {"accepted", stats.accepted},
      {"ok", stats.ok},
      {"rejected_429", stats.rejected_429},
      {"bad_requests", stats.bad_requests},
      {"unauthorized", stats.unauthorized},
      {"malformed", stats.malformed},
      {"hung_up", stats.hung_up},
      {"faults",
       {{name_of(Fault::http_5xx), stats.faults_5xx},
        {name_of(Fault::reset), stats.faults_reset},
        {name_of(Fault::stall), stats.faults_stall},
        {name_of(Fault::half), stats.faults_half}}},
      {"peak_calls_60s", calls_peak},
      {"peak_tokens_60s", tokens_peak},
      {"duplicate_jobs", stats.duplicate_jobs},
      {"tokens",
       {{"prompt", stats.prompt_tokens},
        {"completion", stats.completion_tokens},
        {"charged", stats.charged_tokens}}},
      {"in_flight", stats.in_flight},
      {"in_flight_peak", stats.in_flight_peak},
      {"connections", stats.connections},
      {"connections_peak", stats.connections_peak},
      {"connections_refused", stats.connections_refused},
      {"keys", keys}};
  return body.dump(2);
}

std::string format_duration(Duration duration) {
  const auto total = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  if (total == 0) return "0s";
  if (total < 1000) return std::to_string(total) + "ms";
  std::string text;
  if (total >= 3'600'000) text += std::to_string(total / 3'600'000) + "h";
  if (total >= 60'000) text += std::to_string(total / 60'000 % 60) + "m";
  text += std::to_string(total / 1000 % 60);
  if (const auto fraction = total % 1000; fraction != 0) {
    const std::string digits = std::to_string(1000 + fraction).substr(1);
    text += "." + digits.substr(0, digits.find_last_not_of('0') + 1);
  }
  return text + "s";
}

std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace lanemq::upstream
