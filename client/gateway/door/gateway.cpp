// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/gateway.hpp"

#include <algorithm>
#include <chrono>

#include <lanemq/text.hpp>
#include <lanemq/words.hpp>

#include "common/ids/ulid.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::size_t kRequestIdBytesMax = 128;
constexpr std::chrono::milliseconds kDrainRetryAfter{1'000};

bool fit_for_header(std::string_view text) {
  return !text.empty() && text.size() <= kRequestIdBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

}  // namespace

std::string request_id_of(const HttpRequest& request) {
  const std::string_view given = request.headers.get("x-request-id");
  return fit_for_header(given) ? std::string(given) : "req_" + new_ulid();
}

void add_request_id(const Api& api, const std::string& request_id, Headers& headers) {
  headers.set("x-request-id", request_id);
  if (!api.request_id_header.empty()) headers.set(api.request_id_header, request_id);
}

std::string silence_of_queue(const std::string& shard) {
  return shard.empty()
             ? "the queue behind this gateway does not answer"
             : "shard \"" + printable(shard) + "\" of the queue behind this gateway does not answer";
}

ApiError draining() {
  return {.name = "draining",
          .message = "this gateway is stopping and takes no work; try again",
          .retry_after = kDrainRetryAfter};
}

ApiError unavailable(const std::string& shard) {
  return {.name = "unavailable",
          .message = silence_of_queue(shard) + "; try again",
          .retry_after = kUnavailableRetryAfter};
}

HttpAnswer error_for(const HttpRequest& request, const ApiError& error) {
  const Api& api = api_of(request);
  const std::string id = request_id_of(request);
  HttpAnswer answer = error_answer(api, error, id);
  add_request_id(api, id, answer.headers);
  return answer;
}

std::chrono::milliseconds note_refusal(Gateway& gateway, const HttpRequest& request, const ApiError& error) {
  const std::string_view reason = error.reason.empty() ? std::string_view(error.name) : error.reason;
  ++gateway.metrics.refused[std::string(reason)];
  if (error.name != "unauthorized" && error.name != "forbidden") return {};
  const auto now = gateway.loop.now();
  gateway.refusal_log.note({.reason = reason,
                            .address = request.peer,
                            .hash = secret_hash_of(request),
                            .method = request.method,
                            .path = request.path},
                           now);
  return error.reason == kUnknownKey ? gateway.wrong_keys.note(request.peer, now)
                                     : std::chrono::milliseconds(0);
}

HttpAnswer refusal(Gateway& gateway, const HttpRequest& request, const ApiError& error) {
  HttpAnswer answer = error_for(request, error);
  answer.held_back = note_refusal(gateway, request, error);
  return answer;
}

std::optional<ApiError> why_not_stored(const Gateway& gateway, const Caller& caller,
                                       const StoredReference& stored) {
  if (!caller.is_bound_to_its_own() || gateway.responses.belongs(stored.id, caller.name)) return std::nullopt;
  return ApiError{.name = "not_found",
                  .message = "there is no response, item, container, message or audio \"" +
                             printable(stored.id, 64) +
                             "\" of this key: a key reaches those of the latest responses that it asked this "
                             "gateway for; all of the account with stored_responses = \"any\"",
                  .param = stored.param};
}

std::optional<ApiError> why_no_conversation(const Caller& caller, std::string_view param) {
  if (!caller.is_bound_to_its_own()) return std::nullopt;
  return ApiError{.name = "not_found",
                  .message =
                      "there is no conversation of this key: none is made here (/v1/conversations is "
                      "not served), and another's is not to be reached; go on with "
                      "previous_response_id, or have stored_responses = \"any\" for the key",
                  .param = std::string(param)};
}

std::optional<ApiError> why_not_forwarded(const Headers& headers) {
  for (const std::string_view name : forwarded_headers()) {
    const std::string_view value = headers.get(name);
    if (value.size() > kForwardedHeaderBytesMax)
      return bad_request(std::string(name) + " has over " + std::to_string(kForwardedHeaderBytesMax) +
                             " bytes, which is all that goes on to an upstream",
                         std::string(name));
    if (!std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; }))
      return bad_request(
          std::string(name) + " has characters other than visible ASCII, which do not go on to an upstream",
          std::string(name));
  }
  return std::nullopt;
}

std::optional<ApiError> why_not_packed(const Headers& headers) {
  const std::string_view coding = headers.get("content-encoding");
  if (coding.empty() || same_word(coding, "identity")) return std::nullopt;
  return ApiError{.name = "unsupported_media_type",
                  .message = "the body must come as it is: content-encoding \"" + printable(coding, 64) +
                             "\" is not taken here",
                  .param = "content-encoding"};
}

std::optional<Caller> admitted(Gateway& gateway, const HttpRequest& request, Responder& responder) {
  tl::expected<Caller, ApiError> caller = gateway.access.caller_of(request);
  if (caller) return std::move(*caller);
  responder.answer(refusal(gateway, request, caller.error()));
  return std::nullopt;
}

}  // namespace lanemq::gateway
