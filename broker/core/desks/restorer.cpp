// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/restorer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "broker/core/base/check.hpp"
#include "broker/core/life/groups.hpp"
#include "broker/core/life/job_life.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/life/streams.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

/// Heartbeats that a job that ran when the broker stopped waits for its worker: as many as a worker may be
/// silent, and one to come back.
constexpr int kAdoptHeartbeats = 4;

}  // namespace

Restorer::Restorer(State& state, Journal& journal, Results& results, Groups& groups, Streams& streams,
                   JobLife& life)
    : state_(state), journal_(journal), results_(results), groups_(groups), streams_(streams), life_(life) {}

void Restorer::clock(Duration shift) {
  journal_.set_clock(shift);
}

Result<void> Restorer::note(std::string_view name, std::string_view record, TimePoint now) {
  auto entries = decoder_.entries(record);
  if (!entries)
    return failure(ErrorCode::internal,
                   "note \"" + std::string(name) + "\" cannot be read: " + entries.error().message);
  if (name == Journal::kNumbers && !entries->empty()) {
    journal_.restore_numbers(static_cast<std::uint64_t>(entries->front().numbers.next()));
  } else if (name == Journal::kSeed && !entries->empty()) {
    state_.body_hash_seed = static_cast<std::uint64_t>(entries->front().numbers.next());
    seeded_ = true;
  } else if (name.starts_with(Journal::kGroup)) {
    groups_.restore(name.substr(Journal::kGroup.size()), *entries, now);
  } else if (name.starts_with(Journal::kLearnt)) {
    budgets_.emplace(name, std::move(*entries));
  } else if (name.starts_with(Journal::kBudget) || name.starts_with(Journal::kBudgetAccount)) {
    const bool of_account = name.starts_with(Journal::kBudgetAccount);
    name.remove_prefix(of_account ? Journal::kBudgetAccount.size() : Journal::kBudget.size());
    const std::size_t end = of_account ? std::min(name.find('\n'), name.size()) : name.size();
    if (of_account)
      for (StoredEntry& entry : *entries)
        entry.name = Budgets::account_entry(name.substr(std::min(end + 1, name.size())), entry.name);
    std::vector<StoredEntry>& known = budgets_[std::string(name.substr(0, end))];
    std::move(entries->begin(), entries->end(), std::back_inserter(known));
  }
  return {};
}

Result<void> Restorer::job(std::uint64_t number, std::string_view state_bytes, std::string_view record,
                           std::optional<std::string_view> body, std::size_t body_bytes, TimePoint now) {
  const auto unreadable = [&](const std::string& why) {
    return failure(ErrorCode::internal, "job " + std::to_string(number) + " cannot be read: " + why);
  };
  std::string scratch;
  History history;
  const auto state = decoder_.state(state_bytes, journal_.epoch_us(), history);
  if (!state) return unreadable(state.error().message);
  const auto fields = decoder_.submit(record);
  if (!fields) return unreadable(fields.error().message);
  // A body that memory has no room for stays in the store.
  const bool stored = body_bytes > 0 && (!body || results_.spills(record.size(), body_bytes));
  const Blob request = stored ? Blob() : Blob::borrow(body.value_or(std::string_view{}));
  const StoredSize size(body_bytes);
  const JobText::Parts texts =
      life_.texts_of(*fields, fields->id, {}, stored ? size.blob() : request, scratch);
  if (JobText::bytes_of(texts) > JobText::kBytesMax)
    return unreadable("it has more text than a job may have");
  state_.next_arrival = std::max(state_.next_arrival, state->arrival + 1);
  if (state_.lane_or_default(state->lane).options().name != state->lane) ++count_.without_lane;
  const Row row{.number = number,
                .state = *state,
                .record = record,
                .fields = *fields,
                .client = fields->client.empty() ? kClientOfNone : fields->client,
                .texts = texts,
                .request = request,
                .body_bytes = body_bytes,
                .stored = stored};
  if (state->kind == StoredState::Kind::dead) {
    keep_dead(row, std::move(history));
    return {};
  }
  const char* const fault = bring_back(row, std::move(history), now);
  return fault == nullptr ? Result<void>() : unreadable(fault);
}

void Restorer::keep_dead(const Row& row, History history) {
  const StoredState& state = row.state;
  auto dead = std::make_unique<DeadJob>();
  dead->record = row.record;
  dead->body = row.request.owned();
  dead->body_stored = row.stored;
  dead->body_bytes = row.body_bytes;
  dead->history = std::move(history);
  dead->client = row.client;
  dead->estimate = {.amounts = {.input_tokens = state.input_tokens, .output_tokens = state.output_tokens},
                    .raw_input = state.raw_input};
  dead_.emplace(row.number, std::move(dead));
}

