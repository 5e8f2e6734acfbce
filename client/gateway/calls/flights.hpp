// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/client.hpp>

#include "client/gateway/calls/background_responses.hpp"
#include "client/gateway/door/gateway.hpp"
#include "client/gateway/door/models.hpp"
#include "client/gateway/limits/caller_limits.hpp"
#include "client/gateway/limits/fair_bound.hpp"

namespace lanemq::gateway {

/// How to run a request as a job.
struct JobPlan {
  Caller caller{};
  std::string lane{};                            ///< empty: the broker's default
  std::vector<RouteStep> steps{};                ///< at least one; each names its service
  std::shared_ptr<const ModelSettings> route{};  ///< null: there are no fall-backs
  std::string meta{}, trace{};                   ///< as in JobRequest
  std::optional<wire::Cost> cost{};              ///< of the request, as far as known
  Blob body{};
  std::string path{};  ///< of the request
  bool stream = false;
  /// Of a response in the background whose key has limits, for CallerLimits::estimate(); 0: it is none.
  std::size_t background_bytes = 0;
  bool repeatable = false;  ///< changes nothing upstream, so that a late caller may ask again
  std::optional<std::chrono::milliseconds> timeout{};  ///< of all steps together
  /// Of a stream: until its first content; it never ends a stream that runs.
  std::optional<std::chrono::milliseconds> first_content{};

  /// Edits a whole answer's body for the caller; empty: unchanged.
  std::function<Blob(const Blob&)> edit{};
  bool owns_answer = false;  ///< the upstream stores the answer for this caller: see ResponseOwners
  bool owns_parts = false;   ///< the same of parts of it: see part_ids_of()

