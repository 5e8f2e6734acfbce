// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/calls/flights.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <xxhash.h>

#include <lanemq/text.hpp>

#include "client/gateway/apis/asked_again.hpp"
#include "client/gateway/apis/http_words.hpp"
#include "common/explanation/unserved.hpp"
#include "common/http/server/access/secret.hpp"
#include "common/ids/hex.hpp"
#include "common/ids/ulid.hpp"
#include "common/json/cursor.hpp"
#include "common/json/members.hpp"

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;

/// Looks at which no worker is there, one behind the other, until a request is refused for it: a worker that
/// is started again is missing at one of them.
constexpr int kUnservedLooks = 2;
/// How long the broker keeps the answer to a request without an Idempotency-Key. Nobody can ask for it but
/// this gateway, whose connection to the broker may break just then.
constexpr milliseconds kUnnamedRetain = std::chrono::minutes(2);
/// How often a job is submitted again that the broker has cancelled since it took this gateway for gone.
constexpr int kOrphanedMax = 3;
/// The same of one whose answer the broker has no more.
constexpr int kGoneMax = 3;
/// The pause before a job is submitted again that a stopping broker did not keep, where it says none.
constexpr milliseconds kStoppingPause{1000};
/// Bytes of all finished flights that are kept.
constexpr std::size_t kKeptBytesMax = std::size_t{64} * 1024 * 1024;

/// Whether another try would get the same error: the upstream's answer about the request itself.
bool is_final(const ClientError& error) {
  return error.code == "upstream_rejected" || error.code == "unsatisfiable" || error.code == "bad_request";
}

/// Whether the answer is no stream: an upstream may answer a stream's request in one piece.
bool came_whole(const JobPlan& plan, const JobDone& done) {
  return !plan.stream || (done.chunks == 0 && done.body.bytes().starts_with('{'));
}

/// Whether the job failed for a reason that may pass.
bool has_failed_for_now(const JobStatus& status) {
  if (status.state == "cancelled" || status.state == "expired") return true;
  return status.state == "failed" &&
         !is_final({.code = unquoted_json(member_bytes(status.error_json, "code")).value_or("")});
}

}  // namespace

