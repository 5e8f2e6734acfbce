// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/job_life.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "broker/core/base/check.hpp"
#include "broker/core/life/answers.hpp"
#include "broker/core/life/groups.hpp"
#include "broker/core/life/handover.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/life/streams.hpp"
#include "broker/core/life/waits.hpp"
#include "broker/core/life/watchers.hpp"
#include "broker/core/life/webhooks.hpp"
#include "broker/core/scheduler/lanes.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/terms.hpp"
#include "broker/core/scheduler/upstreams.hpp"

namespace lanemq::core {
namespace {

/// Owned jobs that one turn looks at when a connection is gone: some ms of work.
constexpr std::size_t kOwnedInATurn = 1000;
/// The HTTP status of an upstream that asks for a pause.
constexpr int kTooManyRequests = 429;
/// Places that one turn of a sweep looks at, and jobs that it ends.
constexpr std::size_t kSweptInATurn = 4096, kShutOutInATurn = 1000;
/// The least time between two sweeps.
constexpr Duration kSweepPause = std::chrono::seconds(1);

/// Takes a job out of its queue that is not handed over from there. Nobody has named what an earlier life had
/// called: its places are free.
void wait_no_more(State& state, Job& job, TimePoint now) {
  if (job.adoptable) state.budgets.settle(job.at_away().reservation, std::nullopt, now);
  state.leave_queue(job);
}

}  // namespace

JobLife::JobLife(State& state, Dispatcher& dispatcher, Upstreams& upstreams, Journal& journal,
                 Results& results, Answers& answers, Groups& groups, Streams& streams, Handover& handover,
                 Watchers& watchers, Webhooks& webhooks)
    : state_(state),
      dispatcher_(dispatcher),
      upstreams_(upstreams),
      journal_(journal),
      results_(results),
      answers_(answers),
      groups_(groups),
      streams_(streams),
      handover_(handover),
      watchers_(watchers),
      webhooks_(webhooks) {}

// ---- accepted -----------------------------------------------------------------------------------------

Job& JobLife::accept(const Submitted& event, const Admitted& admitted, ReplyMode mode, TimePoint now) {
  const wire::Submit& fields = *event.fields;
  Lane& lane = *admitted.lane;
  Flow& flow = state_.flow_of(lane, *admitted.service, admitted.budgets);
  const Estimate& estimate = admitted.estimate;
  const bool named = !fields.id.empty();
  const std::string made = named ? std::string() : make_id(event.from.identity, now);
  const Blob body = admitted.spilled ? Blob() : event.body;
  const StoredSize size(admitted.body_bytes.value_or(event.body.size()));
  std::string scratch;
  Job& job = state_.jobs.create({.parts = texts_of(fields, named ? fields.id : made, event.from.envelope,
                                                   admitted.spilled ? size.blob() : body, scratch),
                                 .body_hash = kept_hash_of(event, admitted),
                                 .expected = stated(expected_of(estimate))});
  job.arrival = state_.next_arrival++ & Job::kArrivalMax;
  job.client_named_it = named;
  job.lane = job.submitted_lane = lane.index();
  set_times(job, fields, now);
  job.attempts_max = static_cast<std::uint16_t>(fields.attempts_max.value_or(state_.options.attempts_max));
  job.retain = Retention(fields.retain_ms.value_or(to_ms(state_.options.retain)));
  job.reply = mode;
  job.durable = admitted.durable;
  job.body_stored = admitted.spilled;
  job.estimate_rough = estimate.rough;
  fill(job, fields, body);
  // Later the body may be where it cannot be looked at.
  if (fields.cost && !admitted.redriven) job.need_extra().cost = word_of(fields.cost, event.body.bytes());
  state_.jobs.index(job);

  job.connection = admitted.connection;
  if (job.connection != nullptr) state_.connections.take_reference(*job.connection);
  if (job.connection != nullptr && fields.orphan == kOrphanCancel) answers_.add_owner(job, *job.connection);
  job.queue = &state_.clients.join(*admitted.client, flow);
  state_.workers.use(*admitted.service);
  ++lane.counters.accepted;
  if (!fields.group.empty()) groups_.join(job, fields.group_size, admitted.redriven, now);
  if (job.durable && !admitted.redriven) journal_.write_accepted(job, groups_.size_of(job), event.body);
  tell_given_up(now);
  journal_.note_numbers();
  // Sent before the job is queued, so that its position is the number of jobs queued now.
  if (mode != ReplyMode::result && job.connection != nullptr) {
    Origin from = event.from;
    from.grouping = &job.connection->grouping;
    const Outbox::Waiting waiting(state_.outbox, job.durable);
    answers_.say_accepted(job.id(), lane, job.durable, flow.depth(), fields.delay_ms, from, fields.ref);
  }
  begin_waiting(job, now);
  watchers_.tell(job, {.what = admitted.redriven ? "redriven" : "accepted", .state = job.state}, now);
  if (job.streams && mode != ReplyMode::accepted && job.connection != nullptr)
    streams_.add_reader(job, {.from = event.from, .ref = fields.ref}, now);
  return job;
}

/// The job begins to wait, or to be delayed. Requires: it has its lane.
void JobLife::set_times(Job& job, const wire::Submit& fields, TimePoint now) {
  job.accepted_at = now;
  job.timeout_stated = fields.timeout_ms.has_value();
  const Duration delay = std::chrono::milliseconds(fields.delay_ms.value_or(0));
  job.deadline = now + (job.timeout_stated ? Duration(std::chrono::milliseconds(*fields.timeout_ms))
                                           : delay + state_.lanes[job.lane]->options().timeout);
  if (delay.count() == 0) return;
  job.state = JobState::delayed;
  state_.jobs.go_away(job).due = now + delay;
}

/// The hash of a body that the job will not have in memory, or that is long to hash. That of a durable job is
/// written with every state.
std::optional<std::uint64_t> JobLife::kept_hash_of(const Submitted& event, const Admitted& admitted) const {
  if (admitted.body_hash) return admitted.body_hash;
  if (event.fields->id.empty() || (!admitted.durable && packed(event.body))) return std::nullopt;
  return journal_.hash_of(event.body.bytes());
}

bool JobLife::packed(const Blob& body) {
  return body.size() <= JobText::kBodyBytesMax;
}

JobText::Parts JobLife::texts_of(const wire::Submit& fields, std::string_view id, std::string_view envelope,
                                 const Blob& body, std::string& extras) {
  JobText::Parts parts{};
  parts[JobText::id] = id;
  parts[JobText::envelope] = envelope;
  parts[JobText::ref] = fields.ref.bytes;
  parts[JobText::model] = fields.model;
  parts[JobText::client] = fields.client;
  parts[JobText::group] = fields.group;
  parts[JobText::notify] = fields.notify;
  parts[JobText::meta] = fields.meta.bytes;
  parts[JobText::trace] = fields.trace.bytes;
  if (fields.extras.count > 0) {
    extras.push_back(static_cast<char>(fields.extras.count));
    extras += fields.extras.bytes;
    parts[JobText::extras] = extras;
  }
  if (packed(body)) parts[JobText::body] = body.bytes();
  return parts;
}

void JobLife::fill(Job& job, const wire::Submit& fields, const Blob& body) {
  if (fields.cost) job.need_extra().cost = fields.cost;
  job.ends_limited = fields.limited == kElsewhere;
  job.streams = fields.stream;
  if (job.streams) job.need_extra().answer = std::make_unique<AnswerStream>();
  if (!packed(body)) job.need_extra().body = body.owned();
  if (fields.orphan == kOrphanCancel) job.need_extra();
  job.extra_counts = job.extra != nullptr;
  state_.bytes += job.bytes();
}

/// A ULID: 48 bits of time in ms and 80 random bits in Crockford's base 32 (github.com/ulid/spec), in its
/// owner's space.
std::string JobLife::make_id(const Identity* owner, TimePoint now) {
  static constexpr char kDigits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  const std::size_t at = owner != nullptr ? owner->space.size() : 0;
  std::string id = owner != nullptr ? owner->space : std::string();
  id.resize(at + kIdBytes, '0');
  auto time = static_cast<std::uint64_t>(state_.options.unix_ms(now));
  for (int i = 9; i >= 0; --i, time >>= 5)
    id[at + static_cast<std::size_t>(i)] = kDigits[time & 31];
  do {
    std::uint64_t random = state_.random();
    for (std::size_t i = 10; i < 18; ++i, random >>= 5)
      id[at + i] = kDigits[random & 31];
    random = state_.random();
    for (std::size_t i = 18; i < kIdBytes; ++i, random >>= 5)
      id[at + i] = kDigits[random & 31];
  } while (state_.jobs.find(id) != nullptr);
  return id;
}

// ---- queued and run again -----------------------------------------------------------------------------

void JobLife::come_due(Job& job, TimePoint now) {
  if (now >= job.deadline) return expire(job, now);
  LANEMQ_CHECK(job.state == JobState::delayed);
  if (job.has_content()) return fail_broken_stream(job, now);  // of an earlier life: its worker is gone, too
  wait_no_more(state_, job, now);
  const TimePoint due = job.at_away().due;
  state_.jobs.come_back(job);
  job.state = JobState::queued;
  if (job.adoptable) {
    // The worker of the earlier life is gone, or never got the job.
    job.adoptable = false;
    if (job.attempts > 0) --job.attempts;
  }
  if (job.attempt == 0) {
    // The delay is over: the job ranks like one that is submitted now.
    job.arrival = state_.next_arrival++ & Job::kArrivalMax;
    if (job.timeout_stated) job.need_extra().delay = due - job.accepted_at;
    job.accepted_at = due;
  }
  begin_waiting(job, now);
  journal_.write_changed(job);
  watchers_.tell(job, {.what = "queued", .state = job.state}, now);
  end_if_shut_out(job, now);
}

/// The job waits from now on: in its queue, or delayed.
void JobLife::begin_waiting(Job& job, TimePoint now) {
  state_.enqueue(job);
  if (job.state == JobState::queued) upstreams_.comes(job, now);
  state_.set_timer(job);
}

void JobLife::requeue(Job& job, Requeue how, std::string_view why, TimePoint due, TimePoint now) {
  Lane& lane = *state_.lanes[job.lane];
  LANEMQ_CHECK(job.state == JobState::running && job.worker() == nullptr);
  state_.forget_progress(job);
  if (job.has_content()) return fail_broken_stream(job, now);
  if (how != Requeue::costs_attempt) --job.attempts;
  if (how == Requeue::free) job.flow().correct(*job.queue, -job.at_away().charged);
  // A draining broker hands nothing over again, so only the store could keep the job. Its client hears so now
  // and can submit it again.
  if (state_.draining && !job.durable)
    return end_with(job, JobState::failed, ErrorCode::draining,
                    "the broker is stopping and the job would have to run again; submit it again in a moment",
                    now);
  --lane.running;
  ++lane.counters.requeued;
  note_wait_begins(state_, job, now);
  if (due > now) {
    job.state = JobState::delayed;
    job.at_away().due = due;
  } else {
    state_.jobs.come_back(job);
    job.state = JobState::queued;
  }
  begin_waiting(job, now);
  journal_.write_changed(job);
  watchers_.tell(job, {.what = "requeued", .state = job.state, .code = why}, now);
}

void JobLife::leave_place(Job& job, Verdict verdict, TimePoint now) {
  handover_.leave(job, verdict, now);
  // A pause that held was extended: jobs may now wait for it in vain.
  if (state_.budgets.take_tried()) sweep_soon();
  if (job.ended()) erase(job, job.bytes());
}

void JobLife::take_back_unsent(const HandoverVoid& event, TimePoint now) {
  Record* const record = state_.jobs.find(JobNumber{event.job});
  if (record == nullptr || record->is_result) return;
  Job& job = *record->job();
  if (job.attempt != event.attempt || job.worker() == nullptr) return;
  hand_back(job, "bank", now);
}

/// Its worker has heard nothing of the job, which waits again as if it had not gone.
void JobLife::hand_back(Job& job, std::string_view why, TimePoint now) {
  state_.budgets.release(job.at_away().reservation, now);
  const bool ended = job.ended();
  leave_place(job, Verdict::unknown, now);
  if (!ended) requeue(job, Requeue::free, why, now, now);
}

void JobLife::take_body(const BodyRead& event, TimePoint now) {
  Record* const record = state_.jobs.find(JobNumber{event.number});
  if (record == nullptr || record->is_result) return;
  Job& job = *record->job();
  if (!job.body_awaited()) return;
  if (!event.body)
    return end_with(job, JobState::failed, ErrorCode::internal,
                    "the request's body is not in the store; check it with lanemq-broker --check-store", now);
  ++state_.stats.bodies_read;
  job.at_away().body_awaited = false;
  if (job.estimate_rough && state_.lanes[job.lane]->terms->costs_more(job, event.body->bytes())) {
    hand_back(job, "body", now);
    return;
  }
  job.at_away().dispatched_at = now;
  handover_.offer(job, *event.body, now);
}

// ---- over ---------------------------------------------------------------------------------------------

void JobLife::end(Job& job, JobState state, std::unique_ptr<Ending> ending, const Blob& body, TimePoint now) {
  LANEMQ_CHECK(!job.ended());
  state_.forget_progress(job);
  const std::size_t bytes = job.bytes();
  const Outbox::Waiting waiting(state_.outbox, job.durable);
  if (job.body_awaited()) {
    // The worker has not heard of the job yet.
    state_.budgets.release(job.at_away().reservation, now);
    leave_place(job, Verdict::unknown, now);
  }
  if (job.has_content()) {
    if (Away* const away = job.away()) away->streamed_bytes = job.answer()->bytes();
    if (!ending) ending = std::make_unique<Ending>();
    ending->chunks = job.answer()->next();
  }
  Terminal how{.id = job.id(),
               .client_named_it = job.client_named_it,
               .id_told = job.id_told(),
               .lane = job.lane,
               .state = state,
               .attempts = job.attempts,
               .queued_ms = waited_ms(job, now),
               .ran_ms = 0,
               .ending = ending.get(),
               .body = body};
  leave(job, how, now);
  tell_end(job, how);
  state_.timers.clear(job.timer);

  Change change{.what = "ended", .state = state, .queued_ms = how.queued_ms, .ran_ms = how.ran_ms};
  if (state != JobState::succeeded && how.ending != nullptr) change.code = name_of(how.ending->code);
  job.state = state;
  // Here, since what follows takes how it ended. Of a job in a group only the group's end is told.
  if (!job.text.get(JobText::notify).empty() && job.text.get(JobText::group).empty())
    webhooks_.owe(job, how, now);
  std::unique_ptr<AnswerStream> answer = streams_.take_answer(job);
  KeptResult* const dead = results_.keep(job, how, std::move(ending), std::move(answer), now);
  change.dead = dead != nullptr;
  watchers_.tell(job, change, now);
  leave_group(job, dead != nullptr, now);
  let_go(job, bytes);
  results_.evict(now);
  if (dead == nullptr || results_.memory_bytes() <= state_.options.memory_max) return;
  // A dead job is larger than the job was. Its stream is dropped first, then older dead jobs.
  results_.kept().shed_answer(*dead);
  results_.evict_dead_for_memory();
}

/// Counts the job's end in its group, and tells the group's watchers when it is over.
void JobLife::leave_group(const Job& job, bool dead, TimePoint now) {
  if (job.text.get(JobText::group).empty()) return;
  if (const Group* const over = groups_.leave(job, job.state, dead, now)) tell_over(*over, now);
}

void JobLife::come_due(Group& group, TimePoint now) {
  if (const Group* const over = groups_.come_due(group, now)) tell_over(*over, now);
  tell_given_up(now);
}

void JobLife::tell_given_up(TimePoint now) {
  for (const auto& group : groups_.take_given_up())
    tell_over(*group, now);
}

void JobLife::tell_over(const Group& group, TimePoint now) {
  watchers_.tell(group);
  if (!group.notify.empty()) webhooks_.owe(group, now);
}

/// Takes the job out of its queue, or tells its worker to cancel it.
void JobLife::leave(Job& job, Terminal& how, TimePoint now) {
  Lane& lane = *state_.lanes[job.lane];
  if (job.state == JobState::running) {
    --lane.running;
    const Duration ran_for = now - job.at_away().dispatched_at;
    how.ran_ms = to_ms32(ran_for);
    lane.run.record(ran_for, now);
    state_.note_run(job, ran_for, now);
    job.flow().service().note_run(ran_for);
  } else {
    tell_wait(state_, job, job.state == JobState::queued ? job.flow().refused_since() : std::nullopt,
              how.ending != nullptr ? how.ending->code : ErrorCode::internal, now);
    wait_no_more(state_, job, now);
  }
  if (Worker* const worker = job.worker(); worker != nullptr) {
    const Outbox::Waiting behind_offer(state_.outbox, job.durable || job.at_away().offer_waited);
    state_.tell(*worker,
                wire::CancelJob{static_cast<std::uint64_t>(job.number), job.attempt,
                                how.ending != nullptr ? name_of(how.ending->code) : std::string_view{}});
  }
  ++(how.state == JobState::succeeded ? lane.counters.succeeded : lane.counters.failed);
  if (how.state == JobState::cancelled) ++lane.counters.cancelled;
}

/// Tells all clients that wait for the job how it ended.
void JobLife::tell_end(Job& job, const Terminal& how) {
  if (job.reply != ReplyMode::accepted && !job.streams)
    answers_.say_terminal(how,
                          {.address = job.connection->address,
                           .envelope = job.text.get(JobText::envelope),
                           .grouping = &job.connection->grouping},
                          {job.text.get(JobText::ref)});
  streams_.say_end(job, how);
  if (job.extra)
    for (const auto& waiter : job.extra->waiters)
      answers_.say_terminal(how,
                            {.address = waiter->connection->address,
                             .envelope = waiter->envelope,
                             .grouping = &waiter->connection->grouping},
                            {waiter->ref});
  streams_.remove_readers(job);
  answers_.drop_waiters(job);
  answers_.drop_owners(job);
  if (job.connection != nullptr) state_.connections.drop_reference(*job.connection);
  job.connection = nullptr;
}

/// Frees what an ended job does not need: all, or all but the record while its worker still has the job.
/// `bytes`: its former share of the byte bounds.
void JobLife::let_go(Job& job, std::size_t bytes) {
  if (job.worker() == nullptr) return erase(job, bytes);
  // The end of its call still says something about its model and client.
  job.text.keep_names();
  job.extra.reset();
  state_.bytes -= bytes - job.bytes();
}

/// Destroys a job that nothing refers to. `bytes`: its share of the byte bounds.
void JobLife::erase(Job& job, std::size_t bytes) {
  state_.bytes -= bytes;
  state_.workers.release(job.flow().service());
  state_.clients.leave(*job.queue);
  state_.jobs.erase(job);
}

void JobLife::end_with(Job& job, JobState state, ErrorCode code, std::string message, TimePoint now) {
  auto ending = std::make_unique<Ending>();
  ending->code = code;
  ending->message = std::move(message);
  if (error_info(code).says_when_to_retry) ending->retry_after = std::chrono::seconds(1);
  end(job, state, std::move(ending), {}, now);
}

void JobLife::expire(Job& job, TimePoint now) {
  if (job.worker() != nullptr) results_.remember_attempt(job, name_of(ErrorCode::deadline), {}, {}, now);
  const std::string where =
      job.state == JobState::running
          ? "while it ran"
          : "while it waited in lane \"" + state_.lanes[job.lane]->options().name + "\"";
  if (job.has_content() && !job.timeout_stated)
    return end_with(job, JobState::expired, ErrorCode::deadline,
                    "nothing came of its stream for longer than lane \"" +
                        state_.lanes[job.lane]->options().name +
                        "\" allows (its timeout, and a minute at least)",
                    now);
  end_with(job, JobState::expired, ErrorCode::deadline,
           "timeout_ms (" + std::to_string(to_ms(job.timeout())) + ") was over " + where, now);
}

void JobLife::fail_broken_stream(Job& job, TimePoint now) {
  end_with(job, JobState::failed, ErrorCode::worker_lost,
           "its worker was lost or gave it back when its answer had been sent up to chunk " +
               std::to_string(job.answer()->next() - 1) + ": it is not run again",
           now);
}

bool JobLife::end_if_shut_out(Job& job, TimePoint now) {
  const Budgets::UpstreamPause shut = upstreams_.shut_out(job, now);
  if (shut.budget == nullptr) return false;
  auto ending = std::make_unique<Ending>();
  if (shut.no_key) {
    ending->code = ErrorCode::upstream_quota;
    ending->message =
        "all keys of the upstream rest for longer than the job's time (budget " + shut.name() + ")";
  } else {
    ending->code = ErrorCode::limited;
    ending->message =
        "the upstream asked for a pause that is longer than the job's time (budget " + shut.name() + ")";
    ending->retry_after = shut.until - now;
    ending->upstream_status = kTooManyRequests;
  }
  end(job, JobState::failed, std::move(ending), {}, now);
  return true;
}

void JobLife::sweep(TimePoint now) {
  if (sweep_.from == 0) {
    if (!sweep_.due || now < sweep_.not_before) return;
    sweep_.due = false;
    sweep_.not_before = now + kSweepPause;
  }
  const std::size_t end = std::min(state_.jobs.places(), sweep_.from + kSweptInATurn);
  for (std::size_t ended = 0; sweep_.from < end && ended < kShutOutInATurn; ++sweep_.from) {
    Record* const record = state_.jobs.at(sweep_.from);
    Job* const job = record != nullptr ? record->job() : nullptr;
    if (job != nullptr && job->state == JobState::queued && end_if_shut_out(*job, now)) ++ended;
  }
  if (sweep_.from == state_.jobs.places()) sweep_.from = 0;
}

TimePoint JobLife::next_wakeup() const {
  const TimePoint next_tick = dispatcher_.begun_at() + TimerWheel::kTick;
  if (sweep_.from > 0) return next_tick;
  return sweep_.due ? std::max(sweep_.not_before, next_tick) : kNever;
}

void JobLife::end_unsatisfiable(const Pick& pick, TimePoint now) {
  const Obstacle limit = state_.budgets.unsatisfiable(pick.job->flow().budgets(), pick.claim.amounts);
  end_with(*pick.job, JobState::failed, ErrorCode::unsatisfiable, limit.too_large(pick.claim.amounts), now);
}

void JobLife::cancel_unread(Job& job, TimePoint now) {
  end_with(job, JobState::cancelled, ErrorCode::cancelled,
           "cancelled because its client does not read it, as its submit asked for (orphan)", now);
}

void JobLife::leave_owned(Connection& connection, TimePoint now) {
  const TimePoint due = state_.silent_from({}, now) + Answers::kOrphanPause;
  if (now < due) return state_.timers.set(connection.timer, due);
  state_.connections.take_reference(connection);
  for (std::size_t looked_at = 0; looked_at < kOwnedInATurn; ++looked_at) {
    const Owner* const owner = connection.owned.front();
    if (owner == nullptr) break;
    Job& job = *owner->job;
    answers_.drop_owner(*owner);
    if (!job.extra->owners.empty()) continue;
    ++state_.stats.orphans_cancelled;
    end_with(job, JobState::cancelled, ErrorCode::cancelled, std::string(kOrphanText), now);
  }
  if (!connection.owned.empty()) state_.timers.set(connection.timer, now + TimerWheel::kTick);
  state_.connections.drop_reference(connection);
}

void JobLife::drain(TimePoint now) {
  if (state_.draining) return;
  state_.draining = true;
  static constexpr char kText[] =
      "the broker is stopping and the job is not kept on disk; submit it again in a moment";
  std::vector<Job*> queued;
  const auto& clients = state_.clients.all();
  for (const Client* client = clients.front(); client != nullptr; client = clients.next(*client))
    for (const auto& queue : client->queues)
      queue->append_to(queued);
  std::sort(queued.begin(), queued.end(), [](const Job* a, const Job* b) {
    return a->lane != b->lane ? a->lane < b->lane : a->arrival < b->arrival;
  });
  for (Away* away = state_.delayed.front(); away != nullptr; away = state_.delayed.next(*away))
    queued.push_back(&away->job);
  // Durable jobs wait in the store for the broker's return.
  for (Job* job : queued)
    if (!job->durable) end_with(*job, JobState::failed, ErrorCode::draining, kText, now);
}

void JobLife::give_up_running(TimePoint now) {
  for (const auto& [number, worker] : state_.workers.all()) {
    for (Away* away = worker->leases.front(); away != nullptr; away = worker->leases.next(*away)) {
      Job& job = away->job;
      if (job.ended() || job.durable) continue;  // a durable job runs on and is adopted later
      end_with(job, JobState::failed, ErrorCode::draining,
               "the broker is stopping and the job did not finish within drain_timeout; submit it again",
               now);
    }
  }
}

}  // namespace lanemq::core
