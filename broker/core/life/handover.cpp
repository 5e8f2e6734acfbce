// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/handover.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/life/journal.hpp"
#include "broker/core/life/waits.hpp"
#include "broker/core/life/watchers.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/upstreams.hpp"

namespace lanemq::core {
namespace {

/// Bodies that are read ahead: those of the next kReadAhead jobs.
constexpr int kReadAhead = 8;
/// Lent bodies may exceed memory_max by 1/kLentShare of it.
constexpr std::size_t kLentShare = 8;

}  // namespace

void Handover::start(const Pick& pick, TimePoint now) {
  Job& job = *pick.job;
  Lane& lane = *state_.lanes[job.lane];
  Flow& flow = job.flow();
  Worker& worker =
      pick.alone != nullptr ? *pick.alone : *state_.workers.find_place(flow.service(), job.lane)->worker;
  if (job.attempt == 0) {
    lane.wait.record(now - job.accepted_at, now);
    state_.note_wait(job, now - job.accepted_at, now);
  }
  const std::optional<TimePoint> refused_since = pick.alone != nullptr ? std::nullopt : flow.starts(now);
  const std::int64_t cost = dispatcher_.take(job);
  job.state = JobState::running;
  ++lane.running;
  ++job.attempt;
  ++job.attempts;
  tell_wait(state_, job, refused_since, {}, now);
  Away& away = state_.jobs.go_away(job);
  away.charged = cost;
  away.dispatched_at = now;
  away.queued_ms = to_ms32(now - job.accepted_at);
  away.reservation = state_.budgets.reserve(flow.budgets(), pick.claim, now);
  take_place(job, worker);
  if (upstreams_.called(job, now)) dispatcher_.trial_made();
  if (job.answer() != nullptr) job.answer()->begin_attempt();
  journal_.write_changed(job);
  if (job.body_stored) lend(job);
  read_ahead(job);
  if (!job.body_stored) offer(job, job.body(), now);
  watchers_.tell(job, {.what = "started", .state = JobState::running, .worker = worker.name}, now);
}

void Handover::offer(Job& job, const Blob& body, TimePoint now) {
  Away& away = job.at_away();
  Worker& worker = *away.worker;
  const Lane& lane = *state_.lanes[job.lane];
  const bool waits = job.durable || debit_waits(away.reservation);
  away.offer_waited = waits;
  const Outbox::Waiting waiting(state_.outbox, waits);
  wire::JobOffer offer;
  offer.job = static_cast<std::uint64_t>(job.number);
  offer.attempt = job.attempt;
  offer.id = job.id();
  if (worker.places.size() > 1) offer.service = job.flow().service().name;
  if (&lane != state_.default_lane) offer.lane = lane.options().name;
  offer.model = job.text.get(JobText::model);
  offer.client = job.text.get(JobText::client);
  offer.key = state_.budgets.key_of(away.reservation);
  // The worker learns the deadline only where the client stated one; the broker keeps it in any case.
  if (job.timeout_stated) offer.timeout_ms = std::max<std::int64_t>(to_ms(job.deadline - now), 1);
  if (job.extra) offer.cost = job.extra->cost;
  if (offer.cost) offer.cost->certain.reset();
  offer.stream = job.streams;
  offer.meta.bytes = job.text.get(JobText::meta);
  offer.trace.bytes = job.text.get(JobText::trace);
  if (const std::string_view extras = job.text.get(JobText::extras); !extras.empty())
    offer.extras = {static_cast<unsigned char>(extras[0]), extras.substr(1)};
  if (away.reservation.shared != 0)
    state_.outbox.add_checked(worker.address, offer, body);
  else if (job.extra && job.extra->missed)
    // Perhaps its worker could not read a job in its company, or this one: no batch is lost with it again.
    state_.outbox.add(Peer::worker, worker.address, {}, offer, body);
  else
    state_.tell(worker, offer, body);
}

/// Whether a hand-over of a job that is not durable waits for the store, because of what it debits.
bool Handover::debit_waits(const Reservation& reservation) {
  const Options& options = state_.options;
  if (!options.store_durable) return false;
  // It waits only until what it debits is on disk, and not while the disk is full or stands still. But a
  // broker that was deposed commits nothing, and must hand over nothing that its successor does not count.
  if (!options.store_shared && (state_.store_full || state_.store_stalled)) return false;
  return !state_.budgets.use_ahead(reservation, options.store_shared);
}

void Handover::take_place(Job& job, Worker& worker) {
  state_.workers.take_place(worker, job);
  job.at_away().model = mark_of(job.text.get(JobText::model));
  for (Client* party = &job.queue->client(); party != nullptr; party = party->tenant) {
    ++party->running;
    if (party->at_limit()) update_turns(*party);
  }
}

bool Handover::adopt(Worker& worker, wire::Lease lease, TimePoint now) {
  Record* const record = state_.jobs.find(JobNumber{lease.job});
  if (record == nullptr || record->is_result) return false;
  Job& job = *record->job();
  if (!job.adoptable || job.attempt != lease.attempt || !worker.available()) return false;
  if (!worker.key.empty() && !worker.takes(job)) return false;  // its key need not allow that job
  state_.leave_queue(job);
  job.adoptable = false;
  run_on(job, worker, now);
  return true;
}

bool Handover::go_on(Worker& worker, const Lost& lost, TimePoint now) {
  Record* const record = state_.jobs.find(lost.job);
  if (record == nullptr || record->is_result) return false;
  Job& job = *record->job();
  const bool waits = job.state == JobState::queued || job.state == JobState::delayed;
  if (!waits || job.adoptable || job.attempt != lost.attempt || !worker.available() || !worker.takes(job))
    return false;
  state_.leave_queue(job);
  const bool was_queued = job.state == JobState::queued;
  if (lost.spared) ++job.attempts;
  if (lost.shared && job.extra->shared_deaths > 0) --job.extra->shared_deaths;
  job.state = JobState::running;
  Away& away = was_queued ? state_.jobs.go_away(job) : job.at_away();
  away.dispatched_at = lost.dispatched_at;
  away.charged = lost.charged;
  away.missing = 0;
  // The call's amounts count against the rates since the worker was taken for lost.
  away.reservation =
      state_.budgets.adopt(job.flow().budgets(), job.expected().amounts(), lost.key, lost.dispatched_at);
  run_on(job, worker, now);
  journal_.write_changed(job);
  return true;
}

/// A worker runs the job, which the broker did not know to run. Requires: it has left its queue.
void Handover::run_on(Job& job, Worker& worker, TimePoint now) {
  job.state = JobState::running;
  ++state_.lanes[job.lane]->running;
  Away& away = job.at_away();
  // It runs since that hand-over: dispatched_at stays, ran_ms counts from there, and it did not wait since.
  away.queued_ms = to_ms32(away.dispatched_at - job.accepted_at);
  // The job was called before: that is no trial of an upstream that has failed since.
  const CircuitBreaker& breaker = job.flow().service().breaker;
  away.called_in = breaker.closed() ? breaker.period() : CircuitBreaker::kNoPeriod;
  take_place(job, worker);
  state_.set_timer(job);
  ++state_.stats.jobs_adopted;
  watchers_.tell(job, {.what = "adopted", .state = JobState::running, .worker = worker.name}, now);
}

void Handover::leave(Job& job, Verdict verdict, TimePoint now) {
  Away& away = job.at_away();
  away.body_awaited = false;
  take_back(away);
  // Where the job ended first (cancel, deadline) its failed call says nothing about the upstream.
  if (state_.options.breaker) upstreams_.judge(job, job.ended() ? Verdict::unknown : verdict, now);
  state_.workers.free_place(job);
  for (Client* party = &job.queue->client(); party != nullptr; party = party->tenant) {
    const bool was_at_limit = party->at_limit();
    --party->running;
    if (was_at_limit) update_turns(*party);
  }
}

// ---- bodies that are on disk alone --------------------------------------------------------------------

std::size_t Handover::lent_bytes_max() const {
  return state_.options.memory_max / kLentShare;
}

/// Asks the store for the body of a job that was handed over. At the bound of lent bytes no further job with
/// a stored body is handed over.
void Handover::lend(Job& job) {
  Away& away = job.at_away();
  away.body_awaited = true;
  away.lent = static_cast<std::uint32_t>(job.body_bytes());
  state_.lent_bytes += away.lent;
  state_.outbox.reads.push_back({.number = static_cast<std::uint64_t>(job.number), .awaited = true});
  if (state_.lent_bytes >= lent_bytes_max()) hold_bodies(true);
}

void Handover::take_back(Away& away) {
  state_.lent_bytes -= std::exchange(away.lent, 0);
  // Half way down: each change of this flag looks at all clients.
  if (state_.lent_bytes <= lent_bytes_max() / 2) hold_bodies(false);
}

void Handover::hold_bodies(bool held) {
  if (state_.bodies_held == held) return;
  state_.bodies_held = held;
  dispatcher_.turns_changed();
  for (const auto& lane : state_.lanes)
    lane->bodies_held = held;
  const auto& all = state_.clients.all();
  for (Client* client = all.front(); client != nullptr; client = all.next(*client))
    update_turns(*client);
}

/// Reads the bodies of the jobs that are likely next.
void Handover::read_ahead(const Job& job) {
  const Job* next = job.queue->oldest();
  for (int i = 0; next != nullptr && i < kReadAhead; next = job.queue->after(*next), ++i)
    if (next->body_stored)
      state_.outbox.reads.push_back({.number = static_cast<std::uint64_t>(next->number)});
}

}  // namespace lanemq::core
