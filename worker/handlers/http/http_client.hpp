// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/http_headers.hpp"

namespace lanemq::worker {

/// What the `http` handlers of a worker share.
struct HttpOptions {
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds timeout{600'000};  ///< of a whole call; a job that has less time left gets less
  std::size_t calls_max = 16;                  ///< at once, and so connections: the worker's capacity
  std::string proxy{};                         ///< URL; empty: none, whatever the environment says
  std::string ca_file{};                       ///< PEM; empty: the system's
};

/// Where a service's jobs are posted to. The client keeps what it knows of a target for as long as it lives.
struct HttpTarget {
  std::string url;
};

/// One call: the body is posted to the target, the outcome goes to `done`.
struct HttpCall {
  std::shared_ptr<const HttpTarget> target;
  std::shared_ptr<const HttpHeaders> headers;  ///< not null
  wire::Lease lease;
  std::string job;  ///< sent as `x-lanemq-job`
  Blob body;
  std::optional<TimePoint> deadline;
  std::size_t answer_bytes_max = 0;
  Completion done;
};

/// Makes all HTTP calls of a worker on one thread, hundreds at once: libcurl's multi interface over epoll, so
/// that a call that waits costs nothing. Connections are kept and reused; HTTP/2 is used where TLS negotiates
/// it.
///
/// Sends the call's headers, `x-lanemq-job` (the job's id) and `x-lanemq-attempt` with each call.
/// Redirects are not followed, so that no credential goes where the operator did not send it, and what is
/// said of a failed call holds none. All calls are safe from any thread and return at once.
class HttpClient {
 public:
  /// Throws std::runtime_error when the system lacks what is needed.
  explicit HttpClient(HttpOptions options);
  /// Breaks off what is under way.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void call(HttpCall call);
  /// Breaks off the call; its outcome is a `retry` failure with code `cancelled`.
  void cancel(wire::Lease lease);

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace lanemq::worker
