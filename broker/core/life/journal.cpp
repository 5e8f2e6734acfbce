// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/journal.hpp"

#include <xxhash.h>

#include "broker/core/base/stored_entry.hpp"
#include "broker/core/jobs/stored.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

/// Generations of job numbers that are reserved ahead, and how few may be left.
constexpr std::uint64_t kGenerationsAhead = 4096, kGenerationsLeft = 2048;

const History kNoHistory;

}  // namespace

std::int64_t Journal::epoch_us() const {
  return state_.options.wall_ms * 1000 - shift_.count();
}

std::uint64_t Journal::hash_of(std::string_view body, std::uint64_t seed) {
  return XXH3_64bits_withSeed(body.data(), body.size(), seed);
}

std::uint64_t Journal::hash_of(std::string_view body) const {
  return hash_of(body, state_.body_hash_seed);
}

std::uint64_t Journal::body_hash_of(const Job& job) const {
  if (const auto kept = job.text.body_hash()) return *kept;
  return job.client_named_it ? hash_of(job.text.get(JobText::body)) : 0;
}

void Journal::write_state(const Job& job, bool dead) {
  StoredState state;
  state.kind = dead                             ? StoredState::Kind::dead
               : job.state == JobState::running ? StoredState::Kind::running
               : job.adoptable                  ? StoredState::Kind::running
               : job.state == JobState::delayed ? StoredState::Kind::delayed
                                                : StoredState::Kind::queued;
  state.arrival = job.arrival;
  state.accepted_us = stored_us(job.accepted_at);
  state.deadline_us = stored_us(job.deadline);
  const Away* const away = job.away();
  if (away != nullptr)
    state.due_us = stored_us(state.kind == StoredState::Kind::running ? away->dispatched_at : away->due);
  if (job.extra) state.delay = job.extra->delay;
  state.attempt = job.attempt;
  state.attempts = job.attempts;
  state.attempts_max = job.attempts_max;
  state.crashes = job.crashes();
  const Expected expected = job.expected();
  state.input_tokens = expected.input_tokens;
  state.output_tokens = expected.output_tokens;
  state.raw_input = expected.raw_input;
  state.retain_ms = job.retain.ms();
  state.body_hash = body_hash_of(job);
  state.lane = state_.lanes[job.lane]->options().name;
  if (job.worker() != nullptr) state.key = state_.budgets.key_of(away->reservation);
  if (job.has_content()) state.chunks = job.answer()->next();
  state.ends_limited = job.ends_limited;
  if (job.extra) state.shared_deaths = job.extra->shared_deaths;
  state.suspected = state_.isolation.suspects(job);
  write(state, job.extra ? job.extra->history : kNoHistory, epoch_us(), state_.outbox.writes.buffer());
  state_.outbox.writes.end_of_state();
}

void Journal::write_accepted(const Job& job, std::optional<std::int64_t> group_size, const Blob& body) {
  state_.outbox.writes.add(Write::Kind::insert_job, static_cast<std::uint64_t>(job.number));
  write_state(job);
  write_record(job,
               {.service = job.flow().service().name,
                .lane = state_.lanes[job.submitted_lane]->options().name,
                .group_size = group_size},
               state_.outbox.writes.buffer());
  state_.outbox.writes.end_of_record();
  state_.outbox.writes.set_body(body);
}

void Journal::note_numbers() {
  if (state_.options.store_durable && state_.jobs.generation() + kGenerationsLeft > generations_noted_)
    write_numbers();
}

void Journal::write_numbers() {
  generations_noted_ = state_.jobs.generation() + kGenerationsAhead;
  write_numbers(generations_noted_, state_.outbox.writes);
}

void Journal::write_numbers(std::uint64_t generation, Writes& writes) {
  StoredNumbers numbers;
  numbers.put(static_cast<std::int64_t>(generation));
  write_note(kNumbers, {{.name = "generation", .numbers = numbers}}, writes);
}

void Journal::write_renamed(const Job& job, JobNumber stored_as) {
  state_.outbox.writes.add(Write::Kind::rename_job, static_cast<std::uint64_t>(stored_as)).renamed =
      static_cast<std::uint64_t>(job.number);
  write_state(job);
}

