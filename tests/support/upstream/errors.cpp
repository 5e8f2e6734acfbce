// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/errors.hpp"

namespace lanemq::upstream {
namespace {

OrderedJson or_null(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

const char* anthropic_type(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 402:
      return "billing_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    case 529:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

}  // namespace

OrderedJson openai_error(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", or_null(error.param)},
            {"code", or_null(error.code)}}}};
}

OrderedJson anthropic_error(unsigned status, const ApiError& error, std::string_view request_id) {
  const bool own_type = error.code.ends_with("_error");
  OrderedJson body = {
      {"type", "error"},
      {"error", {{"type", own_type ? error.code : anthropic_type(status)}, {"message", error.message}}}};
  if (error.code == kThreadUnsupported)
    body["error"]["details"] = {{"error_code", error.code},
                                {"unsupported", OrderedJson::array({error.param})}};
  if (!request_id.empty()) body["request_id"] = request_id;
  return body;
}

std::string error_body(Dialect dialect, unsigned status, const ApiError& error, std::string_view request_id) {
  return written(dialect == Dialect::openai ? openai_error(error)
                                            : anthropic_error(status, error, request_id));
}

ApiError error_of_status(unsigned status) {
  switch (status) {
    case 401:
      return {.message = "Incorrect API key provided.", .code = "invalid_api_key"};
    case 403:
      return {.message = "You are not allowed to use this model.", .type = "permission_error"};
    case 404:
      return {.message = "The model does not exist or you do not have access to it.",
              .code = "model_not_found"};
    case 429:
      return {.message = "Rate limit reached. Please try again later.",
              .type = "requests",
              .code = "rate_limit_exceeded"};
    case 502:
      return {.message = "Bad gateway.", .type = "server_error"};
    case 503:
    case 529:
      return {.message = "The engine is currently overloaded, please try again later.",
              .type = "server_error",
              .code = "service_unavailable"};
    default:
      break;
  }
  if (status >= 500)
    return {.message = "The server had an error while processing your request. Sorry about that!",
            .type = "server_error"};
  return {.message = "The request was refused with status " + std::to_string(status) + "."};
}

}  // namespace lanemq::upstream
