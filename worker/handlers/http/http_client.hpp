// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/answer_reader.hpp"
#include "worker/handlers/http/http_headers.hpp"

namespace lanemq::worker {

/// How long the parts of a call may take.
struct CallTimes {
  std::chrono::milliseconds connect{5'000};
  /// Of an answer that is read while it arrives: from the call's start until its first content, and from one
  /// part of it to the next. Time in which its reader is behind does not count.
  std::chrono::milliseconds first_token{60'000}, between_tokens{30'000};
  std::chrono::milliseconds total{600'000};  ///< a job that has less time left gets less
};

/// What the handlers of a worker that make HTTP calls share.
struct HttpOptions {
  CallTimes times{};           ///< of calls that state none of their own
  std::size_t calls_max = 16;  ///< at once, and so connections: the worker's capacity
  std::string proxy{};         ///< URL; empty: none, whatever the environment says
  std::string ca_file{};       ///< PEM; empty: the system's
};

/// Where a service's jobs go. The client keeps what it knows of a target for as long as it lives.
struct HttpTarget {
  std::string url;
};

enum class HttpMethod : unsigned char { post, get, del };

/// One call: the body goes to the target, the outcome to `done`.
struct HttpCall {
  std::shared_ptr<const HttpTarget> target;
  std::string path{};  ///< put behind the target's URL
  HttpMethod method = HttpMethod::post;
  std::shared_ptr<const HttpHeaders> headers;  ///< not null
  std::vector<std::string> lines{};            ///< `Name: value`: headers of this call alone
  wire::Lease lease;
  Blob body;                     ///< of a post
  bool takes_no_tokens = false;  ///< no model reads or writes for it, whatever the answer says
  bool answers_json = false;     ///< a success without a body is a failure `bad_reply`
  std::optional<CallTimes> times{};
  std::optional<TimePoint> deadline;
  std::size_t answer_bytes_max = 0;        ///< of an answer that is collected
  std::unique_ptr<AnswerReader> reader{};  ///< null: the answer is collected
  Completion done;
};

/// Makes all HTTP calls of a worker inside the worker's loop, hundreds at once: libcurl's multi interface
/// over epoll, so that a call that waits costs nothing, and an answer wakes nobody but the loop. Connections
/// are kept and reused; HTTP/2 is used where TLS negotiates it.
///
/// Redirects are not followed, so that no credential goes where the operator did not send it, and what is
/// said of a failed call holds none. Not thread-safe: after the constructor, all is for the loop's thread. No
/// call blocks; names are looked up on threads of libcurl's.
class HttpClient {
 public:
  /// One turn goes on reading answers for no longer than this and one answer more.
  static constexpr std::chrono::milliseconds kTurnTime{5};

  /// Throws std::runtime_error when the system lacks what is needed.
  explicit HttpClient(HttpOptions options);
  /// Breaks off what is under way.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void call(HttpCall call);
  /// Breaks off the call; its outcome is a `retry` failure with code `cancelled`.
  void cancel(wire::Lease lease);
  /// Reads on where the reader of an answer was behind.
  void resume(wire::Lease lease);

  // What the loop calls, by way of a handler: see Handler.
  int descriptor() const;
  void on_readable();
  std::optional<TimePoint> next_wakeup() const;
  void advance(TimePoint now);

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

/// A handler whose jobs are calls of an HttpClient, which it gives its place in the worker's loop. The client
/// serves any number of handlers.
class HttpCallHandler : public Handler {
 public:
  void cancel(wire::Lease lease) override { client_->cancel(lease); }
  void resume(wire::Lease lease) override { client_->resume(lease); }
  int descriptor() const override { return client_->descriptor(); }
  void on_readable(TimePoint) override { client_->on_readable(); }
  std::optional<TimePoint> next_wakeup() const override { return client_->next_wakeup(); }
  void advance(TimePoint now) override { client_->advance(now); }

 protected:
  explicit HttpCallHandler(std::shared_ptr<HttpClient> client) : client_(std::move(client)) {}
  HttpClient& client() const { return *client_; }

 private:
  std::shared_ptr<HttpClient> client_;
};

}  // namespace lanemq::worker
