// SPDX-License-Identifier: Apache-2.0
#include "common/url/http_url.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <arpa/inet.h>
#include <curl/curl.h>

namespace lanemq {
namespace {

class Url {
 public:
  explicit Url(const std::string& text) : handle_(curl_url(), curl_url_cleanup) {
    if (!handle_) return;
    code_ = curl_url_set(handle_.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME);
  }

  std::string problem() const {
    if (!handle_) return "no memory";
    return code_ == CURLUE_OK ? std::string() : curl_url_strerror(code_);
  }
  std::string part(CURLUPart which, unsigned flags = 0) const {
    char* text = nullptr;
    std::string value;
    if (curl_url_get(handle_.get(), which, &text, flags) == CURLUE_OK) value = text;
    curl_free(text);
    return value;
  }

 private:
  std::unique_ptr<CURLU, void (*)(CURLU*)> handle_;
  CURLUcode code_ = CURLUE_OUT_OF_MEMORY;
};

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  return text;
}

bool is_own_v4(std::uint32_t address) {
  const auto is_in = [&](std::uint32_t network, int bits) { return (address ^ network) >> (32 - bits) == 0; };
  return is_in(0x7F000000, 8) || is_in(0x0A000000, 8) || is_in(0xAC100000, 12) || is_in(0xC0A80000, 16) ||
         is_in(0xA9FE0000, 16);
}

bool is_own_v6(const in6_addr& address) {
  const std::uint8_t* const bytes = address.s6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&address) || IN6_IS_ADDR_LINKLOCAL(&address)) return true;
  return (bytes[0] & 0xFE) == 0xFC;
}

/// Of a name, also one of another script, or of an address. libcurl lets others through as they stand, and
/// reads them as something else the next time.
bool may_be_in_host(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0 ||
         std::string_view(".-_~[]:").find(c) != std::string_view::npos;
}

}  // namespace

std::string http_url_problem(const std::string& url) {
  if (url.find("://") == std::string::npos)
    return "its scheme is missing: https:// or http:// stands before the host";
  const Url read(url);
  if (std::string problem = read.problem(); !problem.empty()) return problem;
  const std::string scheme = read.part(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return "the scheme must be http or https";
  const std::string host = read.part(CURLUPART_HOST);
  if (host.empty()) return "it names no host";
  if (!std::all_of(host.begin(), host.end(), may_be_in_host))
    return "its host has a character that no name has";
  if (!read.part(CURLUPART_USER).empty() || !read.part(CURLUPART_PASSWORD).empty())
    return "it holds credentials; put them into a header";
  return {};
}

HttpUrlParts parts_of_url(const std::string& url) {
  const Url read(url);
  const std::string query = read.part(CURLUPART_QUERY);
  return {.scheme = read.part(CURLUPART_SCHEME),
          .host = lower_case(read.part(CURLUPART_HOST)),
          .port = static_cast<std::uint16_t>(std::stoul(read.part(CURLUPART_PORT, CURLU_DEFAULT_PORT))),
          .target = read.part(CURLUPART_PATH) + (query.empty() ? "" : "?" + query)};
}

bool goes_in_clear(const std::string& url) {
  const Url read(url);
  if (read.part(CURLUPART_SCHEME) != "http") return false;
  std::string host = lower_case(read.part(CURLUPART_HOST));
  if (host == "localhost" || host.ends_with(".localhost")) return false;
  if (in_addr v4{}; inet_pton(AF_INET, host.c_str(), &v4) == 1)
    return ntohl(v4.s_addr) >> 24 != IN_LOOPBACKNET;
  if (!host.starts_with('[')) return true;
  in6_addr v6{};
  host = host.substr(1, host.find(']') - 1);
  return inet_pton(AF_INET6, host.c_str(), &v6) != 1 || !IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_own_host(const std::string& url) {
  std::string host = lower_case(Url(url).part(CURLUPART_HOST));
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
    in6_addr address{};
    return inet_pton(AF_INET6, host.c_str(), &address) == 1 && is_own_v6(address);
  }
  if (in_addr address{}; inet_pton(AF_INET, host.c_str(), &address) == 1)
    return is_own_v4(ntohl(address.s_addr));
  while (host.ends_with('.'))
    host.pop_back();
  if (host.find('.') == std::string::npos) return !host.empty();
  constexpr std::string_view kOwn[] = {".local", ".localhost", ".internal", ".lan", ".home.arpa"};
  return std::any_of(std::begin(kOwn), std::end(kOwn),
                     [&](std::string_view end) { return host.ends_with(end); });
}

}  // namespace lanemq