/// Restores a job that waits or runs. Returns what is wrong with it; null: nothing.
const char* Restorer::bring_back(const Row& row, History history, TimePoint now) {
  const StoredState& state = row.state;
  Lane& lane = state_.lane_or_default(state.lane);
  Service& service = state_.workers.service(row.fields.service);
  Client& client = state_.clients.named(row.client);
  Flow& flow = state_.flow_of(lane, service,
                              state_.budgets.match(service.name, row.fields.model, client.name,
                                                   lane.options().name, client.options.tenant));
  Expected expected{
      .input_tokens = state.input_tokens, .output_tokens = state.output_tokens, .raw_input = state.raw_input};
  if (row.stored && !expected.is_estimated()) expected.raw_input = tokens_of_bytes(row.body_bytes);
  Job* const made =
      state_.jobs.restore(JobNumber{row.number},
                          {.parts = row.texts, .body_hash = state.body_hash, .expected = stated(expected)});
  if (made == nullptr)
    return state_.jobs.full() ? "there are more jobs than jobs_max; raise it" : "its number is taken";
  Job& job = *made;
  life_.fill(job, row.fields, row.request);
  if (state.ends_limited) job.ends_limited = *state.ends_limited;
  if (!state_.jobs.try_index(job)) return "its id is taken";
  job.key_refused = std::any_of(history.attempts().begin(), history.attempts().end(),
                                [](const Attempt& one) { return one.cause == name_of(ErrorClass::quota); });
  if (!history.attempts().empty()) {
    state_.bytes += history.bytes();
    job.need_extra().history = std::move(history);
  }
  job.durable = true;
  job.body_stored = row.stored;
  job.client_named_it = true;  // its client finds it by its id
  job.timeout_stated = row.fields.timeout_ms.has_value();
  job.reply = ReplyMode::accepted;  // no client waits any more; it may ask again
  job.lane = lane.index();
  job.submitted_lane = state_.lane_or_default(row.fields.lane).index();
  job.arrival = state.arrival & Job::kArrivalMax;
  job.attempt = state.attempt;
  job.attempts = state.attempts;
  job.attempts_max = state.attempts_max;
  if (state.crashes > 0) job.need_extra().crashes = state.crashes;
  if (state.shared_deaths > 0) job.need_extra().shared_deaths = state.shared_deaths & 63;
  if (state.suspected) job.need_extra().company = state_.isolation.restored(now);
  // No client is connected to be told the end, so the result is kept at least for `retain`; but for a client
  // that wants no result kept.
  if (state.retain_ms > 0) job.retain = Retention(std::max(state.retain_ms, to_ms(state_.options.retain)));
  set_times(job, state, now);
  job.queue = &state_.clients.join(client, flow);
  if (!row.fields.group.empty()) groups_.restore_job(job, row.fields.group_size);
  if (!row.fields.notify.empty() && state_.options.webhook_service.empty()) ++count_.untold;
  state_.workers.use(service);
  ++lane.counters.restored;
  jobs_.push_back(&job);
  ++(job.adoptable ? count_.running : job.state == JobState::delayed ? count_.delayed : count_.queued);
  return nullptr;
}

/// Sets the job's times. If the clock went back, they still last no longer than they were meant to.
void Restorer::set_times(Job& job, const StoredState& state, TimePoint now) {
  const Duration life(state.deadline_us - state.accepted_us);
  job.accepted_at = std::min(journal_.time_of(state.accepted_us), now);
  job.deadline = std::min(journal_.time_of(state.deadline_us), now + life);
  if (state.delay.count() > 0) job.need_extra().delay = state.delay;
  if (state.kind == StoredState::Kind::delayed) {
    job.state = JobState::delayed;
    state_.jobs.go_away(job).due =
        std::min(journal_.time_of(state.due_us), now + Duration(state.due_us - state.accepted_us));
  } else if (state.kind == StoredState::Kind::running) {
    job.state = JobState::delayed;
    job.adoptable = true;  // finish() sets the time
    state_.jobs.go_away(job).dispatched_at = std::min(journal_.time_of(state.due_us), now);
    if (!state.key.empty()) job.need_extra().key = state.key;
    if (job.answer() != nullptr) job.answer()->restore(state.chunks);
    // The disk does not tell how far the stream has come since: it lives as long as its worker.
    if (job.has_content()) streams_.let_go_on(job, now);
  }
}

