// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/http_headers.hpp"

namespace lanemq::worker {

/// The headers of a service's calls, by the key that the job names.
struct HttpCredentials {
  std::shared_ptr<const HttpHeaders> keyless;  ///< for jobs without a key; null: the headers need one
  std::map<std::string, std::shared_ptr<const HttpHeaders>, std::less<>> by_key{};
};

/// A service's credentials, which may be replaced while its jobs run. Thread-safe.
class CredentialBox {
 public:
  explicit CredentialBox(HttpCredentials credentials) { use(std::move(credentials)); }

  /// For jobs that start from now on; running calls keep theirs.
  void use(HttpCredentials credentials);

  /// The headers for a job; null, with `failure` set, where there are none. An unknown key fails as `retry`
  /// with code `unknown_key`, since another worker may know it. A job without a key, where the headers need
  /// one, gets the only key; where there are several it fails as `permanent` with code `no_key`.
  std::shared_ptr<const HttpHeaders> headers_for(const JobCall& job, JobFailure& failure) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const HttpCredentials> credentials_;  ///< under mutex_
};

/// The failure of a call that was never sent: it used nothing.
JobFailure unsent_failure(ErrorClass error_class, std::string code, std::string message);

}  // namespace lanemq::worker
