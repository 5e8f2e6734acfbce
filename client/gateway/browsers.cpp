// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/browsers.hpp"

#include <algorithm>

#include <lanemq/text.hpp>
#include <lanemq/words.hpp>

namespace lanemq::gateway {
namespace {

constexpr std::string_view kUploadType = "multipart/form-data";
/// The content types that a form, and so any page, can have a browser send without asking the server first.
constexpr std::string_view kFormTypes[] = {"text/plain", "application/x-www-form-urlencoded", kUploadType};

std::string lower_text(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    c = lower(c);
  return result;
}

/// An authority without its port.
std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('['))
    return authority.substr(0, std::min(authority.find(']') + 1, authority.size()));
  return authority.substr(0, authority.find(':'));
}

/// Whether no foreign DNS entry can lead the name elsewhere: an address, or this machine.
bool is_safe(std::string_view host) {
  return host.empty() || host == "localhost" || host.ends_with(".localhost") || host.starts_with('[') ||
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_named(std::string_view host, const std::vector<std::string>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const std::string& pattern) { return glob_match(lower_text(pattern), host); });
}

ApiError forbidden(std::string message, std::string param) {
  return {.name = "forbidden", .message = std::move(message), .param = std::move(param)};
}

}  // namespace

std::optional<ApiError> why_not_without_keys(const HttpRequest& head, const std::vector<std::string>& hosts) {
  const std::string authority = lower_text(head.authority);
  const std::string_view host = host_of(authority);
  if (!is_safe(host) && !is_named(host, hosts))
    return forbidden("without keys this gateway answers to this machine's own names, not to \"" +
                         printable(host, 64) + "\"; add keys, or say --hosts",
                     "host");
  if (const std::string* const said = head.headers.find("origin")) {
    const std::string origin = lower_text(*said);
    const std::size_t scheme = origin.find("://");
    const std::string_view from =
        scheme == std::string::npos ? std::string_view() : std::string_view(origin).substr(scheme + 3);
    if (from.empty() || (from != authority && !is_named(host_of(from), hosts)))
      return forbidden("without keys this gateway serves no page of another origin, like \"" +
                           printable(origin, 64) + "\"; add keys, or say --hosts",
                       "origin");
  } else if (const std::string* const site = head.headers.find("sec-fetch-site");
             site != nullptr && *site != "same-origin" && *site != "none") {
    return forbidden("without keys this gateway serves no page of another site; add keys, or say --hosts",
                     "sec-fetch-site");
  }
  const std::string said = lower_text(head.headers.get("content-type"));
  const std::string_view type = std::string_view(said).substr(0, said.find_first_of("; \t"));
  const bool is_upload = type == kUploadType && head.path.ends_with("/v1/files");
  if (!is_upload && std::find(std::begin(kFormTypes), std::end(kFormTypes), type) != std::end(kFormTypes))
    return ApiError{.name = "unsupported_media_type",
                    .message =
                        "without keys this gateway takes nothing that a page's form could send: the "
                        "content-type must be application/json, not " +
                        printable(type, 64),
                    .param = "content-type"};
  return std::nullopt;
}

}  // namespace lanemq::gateway
