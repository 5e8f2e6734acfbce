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

/// What the calls of a service carry, by the key that their job names.
struct HttpCredentials {
  std::shared_ptr<const HttpHeaders> keyless;  ///< of jobs without a key; null: the headers need one
  std::map<std::string, std::shared_ptr<const HttpHeaders>, std::less<>> by_key{};
};

/// The credentials of a service, which may be exchanged while its jobs run. Safe from any thread.
class CredentialBox {
 public:
  explicit CredentialBox(HttpCredentials credentials) { use(std::move(credentials)); }

  /// For the jobs that start from now on; calls under way keep what they have.
  void use(HttpCredentials credentials);

  /// The headers for a job; or null, with `failure` set: a key that is not known here fails as `retry` with
  /// code `unknown_key`, as another worker may know it. A job without a key, where the headers need one, gets
  /// the only key; where there are several, it fails as `permanent` with code `no_key`.
  std::shared_ptr<const HttpHeaders> headers_for(const JobCall& job, JobFailure& failure) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const HttpCredentials> credentials_;  ///< guarded by mutex_
};

/// The failure of a call that was never made: it cost nothing.
JobFailure unsent_failure(ErrorClass error_class, std::string code, std::string message);

}  // namespace lanemq::worker