std::string fingerprint_of(std::string_view caller, std::string_view path, std::string_view body) {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  const std::unique_ptr<XXH3_state_t, Free> state(XXH3_createState());
  static const std::uint64_t kSeed = [] {
    const auto entropy = system_entropy();
    std::uint64_t seed = 0;
    std::memcpy(&seed, entropy.data(), sizeof seed);
    return seed;
  }();
  XXH3_128bits_reset_withSeed(state.get(), kSeed);
  for (const std::string_view part : {caller, path, body}) {
    const std::uint64_t size = part.size();  // the size, so that no border between parts can be moved
    XXH3_128bits_update(state.get(), &size, sizeof size);
    XXH3_128bits_update(state.get(), part.data(), part.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return hex(hash.high64) + hex(hash.low64);
}

// ---- a flight -----------------------------------------------------------------------------------------

Flight::Flight(Flights& flights, JobPlan plan, std::string id)
    : flights_(flights),
      plan_(std::move(plan)),
      base_id_(std::move(id)),
      started_(flights.gateway_.loop.now()),
      body_bytes_(plan_.body.size()),
      joinable_(!plan_.fingerprint.empty()) {
  facts_.id = base_id_;
  facts_.lane = plan_.lane;
}

void Flight::start() {
  if (plan_.first_content) {
    content_timer_ = flights_.gateway_.loop.timer();
    look_and_then(*content_timer_, *plan_.first_content, [this] {
      give_up("deadline", "no content came within " + std::to_string(plan_.first_content->count()) +
                              " ms, which is all that the caller waits for");
    });
  }
  plan_.idempotency_key.empty() ? submit_step() : find_generation();
}

/// Does it after that time, and looks before where the job is, so that what is done knows.
void Flight::look_and_then(Loop::Timer& timer, milliseconds time, std::function<void()> what) {
  const milliseconds look_time = std::min(kLookTime, time / 2);
  timer.after(time - look_time, [this, &timer, look_time, what = std::move(what)] {
    // The timer's own function goes when it has another.
    const std::function<void()> then = what;
    timer.after(look_time, then);
    look();
  });
}

/// Finds the generation of an Idempotency-Key. The broker also keeps failed jobs and would return them again;
/// another gateway, or an earlier life of this one, may have left some. The first job of the key that did not
/// fail for a passing reason is meant.
void Flight::find_generation() {
  std::string id = base_id_;
  if (looked_at_ > 0) id += "-" + std::to_string(looked_at_);
  flights_.gateway_.broker.status(
      id,
      [weak = weak_from_this()](const Reply<JobStatus>& status) {
        if (const std::shared_ptr<Flight> self = weak.lock()) self->on_known(status);
      },
      plan_.steps[looked_at_].service, plan_.caller.client);
}

void Flight::on_known(const Reply<JobStatus>& status) {
  if (over() || cancelled_) return;
  const bool has_failed = status && has_failed_for_now(*status);
  const bool is_known = status && status->state != "unknown";
  if (has_failed && looked_at_ + 1 < plan_.steps.size()) {
    ++looked_at_;
    return find_generation();
  }
  // The first steps have failed, and no other was tried.
  if ((has_failed || (looked_at_ > 0 && !is_known)) && ++looks_ < Flights::kGenerationsMax) {
    looked_at_ = 0;
    base_id_ = flights_.next_id_of_key(*this);
    facts_.id = base_id_;
    return find_generation();
  }
  // What the broker has lost since, as with the store in memory, runs again and is paid again.
  facts_.replayed = is_known && (status->state == "succeeded" || status->state == "failed");
  if (facts_.replayed) ++flights_.gateway_.metrics.replayed;
  submit_step();
}

void Flight::submit_step() {
  Gateway& gateway = flights_.gateway_;
  const RouteStep& step = plan_.steps[step_];
  facts_.id = step_ == 0 ? base_id_ : base_id_ + "-" + std::to_string(step_);
  facts_.attempts = 0;
  facts_.queued.reset();
  facts_.unserved.clear();
  unserved_looks_ = 0;
  if (plan_.route) facts_.served_by = step.model;
  JobRequest job{.service = step.service,
                 .id = facts_.id,
                 .lane = plan_.lane,
                 .model = step.model,
                 .client = plan_.caller.client};
  if (plan_.timeout) {
    const auto passed = std::chrono::duration_cast<milliseconds>(gateway.loop.now() - started_);
    job.timeout = std::max(*plan_.timeout - passed, milliseconds(1));
  }
  job.retain = plan_.idempotency_key.empty() ? kUnnamedRetain : gateway.settings.idempotency_retain;
  job.cancel_when_gone = gateway.settings.detach == milliseconds(0);
  const bool has_next = plan_.route && step_ + 1 < plan_.steps.size();
  job.end_when_limited = has_next && falls_back(*plan_.route, {.code = "limited"});
  job.end_when_spent = has_next && falls_back(*plan_.route, {.code = "upstream_quota"});
  job.meta = plan_.meta;
  job.trace = plan_.trace;
  job.cost = plan_.cost;
  ++gateway.metrics.jobs;
  if (step.max_wait > milliseconds(0) && step_ + 1 < plan_.steps.size()) {
    if (!step_timer_) step_timer_ = gateway.loop.timer();
    look_and_then(*step_timer_, step.max_wait, [this] {
      const std::shared_ptr<Flight> self = shared_from_this();
      cancel_job();
      go_on({.code = "deadline",
             .message = "no content within the step's max_wait",
             .attempts = facts_.attempts,
             .local = true});
    });
  }
  watch_service();
  const auto ended = [weak = weak_from_this(), turn = step_](Answer answer) {
    if (const std::shared_ptr<Flight> self = weak.lock()) self->on_end(turn, std::move(answer));
  };
  if (!plan_.stream) return gateway.broker.submit(std::move(job), plan_.body, ended);
  StreamReader reader;
  reader.on_chunk = [weak = weak_from_this(), turn = step_](const JobChunk& chunk) {
    if (const std::shared_ptr<Flight> self = weak.lock()) self->on_chunk(turn, chunk);
  };
  reader.on_end = ended;
  reader.takes_at_once = false;
  gateway.broker.stream(std::move(job), plan_.body, std::move(reader));
}

void Flight::look() {
  if (over() || cancelled_ || last_seq_ >= 0) return;
  flights_.gateway_.broker.status(facts_.id,
                                  [weak = weak_from_this(), turn = step_](const Reply<JobStatus>& status) {
                                    const std::shared_ptr<Flight> self = weak.lock();
                                    if (self && status) self->on_status(turn, *status);
                                  });
}

void Flight::on_status(std::size_t step, const JobStatus& status) {
  if (over() || cancelled_ || step != step_ || last_seq_ >= 0 || status.state == "unknown") return;
  facts_.attempts = status.attempts;
  facts_.queued = status.queued;
  const std::optional<Unserved> unserved = unserved_of(status.blocked_by);
  facts_.unserved = unserved ? name_of(*unserved, "\"") : std::string();
}

void Flight::watch_service() {
  const milliseconds wait = flights_.gateway_.settings.no_worker_wait;
  if (wait == milliseconds(0)) return;
  if (!service_timer_) service_timer_ = flights_.gateway_.loop.timer();
  service_timer_->after(wait / kUnservedLooks, [this] {
    flights_.gateway_.broker.status(facts_.id,
                                    [weak = weak_from_this(), turn = step_](const Reply<JobStatus>& status) {
                                      if (const std::shared_ptr<Flight> self = weak.lock())
                                        self->on_service(turn, status);
                                    });
  });
}

void Flight::on_service(std::size_t step, const Reply<JobStatus>& status) {
  if (over() || cancelled_ || step != step_ || last_seq_ >= 0) return;
  if (status) on_status(step, *status);
  const bool is_unserved = status && unserved_of(status->blocked_by);
  unserved_looks_ = is_unserved ? unserved_looks_ + 1 : 0;
  unserved_looks_ < kUnservedLooks ? watch_service() : refuse_unserved();
}

void Flight::refuse_unserved() {
  const std::shared_ptr<Flight> self = shared_from_this();
  Gateway& gateway = flights_.gateway_;
  const std::string& service = plan_.steps[step_].service;
  ++gateway.metrics.unserved;
  gateway.refusal_log.note_unserved(service, gateway.loop.now());
  cancel_job();
  go_on({.code = "no_worker",
         .message = "no worker serves " + facts_.unserved + ", and none came within " +
                    std::to_string(gateway.settings.no_worker_wait.count()) +
                    " ms (no_worker_wait); start one, or try again later",
         .id = facts_.id,
         .retry_after = kUnservedRetryAfter,
         .local = true});
}

void Flight::on_chunk(std::size_t step, const JobChunk& chunk) {
  if (over() || cancelled_ || step != step_) return;
  if (last_seq_ < 0) {
    content_timer_.reset();
    step_timer_.reset();
    service_timer_.reset();
    if (!chunk.lane.empty()) facts_.lane = chunk.lane;
    facts_.attempts = chunk.attempts;
    facts_.queued = chunk.queued;
  }
  last_seq_ = chunk.seq;
  ++flights_.gateway_.metrics.chunks;
  seen_bytes_ += chunk.body.size();
  if (plan_.owns_answer || plan_.owns_parts) note_stored(streamed_ids_.take(chunk.body.bytes()));
  if (joinable_) {
    chunks_.push_back(chunk.body);
    chunk_bytes_ += chunk.body.size();
    const std::size_t most = watchers_.empty() ? Flights::kDetachedBytesMax : Flights::kReplayBytesMax;
    if (chunk_bytes_ > most) forget_bytes();
  }
  tell_chunk(chunk.seq, chunk.body);
  if (watchers_.empty()) say_seen();
}

void Flight::note_stored(const std::vector<std::string>& ids) {
  for (const std::string& id : ids)
    flights_.gateway_.responses.note(id, plan_.caller.name);
}

/// A watcher may join or leave others while it is told.
void Flight::tell_chunk(std::int64_t seq, const Blob& bytes) {
  if (watchers_.size() == 1) return watchers_.front().watcher->on_chunk(seq, bytes);
  const std::vector<Watch> watchers = watchers_;
  for (const Watch& watch : watchers)
    watch.watcher->on_chunk(seq, bytes);
}

/// Drops the bytes of a stream that can no longer be joined and has no reader.
void Flight::forget_bytes() {
  joinable_ = false;
  chunks_.clear();
  chunks_.shrink_to_fit();
  if (!watchers_.empty()) return;
  const std::shared_ptr<Flight> self = shared_from_this();
  give_up("deadline", "nobody reads the stream");
}

void Flight::on_end(std::size_t step, Answer answer) {
  if (over() || cancelled_ || step != step_) return;
  if (!answer) return go_on(answer.error());
  facts_.lane = answer->lane.empty() ? facts_.lane : answer->lane;
  facts_.attempts = answer->attempts;
  facts_.queued = answer->queued;
  facts_.ran = answer->ran;
  done_ = std::move(*answer);
  const bool is_whole = came_whole(plan_, *done_);
  const std::string_view bytes = done_->body.bytes();
  if (plan_.owns_answer || plan_.owns_parts)
    note_stored(!is_whole           ? streamed_ids_.take(bytes)
                : plan_.owns_answer ? stored_ids_of(bytes)
                                    : part_ids_of(bytes));
  finish();
}

bool Flight::may_fall_back(const ClientError& error) const {
  if (!plan_.route || step_ + 1 >= plan_.steps.size() || last_seq_ >= 0 || error.chunks > 0) return false;
  if (plan_.timeout && flights_.gateway_.loop.now() - started_ >= *plan_.timeout) return false;
  return falls_back(*plan_.route, error);
}

/// The broker lost sight of this gateway for long and has cancelled the job, and its caller is still there:
/// the same runs under another id, since the broker keeps the end of this one.
bool Flight::take_up_orphan(const ClientError& error) {
  const bool is_orphan = error.code == name_of(ErrorCode::cancelled) && error.message == kOrphanText;
  if (!is_orphan || last_seq_ >= 0 || error.chunks > 0 || ++again_.orphaned > kOrphanedMax) return false;
  base_id_ = flights_.claim_of(*this) != nullptr ? flights_.next_id_of_key(*this) : new_ulid();
  submit_step();
  return true;
}

/// The broker is stopping and did not keep the job: another one, or its next life, gets it. As when it is
/// silent, that is waited for.
bool Flight::wait_for_next_broker(const ClientError& error) {
  if (error.code != name_of(ErrorCode::draining) || error.local || last_seq_ >= 0 || error.chunks > 0)
    return false;
  Gateway& gateway = flights_.gateway_;
  const Loop::TimePoint now = gateway.loop.now();
  if (!again_.stopping_since) again_.stopping_since = now;
  if (gateway.draining || now - *again_.stopping_since >= gateway.settings.broker_wait) return false;
  service_timer_.reset();
  step_timer_ = gateway.loop.timer();
  step_timer_->after(error.retry_after.value_or(kStoppingPause), [this] {
    const std::shared_ptr<Flight> self = shared_from_this();
    submit_step();
  });
  return true;
}

/// The broker knows the job of an Idempotency-Key, and has its answer no more, as that of a stream after a
/// restart: it runs again.
bool Flight::run_again_where_gone(const ClientError& error) {
  const bool is_gone = error.code == name_of(ErrorCode::gone) && !error.local;
  if (!is_gone || flights_.claim_of(*this) == nullptr || last_seq_ >= 0 || ++again_.gone > kGoneMax)
    return false;
  facts_.replayed = false;
  base_id_ = flights_.next_id_of_key(*this);
  submit_step();
  return true;
}

void Flight::go_on(const ClientError& why) {
  step_timer_.reset();
  if (take_up_orphan(why) || run_again_where_gone(why) || wait_for_next_broker(why)) return;
  if (may_fall_back(why)) {
    ++flights_.gateway_.metrics.fall_backs;
    ++step_;
    return submit_step();
  }
  if (!why.local) {
    facts_.attempts = why.attempts;
    facts_.queued = why.queued;
  }
  error_ = why;
  finish();
}

void Flight::give_up(std::string code, const std::string& message) {
  if (over() || cancelled_) return;
  const std::shared_ptr<Flight> self = shared_from_this();
  cancel_job();
  error_ = ClientError{.code = std::move(code),
                       .message = message,
                       .id = facts_.id,
                       .attempts = facts_.attempts,
                       .local = true};
  finish();
}

void Flight::finish() {
  const std::shared_ptr<Flight> self = shared_from_this();
  content_timer_.reset();
  step_timer_.reset();
  service_timer_.reset();
  plan_.body = {};
  end_grace();
  release_place();
  flights_.settle(*this);
  const bool unread = watchers_.empty();
  const std::vector<Watch> watchers = std::exchange(watchers_, {});
  for (const Watch& watch : watchers)
    done_ ? watch.watcher->on_done(*done_) : watch.watcher->on_failed(*error_);
  flights_.over(*this, unread);
}

/// Cancels the job; a look under way is no longer reported.
void Flight::cancel_job() {
  flights_.gateway_.broker.cancel(
      facts_.id, [&limits = flights_.limits_, &loop = flights_.gateway_.loop, caller = plan_.caller,
                  bytes = costs_tokens() ? body_bytes_ : 0](const Reply<JobStatus>& status) {
        if (status && status->attempts > 0) limits.spend_estimate(caller, bytes, loop.now());
      });
}

bool Flight::costs_tokens() const {
  return !plan_.cost || plan_.cost->input_tokens != 0;
}

void Flight::hold_place() {
  if (!std::exchange(holds_place_, true)) flights_.limits_.hold(plan_.caller);
}

void Flight::release_place() {
  if (std::exchange(holds_place_, false)) flights_.limits_.release(plan_.caller);
}

void Flight::join(FlightWatcher& watcher) {
  const std::shared_ptr<Flight> self = shared_from_this();
  end_grace();
  release_place();
  if (!over()) watchers_.push_back({.watcher = &watcher});
  const std::vector<Blob> chunks = chunks_;
  for (std::size_t i = 0; i < chunks.size(); ++i)
    watcher.on_chunk(static_cast<std::int64_t>(i), chunks[i]);
  if (done_) watcher.on_done(*done_);
  if (error_) watcher.on_failed(*error_);
}

void Flight::leave(FlightWatcher& watcher) {
  std::erase_if(watchers_, [&](const Watch& watch) { return watch.watcher == &watcher; });
  if (!watchers_.empty() || over() || cancelled_) return;
  if (flights_.gateway_.settings.detach > milliseconds(0) && joinable_) {
    hold_place();
    return say_seen();
  }
  if (may_have_grace()) {
    hold_place();
    return begin_grace();
  }
  abandon();
}

/// Whether an SDK may ask again: after its timeout it does so within half a second, or a second the next
/// time. A stream's reader that hangs up has rather read enough.
bool Flight::may_have_grace() const {
  return plan_.may_return && !plan_.stream && joinable_ && flights_.in_grace_.may_take(plan_.caller.name) &&
         flights_.gateway_.settings.retry_grace > milliseconds(0);
}

void Flight::begin_grace() {
  flights_.in_grace_.take(plan_.caller.name);
  const milliseconds grace = flights_.gateway_.settings.retry_grace;
  grace_until_ = flights_.gateway_.loop.now() + grace;
  grace_timer_ = flights_.gateway_.loop.timer();
  grace_timer_->after(grace, [this] {
    end_grace();
    abandon();
  });
}

void Flight::end_grace() {
  if (!grace_timer_) return;
  flights_.in_grace_.give_back(plan_.caller.name);
  grace_timer_.reset();
}

void Flight::abandon() {
  const std::shared_ptr<Flight> self = shared_from_this();
  cancelled_ = true;
  content_timer_.reset();
  step_timer_.reset();
  service_timer_.reset();
  ++flights_.gateway_.metrics.cancelled;
  release_place();
  flights_.settle(*this);
  cancel_job();
  flights_.abandoned(*this);
}

void Flight::taken(FlightWatcher& watcher, std::int64_t seq) {
  for (Watch& watch : watchers_)
    if (watch.watcher == &watcher) watch.taken = std::max(watch.taken, seq);
  say_seen();
}

/// Tells the client what every watcher has taken; the client batches that.
void Flight::say_seen() {
  if (over() || cancelled_ || !plan_.stream) return;
  std::int64_t all = last_seq_;
  for (const Watch& watch : watchers_)
    all = std::min(all, watch.taken);
  if (all <= seen_) return;
  seen_ = all;
  flights_.gateway_.broker.seen(facts_.id, all);
}

// ---- all of them --------------------------------------------------------------------------------------

tl::expected<Flights::Boarded, ApiError> Flights::board(JobPlan plan) {
  if (!plan.idempotency_key.empty()) return board_by_key(std::move(plan));
  if (std::shared_ptr<Flight> flight = running_of(plan)) {
    ++gateway_.metrics.joined;
    return Boarded{.flight = std::move(flight)};
  }
  return board_new(std::move(plan), new_ulid());
}

/// Null: there is no flight that the request may join.
std::shared_ptr<Flight> Flights::running_of(const JobPlan& plan) const {
  std::weak_ptr<Flight> found;
  if (!plan.idempotency_key.empty()) {
    const auto at = claims_.find(plan.caller.name + "\n" + plan.idempotency_key);
    if (at != claims_.end() && at->second.fingerprint == plan.fingerprint) found = at->second.flight;
  } else if (plan.is_retry && !plan.fingerprint.empty()) {
    const auto at = by_fingerprint_.find(plan.fingerprint);
    if (at != by_fingerprint_.end()) found = at->second;
  }
  std::shared_ptr<Flight> flight = found.lock();
  return flight && flight->joinable() ? flight : nullptr;
}

void Flights::end_waiting(const std::string& shard) {
  const std::set<std::shared_ptr<Flight>> running = running_;
  for (const std::shared_ptr<Flight>& flight : running) {
    const std::string& service = flight->plan_.steps[flight->step_].service;
    const std::string& client = flight->plan_.caller.client;
    if (!shard.empty() && gateway_.broker.shard_of(service, client, flight->facts_.id) != shard) continue;
    if (flight->last_seq_ < 0 && !flight->watchers_.empty())
      flight->give_up("unavailable", silence_of_queue(shard) + "; try again");
  }
}

std::size_t Flights::end_calls_of(std::string_view caller) {
  std::vector<std::shared_ptr<Flight>> ended;
  for (const std::shared_ptr<Flight>& flight : running_)
    if (flight->plan_.caller.name == caller) ended.push_back(flight);
  for (const std::shared_ptr<Flight>& flight : ended)
    flight->give_up(std::string(name_of(ErrorCode::forbidden)), "the key of this call was taken away");
  return ended.size();
}

std::int64_t Flights::spare_places(const JobPlan& plan) const {
  const std::string response = response_of(plan.path);
  if (!response.empty() && background_.knows(response, plan.caller.name)) return CallerLimits::kAnyPlace;
  const std::shared_ptr<Flight> flight = running_of(plan);
  return flight && flight->holds_place_ ? 1 : 0;
}

tl::expected<Flights::Boarded, ApiError> Flights::board_by_key(JobPlan plan) {
  drop_old_claims(plan.caller.name);
  const std::string name = plan.caller.name + "\n" + plan.idempotency_key;
  const auto [at, fresh] = claims_.try_emplace(name);
  Claim& claim = at->second;
  if (fresh) {
    claim.fingerprint = plan.fingerprint;
    claim.until = gateway_.loop.now() + gateway_.settings.idempotency_retain;
    claims_in_order_.push(plan.caller.name, name);
  } else if (claim.fingerprint != plan.fingerprint) {
    return tl::unexpected(
        ApiError{.name = "conflict",
                 .message = "this Idempotency-Key came with another path or body before; use a new key",
                 .param = "idempotency-key"});
  }
  const std::shared_ptr<Flight> running = claim.flight.lock();
  if (running && running->joinable()) {
    ++gateway_.metrics.joined;
    return Boarded{.flight = running};
  }
  if (running)
    return tl::unexpected(ApiError{
        .name = "conflict",
        .message = "the request with this Idempotency-Key is still being answered, and its stream has more "
                   "than " +
                   std::to_string(kReplayBytesMax) + " bytes, which is all that is kept for joining it",
        .param = "idempotency-key"});
  Boarded boarded = board_new(std::move(plan), id_of_key(plan, claim.generation));
  boarded.flight->generation_ = claim.generation;
  claim.flight = boarded.flight;
  return boarded;
}

/// The job's id of an Idempotency-Key: the same at each gateway, and such that nobody finds another key with
/// it.
std::string Flights::id_of_key(const JobPlan& plan, std::uint64_t generation) {
  const std::string id = "idem-" + name_of_asked(plan.caller.name, plan.idempotency_key);
  return generation == 0 ? id : id + ".g" + std::to_string(generation);
}

/// The next one: the job of the flight's present id is not the one that its caller wants.
std::string Flights::next_id_of_key(Flight& flight) {
  ++flight.generation_;
  if (Claim* const claim = claim_of(flight)) claim->generation = flight.generation_;
  return id_of_key(flight.plan(), flight.generation_);
}

Flights::Boarded Flights::board_new(JobPlan plan, std::string id) {
  const std::string fingerprint = plan.fingerprint;
  auto flight = std::make_shared<Flight>(*this, std::move(plan), std::move(id));
  running_.insert(flight);
  if (!fingerprint.empty()) by_fingerprint_[fingerprint] = flight;
  return {.flight = std::move(flight), .is_new = true};
}

void Flights::drop_old_claims(const std::string& caller) {
  const Loop::TimePoint now = gateway_.loop.now();
  claims_in_order_.take_while(
      caller, [&](const std::string& name) { return claims_.at(name).until <= now; },
      [&](const std::string& name) { claims_.erase(name); });
  while (claims_.size() >= kIdempotencyKeysMax)
    claims_.erase(claims_in_order_.take_of_most());
}

Flights::Claim* Flights::claim_of(const Flight& flight) {
  if (flight.plan().idempotency_key.empty()) return nullptr;
  const auto at = claims_.find(flight.plan().caller.name + "\n" + flight.plan().idempotency_key);
  return at == claims_.end() ? nullptr : &at->second;
}

/// Charges an ended flight's tokens: the reported ones, else by its bytes. A cancelled request's estimate is
/// charged if the broker says that it was under way.
void Flights::settle(const Flight& flight) {
  const JobPlan& plan = flight.plan();
  const Caller& caller = plan.caller;
  if (!caller.key || flight.facts_.replayed) return;
  if (const std::string id = response_of(plan.path); flight.done_ && !id.empty())
    came_whole(plan, *flight.done_) ? background_.heard(id, flight.done_->body)
                                    : background_.ended(id, CallerLimits::told(flight.done_->usage));
  if (!flight.costs_tokens() || (plan.background_bytes > 0 && settle_background(flight))) return;
  const Loop::TimePoint now = gateway_.loop.now();
  std::size_t bytes = flight.seen_bytes_;
  if (flight.done_) {
    if (const auto told = CallerLimits::told(flight.done_->usage))
      return limits_.spend_tokens(caller, *told, now);
    bytes += flight.body_bytes_ + flight.done_->body.size();
  } else if (flight.error_ && !flight.error_->local) {
    const bool was_stopped = flight.error_->code == "deadline" || flight.error_->code == "cancelled";
    if (bytes > 0 || (was_stopped && flight.error_->attempts > 0)) bytes += flight.body_bytes_;
  }
  limits_.spend_estimate(caller, bytes, now);
}

/// The upstream goes on with the response: its tokens are known later. False: it does not, or nobody knows.
bool Flights::settle_background(const Flight& flight) {
  if (flight.done_ && CallerLimits::told(flight.done_->usage)) return false;
  const std::string_view answer = flight.done_ ? flight.done_->body.bytes() : std::string_view();
  std::string id = flight.streamed_ids_.first();
  if (answer.starts_with('{')) {
    const ResponseState state = state_of_response(answer);
    id = state.goes_on ? state.id : std::string();
  }
  if (id.empty()) return false;
  const JobPlan& plan = flight.plan();
  const RouteStep& step = plan.steps[flight.step_];
  background_.begin(
      {.caller = plan.caller, .service = step.service, .lane = flight.facts_.lane, .model = step.model}, id,
      limits_.spend_estimate(plan.caller, plan.background_bytes, gateway_.loop.now()));
  return true;
}

/// A flight has its answer. Requires: the caller holds a reference.
void Flights::over(Flight& flight, bool unread) {
  const Loop::TimePoint now = gateway_.loop.now();
  const bool keeps =
      flight.done_ || is_final(*flight.error_);  // after a passing failure the request runs anew
  if (Claim* claim = claim_of(flight); claim != nullptr && !keeps) ++claim->generation;
  const bool detached = gateway_.settings.detach > milliseconds(0);
  const Loop::TimePoint until = detached ? now + gateway_.settings.detach : flight.grace_until_;
  if (unread && keeps && flight.joinable() && until > now) {
    const std::size_t bytes = flight.chunk_bytes_ + (flight.done_ ? flight.done_->body.size() : 0);
    kept_.push(flight.plan().caller.name, {.flight = flight.shared_from_this(), .until = until}, bytes + 1);
  } else {
    forget(flight);
  }
  running_.erase(flight.shared_from_this());
  kept_.take_while([&](const Kept& kept) { return kept.until <= now; },
                   [&](const Kept& kept) { forget(*kept.flight); });
  while (kept_.size() > kKeptMax || kept_.weight() > kKeptBytesMax)
    forget(*kept_.take_of_most().flight);
}

/// A flight has no watcher, and its job is cancelled. Requires: the caller holds a reference.
void Flights::abandoned(Flight& flight) {
  if (Claim* claim = claim_of(flight)) ++claim->generation;
  forget(flight);
  running_.erase(flight.shared_from_this());
}

void Flights::forget(Flight& flight) {
  const auto at = by_fingerprint_.find(flight.plan().fingerprint);
  if (at != by_fingerprint_.end() && at->second.lock().get() == &flight) by_fingerprint_.erase(at);
}

}  // namespace lanemq::gateway
