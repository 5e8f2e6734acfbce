// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/program/refusals.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/door/access.hpp"
#include "client/gateway/run/not_served.hpp"
#include "common/http/server/access/browsers.hpp"

namespace lanemq::gateway {
namespace {

std::string_view error_name(Refusal refusal) {
  switch (refusal) {
    case Refusal::bad_request:
      return "bad_request";
    case Refusal::header_too_large:
      return "header_too_large";
    case Refusal::target_too_long:
      return "target_too_long";
    case Refusal::expectation_failed:
      return "expectation_failed";
    case Refusal::not_implemented:
      return "not_implemented";
    case Refusal::version_not_supported:
      return "version_not_supported";
    case Refusal::body_too_large:
      return "too_large";
    case Refusal::not_found:
      return "not_found";
    case Refusal::method_not_allowed:
      return "method_not_allowed";
    case Refusal::out_of_memory:
      return "gateway_full";
    case Refusal::disk_refuses:
      return "store_full";
    case Refusal::failed:
      break;
  }
  return "internal";
}

std::string hint_of(Refusal kind, const Router& router, const HttpRequest& request) {
  const bool is_astray = kind == Refusal::not_found || kind == Refusal::method_not_allowed;
  return is_astray ? hint_for(router, request) : std::string();
}

ApiError error_of(Refusal kind, std::string_view detail, const std::string& hint) {
  ApiError error{.name = std::string(error_name(kind)), .message = std::string(detail)};
  if (!hint.empty()) error.message += "; " + hint;
  if (kind == Refusal::out_of_memory) error.retry_after = std::chrono::seconds(1);
  return error;
}

std::optional<ApiError> why_not_open_to(const HttpRequest& head, const std::vector<std::string>& hosts) {
  std::optional<Unwelcome> why = why_not_without_keys(
      head, {.name = "gateway", .cure = "add keys, or say --hosts", .hosts = hosts, .uploads = "/v1/files"});
  if (!why) return std::nullopt;
  return ApiError{.name = why->is_form ? "unsupported_media_type" : "forbidden",
                  .message = std::move(why->message),
                  .param = std::move(why->param)};
}

}  // namespace

HttpAnswer refused_by_server(Gateway& gateway, const Router& router, Refusal kind, const HttpRequest& request,
                             std::string_view detail) {
  if (kind == Refusal::disk_refuses) {
    gateway.disk_log.note(detail);
    detail = "the gateway's disk refuses what is uploaded, and its log says why; try again later";
  }
  return refusal(gateway, request, error_of(kind, detail, hint_of(kind, router, request)));
}

std::optional<HttpAnswer> refused_at_door(Gateway& gateway, const HttpRequest& head) {
  std::optional<ApiError> why = why_not_packed(head.headers);
  if (!why && gateway.settings.auth == Auth::none) why = why_not_open_to(head, gateway.settings.hosts);
  if (!why) return std::nullopt;
  return refusal(gateway, head, *why);
}

}  // namespace lanemq::gateway
