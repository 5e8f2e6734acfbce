// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_lines.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <lanemq/text.hpp>

#include "client/gateway/apis/api_error.hpp"
#include "client/gateway/apis/body_fields.hpp"
#include "common/json/members.hpp"

namespace lanemq::gateway {
namespace {

using Kind = JsonMember::Kind;

tl::unexpected<LineFault> fault(std::string code, std::string message, std::string param = {}) {
  return tl::unexpected(LineFault{std::move(code), std::move(message), std::move(param)});
}

tl::unexpected<LineFault> missing(const std::string& param, const std::string& what) {
  return fault("missing_required_parameter", "`" + param + "` is missing: " + what, param);
}

tl::expected<LineRequest, LineFault> request_of(std::string custom_id, std::string_view body,
                                                const JsonLook& look, const std::string& param) {
  const std::string& model = look.model;
  if (!look.ambiguous.empty()) {
    const std::string place = param + "." + printable(look.ambiguous, 64);
    return fault(
        "invalid_value",
        "`" + place + "` stands there twice, or in another case: readers do not agree on what counts", place);
  }
  if (model.empty()) return missing(param + ".model", "a text that is not empty");
  if (member_bytes(body, "stream") == "true")
    return fault("invalid_value", "a request of a batch cannot be streamed", param + ".stream");
  return LineRequest{.custom_id = std::move(custom_id), .body = body, .model = model};
}

/// The fault of a request that refers to stored things: whether they are the caller's is not known where
/// batches run.
std::optional<LineFault> goes_on(std::string_view body) {
  const tl::expected<BodyFields, ApiError> fields = read_body_fields(body, Look::stored);
  if (!fields) return LineFault{"invalid_value", fields.error().message, "body." + fields.error().param};
  if (fields->background)
    return LineFault{"invalid_value",
                     "a request of a batch is in the background already; leave `background` out",
                     "body.background"};
  if (fields->in_conversation)
    return LineFault{"invalid_value", "a request of a batch is in no stored conversation",
                     "body.conversation"};
  if (fields->stored.empty()) return std::nullopt;
  return LineFault{"invalid_value", "a request of a batch refers to no stored response, item or container",
                   "body." + fields->stored.front().param};
}

/// The same of a chat, which may name the audio of another one.
std::optional<LineFault> names_audio(std::string_view body) {
  std::vector<StoredReference> stored;
  add_references_of_messages(body, stored);
  if (stored.empty()) return std::nullopt;
  return LineFault{"invalid_value", "a request of a batch refers to no audio that is there", "body.messages"};
}

/// The same of a message, which may name the container of another one, or go on from it. Few lines can: the
/// others are not read again.
std::optional<LineFault> names_container(std::string_view params) {
  const auto has = [&](std::string_view text) { return params.find(text) != std::string_view::npos; };
  if (!has("container") && !has("thread") && !has("\\u")) return std::nullopt;
  const tl::expected<BodyFields, ApiError> fields = read_body_fields(params, Look::fields);
  if (!fields) return LineFault{"invalid_value", fields.error().message, "params." + fields.error().param};
  if (fields->stored.empty()) return std::nullopt;
  return LineFault{"invalid_value", "a request of a batch refers to no container or message that is there",
                   "params." + fields->stored.front().param};
}

}  // namespace

tl::expected<LineRequest, LineFault> read_openai_line(std::string_view endpoint, std::string_view line) {
  JsonMember picked[] = {{.key = "custom_id"}, {.key = "method"}, {.key = "url"}, {.key = "body"}};
  auto& [custom_id, method, url, body] = picked;
  const JsonLook look = look_into_json(line, picked, "body");
  if (!look.valid) return fault("invalid_json_line", "this line " + look.problem);
  if (!look.is_object) return fault("invalid_json_line", "this line is no JSON object");
  for (const JsonMember& member : picked)
    if (member.twice) {
      const std::string key(member.key);
      return fault("invalid_json_line", "this line says `" + key + "` twice", key);
    }
  if (custom_id.kind != Kind::text || custom_id.text.empty())
    return missing("custom_id", "a text that is not empty");
  if (custom_id.text.size() > kCustomIdBytesMax)
    return fault("invalid_value",
                 "`custom_id` is longer than " + std::to_string(kCustomIdBytesMax) + " bytes", "custom_id");
  if (method.kind != Kind::text || method.text != "POST")
    return fault("invalid_method", "`method` must be \"POST\"", "method");
  if (url.kind != Kind::text || url.text != endpoint)
    return fault("invalid_url", "`url` must be the batch's endpoint, \"" + std::string(endpoint) + "\"",
                 "url");
  if (body.kind != Kind::object) return missing("body", "an object");
  const std::string_view bytes = member_bytes(line, "body");
  if (endpoint == "/v1/responses")
    if (auto why = goes_on(bytes)) return tl::unexpected(*std::move(why));
  if (endpoint == "/v1/chat/completions")
    if (auto why = names_audio(bytes)) return tl::unexpected(*std::move(why));
  return request_of(std::move(custom_id.text), bytes, look, "body");
}

namespace {

bool is_message_custom_id(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kMessageCustomIdBytesMax &&
         std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

tl::expected<LineRequest, LineFault> read_anthropic_line(std::string_view, std::string_view line) {
  JsonMember picked[] = {{.key = "custom_id"}, {.key = "params"}};
  auto& [custom_id, params] = picked;
  const JsonLook look = look_into_json(line, picked, "params");
  if (!look.valid || !look.is_object) return fault("invalid_json_line", "it must be a JSON object");
  if (custom_id.twice || params.twice) return fault("invalid_json_line", "it says one of its members twice");
  if (custom_id.kind != Kind::text || !is_message_custom_id(custom_id.text))
    return fault("invalid_value", "its custom_id must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -",
                 "custom_id");
  if (params.kind != Kind::object) return missing("params", "an object");
  const std::string_view bytes = member_bytes(line, "params");
  if (auto why = names_container(bytes)) return tl::unexpected(*std::move(why));
  return request_of(std::move(custom_id.text), bytes, look, "params");
}

namespace {

std::string openai_line(const LineName& name, const std::string& response, const std::string& error) {
  return "{\"id\":" + json_text("batch_req_" + line_job_id(name.batch_id, name.line)) +
         ",\"custom_id\":" + json_text(name.custom_id) + ",\"response\":" + response + ",\"error\":" + error +
         "}\n";
}

std::string openai_response(const LineName& name, int status, std::string_view body) {
  return "{\"status_code\":" + std::to_string(status) +
         ",\"request_id\":" + json_text(line_job_id(name.batch_id, name.line)) +
         ",\"body\":" + as_json_value(body) + "}";
}

std::string code_and_message(std::string_view code, std::string_view message) {
  return "{\"code\":" + json_text(code) + ",\"message\":" + json_text(message) + "}";
}

std::string anthropic_line(const LineName& name, const std::string& result) {
  return "{\"custom_id\":" + json_text(name.custom_id) + ",\"result\":{\"type\":" + result + "}}\n";
}

std::string openai_failure(const LineName& name, const ClientError& error) {
  // The upstream's answer about the worker's key does not concern the line.
  if (error.upstream_status && !error.body.empty() && !error.key_is_refused())
    return openai_line(name, openai_response(name, *error.upstream_status, error.body.bytes()), "null");
  const ApiError said = api_error_of(error, {});
  const std::string_view code = api_error_row(said.name).openai_code;
  return openai_line(name, "null", code_and_message(code.empty() ? said.name : code, said.message));
}

std::string anthropic_failure(const LineName& name, const ClientError& error) {
  const HttpAnswer answer = error_answer(kAnthropic, api_error_of(error, {}));
  return anthropic_line(name, "\"errored\",\"error\":" + as_json_value(answer.body.bytes()));
}

}  // namespace

std::string_view without_mark(std::string_view line) {
  // Some editors begin a file with a mark; where files were put together it stands before other lines, too.
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return line;
}

std::string line_job_id(std::string_view batch_id, std::uint32_t line, std::size_t step) {
  std::string id = std::string(batch_id) + "." + std::to_string(line + 1);
  if (step > 0) id += "-" + std::to_string(step);
  return id;
}

std::string openai_answer_line(const LineName& name, const Answer& answer) {
  return answer ? openai_line(name, openai_response(name, 200, answer->body.bytes()), "null")
                : openai_failure(name, answer.error());
}

std::string anthropic_answer_line(const LineName& name, const Answer& answer) {
  return answer ? anthropic_line(name, "\"succeeded\",\"message\":" + as_json_value(answer->body.bytes()))
                : anthropic_failure(name, answer.error());
}

std::string openai_given_up_line(const LineName& name, GivenUp why) {
  return openai_line(
      name, "null",
      why == GivenUp::cancelled
          ? code_and_message("batch_cancelled", "The batch was cancelled before this request was executed.")
          : code_and_message("batch_expired",
                             "This request could not be executed before the completion window expired."));
}

std::string anthropic_given_up_line(const LineName& name, GivenUp why) {
  return anthropic_line(name, why == GivenUp::cancelled ? "\"canceled\"" : "\"expired\"");
}

}  // namespace lanemq::gateway
