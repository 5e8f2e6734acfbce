// SPDX-License-Identifier: Apache-2.0
#include "broker/http/page.hpp"

#include <algorithm>
#include <string>

namespace lanemq::admin {
namespace {

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Whether `accept-encoding` names gzip, and not with a quality of 0.
bool takes_gzip(std::string_view accepted) {
  const std::size_t at = accepted.find("gzip");
  if (at == std::string_view::npos) return false;
  const std::string_view weight = accepted.substr(at + 4, accepted.find(',', at) - at - 4);
  const std::size_t zero = weight.find("q=0");
  return zero == std::string_view::npos ||
         weight.find_first_of("123456789", zero + 3) != std::string_view::npos;
}

}  // namespace

const PageFile* page_file(std::string_view name) {
  const auto files = page_files();
  const auto at =
      std::find_if(files.begin(), files.end(), [&](const PageFile& one) { return one.name == name; });
  return at == files.end() ? nullptr : &*at;
}

http::HttpAnswer page_answer(const PageFile& file, const http::HttpRequest& request) {
  http::HttpAnswer answer{.headers = {{"etag", std::string(file.tag)},
                                      {"cache-control", "no-cache"},
                                      {"vary", "accept-encoding"},
                                      {"content-security-policy", kPolicy},
                                      {"x-content-type-options", "nosniff"},
                                      {"x-frame-options", "DENY"},
                                      {"referrer-policy", "no-referrer"}}};
  if (request.headers.get("if-none-match") == file.tag) {
    answer.status = 304;
    return answer;
  }
  answer.headers.set("content-type", std::string(file.type));
  const bool zipped = takes_gzip(request.headers.get("accept-encoding"));
  if (zipped) answer.headers.set("content-encoding", "gzip");
  answer.body = http::blob_of(std::string(zipped ? file.zipped : file.plain));
  return answer;
}

}  // namespace lanemq::admin
