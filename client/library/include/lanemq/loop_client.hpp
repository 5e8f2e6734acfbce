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

/// A Client without a thread, for programs with an event loop (epoll, libuv, Asio, ...). The loop waits, and
/// process() does all input and output on the loop's thread, so that no answer waits for another thread to
/// wake up.
///
///     LoopClient client(options);
///     while (...) {
///       pollfd watched[] = {{client.fd(), POLLIN, 0}, ...};
///       poll(watched, ..., until client.next_wakeup());
///       client.process();
///     }
///
/// Requests, their ends, connections and bounds are as for Client. Not thread-safe: all calls come from one
/// thread at a time. Callbacks run inside process(), close() and the destructor; before close() nowhere else,
/// so that a refusal comes with the next process(), too. They may call all members but these three, and must
/// not block or throw.
class LoopClient {
 public:
  using Clock = std::chrono::steady_clock;

  /// `on_work` is called when a request makes process() due sooner than next_wakeup() and fd() have said:
  /// once until process() runs, inside the call that asked. It must not call process(), but have it called
  /// soon. A loop that asks next_wakeup() before each wait does not need it.
  ///
  /// Throws std::invalid_argument for an invalid endpoint, std::runtime_error where no descriptors are left.
  explicit LoopClient(ClientOptions options = {}, std::function<void()> on_work = {});
  /// Calls close().
  ~LoopClient();
  LoopClient(const LoopClient&) = delete;
  LoopClient& operator=(const LoopClient&) = delete;

  // ---- for the loop ----

  /// To be watched for reading, level-triggered (as poll() does, and epoll without EPOLLET), and for nothing
  /// else. The same for the client's whole life, across connections.
  int fd() const;
  /// Does what can be done without waiting. To be called when fd() is readable and when next_wakeup() has
  /// come; at other times it is allowed and cheap.
  void process();
  /// When process() is due at the latest. A past time: at once, since something was asked for, or one call
  /// did not do all. Empty: when fd() is readable. Any call of this object may change it.
  std::optional<Clock::time_point> next_wakeup() const;
  /// Ends all pending requests with the local error `cancelled`, inside this call. Later requests end so,
  /// too, inside the call that makes them.
  void close();

  // ---- requests, each as Client's ----

  /// Copies bytes that the Blob does not own.
  void submit(JobRequest request, const Blob& body, AnswerCallback callback);
  void leave(JobRequest request, const Blob& body, std::function<void(Reply<JobAccepted>)> callback);
  void stream(JobRequest request, const Blob& body, StreamReader reader);
  void follow(const std::string& id, std::int64_t from_seq, StreamReader reader);
  void seen(const std::string& id, std::int64_t seq);
  /// `service`: where it is known, the shard of such jobs (of that client) is asked for one that is not
  /// remembered, and no other one.
  void status(const std::string& id, std::function<void(Reply<JobStatus>)> callback, std::string service = {},
              std::string client = {});
  void cancel(const std::string& id, std::function<void(Reply<JobStatus>)> callback);
  void fetch(const std::string& id, std::chrono::milliseconds wait,
             std::function<void(FetchAnswer)> callback);
  void ping(std::function<void(Reply<BrokerPong>)> callback, std::string shard = {});
  /// Goes to the last of the shards, on which all gateways agree.
  void spend(const SpendRequest& request, std::function<void(Reply<BrokerSpent>)> callback);
  void stats(std::int64_t from, std::function<void(Reply<BrokerStats>)> callback, std::string shard = {});
  void admin(const AdminRequest& request, std::function<void(Reply<AdminDocument>)> callback);

  /// The shard that a new job of that service and client goes to, or where `id` is given and remembered the
  /// one that job went to last; empty: there are none, or nobody has said so yet.
  std::string shard_of(const std::string& service, const std::string& client = {},
                       const std::string& id = {}) const;
  /// The shard that spend() asks; empty: likewise.
  std::string shard_of_spend() const;

  /// Requests without an answer.
  std::size_t pending() const;
  ClientCounters counters() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq
