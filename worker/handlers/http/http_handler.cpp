// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/http_handler.hpp"

#include <utility>

#include <curl/curl.h>

#include <lanemq/text.hpp>

namespace lanemq::worker {
namespace {

/// Null when the job cannot have any.
std::shared_ptr<const HttpHeaders> headers_for(const HttpCredentials& known, std::string_view key) {
  if (key.empty()) {
    if (known.keyless || known.by_key.size() != 1) return known.keyless;
    return known.by_key.begin()->second;
  }
  const auto place = known.by_key.find(key);
  return place == known.by_key.end() ? nullptr : place->second;
}

/// Of a call that was never made.
JobFailure unsent(ErrorClass error_class, std::string code, std::string message) {
  JobFailure failure{.error_class = error_class, .code = std::move(code), .message = std::move(message)};
  wire::Usage& usage = failure.usage.emplace();
  usage.requests = usage.input_tokens = usage.output_tokens = 0;
  return failure;
}

JobFailure unknown_key(const JobCall& job) {
  const std::string service = printable(job.service), key = printable(job.key);
  return unsent(ErrorClass::retry, "unknown_key",
                "this worker has no secret for key \"" + key + "\" of service \"" + service +
                    "\"; start it with --key " + service + "/" + key + "=env:VARIABLE (or file:PATH)");
}

JobFailure no_key(const JobCall& job, const HttpCredentials& known) {
  return unsent(
      ErrorClass::permanent, "no_key",
      "service \"" + printable(job.service) + "\" needs a key and this worker has " +
          std::to_string(known.by_key.size()) +
          " of them, but the job names none; a budget of the broker that matches it has to name keys");
}

}  // namespace

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

void HttpHandler::use(HttpCredentials credentials) {
  auto newer = std::make_shared<const HttpCredentials>(std::move(credentials));
  const std::lock_guard lock(mutex_);
  credentials_.swap(newer);
}

std::shared_ptr<const HttpCredentials> HttpHandler::credentials() const {
  const std::lock_guard lock(mutex_);
  return credentials_;
}

void HttpHandler::start(const JobCall& job, Completion done) {
  const std::shared_ptr<const HttpCredentials> known = credentials();
  std::shared_ptr<const HttpHeaders> headers = headers_for(*known, job.key);
  if (!headers) return done.failure(job.key.empty() ? no_key(job, *known) : unknown_key(job));
  client_->call({.target = target_,
                 .headers = std::move(headers),
                 .lease = job.lease,
                 .job = job.id.empty() ? std::to_string(job.lease.job) : header_safe(job.id),
                 .body = job.body,
                 .deadline = job.deadline,
                 .answer_bytes_max = job.answer_bytes_max,
                 .done = std::move(done)});
}

}  // namespace lanemq::worker
