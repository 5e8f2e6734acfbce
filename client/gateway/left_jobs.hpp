// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include <lanemq/client.hpp>

#include "client/gateway/caller_limits.hpp"
#include "client/gateway/gateway.hpp"
#include "client/gateway/http/router.hpp"
#include "client/gateway/left_watch.hpp"

namespace lanemq::gateway {

/// A job that a caller leaves here and asks for later.
struct LeftJob {
  JobRequest request{};  ///< its id is the caller's, or empty
  std::string body{};
  std::size_t tokens_bytes = 0;           ///< what it may cost, as CallerLimits::estimate() takes it
  std::vector<StoredReference> stored{};  ///< that it refers to
};

/// Reads what a caller posts: a `request` of one of the APIs ({"endpoint", "body"}), or a `service` with a
/// `body` of its own; `http` is the request that it came with.
tl::expected<LeftJob, ApiError> read_left_job(const Settings& settings, const Caller& caller,
                                              const HttpRequest& http);

/// A job's document: {"id", "object": "job", "state", ...}, with `result` or `error` when it is over. `id` is
/// as the caller knows it.
std::string job_document(std::string_view id, const JobStatus& status);
std::string job_document(std::string_view id, const JobDone& done);
std::string job_document(std::string_view id, const ClientError& error);

/// Whether an error is how a job ended, and not why nothing is known of it.
bool is_end_of_job(const ClientError& error);

/// Who waits for the broker's word on a job.
class LeftWaiting {
 public:
  struct One {
    HttpRequest request{};
    ResponderPtr responder{};
  };
  /// Waits for as long as the result is held.
  std::shared_ptr<const One> add(One one);
  /// Tells all that the broker is away.
  void end_all();

 private:
  static constexpr std::size_t kSweepLeast = 64;
  std::vector<std::weak_ptr<const One>> waiting_;  ///< at most twice as many as wait
  std::size_t sweep_at_ = kSweepLeast;
};

/// `/v1/jobs`: work that nobody waits for on a connection. Jobs are the broker's: nothing of them is kept
/// here, and any gateway of the same broker answers for them. A caller sees its own alone: at the broker
/// their ids begin with a hash of the caller's name.
class LeftJobRoutes {
 public:
  /// A job that is left counts as one of the caller's requests until it is over; what it may cost in tokens
  /// is taken at once, and set right at its end.
  LeftJobRoutes(Gateway& gateway, CallerLimits& limits)
      : gateway_(gateway), limits_(limits), watch_(gateway, limits) {}

  void add_to(Router& router);
  /// The broker is away: tells who waits for its word. Streams of events go on.
  void end_waiting() { waiting_.end_all(); }

 private:
  tl::expected<std::string, HttpAnswer> admit(const HttpRequest& head);
  void leave(const HttpRequest& request, const ResponderPtr& responder);
  void leave_job(const HttpRequest& request, const ResponderPtr& responder, const Caller& caller,
                 tl::expected<LeftJob, ApiError> job);
  void fetch(const HttpRequest& request, const ResponderPtr& responder);
  void events(const HttpRequest& request, const ResponderPtr& responder);
  void cancel(const HttpRequest& request, const ResponderPtr& responder);

  Gateway& gateway_;
  CallerLimits& limits_;
  LeftWatch watch_;
  LeftWaiting waiting_;
};

}  // namespace lanemq::gateway
