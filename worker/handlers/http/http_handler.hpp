// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/worker.hpp>

#include "common/url/http_url.hpp"
#include "worker/handlers/http/http_client.hpp"
#include "worker/handlers/http/http_credentials.hpp"

namespace lanemq::worker {

/// Posts each job's body to a URL and answers with the response's body, byte for byte.
///
/// 2xx is success; other statuses, broken connections and timeouts are failures, classed as
/// upstream_failure.hpp says. Usage is read from JSON answers, limits from the headers. An answer goes back
/// whole: `stream` is ignored. Each call carries `x-lanemq-job` (the job's id) and `x-lanemq-attempt`.
class HttpHandler final : public HttpCallHandler {
 public:
  /// Requires: http_url_problem(target.url) is empty. Several handlers may share the credentials.
  HttpHandler(std::shared_ptr<HttpClient> client, HttpTarget target,
              std::shared_ptr<const CredentialBox> credentials)
      : HttpCallHandler(std::move(client)),
        target_(std::make_shared<const HttpTarget>(std::move(target))),
        credentials_(std::move(credentials)) {}

  void start(const JobCall& job, Completion done) override;

 private:
  std::shared_ptr<const HttpTarget> target_;
  std::shared_ptr<const CredentialBox> credentials_;
};

/// A job's id as a header value: visible ASCII unchanged, all else and `%` as %XX.
std::string header_safe(std::string_view id);
/// A job's name in a header: its id, or its number where it has none.
std::string header_name_of(const JobCall& job);
/// Adds `traceparent` and `tracestate` where the target gets them, and `shared` has no such header.
void add_trace(const JobCall& job, const HttpTarget& target, const HttpHeaders& shared,
               std::vector<std::string>& lines);

}  // namespace lanemq::worker
