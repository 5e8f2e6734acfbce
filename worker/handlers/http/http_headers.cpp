// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/http_headers.hpp"

#include <new>
#include <string_view>
#include <utility>

#include <curl/curl.h>

#include <lanemq/words.hpp>

namespace lanemq::worker {
namespace {

/// Whether a line is the header `name`.
bool is_header(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' && begins_with_word(line, name);
}

}  // namespace

HttpHeaders::HttpHeaders(const std::vector<std::string>& lines, std::vector<std::string> secrets)
    : secrets_(std::move(secrets)) {
  for (const std::string& line : lines)
    append(line.c_str());
  if (!has("content-type")) append("Content-Type: application/json");
  // No "100 Continue": waiting for it costs a round trip, or a second where the upstream never sends it.
  append("Expect:");
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

}  // namespace lanemq::worker
