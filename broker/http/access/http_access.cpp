// SPDX-License-Identifier: Apache-2.0
#include "broker/http/access/http_access.hpp"

#include <chrono>
#include <utility>

#include <lanemq/text.hpp>
#include <lanemq/unprintable.hpp>

#include "common/http/server/access/browsers.hpp"
#include "common/http/server/access/secret.hpp"

namespace lanemq::admin {

std::string harmless_text_of(const Json& document) {
  return escape_unprintable(document.dump(-1, ' ', false, Json::error_handler_t::replace));
}

http::HttpAnswer json_of(int status, const Json& document) {
  http::HttpAnswer answer = http::json_answer(status, harmless_text_of(document) + "\n");
  answer.headers.set("cache-control", "no-store");
  answer.headers.set("x-content-type-options", "nosniff");
  return answer;
}

http::HttpAnswer refused(int status, std::string_view code, std::string_view message) {
  http::HttpAnswer answer = json_of(status, error_document(code, message));
  if (status == 401) answer.headers.set("www-authenticate", "Bearer");
  if (status == 503) answer.headers.set("retry-after", "1");
  return answer;
}

void HttpAccess::replace(std::vector<HttpKey> keys) {
  keys_.clear();
  for (HttpKey& key : keys) {
    std::string hash = key.sha256;
    keys_.emplace(std::move(hash), std::move(key));
  }
}

std::optional<http::HttpAnswer> HttpAccess::refused_at_door(const http::HttpRequest& head) const {
  if (!keys_.empty()) return std::nullopt;
  const auto why = http::why_not_without_keys(
      head, {.name = "broker", .cure = "add an [[http_key]], or say --http-hosts", .hosts = hosts_});
  if (!why) return std::nullopt;
  return why->is_form ? refused(415, "unsupported_media_type", why->message)
                      : refused(403, "forbidden", why->message);
}

tl::expected<std::string, http::HttpAnswer> HttpAccess::caller_of(const http::HttpRequest& request,
                                                                  Role needed, http::Loop::TimePoint now) {
  const std::string from = "http " + request.peer;
  if (keys_.empty()) return from;
  const std::string& hash = http::secret_hash_of(request);
  if (hash.empty())
    return tl::unexpected(
        refused(401, "unauthorized", "a key is needed: send it as \"Authorization: Bearer KEY\""));
  const auto at = keys_.find(hash);
  if (at == keys_.end()) {
    http::HttpAnswer answer =
        refused(401, "unauthorized", "this key is not known here; ask who runs this broker");
    answer.held_back = wrong_keys_.note(request.peer, now);
    return tl::unexpected(std::move(answer));
  }
  const HttpKey& key = at->second;
  if (std::chrono::system_clock::now() > key.not_after)
    return tl::unexpected(refused(401, "unauthorized",
                                  "key \"" + printable(key.name) + "\" counts no more since " +
                                      settings::show_moment(key.not_after) + " (not_after)"));
  if (needed == Role::manager && key.role != Role::manager)
    return tl::unexpected(refused(403, "forbidden",
                                  "key \"" + printable(key.name) +
                                      "\" may look and change nothing (role viewer); this needs the role "
                                      "operator"));
  return "http key " + key.name + ", " + request.peer;
}

}  // namespace lanemq::admin
