// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/http_client.hpp"

namespace lanemq::worker {

/// Why a URL cannot be a target, or empty when it can: http or https, with a host, and without credentials,
/// which belong into a header.
std::string http_url_problem(const std::string& url);

/// What the calls of a service carry, by the key that their job names.
struct HttpCredentials {
  std::shared_ptr<const HttpHeaders> keyless;  ///< of jobs without a key; null: the headers need one
  std::map<std::string, std::shared_ptr<const HttpHeaders>, std::less<>> by_key{};
};

/// Posts each job's body to a URL and answers with the response's body, byte for byte.
///
/// 2xx is success; other statuses, broken connections and timeouts are failures, classed as
/// upstream_failure.hpp says. Usage is read from JSON answers, limits from the headers. An answer goes back
/// whole: `stream` is ignored.
///
/// A job whose key is unknown here fails as `retry` with code `unknown_key`, as another worker may know it. A
/// job without a key, where the headers need one, gets the only key; where there are several, it fails as
/// `permanent` with code `no_key`.
class HttpHandler final : public Handler {
 public:
  /// Requires: http_url_problem(target.url) is empty. The client serves any number of handlers.
  HttpHandler(std::shared_ptr<HttpClient> client, HttpTarget target, HttpCredentials credentials)
      : client_(std::move(client)), target_(std::make_shared<const HttpTarget>(std::move(target))) {
    use(std::move(credentials));
  }

  void start(const JobCall& job, Completion done) override;
  void cancel(wire::Lease lease) override { client_->cancel(lease); }

  /// For the jobs that start from now on; calls under way keep what they have. Safe from any thread.
  void use(HttpCredentials credentials);

 private:
  std::shared_ptr<const HttpCredentials> credentials() const;

  std::shared_ptr<HttpClient> client_;
  std::shared_ptr<const HttpTarget> target_;
  mutable std::mutex mutex_;
  std::shared_ptr<const HttpCredentials> credentials_;  ///< guarded by mutex_
};

/// A job's id as a header value: visible ASCII as it is, all else and `%` as %XX.
std::string header_safe(std::string_view id);

}  // namespace lanemq::worker