Result<void> Restorer::result(std::uint64_t number, std::string_view record,
                              std::optional<std::string_view> body, std::size_t body_bytes, TimePoint now) {
  const auto unreadable = [&](const std::string& why) {
    return failure(ErrorCode::internal, "result " + std::to_string(number) + " cannot be read: " + why);
  };
  std::unique_ptr<Ending> ending;
  const auto stored = decoder_.result(record, ending);
  if (!stored) return unreadable(stored.error().message);
  if (stored->dead != dead_.contains(number))
    return unreadable(stored->dead ? "it is of a dead job that is not there"
                                   : "a dead job has its number, and it is not dead");
  if (state_.jobs.find(stored->id) != nullptr) return unreadable("its id is taken");
  // A body that would be left to the store at once is not read.
  const bool left = !body || (body_bytes > 0 && results_.much_is_loose());
  const Terminal how = journal_.terminal_of(*stored, ending.get(), left ? Blob() : Blob::borrow(*body));
  const Duration retain(stored->due_us - stored->ended_us);
  const TimePoint ended_at = std::min(journal_.time_of(stored->ended_us), now);
  const TimePoint due = std::min(journal_.time_of(stored->due_us), now + retain);
  KeptResult& result = results_.kept().restore(
      {.number = JobNumber{number},
       .attempt = stored->attempt,
       .submitted_lane = state_.lane_or_default(stored->submitted_lane).index(),
       .durable = true,
       .body_hash = stored->body_hash,
       .service = stored->service,
       .model = stored->model,
       .client = stored->client},
      how, std::move(ending),
      {.body_bytes = body_bytes, .ended_at = ended_at, .due = due, .dead = stored->dead});
  if (!state_.jobs.restore(JobNumber{number}, result))
    return unreadable(state_.jobs.full() ? "there are more jobs than jobs_max; raise it"
                                         : "its number is taken");
  if (result.apart()) state_.timers.set(result.extra->timer, result.due);
  ++(stored->dead ? count_.dead : count_.results);
  return {};
}

Result<Restorer::Restored> Restorer::finish(TimePoint now) {
  LANEMQ_CHECK(state_.options.store_durable);
  state_.jobs.restored();
  results_.kept().list_restored([&](KeptResult& result) {
    const auto dead = dead_.find(static_cast<std::uint64_t>(result.number));
    if (dead == dead_.end()) return;
    dead->second->ended_at = result.extra->ended_at;
    results_.kept().bury(result, std::move(dead->second));
    dead_.erase(dead);
  });
  if (!dead_.empty())
    return failure(ErrorCode::internal,
                   "job " + std::to_string(dead_.begin()->first) + " is dead, and its result is not there");
  // Sorted by number they are mostly in order of arrival already.
  const auto came_before = [](const Job* a, const Job* b) { return a->arrival < b->arrival; };
  if (!std::is_sorted(jobs_.begin(), jobs_.end(), came_before))
    std::sort(jobs_.begin(), jobs_.end(), came_before);
  for (Job* job : jobs_) {
    // Counted from now: workers can reach this broker only after it has read everything.
    if (job->adoptable) job->at_away().due = now + kAdoptHeartbeats * state_.options.heartbeat;
    state_.enqueue(*job);
    state_.set_timer(*job);
  }
  for (const auto& [name, entries] : budgets_)
    if (Budget* const budget = state_.budget_named(name))
      state_.budgets.restore(*budget, entries, journal_.epoch_us(), now);
    else if (name.starts_with(Journal::kLearnt))
      state_.budgets.restore_learnt(entries, journal_.epoch_us(), now);
  // Their calls go on, whether their workers are back yet or not.
  for (Job* job : jobs_)
    if (job->adoptable)
      job->at_away().reservation = state_.budgets.adopt(state_.home_of(*job), job->expected().amounts(),
                                                        job->extra ? job->extra->key : std::string_view{},
                                                        job->at_away().dispatched_at);
  state_.budgets.save_all();  // in this version's format
  groups_.restored(now);
  life_.tell_given_up(now);
  life_.sweep_soon();
  journal_.write_numbers();
  if (!seeded_) journal_.write_seed();
  results_.evict(now);
  results_.evict_dead_for_memory();
  return count_;
}

}  // namespace lanemq::core