void Journal::write_changed(const Job& job) {
  if (!job.durable) return;
  state_.outbox.writes.add(Write::Kind::update_job, static_cast<std::uint64_t>(job.number));
  write_state(job);
}

void Journal::write_ended(const Job& job, const Terminal& how, const KeptResult* result, TimePoint due,
                          bool died, TimePoint now) {
  if (!job.durable) return;
  const auto number = static_cast<std::uint64_t>(job.number);
  if (died) {
    state_.outbox.writes.add(Write::Kind::update_job, number);
    write_state(job, true);
  } else {
    state_.outbox.writes.add(Write::Kind::erase_job, number);
  }
  if (result == nullptr) return;
  StoredResult stored;
  stored.id = how.id;
  stored.model = job.text.get(JobText::model);
  stored.service = job.flow().service().name;
  stored.lane = state_.lanes[how.lane]->options().name;
  stored.submitted_lane = state_.lanes[job.submitted_lane]->options().name;
  stored.state = how.state;
  stored.attempt = job.attempt;
  stored.attempts = how.attempts;
  stored.queued_ms = how.queued_ms;
  stored.ran_ms = how.ran_ms;
  stored.body_hash = body_hash_of(job);
  stored.client_named_it = how.client_named_it;
  stored.id_told = how.id_told;
  stored.dead = died;
  // A connection's name means nothing in the next life.
  stored.client = job.text.get(JobText::client).empty() ? kNoMark : job.queue->client().party().mark;
  stored.due_us = stored_us(due);
  stored.ended_us = stored_us(now);
  state_.outbox.writes.add(Write::Kind::insert_result, number);
  state_.outbox.writes.end_of_state();
  write(stored, how.ending, state_.outbox.writes.buffer());
  state_.outbox.writes.end_of_record();
  state_.outbox.writes.set_body(how.body);
}

void Journal::write_forgotten(const KeptResult& result) {
  if (!result.durable) return;
  const auto number = static_cast<std::uint64_t>(result.number);
  state_.outbox.writes.add(Write::Kind::erase_result, number);
  if (result.dead() != nullptr) state_.outbox.writes.add(Write::Kind::erase_job, number);
}

bool Journal::has_notes() const {
  return state_.options.store_durable && state_.budgets.any_unsaved();
}

bool Journal::write_notes() {
  if (!state_.options.store_durable || !state_.budgets.any_unsaved()) return false;
  for (const Budgets::Part& part : state_.budgets.take_unsaved()) {
    const Budget& budget = state_.budgets.all()[part.budget];
    std::string name(part.account == Budgets::kOwnLimits ? kBudget : kBudgetAccount);
    name += budget.options.name;
    // By its place, which another one may have later: so there are never more of them.
    if (budget.learnt != nullptr)
      name = std::string(kLearnt) + std::to_string(part.budget - state_.budgets.configured());
    if (part.account != Budgets::kOwnLimits) name += '\n' + budget.accounts[part.account].name;
    write_note(name, state_.budgets.save(part, epoch_us()), state_.outbox.writes);
  }
  return state_.budgets.saving();
}

Terminal Journal::terminal_of(const StoredResult& stored, const Ending* ending, Blob body) const {
  return {.id = stored.id,
          .client_named_it = stored.client_named_it,
          .id_told = stored.id_told,
          .lane = state_.lane_or_default(stored.lane).index(),
          .state = stored.state,
          .attempts = stored.attempts,
          .queued_ms = stored.queued_ms,
          .ran_ms = stored.ran_ms,
          .ending = ending,
          .body = std::move(body)};
}

void Journal::restore_numbers(std::uint64_t generation) {
  generations_noted_ = generation;
  state_.jobs.set_first_generation(generation);
}

void Journal::write_seed() {
  StoredNumbers seed;
  seed.put(static_cast<std::int64_t>(state_.body_hash_seed));
  write_note(kSeed, {{.name = "body_hash", .numbers = seed}}, state_.outbox.writes);
}

}  // namespace lanemq::core
