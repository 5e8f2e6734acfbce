// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/http_handler.hpp"

#include <utility>

#include "worker/base/shard_lease.hpp"

namespace lanemq::worker {

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
  return job.id.empty() ? std::to_string(number_of(job.lease)) : header_safe(job.id);
}

void add_trace(const JobCall& job, const HttpTarget& target, const HttpHeaders& shared,
               std::vector<std::string>& lines) {
  if (!target.traced || job.traceparent.empty() || shared.has("traceparent")) return;
  lines.push_back("traceparent: " + std::string(job.traceparent));
  if (!job.tracestate.empty()) lines.push_back("tracestate: " + std::string(job.tracestate));
}

void HttpHandler::start(const JobCall& job, Completion done) {
  JobFailure failure;
  std::shared_ptr<const HttpHeaders> headers = credentials_->headers_for(job, failure);
  if (!headers) return done.failure(std::move(failure));
  std::vector<std::string> lines = {"x-lanemq-job: " + header_name_of(job),
                                    "x-lanemq-attempt: " + std::to_string(job.lease.attempt)};
  add_trace(job, *target_, *headers, lines);
  client().call({.target = target_,
                 .headers = std::move(headers),
                 .lines = std::move(lines),
                 .lease = job.lease,
                 .body = job.body,
                 .deadline = job.deadline,
                 .answer_bytes_max = job.answer_bytes_max,
                 .done = std::move(done)});
}

}  // namespace lanemq::worker
