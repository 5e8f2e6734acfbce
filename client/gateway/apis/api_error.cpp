// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/api_error.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>

namespace lanemq::gateway {
namespace {

using json = nlohmann::ordered_json;  // keeps the providers' order
using Retry = ErrorRow::Retry;
using Fault = ErrorRow::Fault;

constexpr std::size_t kMessageBytesMax = 2048;
/// Most bytes of an upstream's body that are shown where it is not passed on.
constexpr std::size_t kUpstreamBytesMax = std::size_t{4} * 1024;

constexpr ErrorRow kRows[] = {
    // The broker's codes.
    {"bad_request", 400, "invalid_request_error", "", 400, "invalid_request_error", Retry::no,
     Fault::request},
    {"unauthorized", 401, "invalid_request_error", "invalid_api_key", 401, "authentication_error", Retry::no,
     Fault::request},
    {"forbidden", 403, "permission_error", "", 403, "permission_error", Retry::no, Fault::request},
    {"not_found", 404, "invalid_request_error", "not_found", 404, "not_found_error", Retry::no,
     Fault::request},
    {"gone", 410, "invalid_request_error", "gone", 410, "not_found_error", Retry::no, Fault::request},
    {"conflict", 409, "invalid_request_error", "idempotency_key_conflict", 409, "invalid_request_error",
     Retry::no, Fault::request},
    {"over", 409, "invalid_request_error", "already_over", 409, "invalid_request_error", Retry::no,
     Fault::request},
    {"too_large", 413, "invalid_request_error", "too_large", 413, "request_too_large", Retry::no,
     Fault::request},
    {"unsatisfiable", 422, "invalid_request_error", "unsatisfiable", 422, "invalid_request_error", Retry::no,
     Fault::request},
    {"lane_full", 429, "rate_limit_exceeded", "queue_full", 529, "overloaded_error", Retry::in_higher_lanes,
     Fault::queue},
    {"client_full", 429, "rate_limit_exceeded", "queue_full", 529, "overloaded_error", Retry::in_higher_lanes,
     Fault::queue},
    {"bytes_full", 429, "rate_limit_exceeded", "queue_full", 529, "overloaded_error", Retry::in_higher_lanes,
     Fault::queue},
    {"cancelled", 499, "server_error", "cancelled", 499, "api_error", Retry::no, Fault::queue},
    {"internal", 500, "server_error", "internal", 500, "api_error", Retry::no, Fault::gateway},
    {"upstream_rejected", 502, "server_error", "upstream_error", 502, "api_error", Retry::no,
     Fault::upstream},
    {"upstream_failed", 502, "server_error", "upstream_error", 502, "api_error", Retry::no, Fault::upstream},
    {"upstream_quota", 503, "insufficient_quota", "upstream_quota", 503, "api_error", Retry::no,
     Fault::upstream},
    {"limited", 429, "rate_limit_exceeded", "upstream_limited", 529, "overloaded_error", Retry::yes,
     Fault::upstream},
    {"worker_lost", 502, "server_error", "worker_lost", 502, "api_error", Retry::no, Fault::queue},
    {"stalled", 504, "server_error", "stalled", 504, "timeout_error", Retry::no, Fault::queue},
    {"draining", 503, "server_error", "draining", 529, "overloaded_error", Retry::yes, Fault::queue},
    {"paused", 503, "server_error", "paused", 529, "overloaded_error", Retry::yes, Fault::queue},
    {"store_full", 503, "server_error", "store_full", 529, "overloaded_error", Retry::yes, Fault::queue},
    {"not_owner", 503, "server_error", "unavailable", 503, "api_error", Retry::yes, Fault::queue},
    {"slow_reader", 499, "server_error", "slow_reader", 499, "api_error", Retry::no, Fault::request},
    {"deadline", 503, "server_error", "queue_timeout", 504, "timeout_error", Retry::no, Fault::queue},
    // The gateway's own codes.
    {"timeout", 504, "server_error", "timeout", 504, "timeout_error", Retry::no, Fault::upstream},
    {"upstream_auth", 502, "server_error", "upstream_auth", 502, "api_error", Retry::no, Fault::upstream},
    {"keys_rest", 503, "server_error", "upstream_quota", 503, "api_error", Retry::no, Fault::upstream},
    {"method_not_allowed", 405, "invalid_request_error", "method_not_allowed", 405, "invalid_request_error",
     Retry::no, Fault::request},
    {"header_too_large", 431, "invalid_request_error", "header_too_large", 431, "invalid_request_error",
     Retry::no, Fault::request},
    {"target_too_long", 414, "invalid_request_error", "target_too_long", 414, "invalid_request_error",
     Retry::no, Fault::request},
    {"expectation_failed", 417, "invalid_request_error", "expectation_failed", 417, "invalid_request_error",
     Retry::no, Fault::request},
    {"not_implemented", 501, "invalid_request_error", "not_implemented", 501, "invalid_request_error",
     Retry::no, Fault::request},
    {"unsupported_media_type", 415, "invalid_request_error", "unsupported_media_type", 415,
     "invalid_request_error", Retry::no, Fault::request},
    {"version_not_supported", 505, "invalid_request_error", "version_not_supported", 505,
     "invalid_request_error", Retry::no, Fault::request},
    {"model_not_found", 404, "invalid_request_error", "model_not_found", 404, "not_found_error", Retry::no,
     Fault::request},
    {"caller_limit", 429, "rate_limit_exceeded", "rate_limit_exceeded", 429, "rate_limit_error", Retry::yes,
     Fault::request},
    {"not_kept", 503, "server_error", "not_kept", 503, "api_error", Retry::no, Fault::gateway},
    {"unavailable", 503, "server_error", "unavailable", 503, "api_error", Retry::yes, Fault::queue},
    {"no_worker", 503, "server_error", "no_worker", 503, "api_error", Retry::yes, Fault::queue},
    {"gateway_full", 503, "server_error", "gateway_full", 529, "overloaded_error", Retry::yes,
     Fault::gateway},
};

/// Lanes of callers that do not wait: their SDKs must not retry at once.
constexpr std::string_view kPatientLanes[] = {"low", "batch"};

/// Whether the upstream's answer is passed on: a 4xx is the caller's own error. Never 408, which SDKs take
/// for a broken connection and retry.
bool is_passed_on(const ApiError& error) {
  if (!error.upstream_status || error.upstream_body.empty()) return false;
  const int status = *error.upstream_status;
  return error.name == "upstream_rejected" && status >= 400 && status < 500 && status != 408;
}

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// The upstream's body for a person who looks for the cause: JSON unchanged, else a string.
json upstream_note(const ApiError& error) {
  json note = {{"status", *error.upstream_status}};
  const std::string_view bytes = error.upstream_body.bytes();
  if (bytes.empty()) return note;
  note["body"] = std::string(beginning(bytes, kUpstreamBytesMax));
  return note;
}

}  // namespace

std::string openai_error_body(const ApiError& error, std::string_view) {
  const ErrorRow& row = api_error_row(error.name);
  const std::string code = error.code.empty() ? std::string(row.openai_code) : error.code;
  json body = {{"message", std::string(beginning(error.message, kMessageBytesMax))},
               {"type", row.openai_type},
               {"param", error.param.empty() ? json() : json(error.param)},
               {"code", code.empty() ? json() : json(code)}};
  if (error.upstream_status) body["upstream"] = upstream_note(error);
  return dumped({{"error", std::move(body)}});
}

int anthropic_status(const ApiError& error) {
  const bool upstream_is_full =
      error.name == "upstream_failed" && (error.upstream_status == 529 || error.upstream_status == 503);
  return upstream_is_full ? 529 : api_error_row(error.name).anthropic_status;
}

std::string anthropic_error_body(const ApiError& error, std::string_view request_id) {
  const ErrorRow& row = api_error_row(error.name);
  json body = {
      {"type", anthropic_status(error) == 529 ? std::string_view("overloaded_error") : row.anthropic_type},
      {"message", std::string(beginning(error.message, kMessageBytesMax))}};
  if (error.upstream_status) body["upstream"] = upstream_note(error);
  json whole = {{"type", "error"}, {"error", std::move(body)}};
  if (!request_id.empty()) whole["request_id"] = request_id;
  return dumped(whole);
}

namespace {

void add_retry_headers(const ApiError& error, Headers& headers) {
  headers.set("x-lanemq-error", std::string(error.fault()));
  headers.set("x-should-retry", error.should_retry() ? "true" : "false");
  // A time that is too long for SDKs is still in the message.
  const bool is_late = error.retry_after && *error.retry_after >= kSdkWaitMax;
  if (!error.retry_after || !(error.should_retry() || is_late)) return;
  const auto ms = std::max<std::int64_t>(error.retry_after->count(), 1);
  headers.set("retry-after", std::to_string((ms + 999) / 1000));
  headers.set("retry-after-ms", std::to_string(ms));
}

/// The name of an error for callers, who must tell apart what the broker gives one code.
std::string said_as(const ClientError& error) {
  if (error.key_is_refused()) return "upstream_auth";
  if (error.code == "deadline" && error.attempts > 0) return "timeout";
  // It is the gateway's own key for the broker, and nothing that the caller could mend.
  if (error.code == name_of(ErrorCode::unauthorized)) return "unavailable";
  // Why the keys rest is not said, and it need not be the money.
  if (error.code == "upstream_quota" && !error.upstream_status) return "keys_rest";
  return error.code;
}

}  // namespace

std::span<const ErrorRow> api_error_table() {
  return kRows;
}

const ErrorRow& api_error_row(std::string_view name) {
  const ErrorRow* internal = nullptr;
  for (const ErrorRow& row : kRows) {
    if (row.name == name) return row;
    if (row.name == "internal") internal = &row;
  }
  return *internal;
}

bool ApiError::should_retry() const {
  if (retry_after && *retry_after >= kSdkWaitMax) return false;
  const Retry retry = api_error_row(name).retry;
  if (retry != Retry::in_higher_lanes) return retry == Retry::yes;
  return std::find(std::begin(kPatientLanes), std::end(kPatientLanes), lane) == std::end(kPatientLanes);
}

std::string_view ApiError::fault() const {
  switch (upstream_status ? Fault::upstream : api_error_row(name).fault) {
    case Fault::request:
      return "request";
    case Fault::queue:
      return "queue";
    case Fault::upstream:
      return "upstream";
    case Fault::gateway:
      break;
  }
  return "gateway";
}

ApiError bad_request(std::string message, std::string param) {
  return {.name = "bad_request", .message = std::move(message), .param = std::move(param)};
}

tl::unexpected<ApiError> wrong(std::string message, std::string param) {
  return tl::unexpected(bad_request(std::move(message), std::move(param)));
}

ApiError api_error_of(const ClientError& error, const std::string& lane) {
  ApiError result{.name = said_as(error), .message = error.message, .lane = lane};
  if (error.key_is_refused())
    result.message =
        "the upstream refused the key of the worker, which is not the caller's: " + error.message;
  if (error.code == name_of(ErrorCode::unauthorized))
    result.message = "the broker does not take this gateway's key; its operator has to mend that";
  if (!error.limiter.empty()) result.message += " (limited by " + error.limiter + ")";
  if (error.code == "deadline" && error.attempts > 0)
    result.message += " (attempts: " + std::to_string(error.attempts) + ")";
  result.retry_after = error.retry_after;
  result.upstream_status = error.upstream_status;
  result.upstream_body = error.body;
  return result;
}

HttpAnswer error_answer(const Api& api, const ApiError& error, std::string_view request_id) {
  HttpAnswer answer = is_passed_on(error) ? HttpAnswer{.status = *error.upstream_status,
                                                       .headers = {{"content-type", "application/json"}},
                                                       .body = error.upstream_body}
                                          : json_answer(api.status(error), api.error_body(error, request_id));
  add_retry_headers(error, answer.headers);
  return answer;
}

std::string error_event(const Api& api, const ApiError& error, std::string_view request_id) {
  return std::string(api.error_event) + api.error_body(error, request_id) + "\n\n";
}

}  // namespace lanemq::gateway
