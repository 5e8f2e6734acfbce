// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include <lanemq/client.hpp>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/calls/left_watch.hpp"
#include "client/gateway/door/gateway.hpp"
#include "client/gateway/limits/caller_limits.hpp"
#include "client/gateway/limits/fair_bound.hpp"
#include "client/gateway/limits/key_shares.hpp"
#include "common/http/server/router.hpp"

namespace lanemq::gateway {

/// A job that a caller leaves and asks for later.
struct LeftJob {
  JobRequest request{};  ///< with the caller's id, or none
  std::string body{};
  std::string asked{};                    ///< its Idempotency-Key; empty: it has none
  std::size_t tokens_bytes = 0;           ///< for CallerLimits::estimate()
  std::vector<StoredReference> stored{};  ///< that the job refers to
};

/// Reads a posted job: an API's `request` ({"endpoint", "body"}), or a `service` with its `body`. `http`: the
/// request that carried it.
tl::expected<LeftJob, ApiError> read_left_job(const Settings& settings, const Caller& caller,
                                              const HttpRequest& http);

/// A job's document: {"id", "object": "job", "state", ...}, with `result` or `error` after its end. `id`: as
/// the caller knows it.
std::string job_document(std::string_view id, const JobStatus& status);
std::string job_document(std::string_view id, const JobDone& done);
std::string job_document(std::string_view id, const ClientError& error);

/// What the ids at the broker of a caller's jobs begin with.
std::string own_job_ids(std::string_view caller);

/// Requests that wait for the broker's answer about a job.
class LeftWaiting {
 public:
  struct One {
    HttpRequest request{};
    ResponderPtr responder{};
  };
  /// Adds one, which waits while the result is held.
  std::shared_ptr<const One> add(One one);
  /// Answers all: the broker is away.
  void end_all();
  /// Answers those whose key counts no more.
  void end_refused(Gateway& gateway);

 private:
  static constexpr std::size_t kSweepLeast = 64;
  std::vector<std::weak_ptr<const One>> waiting_;  ///< at most twice as many as wait
  std::size_t sweep_at_ = kSweepLeast;
};

/// Serves `/v1/jobs`: work without a waiting caller. The jobs are the broker's: this gateway keeps nothing of
/// them, and any gateway of the same broker can answer. A caller sees only its own jobs: their ids at the
/// broker begin with a hash of its name.
class LeftJobRoutes {
 public:
  /// Streams of events at once; one caller has four fifths of it at most (may_take_one_of).
  static constexpr std::size_t kEventStreamsMax = 4'096, kTimesFree = 4;

  /// A left job counts as a request of its caller until it is over. Its estimated tokens are taken at once,
  /// and corrected at its end.
  /// `shares`: null, or the limits are shared out by the broker; it outlives this.
  LeftJobRoutes(Gateway& gateway, CallerLimits& limits, KeyShares* shares = nullptr)
      : gateway_(gateway), limits_(limits), shares_(shares), watch_(gateway, limits) {}

  void add_to(Router& router);
  /// The broker is away: answers those that wait for it. Streams of events go on.
  void end_waiting() { waiting_.end_all(); }
  /// Keys were taken away: answers those that wait with one of them.
  void end_refused() { waiting_.end_refused(gateway_); }
  /// Cancels the jobs of a caller that are followed; returns how many.
  std::size_t cancel_followed_of(std::string_view caller) { return watch_.cancel_all_of(caller); }

 private:
  tl::expected<std::string, HttpAnswer> admit(const HttpRequest& head);
  void leave(const HttpRequest& request, const ResponderPtr& responder);
  void leave_job(const HttpRequest& request, const ResponderPtr& responder, const Caller& caller,
                 tl::expected<LeftJob, ApiError> job);
  void leave_counted(const HttpRequest& request, const ResponderPtr& responder, const Caller& caller,
                     LeftJob job);
  void fetch(const HttpRequest& request, const ResponderPtr& responder);
  void events(const HttpRequest& request, const ResponderPtr& responder);
  std::shared_ptr<const void> place_of_events(const std::string& caller);
  void cancel(const HttpRequest& request, const ResponderPtr& responder);

  Gateway& gateway_;
  CallerLimits& limits_;
  KeyShares* const shares_;
  LeftWatch watch_;
  const std::shared_ptr<PlacesByOwner> event_streams_ =
      std::make_shared<PlacesByOwner>(kEventStreamsMax, kTimesFree);
  LeftWaiting waiting_;
};

}  // namespace lanemq::gateway
