// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/access/browsers.hpp"

#include <algorithm>

#include <lanemq/text.hpp>
#include <lanemq/words.hpp>

namespace lanemq::http {
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

Unwelcome from_elsewhere(std::string message, std::string param) {
  return {.message = std::move(message), .param = std::move(param)};
}

}  // namespace

std::optional<Unwelcome> why_not_without_keys(const HttpRequest& head, const OpenServer& server) {
  const std::string whom = "without keys this " + std::string(server.name);
  const std::string cure = "; " + std::string(server.cure);
  const std::string authority = lower_text(head.authority);
  const std::string_view host = host_of(authority);
  if (!is_safe(host) && !is_named(host, server.hosts))
    return from_elsewhere(
        whom + " answers to this machine's own names, not to \"" + printable(host, 64) + '"' + cure, "host");
  if (const std::string* const said = head.headers.find("origin")) {
    const std::string origin = lower_text(*said);
    const std::size_t scheme = origin.find("://");
    const std::string_view from =
        scheme == std::string::npos ? std::string_view() : std::string_view(origin).substr(scheme + 3);
    if (from.empty() || (from != authority && !is_named(host_of(from), server.hosts)))
      return from_elsewhere(
          whom + " serves no page of another origin, like \"" + printable(origin, 64) + '"' + cure, "origin");
  } else if (const std::string* const site = head.headers.find("sec-fetch-site");
             site != nullptr && *site != "same-origin" && *site != "none") {
    return from_elsewhere(whom + " serves no page of another site" + cure, "sec-fetch-site");
  }
  const std::string said = lower_text(head.headers.get("content-type"));
  const std::string_view type = std::string_view(said).substr(0, said.find_first_of("; \t"));
  const bool is_upload =
      type == kUploadType && !server.uploads.empty() && head.path.ends_with(server.uploads);
  if (!is_upload && std::find(std::begin(kFormTypes), std::end(kFormTypes), type) != std::end(kFormTypes))
    return Unwelcome{.is_form = true,
                     .message = whom +
                                " takes nothing that a page's form could send: the content-type must be "
                                "application/json, not " +
                                printable(type, 64),
                     .param = "content-type"};
  return std::nullopt;
}

}  // namespace lanemq::http
