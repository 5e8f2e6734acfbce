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

#include "client/gateway/caller_limits.hpp"
#include "client/gateway/gateway.hpp"
#include "client/gateway/models.hpp"

namespace lanemq::gateway {

/// What a request asks of the broker.
struct JobPlan {
  Caller caller{};
  std::string lane{};                            ///< empty: the broker's default
  std::vector<RouteStep> steps{};                ///< at least one, each with its service
  std::shared_ptr<const ModelSettings> route{};  ///< null: there are no fall-backs
  std::string meta{};
  std::optional<wire::Cost> cost{};  ///< what is known of it beforehand
  Blob body{};
  std::string path{};  ///< of the request
  bool stream = false;
  bool repeatable = false;  ///< it changes nothing upstream: who got no answer in time may ask again
  std::optional<std::chrono::milliseconds> timeout{};  ///< of it all
  /// Of a stream: until its first content; one that runs is never ended by it.
  std::optional<std::chrono::milliseconds> first_content{};

  /// What the body of a whole answer becomes on its way to the caller; empty: it stays.
  std::function<Blob(const Blob&)> edit{};
  bool owns_answer = false;  ///< the upstream stores it for this caller, see ResponseOwners

  std::string idempotency_key{};
  std::string fingerprint{};  ///< of caller, path and body; empty: nobody will ask for it again
  bool is_retry = false;      ///< the SDK says that it has asked before
  bool may_return = false;    ///< of an SDK, which asks again when its time is over
};

/// How long before something is to be said of a job that has no content its state is asked for: the broker
/// answers within a turn, and where it does not, there is nothing to say.
inline constexpr std::chrono::milliseconds kLookTime{250};

/// What is known of how a job went, or goes.
struct JobFacts {
  std::string id{}, lane{}, served_by{};
  std::int64_t attempts = 0;
  std::optional<std::chrono::milliseconds> queued{}, ran{};
  bool replayed = false;
  bool unserved = false;  ///< no worker served it when it was looked at last
};

/// Who waits for a flight's answer. Everything is called on the loop's thread.
class FlightWatcher {
 public:
  virtual ~FlightWatcher() = default;
  /// A piece of a stream; to be answered by Flight::taken() when it has left.
  virtual void on_chunk(std::int64_t seq, const Blob& bytes) = 0;
  virtual void on_done(const JobDone& done) = 0;
  /// `chunks` of a stream may have gone out before.
  virtual void on_failed(const ClientError& error) = 0;
};

/// When to try again what no worker serves.
inline constexpr std::chrono::milliseconds kUnservedRetryAfter{10'000};

class Flights;

/// A request on its way through the broker: its job, the fall-backs after it, and all who wait for the
/// answer.
///
/// Belongs to the loop's thread and to its Flights, until it is over.
class Flight : public std::enable_shared_from_this<Flight> {
 public:
  Flight(Flights& flights, JobPlan plan, std::string id, bool replayed);

  void start();
  /// Tells a watcher all that there is from the beginning, and then what comes. Requires: joinable().
  void join(FlightWatcher& watcher);
  /// The watcher wants no more. Where nobody does, the job is cancelled: at once, or after the grace for an
  /// SDK's next try; or it goes on.
  void leave(FlightWatcher& watcher);
  /// The watcher is done with all pieces up to `seq`.
  void taken(FlightWatcher& watcher, std::int64_t seq);
  /// Asks the broker where the job is, so that the facts say how it goes before there is content. The answer
  /// comes within kLookTime, or not at all.
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

  Flights& flights_;
  JobPlan plan_;
  std::string base_id_;
  std::uint64_t generation_ = 0;  ///< of an Idempotency-Key; see find_generation()
  std::size_t looked_at_ = 0, looks_ = 0;
  JobFacts facts_;
  Loop::TimePoint started_;
  std::size_t step_ = 0;
  std::vector<Watch> watchers_;
  std::unique_ptr<Loop::Timer> content_timer_, step_timer_, service_timer_;
  int unserved_looks_ = 0;                    ///< in a row, at which no worker served it
  std::unique_ptr<Loop::Timer> grace_timer_;  ///< while nobody watches, and an SDK may come again
  Loop::TimePoint grace_until_{};

  std::size_t body_bytes_ = 0, seen_bytes_ = 0;  ///< of the request, of the stream
  StreamedIds streamed_ids_;
  bool holds_place_ = false;  ///< of the caller's, while nobody watches
  std::vector<Blob> chunks_;  ///< all so far, while it is joinable
  std::size_t chunk_bytes_ = 0;
  std::int64_t last_seq_ = -1, seen_ = -1;
  bool joinable_ = false, cancelled_ = false;
  std::optional<JobDone> done_;
  std::optional<ClientError> error_;
};

/// All flights, and how to find one that a request belongs to: by its Idempotency-Key, or by its fingerprint
/// where an SDK asks again.
class Flights {
 public:
  /// Pieces of one stream that are kept for who joins late; a longer one cannot be joined any more.
  static constexpr std::size_t kReplayBytesMax = std::size_t{256} * 1024;
  /// The same of a stream that nobody reads, and that goes on for the caller's next try.
  static constexpr std::size_t kDetachedBytesMax = std::size_t{4} * 1024 * 1024;
  /// Of a stream's beginning, in which the id of its response is looked for.
  /// Flights that are over and kept for the caller's next try.
  static constexpr std::size_t kKeptMax = 1'000;
  /// Flights that go on without anybody for the caller's next try.
  static constexpr std::size_t kInGraceMax = 1'000;
  /// Failed jobs of one Idempotency-Key that are looked at for one that goes on, or has an answer.
  static constexpr std::size_t kGenerationsMax = 100;
  static constexpr std::size_t kIdempotencyKeysMax = 100'000;

  Flights(Gateway& gateway, CallerLimits& limits) : gateway_(gateway), limits_(limits) {}

  /// The flight of a request: a new one, which start() has to be called on, or one that is joined.
  struct Boarded {
    std::shared_ptr<Flight> flight{};
    bool is_new = false;
  };
  tl::expected<Boarded, ApiError> board(JobPlan plan);
  /// The broker is away: ends the calls whose callers have had nothing yet. What streams goes on when it is
  /// back.
  void end_waiting();
  /// Whether board() would join a call that nobody waits for.
  bool resumes(const JobPlan& plan) const;

 private:
  friend class Flight;

  /// A key that a caller gave a request.
  struct Claim {
    std::string fingerprint;
    std::uint64_t generation = 0;  ///< raised after a failure, which is not what a caller wants to get again
    std::weak_ptr<Flight> flight{};
    bool done = false;
    Loop::TimePoint until{};
  };

  tl::expected<Boarded, ApiError> board_by_key(JobPlan plan);
  static std::string id_of_key(const JobPlan& plan, std::uint64_t generation);
  Boarded board_new(JobPlan plan, std::string id, bool replayed);
  void drop_old_claims();
  Claim* claim_of(const Flight& flight);
  std::shared_ptr<Flight> running_of(const JobPlan& plan) const;
  void settle(const Flight& flight);
  void over(Flight& flight, bool unread);
  void abandoned(Flight& flight);
  void forget(Flight& flight);

  Gateway& gateway_;
  CallerLimits& limits_;
  std::set<std::shared_ptr<Flight>> running_;
  std::unordered_map<std::string, std::weak_ptr<Flight>> by_fingerprint_;
  std::unordered_map<std::string, Claim> claims_;
  std::deque<std::string> claims_in_order_;
  struct Kept {
    std::shared_ptr<Flight> flight;
    Loop::TimePoint until;
    std::size_t bytes;
  };
  std::deque<Kept> kept_;
  std::size_t kept_bytes_ = 0;
  std::size_t in_grace_ = 0;
};

/// What tells two requests apart: of caller, method, path and body. Another one in each process, so that
/// nobody can make two that are taken for one.
std::string fingerprint_of(std::string_view caller, std::string_view path, std::string_view body);

}  // namespace lanemq::gateway
