// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/worker_desk.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/text.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/desks/admission.hpp"
#include "broker/core/life/handover.hpp"
#include "broker/core/life/job_life.hpp"
#include "broker/core/life/progress_keeper.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/life/streams.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/upstreams.hpp"

namespace lanemq::core {
namespace {

/// So many outcomes are acknowledged together; fewer at the heartbeat.
constexpr std::size_t kAcksMax = 64;
/// A worker that is silent for this many heartbeats is lost.
constexpr int kSilentHeartbeatsMax = 3;
/// A worker that is silent for this many half heartbeats has missed one, and gets no further jobs.
constexpr int kMissedHalvesMax = 3;
/// A job missing from this many inventories in a row never arrived.
constexpr int kMissingMax = 2;
/// Sessions of lost workers that are kept at a time, and jobs of each: those beyond are lost for good.
constexpr std::size_t kLostSessionsMax = 256, kLostJobsMax = 4096;
/// The cause of such an attempt in the job's history.
constexpr std::string_view kMissing = "missing";
/// Why the jobs of a worker that said `bye` are queued again.
constexpr std::string_view kLeft = "worker_left";
/// The slowest link to a worker that is expected: a job may be on its way for as long as that takes.
constexpr std::uint32_t kLinkBytesPerSecond = 1'000'000;
/// Addresses that are remembered because they owe an inventory.
constexpr std::size_t kToldUnknownMax = 1024;
/// A job that was handed back untouched waits so long, so that two workers cannot toss it back and forth.
constexpr Duration kReleasedPause = std::chrono::milliseconds(10);
/// A worker that hands jobs back one after the other gets none for as long; each time the rest doubles, up to
/// this.
constexpr Duration kRestMax = std::chrono::seconds(1);
/// The pause of an upstream that refuses for its rate and states no time.
constexpr Duration kLimitedPause = std::chrono::seconds(1);
/// Behind a pause that is longer than this a job that was refused does not find out whether it holds.
constexpr Duration kLongRefusal = std::chrono::seconds(30);
/// Jobs that wait for a shorter pause in vain are not swept out: their deadlines come soon.
constexpr Duration kVainMax = std::chrono::seconds(5);
/// The bound of each amount that an outcome may report as used.
constexpr std::int64_t kUsageMax = 1'000'000'000;
/// Tokens of one attempt that can move its client back in turn: as many as models take.
constexpr std::int64_t kTurnTokensMax = 1'000'000;
/// Least bytes per token of a streamed answer, where nobody counts tokens: a Chinese character.
constexpr std::uint64_t kStreamedBytesPerToken = 3;
/// Least time between two notices that an upstream's number was out of bounds.
constexpr Duration kBoundedNoticePause = std::chrono::minutes(1);

std::string session_name(std::mt19937_64& random) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name(16, '0');
  std::uint64_t bits = random();
  for (char& digit : name) {
    digit = kDigits[bits & 15];
    bits >>= 4;
  }
  return name;
}

/// The health of the upstream that an attempt's outcome shows.
Verdict verdict_of(ErrorClass error_class, std::string_view code) {
  switch (error_class) {
    case ErrorClass::retry:
      if (says_uncalled(code)) break;
      return says_unreachable(code) ? Verdict::unreachable : Verdict::failure;
    case ErrorClass::overloaded:
      return Verdict::failure;
    case ErrorClass::limited:
    case ErrorClass::quota:
    case ErrorClass::permanent:
      return Verdict::refusal;
    case ErrorClass::deadline:
    case ErrorClass::released:
      break;
  }
  return Verdict::unknown;
}

/// A stream's restart position is at most this, far from overflow.
constexpr std::int64_t kSeqMax = std::int64_t{1} << 53;

/// Why a worker's `ready` cannot be taken, whatever the broker holds; else fills in the lanes that it takes.
std::optional<std::string> why_invalid(const State& state, const WorkerReady& event, LaneMask& lanes) {
  const wire::Ready& fields = *event.fields;
  const Identity* const identity = event.identity;
  const auto beyond_key = [&](const char* what, std::string_view name) {
    return "key \"" + identity->name + "\" does not allow " + what + " \"" + std::string(name) + '"';
  };
  for (const std::string_view name : fields.lanes) {
    const Lane* lane = state.lane_named(name);
    if (lane == nullptr) return "unknown lane \"" + printable(name) + "\" in field \"lanes\"";
    if (identity != nullptr && !identity->may_use_lane(lane->options().name)) return beyond_key("lane", name);
    lanes = static_cast<LaneMask>(lanes | 1u << lane->index());
  }
  if (fields.services.empty()) return "field \"services\" is empty; name at least one";
  if (identity == nullptr) return std::nullopt;
  for (const std::string_view name : fields.services)
    if (!identity->may_use_service(name)) return beyond_key("service", name);
  if (!fields.lanes.empty() || identity->lanes.empty()) return std::nullopt;
  for (const auto& lane : state.lanes)
    if (identity->may_use_lane(lane->options().name))
      lanes = static_cast<LaneMask>(lanes | 1u << lane->index());
  if (lanes == 0) return "key \"" + identity->name + "\" allows no lane that this broker has";
  return std::nullopt;
}

/// The key that the worker has shown; empty: none was asked for.
std::string_view key_of(const WorkerReady& event) {
  return event.identity != nullptr ? std::string_view(event.identity->name) : std::string_view();
}

/// The worker that `ready` brings back on another connection; null: none. The session of another key's worker
/// is unknown to it.
Worker* returning(const State& state, const WorkerReady& event) {
  if (event.fields->session.empty()) return nullptr;
  Worker* const known = state.workers.of_session(event.fields->session);
  return known != nullptr && known->key == key_of(event) ? known : nullptr;
}

/// Whether an offer to this worker may still be uncommitted. The reply to its `ready` must follow that offer,
/// or a worker that lowers its capacity would count too few of its jobs and give their places away.
bool has_waiting_offer(Worker& worker) {
  for (Away* away = worker.leases.front(); away != nullptr; away = worker.leases.next(*away))
    if (away->offer_waited) return true;
  return false;
}

/// A bound of the tokens that the streamed answer had so far; none where nothing was streamed, since nobody
/// knows what the upstream had done by then.
std::int64_t streamed_tokens(const Job& job) {
  const std::optional<std::uint64_t> bytes = job.ended()         ? job.at_away().streamed_bytes
                                             : job.has_content() ? job.answer()->bytes()
                                                                 : std::nullopt;
  if (!bytes || *bytes == 0) return kUsageMax;
  return static_cast<std::int64_t>(std::min<std::uint64_t>(*bytes / kStreamedBytesPerToken + 1, kUsageMax));
}

/// Whether the outcome of a listed job has come, so that the worker does not run it any more. Inventories
/// also list outcomes that are not acknowledged.
bool outcome_came(const Worker& worker, wire::Lease lease, const Record* record) {
  if (std::find(worker.acks.begin(), worker.acks.end(), lease) != worker.acks.end()) return true;
  if (record == nullptr || !record->is_result || record->result()->attempt != lease.attempt) return false;
  // A job that was cancelled, expired or given up may still run at a worker.
  const Terminal end = record->result()->terminal();
  return end.state == JobState::succeeded ||
         (end.ending != nullptr && (end.ending->code == ErrorCode::upstream_failed ||
                                    end.ending->code == ErrorCode::upstream_rejected ||
                                    end.ending->code == ErrorCode::upstream_quota));
}

/// The job that the worker holds under that attempt; null: it holds none.
Job* held_by(const State& state, const Worker& worker, std::uint64_t number, std::int64_t attempt) {
  Record* const record = state.jobs.find(JobNumber{number});
  Job* const job = record != nullptr ? record->job() : nullptr;
  return job != nullptr && job->worker() == &worker && job->attempt == attempt ? job : nullptr;
}

/// How much longer the worker may say nothing.
Duration time_left(const State& state, const Worker& worker, TimePoint now) {
  const Duration silence_max = kSilentHeartbeatsMax * state.options.heartbeat;
  const Duration left = state.silent_from(worker.heard_at, now) + silence_max - now;
  if (worker.cut_at == kNever) return left;
  return std::min(left, state.silent_from(worker.cut_at, now) + state.options.worker_grace - now);
}

/// Anywhere between 0 and the exponential bound: full jitter (AWS Architecture Blog, "Exponential Backoff and
/// Jitter"). For a webhook between half the bound and all, which gives its attempts a known least reach.
Duration backoff_of(const Job& job, const Options& options, std::mt19937_64& random) {
  const bool tells = job.flow().service().tells_ends;
  const Duration most = tells ? options.webhook_backoff_max : options.backoff_max;
  Duration bound = tells ? options.webhook_backoff_base : options.backoff_base;
  for (int i = 1; i < job.attempts && bound < most; ++i)
    bound *= 2;
  bound = std::min(bound, most);
  const Duration drawn(
      static_cast<Duration::rep>(random() % (static_cast<std::uint64_t>(bound.count()) + 1)));
  return tells ? (bound + drawn) / 2 : drawn;
}

}  // namespace

// ---- sessions -----------------------------------------------------------------------------------------

/// The worker at an address, noted as alive; null where it has no session, which it is told.
Worker* WorkerDesk::heard(std::string_view address, TimePoint now) {
  Worker* const worker = state_.workers.find(address);
  if (worker == nullptr) {
    say_unknown_session(address);
  } else {
    worker->heard_at = now;
    mend(*worker);
  }
  return worker;
}

/// A message proves that the worker's connection works again, and that it is there.
void WorkerDesk::mend(Worker& worker) {
  if (!worker.cut && !worker.silent) return;
  worker.cut = worker.silent = false;
  worker.cut_at = kNever;
  state_.workers.update(worker);
}

void WorkerDesk::say_unknown_session(std::string_view address) {
  wire::WorkerRefusal refusal;
  refusal.code = name_of(RefusalCode::unknown_session);
  refusal.message = "no worker is known here; say ready, then heartbeat with what you hold";
  state_.outbox.add(Peer::worker, address, {}, refusal);
  if (std::find(told_unknown_.begin(), told_unknown_.end(), address) != told_unknown_.end()) return;
  if (told_unknown_.size() < kToldUnknownMax)
    told_unknown_.emplace_back(address);
  else
    told_unknown_[told_unknown_next_++ % kToldUnknownMax] = address;
}

void WorkerDesk::on(const WorkerReady& event, TimePoint now) {
  const wire::Ready& fields = *event.fields;
  const auto refuse_worker = [&](const std::string& message, RefusalCode code = RefusalCode::bad_request) {
    ++state_.stats.workers_refused;
    wire::WorkerRefusal refusal;
    refusal.code = name_of(code);
    refusal.message = message;
    state_.outbox.add(Peer::worker, event.address, {}, refusal);
  };
  LaneMask lanes = 0;
  if (const auto why = why_invalid(state_, event, lanes)) return refuse_worker(*why);
  Worker* worker = state_.workers.find(event.address);
  Worker* const returned = worker == nullptr ? returning(state_, event) : nullptr;
  std::size_t regained = 0;
  if (worker == nullptr && returned == nullptr && state_.workers.size() >= state_.options.workers_max)
    return refuse_worker(
        "workers_max (" + std::to_string(state_.options.workers_max) + ") workers are connected",
        RefusalCode::full);
  if (state_.workers.offered_with(worker != nullptr ? worker : returned, fields.services) >
      state_.options.services_max)
    return refuse_worker("workers offer services_max (" + std::to_string(state_.options.services_max) +
                             ") services, and these would be more; raise it, or check the names",
                         RefusalCode::full);
  const std::vector<Service*> services = services_named(fields.services);
  if (worker == nullptr) {
    if (returned != nullptr) {
      come_back(*returned, event.address, now);
      worker = returned;
    } else {
      std::vector<Lost> lost = take_lost(event, now);
      regained = lost.size();
      worker = &state_.workers.add(
          event.address, regained > 0 ? std::string(event.fields->session) : session_name(state_.random));
      worker->lost = std::move(lost);
      state_.timers.set(worker->timer, now + state_.options.heartbeat);
    }
    if (event.identity != nullptr) worker->key = event.identity->name;
    const auto told = std::find(told_unknown_.begin(), told_unknown_.end(), event.address);
    // A worker that had a session may hold jobs: its next heartbeat lists them.
    worker->awaits_inventory = told != told_unknown_.end() || !fields.session.empty();
    if (told != told_unknown_.end()) told_unknown_.erase(told);
  }
  mend(*worker);
  end_rest(*worker);
  worker->heard_at = now;
  worker->watched = event.watched;
  worker->asks_cluster = fields.cluster;
  worker->resumes = fields.resumes || !fields.session.empty();
  worker->name = fields.name;
  worker->grouping.agree(fields.batch);
  const auto capacity = std::min<std::int64_t>(fields.capacity, limits::capacity_max);
  state_.workers.offer(*worker, services, lanes, static_cast<std::uint32_t>(capacity));
  if (returned != nullptr)
    note(Notice::Kind::worker_returned, *worker, worker->running);
  else if (regained > 0)
    note(Notice::Kind::worker_returned, *worker, regained);
  else
    note(Notice::Kind::worker_ready, *worker, worker->capacity);
  {
    const Outbox::Waiting behind_offers(state_.outbox, has_waiting_offer(*worker));
    say_welcome(*worker);
    if (worker->draining)
      state_.tell(*worker, wire::Drain{});  // an operator's order holds until it is taken back
  }
  if (returned != nullptr) tell_again(*worker, now);
}

/// The named services, each once. Jobs' services never keep a worker's out: unused ones make way where there
/// are any, but none of those that it names.
std::vector<Service*> WorkerDesk::services_named(const std::vector<std::string_view>& names) {
  std::vector<Service*> services;
  std::vector<std::string_view> fresh;
  for (const std::string_view name : names) {
    Service* const service = state_.workers.find_service(name);
    if (service != nullptr && std::find(services.begin(), services.end(), service) == services.end())
      services.push_back(service);
    if (service == nullptr && std::find(fresh.begin(), fresh.end(), name) == fresh.end())
      fresh.push_back(name);
  }
  for (Service* const service : services)
    state_.workers.use(*service);
  admission_.make_room_for_services(fresh.size());
  for (Service* const service : services)
    state_.workers.release(*service);
  for (const std::string_view name : fresh)
    services.push_back(&state_.workers.service(name));
  return services;
}

/// The worker of a known session uses another connection; it keeps its jobs.
void WorkerDesk::come_back(Worker& worker, std::string_view address, TimePoint now) {
  ++state_.stats.workers_returned;
  state_.workers.move(worker, address);
  worker.returned_at = now;
}

/// Repeats what may have been lost with a worker's connection and is said only once. Lost offers show in its
/// inventories, and it asks for acknowledgements again.
void WorkerDesk::tell_again(Worker& worker, TimePoint now) {
  for (Away* away = worker.leases.front(); away != nullptr; away = worker.leases.next(*away)) {
    Job& job = away->job;
    const auto number = static_cast<std::uint64_t>(job.number);
    if (job.ended())
      state_.tell(worker, wire::CancelJob{number, job.attempt,
                                          name_of(job.state == JobState::expired ? ErrorCode::deadline
                                                                                 : ErrorCode::cancelled)});
    else if (AnswerStream* const stream = job.answer(); stream != nullptr && stream->taken() >= 0) {
      state_.tell(worker, wire::Window{number, job.attempt, stream->taken()});
      job.note_window(now);
      stream->said();
    }
  }
}

void WorkerDesk::say_welcome(Worker& worker) {
  wire::Welcome welcome;
  welcome.session = worker.session;
  welcome.heartbeat_ms = to_ms(state_.options.heartbeat);
  welcome.body_bytes_max = static_cast<std::int64_t>(state_.options.body_bytes_max);
  welcome.batch = static_cast<std::int64_t>(worker.grouping.max);
  welcome.default_lane = state_.default_lane->options().name;
  std::string shards;  // until the welcome is encoded
  if (worker.asks_cluster) {
    welcome.endpoints.assign(state_.options.worker_endpoints.begin(), state_.options.worker_endpoints.end());
    if (!state_.shards.empty()) {
      welcome.shard = state_.options.shard;
      shards = encode_shards(shards_for_workers(state_.options));
      welcome.shards = {shards};
    }
  }
  state_.tell(worker, welcome);
}

void WorkerDesk::on(const WorkerHeard& event, TimePoint now) {
  if (Worker* worker = state_.workers.find(event.address)) {
    worker->heard_at = now;
    mend(*worker);
  }
}

void WorkerDesk::on(const WorkerUnreachable& event, TimePoint now) {
  if (Worker* worker = state_.workers.find(event.address)) lose(*worker, false, now);
}

/// The transport cannot tell an ended process from a cut connection. If the system knows that the process
/// ended, its jobs go back at once. If it knows that it lives, the broker waits as for a silent worker; else
/// for worker_grace. A worker that does not come back by its session then is lost.
void WorkerDesk::on(const WorkerDisconnected& event, TimePoint now) {
  Worker* const worker = state_.workers.find(event.address);
  if (worker == nullptr) return;
  using Process = WorkerDisconnected::Process;
  if (!worker->resumes || event.process == Process::ended) return lose(*worker, true, now);
  if (worker->cut) return;
  worker->cut = true;
  state_.workers.update(*worker);
  if (event.process == Process::lives) return;
  worker->cut_at = now;
  // Its earlier silence counts on.
  state_.timers.set(worker->timer, now + std::min(time_left(state_, *worker, now), state_.options.heartbeat));
}

void WorkerDesk::on(const WorkerLeaving& event, TimePoint now) {
  Worker* const worker = state_.workers.find(event.address);
  if (worker == nullptr) return;
  flush_acks(*worker);
  note(Notice::Kind::worker_left, *worker, worker->running);
  state_.workers.set_draining(*worker, true);
  while (Away* const away = worker->leases.front()) {
    Job* const job = &away->job;
    // An offered job may have been called, and the upstream counts that: only what was not sent is given
    // back.
    if (away->body_awaited)
      state_.budgets.release(away->reservation, now);
    else
      settle(*job, std::nullopt, now);
    const bool ended = job->ended();
    life_.leave_place(*job, Verdict::unknown, now);
    if (!ended) life_.requeue(*job, JobLife::Requeue::free, kLeft, now, now);
  }
  state_.timers.clear(worker->timer);
  state_.timers.clear(worker->rest);
  state_.isolation.forget(*worker);
  state_.workers.remove(*worker);
}

/// Loses a worker: its jobs go back to their old places, unless crash_max or attempts_max is reached. `dead`:
/// it cannot come back. A death is held against a job that was alone there; of several any may be why, and
/// each goes out alone until that is known: no such death counts against attempts_max, but where that is 1.
/// Where a worker is silent whose process lives it is no death, and costs no attempt: the job's own time
/// bounds how often that may be.
void WorkerDesk::lose(Worker& worker, bool dead, TimePoint now) {
  ++state_.stats.workers_lost;
  note(Notice::Kind::worker_lost, worker, worker.running);
  state_.workers.set_draining(worker, true);
  const bool alone = worker.leases.size() == 1 && worker.strays.empty();
  const bool lives = !dead && worker.watched && worker.cut_at == kNever;
  const Company company =
      alone || lives || worker.leases.empty() ? kNoCompany : state_.isolation.lost_of(worker.suspects, now);
  std::vector<Lost> lost;
  while (Away* const away = worker.leases.front()) {
    Job* const job = &away->job;
    const bool ended = job->ended();
    if (away->body_awaited) {
      // The job was not sent yet, so it cost nothing.
      state_.budgets.release(away->reservation, now);
      life_.leave_place(*job, Verdict::unknown, now);
      life_.requeue(*job, JobLife::Requeue::free, name_of(ErrorCode::worker_lost), now, now);
      continue;
    }
    Lost one{.job = job->number,
             .attempt = job->attempt,
             .counted = false,
             .spared = lives,
             .shared = company != kNoCompany,
             .company = company,
             .dispatched_at = away->dispatched_at,
             .charged = away->charged,
             .key = std::string(state_.budgets.key_of(away->reservation))};
    settle(*job, std::nullopt, now);
    if (!ended) results_.remember_attempt(*job, name_of(ErrorCode::worker_lost), {}, {}, now);
    life_.leave_place(*job, Verdict::unknown, now);
    if (ended) continue;
    if (!lives) count_death(*job, alone, one, now);
    if (job->has_content()) {
      life_.fail_broken_stream(*job, now);
      continue;
    }
    if (!lives && (job->crashes() >= state_.options.crash_max || job->attempts_spent())) {
      life_.end_with(*job, JobState::failed, ErrorCode::worker_lost,
                     job->crashes() > 0
                         ? "its worker was lost " + std::to_string(job->crashes()) + " times (crash_max " +
                               std::to_string(state_.options.crash_max) + ", attempts_max " +
                               std::to_string(job->attempts_max) + ")"
                         : "its worker was lost in its last attempt (attempts_max " +
                               std::to_string(job->attempts_max) + ")",
                     now);
      continue;
    }
    if (lost.size() < kLostJobsMax) lost.push_back(std::move(one));
    ++state_.stats.jobs_requeued_worker_lost;
    const auto how = lives ? JobLife::Requeue::costs_turn : JobLife::Requeue::costs_attempt;
    life_.requeue(*job, how, name_of(ErrorCode::worker_lost), now, now);
  }
  if (!dead) keep_session(worker, std::move(lost), now);
  state_.timers.clear(worker.timer);
  state_.timers.clear(worker.rest);
  state_.isolation.forget(worker);
  state_.workers.remove(worker);
}

/// Counts a worker's death against the job that was alone there, or suspects it with the jobs beside it. Jobs
/// suspected together with one that kills alone are cleared.
void WorkerDesk::count_death(Job& job, bool alone, Lost& lost, TimePoint now) {
  Job::Extra& extra = job.need_extra();
  if (alone) {
    lost.counted = true;
    ++extra.crashes;
    lost.company = state_.isolation.lost_of(extra.company, now);  // it goes on alone
  }
  extra.company = lost.company;
  constexpr std::uint8_t kSharedMax = 63;  // what its bits have room for
  if (!alone && job.attempts_max > 1 && extra.shared_deaths < kSharedMax) ++extra.shared_deaths;
}

/// Keeps the session of a worker that was taken for lost, in case it lives.
void WorkerDesk::keep_session(const Worker& worker, std::vector<Lost> jobs, TimePoint now) {
  while (!lost_.empty() && (lost_.front().until <= now || lost_.size() >= kLostSessionsMax))
    lost_.pop_front();
  if (jobs.empty() || state_.options.session_keep.count() == 0) return;
  lost_.push_back({.name = worker.session,
                   .key = worker.key,
                   .until = now + state_.options.session_keep,
                   .jobs = std::move(jobs)});
}

/// The jobs of a worker that was taken for lost and is back: nobody died under them. Empty: it is another.
std::vector<Lost> WorkerDesk::take_lost(const WorkerReady& event, TimePoint now) {
  if (event.fields->session.empty()) return {};
  const auto place = std::find_if(lost_.begin(), lost_.end(), [&](const LostSession& session) {
    return session.name == event.fields->session && session.key == key_of(event) && session.until > now;
  });
  if (place == lost_.end()) return {};
  std::vector<Lost> jobs = std::move(place->jobs);
  lost_.erase(place);
  ++state_.stats.workers_returned;
  take_back_deaths(jobs);
  return jobs;
}

void WorkerDesk::take_back_deaths(const std::vector<Lost>& jobs) {
  for (const Lost& lost : jobs) {
    state_.isolation.clear(lost.company);
    Record* const record = state_.jobs.find(lost.job);
    Job* const job = record != nullptr ? record->job() : nullptr;
    if (job != nullptr && !job->ended() && lost.counted && job->crashes() > 0) --job->extra->crashes;
  }
}

/// Whether the job is one of those that the worker had when it was taken for lost, and nobody was given it
/// since: it goes on there.
bool WorkerDesk::goes_on(Worker& worker, wire::Lease lease, TimePoint now) {
  const auto lost = std::find_if(worker.lost.begin(), worker.lost.end(), [&](const Lost& one) {
    return static_cast<std::uint64_t>(one.job) == lease.job && one.attempt == lease.attempt;
  });
  if (lost == worker.lost.end() || !handover_.go_on(worker, *lost, now)) return false;
  results_.take_back_attempt(*state_.jobs.find(lost->job)->job());
  return true;
}

void WorkerDesk::note(Notice::Kind kind, const Worker& worker, std::size_t jobs) {
  state_.outbox.notices.push_back({kind, worker.name, worker.session, jobs});
}

void WorkerDesk::tick(Worker& worker, TimePoint now) {
  const Duration left = time_left(state_, worker, now);
  if (left <= Duration::zero()) return lose(worker, false, now);
  if (worker.cut) return state_.timers.set(worker.timer, now + std::min(left, state_.options.heartbeat));
  // Further messages would queue, and go out at once with all the rest when the worker is back.
  worker.silent =
      now - state_.silent_from(worker.heard_at, now) >= kMissedHalvesMax * state_.options.heartbeat / 2;
  state_.workers.update(worker);
  flush_acks(worker);
  streams_.say_windows(worker, now);
  state_.tell(worker, wire::Heartbeat{});
  state_.timers.set(worker.timer, now + state_.options.heartbeat);
}

// ---- outcomes -----------------------------------------------------------------------------------------

/// The job of an outcome, if the worker holds it under that attempt. Else null, and the worker is answered
/// here: a repeated outcome is acknowledged again, any other is stale.
Job* WorkerDesk::leased(Worker& worker, std::uint64_t number, std::int64_t attempt) {
  if (Job* const job = held_by(state_, worker, number, attempt)) return job;
  const Record* const record = state_.jobs.find(JobNumber{number});
  if (record != nullptr && record->job() == nullptr && record->result()->attempt == attempt) {
    ++state_.stats.outcomes_repeated;
    ack(worker, {number, attempt});
    drop_stray(worker, {number, attempt});
    return nullptr;
  }
  ++state_.stats.outcomes_stale;
  drop_stray(worker, {number, attempt});
  say_stale(worker, number, attempt);
  return nullptr;
}

void WorkerDesk::say_stale(Worker& worker, std::uint64_t number, std::int64_t attempt) {
  wire::WorkerRefusal refusal;
  refusal.code = name_of(RefusalCode::stale);
  refusal.message = "this attempt is over; drop it";
  refusal.job = static_cast<std::int64_t>(number);
  refusal.attempt = attempt;
  state_.tell(worker, refusal);
}

void WorkerDesk::ack(Worker& worker, wire::Lease lease) {
  worker.acks.push_back(lease);
  if (worker.acks.size() >= kAcksMax) flush_acks(worker);
}

void WorkerDesk::flush_acks(Worker& worker) {
  if (worker.acks.empty()) return;
  const Outbox::Waiting waiting(state_.outbox, state_.options.store_durable);
  wire::Acked acked;
  acked.jobs.swap(worker.acks);
  state_.tell(worker, acked);
  acked.jobs.clear();
  acked.jobs.swap(worker.acks);  // keeps its memory for the next ones
}

void WorkerDesk::on(const ChunkReported& event, TimePoint now) {
  const wire::Chunk& fields = *event.fields;
  Worker* const worker = heard(event.address, now);
  if (worker == nullptr) {
    ++state_.stats.chunks_unknown_session;
    return;
  }
  Job* const job = held_by(state_, *worker, fields.job, fields.attempt);
  if (job == nullptr) {
    ++state_.stats.chunks_stale;
    return say_stale(*worker, fields.job, fields.attempt);
  }
  if (job->ended()) {
    // The worker was told to cancel; this chunk was on its way.
    ++state_.stats.chunks_late;
    return;
  }
  AnswerStream* const stream = job->answer();
  const auto named = [&](std::int64_t seq) {
    return "chunk " + std::to_string(seq) + " of job " + std::to_string(fields.job);
  };
  if (stream == nullptr)
    return refuse_chunk(*worker, fields,
                        named(fields.seq) + ": it asked for no stream; send all of its answer as the result");
  if (!stream->placed() && fields.seq > kSeqMax) {
    stream->refuse(fields.seq);
    return refuse_chunk(*worker, fields, named(fields.seq) + ": no stream is so long");
  }
  if (stream->placed() && fields.seq < stream->next()) {
    ++state_.stats.chunks_repeated;
    return;
  }
  if (stream->placed() && fields.seq > stream->next()) {
    stream->refuse(fields.seq);
    return refuse_chunk(
        *worker, fields,
        named(fields.seq) + " came where " + std::to_string(stream->next()) + " comes next; leave none out");
  }
  if (stream->placed() && stream->full()) {
    stream->refuse(fields.seq);
    return refuse_chunk(*worker, fields,
                        named(fields.seq) +
                            " is beyond the window: " + std::to_string(limits::stream_chunks_max) +
                            " chunks (stream_chunks_max) or " + std::to_string(limits::stream_bytes_max) +
                            " bytes (stream_bytes_max) behind chunk " + std::to_string(stream->taken()) +
                            " have not been taken; send it when the op window says so");
  }
  if (streams_.take_chunk(*job, fields.seq, event.body, now) == Streams::After::cancel)
    life_.cancel_unread(*job, now);
}

void WorkerDesk::refuse_chunk(Worker& worker, const wire::Chunk& chunk, const std::string& why) {
  ++state_.stats.chunks_refused;
  wire::WorkerRefusal refusal;
  refusal.code = name_of(RefusalCode::bad_request);
  refusal.message = why;
  refusal.job = static_cast<std::int64_t>(chunk.job);
  refusal.attempt = chunk.attempt;
  state_.tell(worker, refusal);
}

void WorkerDesk::on(const ProgressReported& event, TimePoint now) {
  const wire::Progress& fields = *event.fields;
  Worker* const worker = heard(event.address, now);
  if (worker == nullptr) return;
  Job* const job = held_by(state_, *worker, fields.job, fields.attempt);
  if (job != nullptr && !job->ended()) return progress_.take(*job, fields, now);
  ++state_.stats.progress_late;
  const bool told_to_cancel =
      job != nullptr || std::find(worker->strays.begin(), worker->strays.end(),
                                  wire::Lease{fields.job, fields.attempt}) != worker->strays.end();
  if (!told_to_cancel) say_stale(*worker, fields.job, fields.attempt);
}

void WorkerDesk::on(const OutcomeReported& event, TimePoint now) {
  Worker* const worker = heard(event.address, now);
  if (worker == nullptr) {
    ++state_.stats.outcomes_unknown_session;
    return;
  }
  Job* const job = leased(*worker, event.fields->job, event.fields->attempt);
  if (job == nullptr) return;
  ack(*worker, {event.fields->job, event.fields->attempt});
  end_rest(*worker);
  settle(*job, event.fields->usage, now);
  if (event.fields->limits) {
    if (LearntBudgets::states_limit(*event.fields->limits) && begin_to_learn(*job, event.fields->limits, now))
      state_.budgets.count(job->at_away().reservation, now);
    state_.budgets.learn(job->at_away().reservation, *event.fields->limits, now);
  }
  state_.budgets.succeeded(job->at_away().reservation, job->at_away().model, now);
  take_key(*job, true, now);
  const bool ended = job->ended();
  state_.isolation.clear(*job);
  Lane& lane = *state_.lanes[job->lane];
  Service& service = job->flow().service();
  life_.leave_place(*job, Verdict::success, now);
  if (ended) return;
  if (job->answer() != nullptr && job->answer()->has_hole())
    return life_.end_with(*job, JobState::failed, ErrorCode::upstream_rejected,
                          "chunk " + std::to_string(job->answer()->next()) +
                              " of its answer was refused (up to " +
                              std::to_string(job->answer()->refused()) +
                              ") and never came, and its worker called the answer done; see the worker's log",
                          now);
  service.retries.succeeded(job->queue->client().caller());
  lane.count_leaving(now);
  std::unique_ptr<Ending> ending;
  if (event.fields->usage) {
    ending = std::make_unique<Ending>();
    ending->usage = event.fields->usage;
  }
  life_.end(*job, JobState::succeeded, std::move(ending), event.body, now);
}

/// Ends the attempt's debit: the used amounts replace the expected ones where they are known.
void WorkerDesk::settle(Job& job, const std::optional<wire::Usage>& usage, TimePoint now) {
  Away& away = job.at_away();
  if (!usage) return state_.budgets.settle(away.reservation, std::nullopt, now);
  const Amounts used = used_by(job, *usage, now);
  state_.note_tokens(job, used.input_tokens + used.output_tokens, now);
  if (state_.budgets.counts_tokens(away.reservation.set)) {
    const std::int64_t expected = cost_of(away.reservation.amounts());
    const std::int64_t more =
        std::min(used.input_tokens + used.output_tokens, std::max(kTurnTokensMax, expected)) - expected;
    job.flow().correct(*job.queue, more);
    away.charged += more;
    learn(job, *usage);
  }
  state_.budgets.settle(away.reservation, used, now);
}

/// The attempt's use: the worker's numbers within bounds, else what the broker has seen, else the expected
/// use.
Amounts WorkerDesk::used_by(const Job& job, const wire::Usage& usage, TimePoint now) {
  Amounts used = job.at_away().reservation.amounts();
  const auto take = [&](std::int64_t& amount, const std::optional<std::int64_t>& said) {
    if (said) amount = bounded(*said, kUsageMax, "usage", job, now);
  };
  take(used.requests, usage.requests);
  take(used.input_tokens, usage.input_tokens);
  take(used.output_tokens, usage.output_tokens);
  if (!usage.output_tokens) used.output_tokens = std::min(used.output_tokens, streamed_tokens(job));
  return used;
}

/// Estimates learn what the attempt used. Of an ended job client and request are forgotten: its tokens only
/// tell how long answers of its model are.
void WorkerDesk::learn(const Job& job, const wire::Usage& usage) {
  if (job.ended()) {
    if (const KeptResult* const result = job.result()) state_.estimates.learn(result->model(), {}, 0, usage);
    return;
  }
  wire::Usage counted = usage;
  // A number known to the client is no guess, so nothing is learnt from it.
  if (job.extra && job.extra->cost && job.extra->cost->knows_output()) counted.output_tokens.reset();
  state_.estimates.learn(job.text.get(JobText::model), job.text.get(JobText::client),
                         job.expected().raw_input, counted);
}

/// The number of an upstream or worker, at most `most`. Larger ones are counted, and noticed now and then.
std::int64_t WorkerDesk::bounded(std::int64_t said, std::int64_t most, std::string_view what, const Job& job,
                                 TimePoint now) {
  if (said <= most) return said;
  ++state_.stats.upstream_words_bounded;
  if (bounded_told_at_ == kNever || now - bounded_told_at_ >= kBoundedNoticePause) {
    bounded_told_at_ = now;
    state_.outbox.notices.push_back({.kind = Notice::Kind::upstream_word_bounded,
                                     .service = job.flow().service().name,
                                     .what = std::string(what),
                                     .said = said,
                                     .bound = most});
  }
  return most;
}

namespace {

/// Calls of the service in the last minute, about.
std::int64_t sent_lately(Service& service, TimePoint now) {
  NamedTimes::Figures* const figures = service.times.figures();
  return figures == nullptr ? 0 : static_cast<std::int64_t>(figures->wait.over(now).minute.count);
}

}  // namespace

/// The upstream states a limit, or refused for one, where no budget counts its calls: one does from now on,
/// with the calls that are under way. True if that begins.
bool WorkerDesk::begin_to_learn(Job& job, const std::optional<wire::UpstreamLimits>& limits, TimePoint now) {
  Reservation& reservation = job.at_away().reservation;
  // A receiver of webhooks is no upstream that many jobs share.
  if (!state_.budgets.learns(reservation.set) || job.flow().service().tells_ends) return false;
  const std::string& service = job.flow().service().name;
  const std::string_view model = job.text.get(JobText::model);
  const BudgetSet before = reservation.set;
  reservation.set = state_.budgets.begin_to_learn(
      before,
      {.service = service,
       .model = std::string(model),
       .client = job.queue->client().party().name,
       .heard_at = now},
      limits ? &*limits : nullptr, sent_lately(job.flow().service(), now),
      [this](std::size_t budget) { return upstreams_.waits_for_learnt(budget); });
  if (reservation.set == before) return false;
  for (const auto& [number, worker] : state_.workers.all())
    for (Away* away = worker->leases.front(); away != nullptr; away = worker->leases.next(*away)) {
      const Job& other = away->job;
      if (away->reservation.held && away->reservation.set == before &&
          other.flow().service().name == service && other.text.get(JobText::model) == model)
        state_.budgets.move(away->reservation, reservation.set, now);
    }
  return true;
}

// ---- failures -----------------------------------------------------------------------------------------

void WorkerDesk::on(const FailureReported& event, TimePoint now) {
  const wire::Failure& fields = *event.fields;
  Worker* const worker = heard(event.address, now);
  if (worker == nullptr) {
    ++state_.stats.outcomes_unknown_session;
    return;
  }
  Job* const job = leased(*worker, fields.job, fields.attempt);
  if (job == nullptr) return;
  ack(*worker, {fields.job, fields.attempt});
  // An unknown class, of a newer worker, is taken for the most careful one.
  const ErrorClass error_class = lanemq::error_class(fields.error_class).value_or(ErrorClass::retry);
  if (error_class == ErrorClass::released || says_uncalled(fields.code))
    rest(*worker, now);
  else
    end_rest(*worker);
  // A configured limit bounds what is sent; a learnt one follows what the upstream counts, which is no
  // refused call.
  const bool uncounted = error_class == ErrorClass::limited && !fields.usage && !job->has_content() &&
                         state_.budgets.is_learnt(job->at_away().reservation.set);
  if (error_class == ErrorClass::released || uncounted)
    state_.budgets.release(job->at_away().reservation, now);
  else
    settle(*job, fields.usage, now);
  if (error_class == ErrorClass::limited) begin_to_learn(*job, fields.limits, now);
  if (fields.limits)
    state_.budgets.learn(
        job->at_away().reservation, *fields.limits, now,
        error_class == ErrorClass::limited ? job->text.get(JobText::model) : std::string_view{});
  if (error_class == ErrorClass::overloaded) state_.budgets.overloaded(job->at_away().reservation, now);
  const bool ended = job->ended();
  // Its worker has run it, and lives.
  if (!ended && error_class != ErrorClass::released && !says_uncalled(fields.code))
    state_.isolation.clear(*job);
  if (!ended && error_class != ErrorClass::released)
    results_.remember_attempt(*job, name_of(error_class), fields.code, fields.message, now);
  const Refused refused = take_refusal(*job, error_class, fields, now);
  life_.leave_place(*job, verdict_of(error_class, fields.code), now);
  if (!ended) take_failure(*job, error_class, refused, event, now);
}

/// A worker that hands jobs back, or has no key for them, gets a rest, so that it is not offered job after
/// job in vain. The first such job costs no rest, each further one does.
void WorkerDesk::rest(Worker& worker, TimePoint now) {
  if (worker.rest.is_set() || ++worker.handed_back == 1) return;
  Duration rest = kReleasedPause;
  for (std::uint32_t i = 2; i < worker.handed_back && rest < kRestMax; ++i)
    rest *= 2;
  state_.timers.set(worker.rest, now + std::min(rest, kRestMax));
  state_.workers.update(worker);
}

void WorkerDesk::end_rest(Worker& worker) {
  worker.handed_back = 0;
  if (!worker.rest.is_set()) return;
  state_.timers.clear(worker.rest);
  state_.workers.update(worker);
}

/// The upstream has read the request, so it has accepted the job's key.
void WorkerDesk::take_key(const Job& job, bool answered, TimePoint now) {
  const Reservation& reservation = job.at_away().reservation;
  if (!state_.budgets.take_key(reservation, answered, now, job.queue->client().party().mark)) return;
  state_.outbox.notices.push_back({.kind = Notice::Kind::key_back,
                                   .service = job.flow().service().name,
                                   .key = std::string(state_.budgets.key_of(reservation))});
}

/// Takes what a refusal says of keys and budgets, even if the job was cancelled meanwhile.
WorkerDesk::Refused WorkerDesk::take_refusal(Job& job, ErrorClass error_class, const wire::Failure& fields,
                                             TimePoint now) {
  const Reservation& reservation = job.at_away().reservation;
  Refused refused;
  if (error_class == ErrorClass::quota) {
    const std::string_view key = state_.budgets.key_of(reservation);
    if (key.empty()) return refused;
    // The job itself may be why keys refuse it: it may spend one key, and no other.
    const Budgets::Spending spending =
        state_.budgets.spend_key(reservation, !job.key_refused, now, job.queue->client().party().mark);
    refused.key_left = spending.key_left && !job.key_refused;
    job.key_refused = true;
    if (!job.ended()) job.need_extra().refused_key = reservation.key;
    if (spending.news) life_.sweep_soon();
    if (spending.news)
      state_.outbox.notices.push_back({.kind = Notice::Kind::key_spent,
                                       .service = job.flow().service().name,
                                       .retry_ms = to_ms(spending.rest),
                                       .key = std::string(key),
                                       .code = std::string(fields.code)});
    return refused;
  }
  if (error_class == ErrorClass::permanent || error_class == ErrorClass::limited) take_key(job, false, now);
  if (error_class == ErrorClass::limited) {
    // To come again at once is no time: that call was refused.
    const bool stated = fields.retry_after_ms.value_or(0) > 0;
    refused.until = now + (stated ? asked_pause(job, *fields.retry_after_ms, now) : kLimitedPause);
    const auto& limits = fields.limits;
    const bool nothing_left =
        limits && (limits->remaining_requests == 0 || limits->remaining_tokens == 0 ||
                   limits->remaining_input_tokens == 0 || limits->remaining_output_tokens == 0);
    const Budgets::Limited limited{.model = job.text.get(JobText::model),
                                   .client = job.queue->client().party().name,
                                   .until = refused.until,
                                   .shared = nothing_left,
                                   .told = limits.has_value(),
                                   .by = limited_by(fields.limited_by),
                                   .waits = stated,
                                   .job = static_cast<std::uint64_t>(job.number)};
    refused.holds = state_.budgets.pause(reservation, limited, now,
                                         [this](std::size_t model) { return upstreams_.waits_apart(model); });
    if (refused.holds != Budgets::HeldBack::nobody && refused.until - now > kVainMax) life_.sweep_soon();
  }
  return refused;
}

void WorkerDesk::take_failure(Job& job, ErrorClass error_class, const Refused& refused,
                              const FailureReported& event, TimePoint now) {
  const bool broken = job.has_content();  // a job with content is not retried
  switch (error_class) {
    case ErrorClass::permanent:
      return fail(job, ErrorCode::upstream_rejected, event, now);
    case ErrorClass::quota:
      if (!refused.key_left || broken) return fail(job, ErrorCode::upstream_quota, event, now);
      return life_.requeue(job, JobLife::Requeue::free, name_of(error_class), now, now);
    case ErrorClass::deadline:
      return life_.expire(job, now);
    case ErrorClass::released:
      return life_.requeue(job, JobLife::Requeue::free, name_of(error_class), now + kReleasedPause, now);
    case ErrorClass::limited: {
      if (broken) return fail(job, ErrorCode::upstream_failed, event, now);
      // Another key may have room. If neither key nor budget is paused the job waits by itself.
      const BudgetSet budgets = state_.budgets.home(job.at_away().reservation.set, job.flow().service().name,
                                                    job.text.get(JobText::model));
      const bool paused = refused.holds != Budgets::HeldBack::nobody;
      const Budgets::UpstreamPause pause = paused ? state_.budgets.upstream_pause(budgets, now)
                                                  : Budgets::UpstreamPause{.until = refused.until};
      if (pause.until > now && (job.ends_limited || (!pause.tried && pause.until >= job.deadline)))
        return fail(job, ErrorCode::limited, event, now);
      // While others go on its client has had its turn, as the job has used its part of the limit.
      const auto how =
          refused.holds == Budgets::HeldBack::model ? JobLife::Requeue::costs_turn : JobLife::Requeue::free;
      TimePoint due = paused ? now : refused.until;
      // Behind its pause another job finds out first, where this one may be the reason.
      const std::size_t again = state_.budgets.refuses_again(budgets);
      const bool may_be_why =
          again > 0 || (state_.budgets.is_learnt(budgets) && pause.until - now > kLongRefusal);
      if (paused && may_be_why) {
        const TimePoint open = std::max(pause.until, now);
        // With several such jobs the next one may begin another pause: where others wait this one stays away
        // for that, too.
        const bool others = again > 1 && job.flow().depth() > 0;
        due = open + (others ? std::min(open - now, kLongRefusal) : Duration{}) + 2 * Budgets::kOthersFirst;
      }
      return life_.requeue(job, how, name_of(error_class), due, now);
    }
    case ErrorClass::retry:
    case ErrorClass::overloaded:
      if (broken) return fail(job, ErrorCode::upstream_failed, event, now);
      return retry_later(job, event, now);
  }
}

void WorkerDesk::retry_later(Job& job, const FailureReported& event, TimePoint now) {
  if (job.attempts_spent()) return fail(job, ErrorCode::upstream_failed, event, now);
  Service& service = job.flow().service();
  // Webhooks wait for minutes and hours between attempts, so many of them make no storm; and none is to be
  // given up because others were retried. A failure without a call makes no storm, either.
  const bool in_budget = !service.tells_ends && !says_uncalled(event.fields->code);
  if (in_budget && !service.retries.take(job.queue->client().caller())) {
    ++state_.stats.jobs_failed_retry_budget;
    return fail(job, ErrorCode::upstream_failed, event, now,
                "the retry budget of service \"" + service.name + "\" is used up (" +
                    std::to_string(RetryBudget::kRetriesMax) + ", and one more for each " +
                    std::to_string(RetryBudget::kSuccessesPerRetry) + " jobs that succeed); submit it later");
  }
  Duration backoff = backoff_of(job, state_.options, state_.random);
  if (event.fields->retry_after_ms)
    backoff = std::max(backoff, asked_pause(job, *event.fields->retry_after_ms, now));
  life_.requeue(job, JobLife::Requeue::costs_attempt, event.fields->error_class, now + backoff, now);
}

/// `why`: what to add to the failure's message; may be empty.
void WorkerDesk::fail(Job& job, ErrorCode code, const FailureReported& event, TimePoint now,
                      const std::string& why) {
  const wire::Failure& fields = *event.fields;
  auto ending = std::make_unique<Ending>();
  ending->code = code;
  ending->message = fields.message;
  if (!fields.code.empty()) ending->message = std::string(fields.code) + ": " + ending->message;
  if (!why.empty()) ending->message = why + "; " + ending->message;
  ending->usage = fields.usage;
  ending->upstream_status = fields.upstream_status;
  if (error_info(code).says_when_to_retry)
    ending->retry_after = std::chrono::milliseconds(fields.retry_after_ms.value_or(1000));
  life_.end(job, JobState::failed, std::move(ending), event.body, now);
}

Duration WorkerDesk::asked_pause(const Job& job, std::int64_t retry_after_ms, TimePoint now) {
  return std::chrono::milliseconds(
      bounded(retry_after_ms, to_ms(kUpstreamPauseMax), "retry_after_ms", job, now));
}

// ---- inventories --------------------------------------------------------------------------------------

void WorkerDesk::on(const HeartbeatHeard& event, TimePoint now) {
  Worker* const worker = heard(event.address, now);
  if (worker == nullptr) return;
  worker->awaits_inventory = false;
  state_.workers.update(*worker);
  check_inventory(*worker, *event.fields, now);
}

/// Compares a worker's inventory with the jobs it was given. Both may take long on their way: a job is not
/// missing while its hand-over is younger than a worker may be silent, plus the time its bytes take.
void WorkerDesk::check_inventory(Worker& worker, const wire::Heartbeat& inventory, TimePoint now) {
  for (Away* away = worker.leases.front(); away != nullptr; away = worker.leases.next(*away)) {
    // While the store stands still or is away, no worker can have a job whose offer waits for it; nor yet
    // when it has just gone on, perhaps with an earlier commit alone.
    const bool waits = (state_.store_stalled || state_.store_away) && away->offer_waited;
    if (away->body_awaited || waits) continue;
    const TimePoint since =
        away->offer_waited ? std::max(state_.silent_from(away->dispatched_at, now), state_.store_went_on_at)
                           : away->dispatched_at;
    const auto transfer = std::chrono::seconds((away->job.bytes() + away->lent) / kLinkBytesPerSecond);
    if (now - since >= kSilentHeartbeatsMax * state_.options.heartbeat + transfer ||
        away->dispatched_at < worker.returned_at)
      ++away->missing;
  }
  state_.workers.set_strays(worker, {});
  std::vector<wire::Lease> strays;
  for (const wire::Lease& lease : inventory.jobs) {
    Record* const record = state_.jobs.find(JobNumber{lease.job});
    Job* const job = record != nullptr ? record->job() : nullptr;
    if (job != nullptr && job->worker() == &worker && job->attempt == lease.attempt) {
      job->at_away().missing = 0;
      handover_.take_back(job->at_away());
      continue;
    }
    if (handover_.adopt(worker, lease, now) || goes_on(worker, lease, now)) continue;
    if (outcome_came(worker, lease, record)) continue;
    state_.tell(worker, wire::CancelJob{lease.job, lease.attempt, "unknown"});
    strays.push_back(lease);
  }
  worker.lost.clear();
  state_.workers.set_strays(worker, std::move(strays));
  for (Away* away = worker.leases.front(); away != nullptr;) {
    Away* const next = worker.leases.next(*away);
    if (away->missing >= kMissingMax) {
      Job* const job = &away->job;
      ++state_.stats.jobs_requeued_missing;
      // The job may have reached the upstream all the same: its debit stays.
      settle(*job, std::nullopt, now);
      const bool ended = job->ended();
      if (!ended) results_.remember_attempt(*job, kMissing, {}, {}, now);
      life_.leave_place(*job, Verdict::unknown, now);
      if (!ended) requeue_missing(*job, now);
    }
    away = next;
  }
}

/// One hand-over can get lost. If a job never arrives its worker may be unable to read it: from the second
/// time on it costs an attempt, so that the job ends.
void WorkerDesk::requeue_missing(Job& job, TimePoint now) {
  Job::Extra& extra = job.need_extra();
  if (!extra.missed) {
    extra.missed = true;
    return life_.requeue(job, JobLife::Requeue::free, kMissing, now, now);
  }
  if (job.attempts_spent() && !job.has_content())
    return life_.end_with(job, JobState::failed, ErrorCode::worker_lost,
                          "it was handed over again and again and never listed by its worker (attempts_max " +
                              std::to_string(job.attempts_max) +
                              "); perhaps its workers cannot read it, see their logs",
                          now);
  life_.requeue(job, JobLife::Requeue::costs_attempt, kMissing, now, now);
}

/// The worker reported the end of a job that was not its own: that place is free.
void WorkerDesk::drop_stray(Worker& worker, wire::Lease lease) {
  if (std::find(worker.strays.begin(), worker.strays.end(), lease) == worker.strays.end()) return;
  std::vector<wire::Lease> left = worker.strays;
  std::erase(left, lease);
  state_.workers.set_strays(worker, std::move(left));
}

}  // namespace lanemq::core
