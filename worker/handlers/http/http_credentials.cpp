// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/http_credentials.hpp"

#include <lanemq/text.hpp>

namespace lanemq::worker {
namespace {

/// Null: no headers fit the job's key.
std::shared_ptr<const HttpHeaders> find_headers(const HttpCredentials& known, std::string_view key) {
  if (key.empty()) {
    if (known.keyless || known.by_key.size() != 1) return known.keyless;
    return known.by_key.begin()->second;
  }
  const auto place = known.by_key.find(key);
  return place == known.by_key.end() ? nullptr : place->second;
}

JobFailure unknown_key(const JobCall& job) {
  const std::string service = printable(job.service), key = printable(job.key);
  return unsent_failure(ErrorClass::retry, "unknown_key",
                        "this worker has no secret for key \"" + key + "\" of service \"" + service +
                            "\"; start it with --key " + service + "/" + key +
                            "=env:VARIABLE (or file:PATH)");
}

JobFailure no_key(const JobCall& job, const HttpCredentials& known) {
  return unsent_failure(
      ErrorClass::permanent, "no_key",
      "service \"" + printable(job.service) + "\" needs a key and this worker has " +
          std::to_string(known.by_key.size()) +
          " of them, but the job names none; a budget of the broker that matches it has to name keys");
}

}  // namespace

JobFailure unsent_failure(ErrorClass error_class, std::string code, std::string message) {
  JobFailure failure{.error_class = error_class, .code = std::move(code), .message = std::move(message)};
  wire::Usage& usage = failure.usage.emplace();
  usage.requests = usage.input_tokens = usage.output_tokens = 0;
  return failure;
}

void CredentialBox::use(HttpCredentials credentials) {
  auto newer = std::make_shared<const HttpCredentials>(std::move(credentials));
  const std::lock_guard lock(mutex_);
  credentials_.swap(newer);
}

std::shared_ptr<const HttpHeaders> CredentialBox::headers_for(const JobCall& job, JobFailure& failure) const {
  std::shared_ptr<const HttpCredentials> known;
  {
    const std::lock_guard lock(mutex_);
    known = credentials_;
  }
  std::shared_ptr<const HttpHeaders> headers = find_headers(*known, job.key);
  if (!headers) failure = job.key.empty() ? no_key(job, *known) : unknown_key(job);
  return headers;
}

}  // namespace lanemq::worker
