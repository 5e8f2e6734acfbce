// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>

#include "client/gateway/apis/api.hpp"
#include "client/gateway/apis/api_error.hpp"
#include "client/gateway/apis/body_fields.hpp"
#include "client/gateway/apis/stored_references.hpp"
#include "client/gateway/apis/whole_answer.hpp"
#include "common/json/members.hpp"
#include "common/json/named.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::string_view kChats = "/v1/chat/completions", kEmbeddings = "/v1/embeddings",
                           kResponses = "/v1/responses";

constexpr ApiRoute kOpenaiRoutes[] = {{"POST", "/v1/chat/completions", Takes::body_with_model, true},
                                      {"POST", "/v1/completions", Takes::body_with_model, true},
                                      {"POST", "/v1/embeddings", Takes::body_with_model, true},
                                      {"POST", "/v1/responses", Takes::body_with_optional_model, true, true},
                                      {"GET", "/v1/responses/{id}"},
                                      {"GET", "/v1/responses/{id}/input_items"},
                                      {"DELETE", "/v1/responses/{id}"},
                                      {"POST", "/v1/responses/{id}/cancel"}};

constexpr ApiOp kOpenaiOps[] = {{"/v1/chat/completions", "chat"}, {"/v1/completions", "chat"},
                                {"/v1/responses", "responses"},   {"/v1/embeddings", "embeddings"},
                                {"/v1/files", "files"},           {"/v1/batches", "batches"}};

constexpr std::string_view kOpenaiHeaders[] = {"openai-beta"};

tl::expected<BodyFields, ApiError> read_openai_call(const HttpRequest& request, Takes takes) {
  if (takes == Takes::no_body) return fields_of_query(request);
  const std::string_view body = request.body.bytes();
  // Numbers come in one piece, even if the body asks for a stream.
  if (request.path == kEmbeddings) return read_body_fields(body).map(in_one_piece);
  return read_body_fields(body, request.path == kResponses ? Look::stored : Look::fields);
}

void add_openai_references(std::string_view path, std::string_view body,
                           std::vector<StoredReference>& found) {
  if (path == kChats) add_references_of_messages(body, found);
}

/// A chat's audio.
bool openai_keeps_parts(std::string_view path, std::string_view body) {
  return path == kChats && says(body, "audio\"");
}

int openai_status(const ApiError& error) {
  return api_error_row(error.name).openai_status;
}

/// A duration: "1s", "6m0s", "20ms".
std::string short_duration(std::chrono::milliseconds time) {
  if (time < std::chrono::milliseconds(1'000)) return std::to_string(time.count()) + "ms";
  const std::int64_t seconds = (time.count() + 999) / 1000;
  return (seconds >= 60 ? std::to_string(seconds / 60) + "m" : std::string()) + std::to_string(seconds % 60) +
         "s";
}

void add_openai_limit(const LimitLevel& level, Headers& headers) {
  headers.set("x-ratelimit-limit-" + level.what, std::to_string(level.limit));
  headers.set("x-ratelimit-remaining-" + level.what, level.remaining);
  headers.set("x-ratelimit-reset-" + level.what, short_duration(level.until_full));
}

std::string openai_model(std::string_view name) {
  return "{\"id\":" + json_text(name) + ",\"object\":\"model\",\"created\":0,\"owned_by\":\"lanemq\"}";
}

std::string openai_models(const std::vector<std::string>& names) {
  return "{\"object\":\"list\",\"data\":" + json_list(names, openai_model) + "}";
}

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"
constinit const Api kOpenai{
    .number = 0,
    .name = "openai",
    .maker = "OpenAI",
    .service = "openai",
    .service_option = "openai_service",
    .service_sentence = "The broker's service for requests of OpenAI's API.",
    .prefix = {},
    .version_header = {},
    .claims = [](const HttpRequest&) { return true; },
    .routes = kOpenaiRoutes,
    .ops = kOpenaiOps,
    .models_path = "/v1/models",
    .base_path = "/v1",
    .forwarded_headers = kOpenaiHeaders,
    .read_call = read_openai_call,
    .add_references = add_openai_references,
    .keeps_parts = openai_keeps_parts,
    .status = openai_status,
    .error_body = openai_error_body,
    .error_event = "data: ",
    .request_id_header = {},
    // A comment with a single line end: after a blank line some SDKs would dispatch an empty event.
    .keep_alive = ": ka\n",
    .add_limit = add_openai_limit,
    .model_document = openai_model,
    .model_list = openai_models,
    .models_member = "data",
    .model_id_member = "id",
    .events_of_whole = openai_events_of_whole};
#pragma GCC diagnostic pop

}  // namespace lanemq::gateway
