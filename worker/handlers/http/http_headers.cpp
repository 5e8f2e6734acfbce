// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/http_headers.hpp"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include <curl/curl.h>

namespace lanemq::worker {
namespace {

constexpr std::string_view kInsteadOfSecret = "[secret]";

/// Whether a line is of the header `name`, which is in lower case.
bool is_header(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

}  // namespace

HttpHeaders::HttpHeaders(const std::vector<std::string>& lines, std::vector<std::string> secrets)
    : secrets_(std::move(secrets)) {
  for (const std::string& line : lines)
    append(line.c_str());
  if (!has("content-type")) append("Content-Type: application/json");
  // Waiting for "100 Continue" costs a round trip, or a second where the upstream never says it.
  append("Expect:");
  std::erase_if(secrets_, [](const std::string& secret) { return secret.size() < kRedactedBytesMin; });
  std::sort(secrets_.begin(), secrets_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

HttpHeaders::~HttpHeaders() = default;

void HttpHeaders::FreeList::operator()(curl_slist* list) const {
  curl_slist_free_all(list);
}

void HttpHeaders::append(const char* line) {
  curl_slist* const longer = curl_slist_append(list_.get(), line);
  if (!longer) throw std::bad_alloc();
  static_cast<void>(list_.release());
  list_.reset(longer);
}

bool HttpHeaders::has(std::string_view name) const {
  for (const curl_slist* line = list_.get(); line; line = line->next)
    if (is_header(line->data, name)) return true;
  return false;
}

std::string HttpHeaders::redacted(std::string text) const {
  for (const std::string& secret : secrets_)
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + kInsteadOfSecret.size()))
      text.replace(at, secret.size(), kInsteadOfSecret);
  return text;
}

}  // namespace lanemq::worker
