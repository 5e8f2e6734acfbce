// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "broker/core/base/check.hpp"
#include "broker/core/broker.hpp"
#include "broker/core/restoring.hpp"

// What outlives the broker: what is written of jobs, results and budgets, how it comes back, and how bodies
// that are on disk alone find their way to workers.

namespace lanemq::core {
namespace {

/// Whom jobs are for that named nobody: the connections that they came by are gone.
constexpr std::string_view kRestoredClient = "restored";
/// How long a job that ran when the broker stopped waits for its worker: as long as a worker may be silent,
/// and one heartbeat to come back.
constexpr int kAdoptHeartbeats = 4;
/// Generations of job numbers that are noted ahead, and how few of them may be left.
constexpr std::uint64_t kGenerationsAhead = 4096, kGenerationsLeft = 2048;
/// Jobs of a client behind the one that is handed over whose bodies are read as well.
constexpr int kReadAhead = 8;

// Notes.
constexpr std::string_view kNumbers = "numbers", kSeed = "seed";
/// Of a budget's own limits, and of an account of its keys: the budget's name, a line's end, the account's.
/// Earlier versions have all accounts in the first.
constexpr std::string_view kBudget = "budget ", kBudgetAccount = "account ";

const History kNoHistory;

}  // namespace

// ---- writing ------------------------------------------------------------------------------------------

bool Broker::is_durable(const Record& record) {
  const KeptResult* const result = record.result();
  return result != nullptr ? result->durable : record.job()->durable;
}

void Broker::write_state(const Job& job, bool dead) {
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
  state.lane = lanes_[job.lane]->options().name;
  if (job.worker() != nullptr) state.key = budgets_.key_of(away->reservation);
  if (job.has_content()) state.chunks = job.answer()->next();
  write(state, job.extra ? job.extra->history : kNoHistory, epoch_us(), outbox_.writes.buffer());
  outbox_.writes.end_of_state();
}

void Broker::write_accepted(const Job& job, const wire::Submit& fields, const Blob& body) {
  outbox_.writes.add(Write::Kind::insert_job, static_cast<std::uint64_t>(job.number));
  write_state(job);
  // As it was submitted, but for what was meant for this connection.
  wire::Submit record = fields;
  record.id = job.id();
  record.lane = lanes_[job.submitted_lane]->options().name;
  record.ref = {};
  record.batch = 0;
  encode(record, outbox_.writes.buffer());
  outbox_.writes.end_of_record();
  outbox_.writes.set_body(body);
}

/// Another life of the broker begins its numbers behind those of this one: those of jobs that are not on disk
/// too, for a worker may still speak of them.
void Broker::note_numbers() {
  if (options_.store_durable && jobs_.generation() + kGenerationsLeft > generations_noted_) write_numbers();
}

void Broker::write_numbers() {
  generations_noted_ = jobs_.generation() + kGenerationsAhead;
  StoredNumbers numbers;
  numbers.put(static_cast<std::int64_t>(generations_noted_));
  write_note(kNumbers, {{.name = "generation", .numbers = numbers}}, outbox_.writes);
}

void Broker::write_renamed(const Job& job, JobNumber stored_as) {
  outbox_.writes.add(Write::Kind::rename_job, static_cast<std::uint64_t>(stored_as)).renamed =
      static_cast<std::uint64_t>(job.number);
  write_state(job);
}

void Broker::write_changed(const Job& job) {
  if (!job.durable) return;
  outbox_.writes.add(Write::Kind::update_job, static_cast<std::uint64_t>(job.number));
  write_state(job);
}

/// `result`: what is kept of it until `due`, null for nothing. One that died keeps its row: it may run again.
void Broker::write_ended(const Job& job, const Terminal& how, const KeptResult* result, TimePoint due,
                         bool died, TimePoint now) {
  if (!job.durable) return;
  const auto number = static_cast<std::uint64_t>(job.number);
  if (died) {
    outbox_.writes.add(Write::Kind::update_job, number);
    write_state(job, true);
  } else {
    outbox_.writes.add(Write::Kind::erase_job, number);
  }
  if (result == nullptr) return;
  StoredResult stored;
  stored.id = how.id;
  stored.model = job.text.get(JobText::model);
  stored.service = job.flow().service().name;
  stored.lane = lanes_[how.lane]->options().name;
  stored.submitted_lane = lanes_[job.submitted_lane]->options().name;
  stored.state = how.state;
  stored.attempt = job.attempt;
  stored.attempts = how.attempts;
  stored.queued_ms = how.queued_ms;
  stored.ran_ms = how.ran_ms;
  stored.body_hash = body_hash_of(job);
  stored.client_named_it = how.client_named_it;
  stored.id_told = how.id_told;
  stored.dead = died;
  // A connection is another one in the next life.
  stored.client = mark_of(job.text.get(JobText::client));
  stored.due_us = stored_us(due);
  stored.ended_us = stored_us(now);
  outbox_.writes.add(Write::Kind::insert_result, number);
  outbox_.writes.end_of_state();
  write(stored, how.ending, outbox_.writes.buffer());
  outbox_.writes.end_of_record();
  outbox_.writes.set_body(how.body);
}

void Broker::write_forgotten(const KeptResult& result) {
  if (!result.durable) return;
  const auto number = static_cast<std::uint64_t>(result.number);
  outbox_.writes.add(Write::Kind::erase_result, number);
  if (result.dead() != nullptr) outbox_.writes.add(Write::Kind::erase_job, number);
}

bool Broker::has_notes() const {
  return options_.store_durable && budgets_.any_unsaved();
}

bool Broker::write_notes() {
  if (!options_.store_durable || !budgets_.any_unsaved()) return false;
  for (const Budgets::Part& part : budgets_.take_unsaved()) {
    const Budget& budget = budgets_.all()[part.budget];
    std::string name(part.account == Budgets::kOwnLimits ? kBudget : kBudgetAccount);
    name += budget.options.name;
    if (part.account != Budgets::kOwnLimits) name += '\n' + budget.accounts[part.account].name;
    write_note(name, budgets_.save(part, epoch_us()), outbox_.writes);
  }
  return budgets_.saving();
}

// ---- restoring ----------------------------------------------------------------------------------------

Broker::Restoring& Broker::restoring() {
  if (!restoring_) restoring_ = std::make_unique<Restoring>();
  return *restoring_;
}

Result<void> Broker::restore_note(std::string_view name, std::string_view record) {
  Restoring& all = restoring();
  auto entries = all.decoder.entries(record);
  if (!entries)
    return failure(ErrorCode::internal,
                   "note \"" + std::string(name) + "\" cannot be read: " + entries.error().message);
  if (name == kNumbers && !entries->empty()) {
    generations_noted_ = static_cast<std::uint64_t>(entries->front().numbers.next());
    jobs_.set_first_generation(generations_noted_);
  } else if (name == kSeed && !entries->empty()) {
    body_hash_seed_ = static_cast<std::uint64_t>(entries->front().numbers.next());
    all.seeded = true;
  } else if (name.starts_with(kBudget) || name.starts_with(kBudgetAccount)) {
    const bool of_account = name.starts_with(kBudgetAccount);
    name.remove_prefix(of_account ? kBudgetAccount.size() : kBudget.size());
    const std::size_t end = of_account ? std::min(name.find('\n'), name.size()) : name.size();
    if (of_account)
      for (StoredEntry& entry : *entries)
        entry.name = Budgets::account_entry(name.substr(std::min(end + 1, name.size())), entry.name);
    std::vector<StoredEntry>& known = all.budgets[std::string(name.substr(0, end))];
    std::move(entries->begin(), entries->end(), std::back_inserter(known));
  }
  return {};
}

/// The lane of that name, or where it is not configured any more the default one.
Lane& Broker::restored_lane(std::string_view name) const {
  Lane* const lane = lane_named(name);
  return lane != nullptr ? *lane : *default_lane_;
}

Result<void> Broker::restore_job(std::uint64_t number, std::string_view state_bytes, std::string_view record,
                                 std::optional<std::string_view> body, std::size_t body_bytes,
                                 TimePoint now) {
  Restoring& all = restoring();
  const auto unreadable = [&](const std::string& why) {
    return failure(ErrorCode::internal, "job " + std::to_string(number) + " cannot be read: " + why);
  };
  std::string scratch;
  History history;
  const auto state = all.decoder.state(state_bytes, epoch_us(), history);
  if (!state) return unreadable(state.error().message);
  const auto fields = all.decoder.submit(record);
  if (!fields) return unreadable(fields.error().message);
  // What was left on disk for want of memory is left there again.
  const bool stored = body_bytes > 0 && (!body || spills(record.size(), body_bytes));
  const Blob request = stored ? Blob() : Blob::borrow(body.value_or(std::string_view{}));
  const StoredSize size(body_bytes);
  const JobText::Parts texts = texts_of(*fields, fields->id, {}, stored ? size.blob() : request, scratch);
  if (JobText::bytes_of(texts) > JobText::kBytesMax)
    return unreadable("it has more text than a job may have");
  all.arrival = std::max(all.arrival, state->arrival);
  const auto keep_history = [&](Job& job) {
    if (history.attempts().empty()) return;
    const std::size_t bytes = history.bytes();
    job.need_extra().history = std::move(history);
    bytes_ += bytes;
  };

  Lane& lane = restored_lane(state->lane);
  if (lane.options().name != state->lane) ++all.count.without_lane;
  const std::string_view client_name = fields->client.empty() ? kRestoredClient : fields->client;
  if (state->kind == StoredState::Kind::dead) {
    auto dead = std::make_unique<DeadJob>();
    dead->text = KeptText(texts);
    if (!packed(request)) dead->body = request.owned();
    dead->cost = fields->cost;
    dead->history = std::move(history);
    dead->client = client_name;
    dead->timeout = Duration(state->deadline_us - state->accepted_us) + state->delay;
    dead->streams = fields->stream;
    dead->timeout_stated = fields->timeout_ms.has_value();
    dead->attempts_max = state->attempts_max;
    dead->retain_ms = state->retain_ms;
    dead->body_stored = stored;
    dead->estimate = {.amounts = {.input_tokens = state->input_tokens, .output_tokens = state->output_tokens},
                      .raw_input = state->raw_input};
    all.dead.emplace(number, std::move(dead));
    return {};
  }

  Service* const service = &workers_.service(fields->service);
  Client& client = clients_.named(client_name);
  Flow& flow = lane.flow(*service, budgets_.match(service->name, fields->model, client.name,
                                                  lane.options().name, client.options.tenant));
  update_flow(flow);  // it may be new
  Expected expected{.input_tokens = state->input_tokens,
                    .output_tokens = state->output_tokens,
                    .raw_input = state->raw_input};
  if (stored && !expected.is_estimated()) expected.raw_input = tokens_of_bytes(body_bytes);
  Job* const made = jobs_.restore(
      JobNumber{number}, {.parts = texts, .body_hash = state->body_hash, .expected = stated(expected)});
  if (made == nullptr)
    return unreadable(jobs_.full() ? "there are more jobs than jobs_max; raise it" : "its number is taken");
  Job& job = *made;
  fill(job, *fields, request);
  if (!jobs_.try_index(job)) return unreadable("its id is taken");
  job.key_refused = std::any_of(history.attempts().begin(), history.attempts().end(),
                                [](const Attempt& one) { return one.cause == name_of(ErrorClass::quota); });
  keep_history(job);
  job.durable = true;
  job.body_stored = stored;
  job.client_named_it = true;  // who asks for it by its id finds it
  job.timeout_stated = fields->timeout_ms.has_value();
  job.reply = ReplyMode::accepted;  // whoever waited waits no more, or asks again
  job.lane = lane.index();
  job.submitted_lane = restored_lane(fields->lane).index();
  job.arrival = state->arrival & Job::kArrivalMax;
  job.attempt = state->attempt;
  job.attempts = state->attempts;
  job.attempts_max = state->attempts_max;
  if (state->crashes > 0) job.need_extra().crashes = state->crashes;
  // Nobody is there to be told how it ends: the result waits for those who come back, where its client wants
  // anything to be kept.
  if (state->retain_ms > 0) job.retain = Retention(std::max(state->retain_ms, to_ms(options_.retain)));
  // A clock that went back makes nothing last longer than it was meant to.
  const Duration life(state->deadline_us - state->accepted_us);
  job.accepted_at = std::min(time_of(state->accepted_us), now);
  job.deadline = std::min(time_of(state->deadline_us), now + life);
  if (state->delay.count() > 0) job.need_extra().delay = state->delay;
  if (state->kind == StoredState::Kind::delayed) {
    job.state = JobState::delayed;
    jobs_.go_away(job).due =
        std::min(time_of(state->due_us), now + Duration(state->due_us - state->accepted_us));
  } else if (state->kind == StoredState::Kind::running) {
    job.state = JobState::delayed;
    job.adoptable = true;  // until restored() says how long
    jobs_.go_away(job).dispatched_at = std::min(time_of(state->due_us), now);
    if (!state->key.empty()) job.need_extra().key = state->key;
    if (job.answer() != nullptr) job.answer()->restore(state->chunks);
    // How far the stream has come since is not on disk: it is as alive as its worker.
    if (job.has_content()) let_go_on(job, now);
  }
  job.queue = &clients_.join(client, flow);
  workers_.use(*service);
  ++lane.counters.restored;
  all.jobs.push_back(&job);
  ++(job.adoptable                    ? all.count.running
     : job.state == JobState::delayed ? all.count.delayed
                                      : all.count.queued);
  return {};
}

/// How a stored job ended. Views of `stored` and `ending`.
Terminal Broker::terminal_of(const StoredResult& stored, const Ending* ending, Blob body) const {
  return {.id = stored.id,
          .client_named_it = stored.client_named_it,
          .id_told = stored.id_told,
          .lane = restored_lane(stored.lane).index(),
          .state = stored.state,
          .attempts = stored.attempts,
          .queued_ms = stored.queued_ms,
          .ran_ms = stored.ran_ms,
          .ending = ending,
          .body = std::move(body)};
}

Result<void> Broker::restore_result(std::uint64_t number, std::string_view record,
                                    std::optional<std::string_view> body, std::size_t body_bytes,
                                    TimePoint now) {
  Restoring& all = restoring();
  const auto unreadable = [&](const std::string& why) {
    return failure(ErrorCode::internal, "result " + std::to_string(number) + " cannot be read: " + why);
  };
  std::unique_ptr<Ending> ending;
  const auto stored = all.decoder.result(record, ending);
  if (!stored) return unreadable(stored.error().message);
  if (stored->dead != all.dead.contains(number))
    return unreadable(stored->dead ? "it is of a dead job that is not there"
                                   : "a dead job has its number, and it is not dead");
  if (jobs_.find(stored->id) != nullptr) return unreadable("its id is taken");
  // What would be left to the store at once is left there.
  const bool left = !body || (body_bytes > 0 && kept_.loose_bytes() > loose_bytes_max());
  const Terminal how = terminal_of(*stored, ending.get(), left ? Blob() : Blob::borrow(*body));
  const Duration retain(stored->due_us - stored->ended_us);
  const TimePoint ended_at = std::min(time_of(stored->ended_us), now);
  const TimePoint due = std::min(time_of(stored->due_us), now + retain);
  Service& service = workers_.service(stored->service);
  KeptResult& result =
      kept_.restore({.number = JobNumber{number},
                     .attempt = stored->attempt,
                     .submitted_lane = restored_lane(stored->submitted_lane).index(),
                     .durable = true,
                     .service = &service,
                     .body_hash = stored->body_hash,
                     .model = stored->model,
                     .client = stored->client},
                    how, std::move(ending),
                    {.body_bytes = body_bytes, .ended_at = ended_at, .due = due, .dead = stored->dead});
  workers_.use(service);
  if (!jobs_.restore(JobNumber{number}, result))
    return unreadable(jobs_.full() ? "there are more jobs than jobs_max; raise it" : "its number is taken");
  if (result.apart()) timers_.set(result.extra->timer, result.due);
  ++(stored->dead ? all.count.dead : all.count.results);
  return {};
}

Result<Broker::Restored> Broker::restored(TimePoint now) {
  Restoring& all = restoring();
  LANEMQ_CHECK(options_.store_durable);
  jobs_.restored();
  kept_.list_restored([&](KeptResult& result) {
    const auto dead = all.dead.find(static_cast<std::uint64_t>(result.number));
    if (dead == all.dead.end()) return;
    dead->second->ended_at = result.extra->ended_at;
    kept_.bury(result, std::move(dead->second));
    all.dead.erase(dead);
  });
  if (!all.dead.empty())
    return failure(ErrorCode::internal, "job " + std::to_string(all.dead.begin()->first) +
                                            " is dead, and its result is not there");
  next_arrival_ = all.arrival + 1;
  // By their numbers they mostly stand in their order already.
  const auto came_before = [](const Job* a, const Job* b) { return a->arrival < b->arrival; };
  if (!std::is_sorted(all.jobs.begin(), all.jobs.end(), came_before))
    std::sort(all.jobs.begin(), all.jobs.end(), came_before);
  for (Job* job : all.jobs) {
    // From now on: workers hear of this broker when it has read all there is, however long that took.
    if (job->adoptable) job->at_away().due = now + kAdoptHeartbeats * options_.heartbeat;
    enqueue(*job);
    set_timer(*job);
  }
  for (const auto& [name, entries] : all.budgets)
    if (Budget* const budget = budget_named(name)) budgets_.restore(*budget, entries, epoch_us(), now);
  budgets_.save_all();  // as this version does, whichever wrote it
  sweep_is_due_ = true;
  write_numbers();
  if (!all.seeded) {
    StoredNumbers seed;
    seed.put(static_cast<std::int64_t>(body_hash_seed_));
    write_note(kSeed, {{.name = "body_hash", .numbers = seed}}, outbox_.writes);
  }
  evict_results(now);
  while (memory_bytes() > options_.memory_max && evict_dead()) {
  }
  const Restored count = all.count;
  restoring_.reset();
  return count;
}

/// What a worker still runs since before the broker's restart goes on as if nothing had been.
bool Broker::adopt(Worker& worker, wire::Lease lease, TimePoint now) {
  Record* const record = jobs_.find(JobNumber{lease.job});
  if (record == nullptr || record->is_result) return false;
  Job& job = *record->job();
  if (!job.adoptable || job.attempt != lease.attempt || !worker.available()) return false;
  Lane& lane = *lanes_[job.lane];
  leave_queue(job);
  job.adoptable = false;
  job.state = JobState::running;
  ++lane.running;
  Away& away = job.at_away();
  away.queued_ms = to_ms32(now - job.accepted_at);
  away.reservation = budgets_.adopt(job.flow().budgets(), job.expected().amounts(),
                                    job.extra ? job.extra->key : std::string_view{}, away.dispatched_at);
  away.dispatched_at = now;
  // It was called in an earlier life: that tells of an upstream that is called as usual, and is no trial of
  // one that failed since.
  const CircuitBreaker& breaker = job.flow().service().breaker;
  away.called_in = breaker.closed() ? breaker.period() : CircuitBreaker::kNoPeriod;
  workers_.take_place(worker, job);
  Client& client = job.queue->client();
  ++client.running;
  if (client.at_limit()) update_turns(client);
  set_timer(job);
  ++stats_.jobs_adopted;
  return true;
}

// ---- bodies that are on disk alone --------------------------------------------------------------------

/// Asks for the body of a job that was handed over. Where as much is on its way to workers as may be, no
/// other whose body is in the store is handed over.
void Broker::lend(Job& job) {
  Away& away = job.at_away();
  away.body_awaited = true;
  away.lent = static_cast<std::uint32_t>(job.body_bytes());
  lent_bytes_ += away.lent;
  outbox_.reads.push_back({.number = static_cast<std::uint64_t>(job.number), .awaited = true});
  if (lent_bytes_ >= lent_bytes_max()) hold_bodies(true);
}

/// Its worker has the job, or it is over.
void Broker::take_back(Away& away) {
  lent_bytes_ -= std::exchange(away.lent, 0);
  // Not at the first byte: each change looks at all clients.
  if (lent_bytes_ <= lent_bytes_max() / 2) hold_bodies(false);
}

void Broker::hold_bodies(bool held) {
  if (bodies_held_ == held) return;
  bodies_held_ = held;
  turns_changed_ = true;
  for (const auto& lane : lanes_)
    lane->bodies_held = held;
  const auto& all = clients_.all();
  for (Client* client = all.front(); client != nullptr; client = all.next(*client))
    update_turns(*client);
}

/// Asks for the bodies of those that are likely next after a job that was handed over.
void Broker::read_ahead(const Job& job) {
  const Job* next = job.queue->oldest();
  for (int i = 0; next != nullptr && i < kReadAhead; next = job.queue->after(*next), ++i)
    if (next->body_stored) outbox_.reads.push_back({.number = static_cast<std::uint64_t>(next->number)});
}

void Broker::on(const BodyRead& event, TimePoint now) {
  Record* const record = jobs_.find(JobNumber{event.number});
  if (record == nullptr || record->is_result) return;
  Job& job = *record->job();
  if (!job.body_awaited()) return;
  if (!event.body)
    return end_with(job, JobState::failed, ErrorCode::internal,
                    "the request's body is not in the store; check it with lanemq-broker --check-store", now);
  ++stats_.bodies_read;
  job.at_away().body_awaited = false;
  job.at_away().dispatched_at = now;
  offer(job, *event.body, now);
}

void Broker::on(const StoreStalled& event, TimePoint) {
  if (store_stalled_ == event.stalled) return;
  store_stalled_ = event.stalled;
  for (const auto& lane : lanes_)
    lane->disk_stalled = event.stalled;
  const auto& all = clients_.all();
  for (Client* client = all.front(); client != nullptr; client = all.next(*client))
    update_turns(*client);
}

void Broker::on(const StoodStill& event, TimePoint) {
  for (const auto& [number, worker] : workers_.all()) {
    worker->heard_at += event.how_long;
    if (worker->lost_at != kNever) worker->lost_at += event.how_long;
  }
  for (const auto& [number, worker] : workers_.all())
    for (const Away* away = worker->leases.front(); away != nullptr; away = worker->leases.next(*away))
      if (const AnswerStream* answer = away->job.answer())
        for (const auto& reader : answer->readers)
          reader->silent_since += event.how_long;
}

}  // namespace lanemq::core
