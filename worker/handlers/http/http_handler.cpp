// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/http_handler.hpp"

#include <utility>

#include <curl/curl.h>

namespace lanemq::worker {

std::string http_url_problem(const std::string& url) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> handle(curl_url(), curl_url_cleanup);
  if (!handle) return "no memory";
  const CURLUcode code = curl_url_set(handle.get(), CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME);
  if (code != CURLUE_OK) return curl_url_strerror(code);
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    std::string value;
    if (curl_url_get(handle.get(), which, &text, 0) == CURLUE_OK) value = text;
    curl_free(text);
    return value;
  };
  const std::string scheme = part(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return "the scheme must be http or https";
  if (part(CURLUPART_HOST).empty()) return "it names no host";
  if (!part(CURLUPART_USER).empty() || !part(CURLUPART_PASSWORD).empty())
    return "it holds credentials; put them into a header";
  return {};
}

std::string header_safe(std::string_view id) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : id) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7F && c != '%') {
      out += c;
      continue;
    }
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string header_name_of(const JobCall& job) {
  return job.id.empty() ? std::to_string(job.lease.job) : header_safe(job.id);
}

void HttpHandler::start(const JobCall& job, Completion done) {
  JobFailure failure;
  std::shared_ptr<const HttpHeaders> headers = credentials_->headers_for(job, failure);
  if (!headers) return done.failure(std::move(failure));
  client().call({.target = target_,
                 .headers = std::move(headers),
                 .lines = {"x-lanemq-job: " + header_name_of(job),
                           "x-lanemq-attempt: " + std::to_string(job.lease.attempt)},
                 .lease = job.lease,
                 .body = job.body,
                 .deadline = job.deadline,
                 .answer_bytes_max = job.answer_bytes_max,
                 .done = std::move(done)});
}

}  // namespace lanemq::worker
