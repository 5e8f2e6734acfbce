// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/answer_reader.hpp"
#include "worker/handlers/http/http_headers.hpp"
#include "worker/handlers/http/upstream_headers.hpp"

namespace lanemq::worker {

/// Time limits of a call's parts.
struct CallTimes {
  std::chrono::milliseconds connect{5'000};
  /// Of an answer that is read while it arrives: from the call's start to its first content, and from one
  /// part to the next. Time in which the job's reader is behind does not count.
  std::chrono::milliseconds first_token{60'000}, between_tokens{30'000};
  std::chrono::milliseconds total{600'000};  ///< or less, where the job has less time left
};

/// What all handlers of a worker share that make HTTP calls.
struct HttpOptions {
  CallTimes times{};           ///< for calls that state none
  std::size_t calls_max = 16;  ///< calls at once, and so connections: the worker's capacity
  std::string proxy{};         ///< URL; empty: none, whatever the environment says
  std::string ca_file{};       ///< PEM; empty: the system's authorities
};

/// Where calls go. What the client knows of a target, such as whether it can be reached, lives as long as
/// somebody beside the client holds it: a service's only target does, targets that jobs name come and go.
struct HttpTarget {
  std::string url;
  /// For the log, where the upstream has nothing at the URL that was asked: what may be wrong with it.
  std::string_view hint_not_found{};
  bool traced = false;  ///< calls carry the headers of W3C Trace Context, where their jobs have a trace
  /// Whether calls may go to this address; null: to any. Asked for each address before a connection is made,
  /// and for each request with the address of its connection: another target may have opened that. So what
  /// a name stood for when somebody else looked it up does not count. Called on the loop's thread.
  std::function<bool(const sockaddr&)> admits{};
};

enum class HttpMethod : unsigned char { post, get, del };

/// How a call ended, for a CallJudge.
struct CallReport {
  long status = 0;  ///< below 200: no answer began
  const UpstreamHeaders& headers;
  std::string_view body;               ///< the first HttpCall::answer_bytes_max bytes
  std::optional<JobFailure> broken{};  ///< why the answer is not whole, if it began at all
  std::string_view refused_address{};  ///< where the target admitted none of the addresses: the last one
  std::chrono::milliseconds lasted{0};
};
/// Ends a call's job. Called once for each call that was not cancelled.
using CallJudge = std::function<void(const CallReport&, Completion&)>;

/// One call: `body` goes to the target, the outcome to `done`.
struct HttpCall {
  std::shared_ptr<const HttpTarget> target;
  std::string path{};  ///< appended to the target's URL
  HttpMethod method = HttpMethod::post;
  std::shared_ptr<const HttpHeaders> headers;  ///< not null
  std::vector<std::string> lines{};            ///< `Name: value`: headers of this call alone
  wire::Lease lease;
  Blob body;                     ///< of a post
  bool takes_no_tokens = false;  ///< no model works for the call, whatever the answer says
  bool answers_json = false;     ///< a success without a body is a failure `bad_reply`
  std::optional<CallTimes> times{};
  std::optional<TimePoint> deadline;
  std::size_t answer_bytes_max = 0;        ///< of a collected answer
  std::unique_ptr<AnswerReader> reader{};  ///< null: the answer is collected
  /// Says what the end means to the job, in place of what it means of a model API; null: nobody does. Of such
  /// a call's answer HttpClient::kJudgedBytesMax bytes are read at the most. Not beside a reader.
  CallJudge judge{};
  Completion done;
};

/// Makes all HTTP calls of a worker in the worker's loop, hundreds at once: libcurl's multi interface over
/// epoll, so that a waiting call costs nothing and an answer wakes the loop alone. Connections are kept and
/// reused; HTTP/2 is used where TLS negotiates it.
///
/// Follows no redirects, so that credentials go only where the operator sent them; messages of failed calls
/// hold none. Not thread-safe: after the constructor everything belongs to the loop's thread. No call blocks;
/// libcurl looks names up on threads of its own.
class HttpClient {
 public:
  /// One turn reads answers for this long, and one answer more.
  static constexpr std::chrono::milliseconds kTurnTime{5};
  /// Of the answer to a call with a judge: what is read before the call is broken off.
  static constexpr std::size_t kJudgedBytesMax = std::size_t{64} * 1024;

  /// Throws std::runtime_error when the system lacks a resource.
  explicit HttpClient(HttpOptions options);
  /// Breaks off all calls.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void call(HttpCall call);
  /// Breaks off the call; its outcome is a `retry` failure with code `cancelled`.
  void cancel(wire::Lease lease);
  /// Reads on after the answer's reader has caught up.
  void resume(wire::Lease lease);

  // For the loop, by way of a handler: see Handler.
  int descriptor() const;
  void on_readable();
  std::optional<TimePoint> next_wakeup() const;
  void advance(TimePoint now);

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

/// A handler whose jobs are calls of an HttpClient, which takes part in the worker's loop through it. A
/// client serves any number of handlers.
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