  std::string idempotency_key{};
  std::string fingerprint{};  ///< of caller, path and body; empty: never joined
  bool is_retry = false;      ///< the SDK says that this is a retry
  bool may_return = false;    ///< from an SDK, which retries after its timeout
};

/// How long before a message about a job without content its state is asked for. The broker answers within a
/// turn; if it does not there is nothing to report.
inline constexpr std::chrono::milliseconds kLookTime{250};

/// What is known of a job's progress.
struct JobFacts {
  std::string id{}, lane{}, served_by{};
  std::int64_t attempts = 0;
  std::optional<std::chrono::milliseconds> queued{}, ran{};
  bool replayed = false;   ///< the broker had the answer to this Idempotency-Key before it was asked
  std::string unserved{};  ///< what no worker served when it was looked at last; empty: one did
};

/// A caller's side of a flight. Called on the loop's thread.
class FlightWatcher {
 public:
  virtual ~FlightWatcher() = default;
  /// A piece of a stream; call Flight::taken() after it was sent.
  virtual void on_chunk(std::int64_t seq, const Blob& bytes) = 0;
  virtual void on_done(const JobDone& done) = 0;
  /// A stream may have sent `chunks` before.
  virtual void on_failed(const ClientError& error) = 0;
};

/// When to try again what no worker serves.
inline constexpr std::chrono::milliseconds kUnservedRetryAfter{10'000};

class Flights;

/// A request on its way through the broker: its job, the fall-backs after it, and all callers that wait for
/// the answer. Belongs to the loop's thread and, until it is over, to its Flights.
class Flight : public std::enable_shared_from_this<Flight> {
 public:
  Flight(Flights& flights, JobPlan plan, std::string id);

  void start();
  /// Adds a watcher, which gets everything from the beginning. Requires: joinable().
  void join(FlightWatcher& watcher);
  /// Removes a watcher. Without watchers the job is cancelled, at once or after the time for an SDK's next
  /// try; or it goes on.
  void leave(FlightWatcher& watcher);
  /// The watcher has sent all pieces up to `seq`.
  void taken(FlightWatcher& watcher, std::int64_t seq);
  /// Asks the broker for the job's state, so that facts() are known before there is content. The answer comes
  /// within kLookTime, or not at all.
  void look();

  bool joinable() const { return joinable_ && !cancelled_; }
  bool over() const { return done_ || error_; }
  const JobFacts& facts() const { return facts_; }
  const JobPlan& plan() const { return plan_; }

 private:
  friend class Flights;
  struct Watch {
    FlightWatcher* watcher;
    std::int64_t taken = -1;
  };

  void find_generation();
  void on_known(const Reply<JobStatus>& status);
  void submit_step();
  void look_and_then(Loop::Timer& timer, std::chrono::milliseconds time, std::function<void()> what);
  void say_seen();
  void on_status(std::size_t step, const JobStatus& status);
  void watch_service();
  void on_service(std::size_t step, const Reply<JobStatus>& status);
  void refuse_unserved();
  void on_chunk(std::size_t step, const JobChunk& chunk);
  void tell_chunk(std::int64_t seq, const Blob& bytes);
  void on_end(std::size_t step, Answer answer);
  void go_on(const ClientError& why);
  void give_up(std::string code, const std::string& message);
  void finish();
  void forget_bytes();
  bool may_have_grace() const;
  bool costs_tokens() const;
  void note_stored(const std::vector<std::string>& ids);
  void hold_place();
  void release_place();
  void begin_grace();
  void end_grace();
  void abandon();
  void cancel_job();
  bool may_fall_back(const ClientError& error) const;
  bool take_up_orphan(const ClientError& error);
  bool run_again_where_gone(const ClientError& error);
  bool wait_for_next_broker(const ClientError& error);

  Flights& flights_;
  JobPlan plan_;
  std::string base_id_;
  std::uint64_t generation_ = 0;  ///< of the Idempotency-Key: see find_generation()
  /// Why it was submitted again.
  struct {
    int orphaned = 0;                                 ///< how often the broker took this gateway for gone
    int gone = 0;                                     ///< how often the broker had an answer no more
    std::optional<Loop::TimePoint> stopping_since{};  ///< when a broker first said that it stops
  } again_;
  std::size_t looked_at_ = 0, looks_ = 0;
  JobFacts facts_;
  Loop::TimePoint started_;
  std::size_t step_ = 0;
  std::vector<Watch> watchers_;
  std::unique_ptr<Loop::Timer> content_timer_, step_timer_, service_timer_;
  int unserved_looks_ = 0;                    ///< in a row, at which no worker served it
  std::unique_ptr<Loop::Timer> grace_timer_;  ///< while nobody watches, and an SDK may ask again
  Loop::TimePoint grace_until_{};

  std::size_t body_bytes_ = 0, seen_bytes_ = 0;  ///< of the request; of the stream
  StreamedIds streamed_ids_;
  bool holds_place_ = false;  ///< counted for the caller while nobody watches
  std::vector<Blob> chunks_;  ///< all so far, while the flight is joinable
  std::size_t chunk_bytes_ = 0;
  std::int64_t last_seq_ = -1, seen_ = -1;
  bool joinable_ = false, cancelled_ = false;
  std::optional<JobDone> done_;
  std::optional<ClientError> error_;
};

/// All flights. Finds the one that a request belongs to: by Idempotency-Key, or for an SDK's retry by
/// fingerprint.
class Flights {
 public:
  /// Bytes of a stream that are kept for late watchers; a longer stream cannot be joined.
  static constexpr std::size_t kReplayBytesMax = std::size_t{256} * 1024;
  /// The same for a stream without a watcher that goes on for its caller's next try.
  static constexpr std::size_t kDetachedBytesMax = std::size_t{4} * 1024 * 1024;
  /// Finished flights that are kept for their callers' next try. Beyond it the oldest goes of who has most.
  static constexpr std::size_t kKeptMax = 1'000;
  /// Flights without a watcher that go on for their callers' next try; one caller has four fifths of it at
  /// most (may_take_one_of).
  static constexpr std::size_t kInGraceMax = 1'000, kTimesFree = 4;
  /// Jobs of an Idempotency-Key that are asked for one that did not fail.
  static constexpr std::size_t kGenerationsMax = 100;
  /// Beyond it the oldest is forgotten of who has most.
  static constexpr std::size_t kIdempotencyKeysMax = 100'000;

  Flights(Gateway& gateway, CallerLimits& limits)
      : gateway_(gateway), limits_(limits), background_(gateway.loop, limits, ask_by_job(gateway)) {}

  /// A request's flight: a new one, on which start() must be called, or a joined one.
  struct Boarded {
    std::shared_ptr<Flight> flight{};
    bool is_new = false;
  };
  tl::expected<Boarded, ApiError> board(JobPlan plan);
  /// The broker is away, or that shard: ends the calls without content that wait for it. Streams go on when
  /// it is back.
  void end_waiting(const std::string& shard = {});
  /// Ends the calls of a caller whose key is no more, and cancels their jobs; returns how many.
  std::size_t end_calls_of(std::string_view caller);
  /// Has upstreams stop the responses in the background of a caller; returns how many.
  std::size_t stop_background_of(std::string_view caller) { return background_.stop_all_of(caller); }
  /// Whether one more response in the background could not be followed.
  bool background_full(const Caller& caller) const { return background_.full(caller); }
  /// The places of its caller that the request may use: that of a call without a watcher which board() would
  /// join, and any for a response of its own in the background.
  std::int64_t spare_places(const JobPlan& plan) const;

 private:
  friend class Flight;

  /// The Idempotency-Key of a request.
  struct Claim {
    std::string fingerprint;
    std::uint64_t generation = 0;  ///< raised after a failure that a caller does not want again
    std::weak_ptr<Flight> flight{};
    Loop::TimePoint until{};
  };

  tl::expected<Boarded, ApiError> board_by_key(JobPlan plan);
  static std::string id_of_key(const JobPlan& plan, std::uint64_t generation);
  std::string next_id_of_key(Flight& flight);
  Boarded board_new(JobPlan plan, std::string id);
  void drop_old_claims(const std::string& caller);
  Claim* claim_of(const Flight& flight);
  std::shared_ptr<Flight> running_of(const JobPlan& plan) const;
  void settle(const Flight& flight);
  bool settle_background(const Flight& flight);
  void over(Flight& flight, bool unread);
  void abandoned(Flight& flight);
  void forget(Flight& flight);

  Gateway& gateway_;
  CallerLimits& limits_;
  BackgroundResponses background_;
  std::set<std::shared_ptr<Flight>> running_;
  std::unordered_map<std::string, std::weak_ptr<Flight>> by_fingerprint_;
  std::unordered_map<std::string, Claim> claims_;
  KeptByOwner<std::string> claims_in_order_;  ///< by caller
  struct Kept {
    std::shared_ptr<Flight> flight;
    Loop::TimePoint until;
  };
  KeptByOwner<Kept> kept_;  ///< by caller, and weighed by their bytes
  PlacesByOwner in_grace_{kInGraceMax, kTimesFree};
};

/// A hash of caller, method, path and body, different in each process: so nobody can make two requests with
/// the same one.
std::string fingerprint_of(std::string_view caller, std::string_view path, std::string_view body);

}  // namespace lanemq::gateway
