// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <lanemq/client.hpp>

#include "client/library/session.hpp"

namespace lanemq::client {

/// Makes requests from what callers ask: encoded, with ids and deadlines, as far as there is room.
///
/// Each request takes a place, and room for its body, until it gives them back; a refused one takes nothing.
/// The caller sets handlers. Thread-safe.
class RequestDesk {
 public:
  using Made = Reply<Request>;

  /// `options` outlive this.
  explicit RequestDesk(const ClientOptions& options);

  /// `kind`: submit, stream or leave.
  Made submit(RequestKind kind, JobRequest job, const Blob& body);
  Made stream(JobRequest job, const Blob& body, StreamReader& reader);
  Made follow(const std::string& id, std::int64_t from_seq, StreamReader& reader);
  /// `service`, `client`: the job's, where they are known; empty: they are not.
  Made status(const std::string& id, std::string service = {}, std::string client = {});
  Made cancel(const std::string& id);
  Made fetch(const std::string& id, std::chrono::milliseconds wait);
  /// `shard`: the one that is asked; empty: the broker at the endpoint.
  Made ping(std::string shard = {});
  Made spend(const SpendRequest& request);
  Made stats(std::int64_t from, std::string shard = {});
  Made admin(const AdminRequest& request);
  Made watch(const WatchRequest& request, WatchReader& reader);

  /// Questions on the way to a request's answer: for the state of its job, and for what the broker says of
  /// shards. They have the request's ref, since that one waits meanwhile, and take no place of their own.
  Request question_of_state(const Request& request) const;
  Request question_of_shards(const Request& request) const;

  /// Gives back a request's place and its body's room.
  void give_back(std::size_t body_bytes);
  /// Gives back the body's room alone: the body is not needed any more.
  void give_back_bytes(std::size_t body_bytes);

  /// Places taken.
  std::size_t pending() const { return pending_.load(std::memory_order_relaxed); }

 private:
  std::optional<ClientError> take_place(std::size_t body_bytes);
  std::uint64_t next_ref() { return last_ref_.fetch_add(1, std::memory_order_relaxed) + 1; }
  template <class Message>
  Request question(RequestKind kind, const Request& request, Message query) const;
  template <class Message>
  Made ask(RequestKind kind, std::string id, Message query, std::chrono::milliseconds timeout);

  const ClientOptions& options_;
  std::atomic<std::uint64_t> last_ref_{0};
  std::atomic<std::size_t> pending_{0}, pending_bytes_{0};
};

}  // namespace lanemq::client
