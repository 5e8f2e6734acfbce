// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <ctime>

#include "client/gateway/apis/api.hpp"
#include "client/gateway/apis/api_error.hpp"
#include "client/gateway/apis/body_fields.hpp"
#include "client/gateway/apis/stored_references.hpp"
#include "client/gateway/apis/whole_answer.hpp"
#include "common/json/members.hpp"
#include "common/json/named.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::string_view kMessages = "/v1/messages", kCountTokens = "/v1/messages/count_tokens",
                           kVersionHeader = "anthropic-version";

constexpr ApiRoute kAnthropicRoutes[] = {{"POST", "/v1/messages", Takes::body_with_model, true, true},
                                         {"POST", "/v1/messages/count_tokens", Takes::body_with_model}};

constexpr ApiOp kAnthropicOps[] = {{"/v1/messages", "chat"}, {"/v1/messages/batches", "batches"}};

constexpr std::string_view kAnthropicHeaders[] = {kVersionHeader, "anthropic-beta"};

bool is_anthropic(const HttpRequest& request) {
  return request.prefix == kAnthropic.prefix || request.headers.find(kVersionHeader) ||
         request.path.starts_with(kMessages) ||
         (request.headers.find("x-api-key") && !request.headers.find("authorization"));
}

tl::expected<BodyFields, ApiError> read_anthropic_call(const HttpRequest& request, Takes takes) {
  if (takes == Takes::no_body) return fields_of_query(request);
  const std::string_view body = request.body.bytes();
  // A number comes in one piece, even if the body asks for a stream.
  if (request.path == kCountTokens) return read_body_fields(body).map(in_one_piece);
  return read_body_fields(body);
}

/// The container in which a message's code runs, or a thread.
bool anthropic_keeps_parts(std::string_view path, std::string_view body) {
  // Tools that run at Anthropic have a date in their type.
  return path == kMessages && (says(body, "code_execution") || says(body, "_202") ||
                               says(body, "\"container\"") || says(body, "\"thread\""));
}

/// A time: RFC 3339.
std::string time_stamp(std::chrono::milliseconds from_now) {
  const auto when = std::chrono::system_clock::now() + from_now + std::chrono::milliseconds(999);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

void add_anthropic_limit(const LimitLevel& level, Headers& headers) {
  headers.set("anthropic-ratelimit-" + level.what + "-limit", std::to_string(level.limit));
  headers.set("anthropic-ratelimit-" + level.what + "-remaining", level.remaining);
  headers.set("anthropic-ratelimit-" + level.what + "-reset", time_stamp(level.until_full));
}

std::string anthropic_model(std::string_view name) {
  const std::string text = json_text(name);
  return "{\"id\":" + text + ",\"type\":\"model\",\"display_name\":" + text +
         ",\"created_at\":\"1970-01-01T00:00:00Z\"}";
}

std::string anthropic_models(const std::vector<std::string>& names) {
  return "{\"data\":" + json_list(names, anthropic_model) +
         ",\"has_more\":false,\"first_id\":" + (names.empty() ? "null" : json_text(names.front())) +
         ",\"last_id\":" + (names.empty() ? "null" : json_text(names.back())) + "}";
}

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"
constinit const Api kAnthropic{
    .number = 1,
    .name = "anthropic",
    .maker = "Anthropic",
    .service = "anthropic",
    .service_option = "anthropic_service",
    .service_sentence = "The broker's service for requests of Anthropic's API.",
    .prefix = "/anthropic",
    .version_header = kVersionHeader,
    .claims = is_anthropic,
    .routes = kAnthropicRoutes,
    .ops = kAnthropicOps,
    .models_path = "/v1/models",
    .base_path = {},
    .forwarded_headers = kAnthropicHeaders,
    .read_call = read_anthropic_call,
    .add_references = [](std::string_view, std::string_view, std::vector<StoredReference>&) {},
    .keeps_parts = anthropic_keeps_parts,
    .status = anthropic_status,
    .error_body = anthropic_error_body,
    .error_event = "event: error\ndata: ",
    .request_id_header = "request-id",
    .keep_alive = "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    .add_limit = add_anthropic_limit,
    .model_document = anthropic_model,
    .model_list = anthropic_models,
    .models_member = "data",
    .model_id_member = "id",
    .events_of_whole = anthropic_events_of_whole};
#pragma GCC diagnostic pop

}  // namespace lanemq::gateway
