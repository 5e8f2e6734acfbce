// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <lanemq/client.hpp>

namespace lanemq {

/// A Client without a thread of its own, for programs that have an event loop (epoll, libuv, Asio, ...): the
/// loop waits, and all input and output is done inside process(), on the loop's thread. No answer then waits
/// for a thread to be woken.
///
///     LoopClient client(options);
///     while (...) {
///       pollfd watched[] = {{client.fd(), POLLIN, 0}, ...};
///       poll(watched, ..., until client.next_wakeup());
///       client.process();
///     }
///
/// What is promised of requests, their ends, connections and bounds is what Client promises. Not thread-safe:
/// everything is called on one thread at a time. Callbacks are called inside process(), close() and the
/// destructor, and, until it is closed, nowhere else: a refusal is told by the next process(), too. They may
/// call everything but these three, must not block and must not throw.
class LoopClient {
 public:
  using Clock = std::chrono::steady_clock;

  /// `on_work` is called when process() is due sooner than next_wakeup() and fd() last said, because
  /// something was asked for: once until then, inside the call that asked. It must not call process() itself
  /// but have it called soon. Who looks at next_wakeup() before each wait may leave it out.
  ///
  /// Throws std::invalid_argument when the endpoint is not one, std::runtime_error when there are no
  /// descriptors.
  explicit LoopClient(ClientOptions options = {}, std::function<void()> on_work = {});
  /// Closes.
  ~LoopClient();
  LoopClient(const LoopClient&) = delete;
  LoopClient& operator=(const LoopClient&) = delete;

  // ---- for the loop ----

  /// To be watched for reading, level-triggered (as poll() does and epoll without EPOLLET); nothing else may
  /// be done with it. The same one for the client's whole life, whatever becomes of its connection.
  int fd() const;
  /// Does what can be done without waiting: to be called when fd() is readable and when next_wakeup() has
  /// come. At other times it is allowed, and costs little.
  void process();
  /// When process() is due at the latest; a time that has passed: at once, as something was asked for or
  /// there was more than one call takes. Empty: only fd() tells. Changes with every call for this object.
  std::optional<Clock::time_point> next_wakeup() const;
  /// Ends all that is pending with the local error `cancelled`, inside this call. What is asked for later
  /// ends so, too, inside the call that asks.
  void close();

  // ---- requests, each as Client's ----

  /// Bytes that the Blob does not own are copied.
  void submit(JobRequest request, const Blob& body, AnswerCallback callback);
  void leave(JobRequest request, const Blob& body, std::function<void(Reply<JobAccepted>)> callback);
  void stream(JobRequest request, const Blob& body, StreamReader reader);
  void follow(const std::string& id, std::int64_t from_seq, StreamReader reader);
  void seen(const std::string& id, std::int64_t seq);
  void status(const std::string& id, std::function<void(Reply<JobStatus>)> callback);
  void cancel(const std::string& id, std::function<void(Reply<JobStatus>)> callback);
  void fetch(const std::string& id, std::chrono::milliseconds wait,
             std::function<void(FetchAnswer)> callback);
  void ping(std::function<void(Reply<BrokerPong>)> callback);
  void stats(std::int64_t from, std::function<void(Reply<BrokerStats>)> callback);
  void admin(const AdminRequest& request, std::function<void(Reply<AdminDocument>)> callback);

  /// Requests without an answer.
  std::size_t pending() const;
  ClientCounters counters() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq
