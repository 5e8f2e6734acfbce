// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/results.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/jobs/stored.hpp"
#include "broker/core/life/groups.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

constexpr std::size_t kCacheLine = 64;
/// Cache lines of a result that are read when it is forgotten.
constexpr std::size_t kResultLines = 2;
/// Expired results that one turn forgets: some 2 ms of work.
constexpr std::size_t kForgottenInATurn = 1000;
/// Bytes of results that one turn moves so that others can make way: some thousand results.
constexpr std::size_t kPassedOverInATurn = std::size_t{2} << 20;
/// If more than this part of results_bytes_max is loose, the oldest loose bytes are left to the store.
constexpr std::size_t kLooseShare = 4;

/// If more than this part of memory_max is used, bodies of durable jobs stay in the store alone: the rest is
/// for the jobs themselves, and results.
constexpr std::size_t kBodiesShare = 8;
/// Smaller bodies stay in memory: reading one back takes longer than it saves.
constexpr std::size_t kSpilledBytesMin = 512;
/// How often results make way on a full disk: some ms of work each time.
constexpr Duration kMakeRoomPause = std::chrono::seconds(1);
constexpr std::size_t kMadeRoomMax = 4096;
/// A result that ended this long before the disk was full is in the store: a longer commit counts as a
/// standstill. Younger results may be those that the disk has no room for, and stay.
constexpr Duration kStoredAfter = std::chrono::seconds(1);

}  // namespace

Results::Results(State& state, Journal& journal, Groups& groups, std::uint64_t seed)
    : state_(state),
      journal_(journal),
      groups_(groups),
      kept_(state.options.retain, share_of(state.options)),
      gone_(state.options.gone_max, seed) {}

/// A client that holds this much makes room among its own results.
ResultShare Results::share_of(const Options& options) {
  return {.results = last_part(options.results_max, options, kSharedJobsMin),
          .bytes = last_part(options.results_bytes_max, options, kSharedBytesMin)};
}

std::size_t Results::memory_bytes() const {
  return state_.bytes + state_.clients.bytes() + state_.waiters_bytes + state_.groups_bytes + kept_.bytes() +
         kept_.dead_bytes();
}

bool Results::spills(std::size_t bytes, std::size_t body_bytes) const {
  return body_bytes >= kSpilledBytesMin &&
         memory_bytes() + bytes + Job::kRecordBytes > state_.options.memory_max / kBodiesShare;
}

bool Results::much_is_loose() const {
  return kept_.loose_bytes() > state_.options.results_bytes_max / kLooseShare;
}

// ---- kept ---------------------------------------------------------------------------------------------

KeptResult* Results::keep(Job& job, const Terminal& how, std::unique_ptr<Ending> ending,
                          std::unique_ptr<AnswerStream> answer, TimePoint now) {
  if (job.retain.nothing()) {
    if (how.id_told) gone_.remember(how.id);
    journal_.write_ended(job, how, nullptr, now, false, now);
    state_.jobs.replace(job, nullptr);
    return nullptr;
  }
  const bool died = dies(job, how.state);
  Duration retain = std::chrono::milliseconds(job.retain.ms());
  if (died) retain = std::max(retain, state_.options.dead_retain);
  // Results kept for the usual time leave in the order in which they came, so they need no timers.
  const bool apart = died || retain != state_.options.retain;
  KeptResult& result =
      kept_.add(KeptResults::of(job, job.flow().service().name, job.queue->client().party().mark,
                                journal_.body_hash_of(job)),
                how, std::move(ending), apart, std::move(answer));
  result.due = TimerWheel::fires_at(now + retain);
  if (apart) {
    result.extra->ended_at = kept_.mark(now);
    state_.timers.set(result.extra->timer, result.due);
  }
  journal_.write_ended(job, how, &result, now + retain, died, now);
  state_.jobs.replace(job, &result);
  if (!died) return nullptr;
  bury(job, result, now);
  return &result;
}

/// Whether a job that failed or expired becomes a dead job: not if its client wants nothing kept, nor if the
/// broker stops.
bool Results::dies(const Job& job, JobState state) const {
  return (state == JobState::failed || state == JobState::expired) && state_.options.dead_max > 0 &&
         !state_.draining && !job.retain.nothing();
}

/// Moves what another run needs from the job to its result.
void Results::bury(Job& job, KeptResult& result, TimePoint now) {
  auto dead = std::make_unique<DeadJob>();
  Buffer record;
  write_record(
      job, {.service = job.flow().service().name, .lane = state_.lanes[job.submitted_lane]->options().name},
      record);
  dead->record = record.view();
  dead->body = job.body().owned();
  dead->body_stored = job.body_stored;
  if (job.body_stored) dead->body_bytes = job.body_bytes();
  if (job.extra) dead->history = std::move(job.extra->history);
  dead->client = job.queue->client().name;
  dead->ended_at = now;
  dead->estimate = {.amounts = job.expected().amounts(), .raw_input = job.expected().raw_input};
  kept_.bury(result, std::move(dead));
  const std::size_t count_max = std::min(state_.options.dead_max, state_.options.jobs_max / 4);
  const std::size_t bytes_max = std::min(state_.options.dead_bytes_max, state_.options.memory_max / 4);
  while (kept_.dead_size() > count_max || kept_.dead_bytes() > bytes_max)
    evict_dead();
}

void Results::remember_attempt(Job& job, std::string_view cause, std::string_view code,
                               std::string_view message, TimePoint now) {
  const Away& away = job.at_away();
  const Worker& worker = *away.worker;
  History& history = job.need_extra().history;
  const std::ptrdiff_t grown = history.add({.number = job.attempt,
                                            .worker = worker.name.empty() ? worker.session : worker.name,
                                            .began = away.dispatched_at,
                                            .ended = now,
                                            .cause = cause,
                                            .code = std::string(code),
                                            .message = std::string(message)});
  state_.bytes += static_cast<std::size_t>(grown);
  if (make_room(0, false, now)) return;
  state_.bytes -= history.bytes();
  history = {};
}

void Results::take_back_attempt(Job& job) {
  if (job.extra) state_.bytes -= job.extra->history.take_back(job.attempt);
}

// ---- forgotten ----------------------------------------------------------------------------------------

void Results::begin_turn(TimePoint now) {
  begun_at_ = now;
  for (std::size_t due = 0; due < kForgottenInATurn; ++due) {
    KeptResult* const oldest = kept_.oldest();
    if (oldest == nullptr || oldest->due > now) break;
    forget(*oldest);
  }
  passing_left_ = kPassedOverInATurn;
  if (making_way_)
    if (KeptResult* const next = kept_.next_to_go(); next == nullptr || pass_over_for(*next)) evict(now);
}

TimePoint Results::next_wakeup() const {
  TimePoint wakeup = making_way_ ? begun_at_ + TimerWheel::kTick : kNever;
  if (const KeptResult* oldest = kept_.oldest()) wakeup = std::min(wakeup, oldest->due);
  return wakeup;
}

void Results::forget(KeptResult& result) {
  forget(result, Forgotten::in_its_time);
}

void Results::forget(KeptResult& result, Forgotten why) {
  // A job that succeeded must not run again for as long as its client was told that its id would be known.
  const bool promised = why == Forgotten::before_its_time && result.state == JobState::succeeded;
  if (result.id_told && promised)
    gone_.remember_promised(result.id(), result.due);
  else if (result.id_told)
    gone_.remember(result.id());
  journal_.write_forgotten(result);
  remove(result);
}

void Results::remove(KeptResult& result) {
  if (result.apart()) state_.timers.clear(result.extra->timer);
  state_.jobs.forget(result);
  kept_.remove(result);
}

/// Whether the result may be destroyed: what lies before it in memory has moved, which may take several
/// turns.
bool Results::pass_over_for(const KeptResult& result) {
  making_way_ =
      !kept_.pass_over_for(result, passing_left_, [this](KeptResult& moved) { state_.jobs.moved(moved); });
  return !making_way_;
}

/// Destroys the next result to make way. False where there is none, or none in this turn.
bool Results::evict_one(TimePoint now) {
  KeptResult* const oldest = kept_.next_to_go();
  if (oldest == nullptr || !pass_over_for(*oldest)) return false;
  ++state_.stats.results_evicted;
  evicted_at_ = now;
  forget(*oldest, Forgotten::before_its_time);
  return true;
}

/// Where memory lacks, groups that are over make way among the results: what ended first goes first.
bool Results::evict_for_memory(TimePoint now) {
  const Group* const group = groups_.oldest_over();
  if (group == nullptr) return evict_one(now);
  const KeptResult* const result = kept_.next_to_go();
  if (result != nullptr && kept_.ended_at(*result) < group->changed_at) return evict_one(now);
  groups_.forget_oldest_over(now);
  return true;
}

bool Results::evict_dead() {
  KeptResult* const oldest = kept_.oldest_dead();
  if (oldest == nullptr) return false;
  ++state_.stats.dead_evicted;
  forget(*oldest);
  return true;
}

void Results::evict(TimePoint now) {
  // Loose bytes beyond the bound are left to the store, which reads them back on demand.
  while (much_is_loose() && kept_.unload_oldest()) {
  }
  // A result may be larger than its job was, so results make way until memory_max holds. Dead jobs stay: they
  // have their own bounds, and make way only for dead jobs.
  while (true) {
    const bool too_many =
        kept_.size() > state_.options.results_max || kept_.stored_bytes() > state_.options.results_disk_max;
    const bool too_large = kept_.bytes() > state_.options.results_bytes_max;
    if (!too_many && !too_large && memory_bytes() <= state_.options.memory_max) break;
    if (!too_many && kept_.unload_oldest()) continue;
    if (!(too_many || too_large ? evict_one(now) : evict_for_memory(now))) break;
  }
  // The next result to go is cold: its memory is fetched while something else is done.
  if (const KeptResult* next = kept_.oldest())
    for (std::size_t byte = 0; byte < kResultLines * kCacheLine; byte += kCacheLine)
      __builtin_prefetch(reinterpret_cast<const char*>(next) + byte, 1);
}

void Results::evict_dead_for_memory() {
  while (memory_bytes() > state_.options.memory_max && evict_dead()) {
  }
}

bool Results::lacks_room(std::size_t needed, bool job) const {
  return (job && state_.jobs.full()) || memory_bytes() + needed > state_.options.memory_max;
}

/// Dead jobs make way only for dead jobs.
bool Results::could_make_room(std::size_t needed, bool job) const {
  if (!lacks_room(needed, job)) return true;
  if (job && state_.jobs.full() && !kept_.any_holds_a_place()) return false;
  return memory_bytes() - kept_.bytes() - groups_.over_bytes() + needed <= state_.options.memory_max;
}

bool Results::make_room(std::size_t needed, bool job, TimePoint now) {
  if (!could_make_room(needed, job)) return false;
  while (lacks_room(needed, job)) {
    const bool lacks_place = job && state_.jobs.full();
    if (!lacks_place && kept_.unload_oldest()) continue;
    if (!(lacks_place ? evict_one(now) : evict_for_memory(now))) return false;
  }
  return true;
}

void Results::make_room_in_store(TimePoint now) {
  // While the disk commits nothing, what goes makes no room there.
  if (state_.store_behind || state_.store_stalled || now < make_room_at_) return;
  make_room_at_ = now + kMakeRoomPause;
  const std::size_t enough = kept_.stored_bytes() - kept_.stored_bytes() / 8;
  for (std::size_t i = 0; i < kMadeRoomMax && kept_.stored_bytes() > enough; ++i) {
    const KeptResult* const oldest = kept_.next_to_go();
    if (oldest == nullptr || kept_.ended_at(*oldest) + kStoredAfter > state_.store_full_at) break;
    if (!evict_one(now)) break;
  }
}

Duration Results::ids_good_for(TimePoint now) const {
  const KeptResult* const oldest = kept_.next_to_go();
  if (!evicted_at_ || *evicted_at_ + state_.options.retain <= now) return state_.options.retain;
  return oldest == nullptr ? Duration(0) : std::min(now - kept_.ended_at(*oldest), state_.options.retain);
}

Refusal Results::not_known(std::string_view id) const {
  if (gone_.contains(id))
    return {ErrorCode::gone,
            "the result of job \"" + std::string(id) +
                "\" is no longer kept: retain_ms is over, it made way for newer ones (results_max, "
                "results_bytes_max, results_disk_max, memory_max), or it was purged",
            {}};
  return {ErrorCode::not_found, "no job with id \"" + std::string(id) + "\" is known", {}};
}

std::optional<Refusal> Results::ran_before(std::string_view id, TimePoint now) {
  if (!gone_.made_way(id, now)) return std::nullopt;
  return Refusal{
      ErrorCode::gone,
      "job \"" + std::string(id) +
          "\" succeeded, and its result made way for newer ones before its retain_ms was over "
          "(results_max, results_bytes_max, results_disk_max or memory_max was reached): it is not run "
          "again under this id before that; submit it under another",
      {}};
}

}  // namespace lanemq::core
