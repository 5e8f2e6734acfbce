// SPDX-License-Identifier: Apache-2.0
#include "broker/core/broker.hpp"

#include <algorithm>

#include "broker/core/base/check.hpp"
#include "broker/core/desks/restorer.hpp"
#include "broker/core/parts.hpp"

namespace lanemq::core {
namespace {

/// Due timers that one turn handles: some 2 ms of work. The next turns, which come at once, take the rest, so
/// that messages are read in between.
constexpr std::size_t kDueInATurn = 1000;

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace

Parts::Parts(State& state, std::uint64_t seed)
    : terms(state),
      parking(state.budgets.lines(), Budgets::kModelsApartMax, terms),
      upstreams(state, terms, parking),
      dispatcher(state, terms, parking, upstreams),
      unserved(state),
      journal(state),
      groups(state, journal),
      results(state, journal, groups, seed),
      answers(state, journal, results, dispatcher),
      watchers(state, answers, groups),
      webhooks(state),
      streams(state, journal, results, answers),
      handover(state, journal, dispatcher, upstreams, watchers),
      life(state, dispatcher, upstreams, journal, results, answers, groups, streams, handover, watchers,
           webhooks),
      progress(state, watchers, results, life),
      admission(state, terms, upstreams, results, groups),
      clients(state, journal, results, answers, streams, life, admission, webhooks),
      workers(state, upstreams, results, streams, handover, life, progress, admission),
      lists(state, upstreams, dispatcher, results, answers),
      operators(state, terms, dispatcher, journal, results, answers, life, admission, workers, lists,
                watchers) {}

Broker::Broker(Options options, std::uint64_t seed)
    : state_(std::move(options), seed), parts_(std::make_unique<Parts>(state_, seed)) {}

Broker::~Broker() = default;

void Broker::handle(const Event& event, TimePoint now) {
  ClientDesk& clients = parts_->clients;
  WorkerDesk& workers = parts_->workers;
  const auto by_client = [&](const auto& what) {
    clients.on(what, now);
    clients.note_key(what.from);
  };
  std::visit(Overloaded{
                 [&](const Submitted& what) { by_client(what); },
                 [&](const CancelAsked& what) { by_client(what); },
                 [&](const StatusAsked& what) { by_client(what); },
                 [&](const FetchAsked& what) { by_client(what); },
                 [&](const SeenSaid& what) {
                   if (parts_->watchers.on(what, now) || what.from.peer != Peer::client) return;
                   by_client(what);
                 },
                 [&](const SpendAsked& what) { by_client(what); },
                 [&](const WatchAsked& what) {
                   parts_->watchers.on(what, now);
                   clients.note_key(what.from);
                 },
                 [&](const ClientUnreachable& what) {
                   parts_->watchers.on(what);
                   clients.on(what, now);
                 },
                 [&](const WorkerReady& what) { workers.on(what, now); },
                 [&](const ChunkReported& what) { workers.on(what, now); },
                 [&](const ProgressReported& what) { workers.on(what, now); },
                 [&](const OutcomeReported& what) { workers.on(what, now); },
                 [&](const FailureReported& what) { workers.on(what, now); },
                 [&](const HeartbeatHeard& what) { workers.on(what, now); },
                 [&](const WorkerLeaving& what) { workers.on(what, now); },
                 [&](const WorkerHeard& what) { workers.on(what, now); },
                 [&](const WorkerUnreachable& what) { workers.on(what, now); },
                 [&](const WorkerDisconnected& what) { workers.on(what, now); },
                 [&](const KeyRevoked& what) {
                   parts_->watchers.on(what);
                   clients.on(what, now);
                   while (const Worker* const worker = state_.workers.of_key(what.name))
                     workers.on(WorkerUnreachable{std::string(worker->address)}, now);
                 },
                 [&](const AdminAsked& what) { parts_->operators.on(what, now); },
                 [&](const DrainAsked&) { parts_->life.drain(now); },
                 [&](const BodyRead& what) { parts_->life.take_body(what, now); },
                 [&](const ResultRead& what) { parts_->answers.result_read(what); },
                 [&](const StoreFull& what) {
                   if (what.full && !state_.store_full) state_.store_full_at = now;
                   state_.store_full = what.full;
                 },
                 [&](const StoreBehind& what) { state_.store_behind = what.behind; },
                 [&](const StoreStalled& what) { on(what, now); },
                 [&](const StoreAway& what) { state_.set_away(what.away, now); },
                 [&](const StoreUnsafe& what) { state_.store_unsafe = what.unsafe; },
                 [&](const BankAnswered& what) { state_.budgets.shared.drawn(what.budget, what.drawn, now); },
                 [&](const HandoverVoid& what) { parts_->life.take_back_unsent(what, now); },
                 [&](const StoodStill& what) {
                   parts_->watchers.on(what);
                   on(what);
                 },
                 [&](const OptionsChanged& what) { on(what, now); },
             },
             event);
  parts_->clients.make_webhooks(now);
}

void Broker::advance(TimePoint now) {
  // Expire before jobs are handed over, so that a place that is freed is used in the same turn.
  std::size_t due = 0;
  for (Timer* timer = nullptr; due < kDueInATurn && (timer = state_.timers.pop_due(now)) != nullptr; ++due)
    fire(*timer, now);
  parts_->life.sweep(now);
  parts_->results.begin_turn(now);
  parts_->unserved.begin_turn(now);
  parts_->clients.make_webhooks(now);
  Dispatcher& dispatcher = parts_->dispatcher;
  do {
    dispatcher.begin(now, due == kDueInATurn);
    while (const Pick pick = dispatcher.next(now)) {
      switch (pick.what) {
        case Pick::What::start:
          parts_->handover.start(pick, now);
          break;
        case Pick::What::overdue:
          parts_->life.expire(*pick.job, now);
          break;
        case Pick::What::shut_out:
          parts_->life.end_if_shut_out(*pick.job, now);
          break;
        case Pick::What::unsatisfiable:
          parts_->life.end_unsatisfiable(pick, now);
          break;
        case Pick::What::none:
          break;
      }
    }
    // Webhooks for ends of this turn are jobs, which may start in this turn, too.
  } while (parts_->clients.make_webhooks(now));
  dispatcher.say_wants(now);
}

void Broker::fire(Timer& timer, TimePoint now) {
  switch (timer.owner) {
    case TimerOwner::worker:
      return parts_->workers.tick(*static_cast<Worker*>(timer.object()), now);
    case TimerOwner::group:
      return parts_->life.come_due(*static_cast<Group*>(timer.object()), now);
    case TimerOwner::rest:
      return state_.workers.update(*static_cast<Worker*>(timer.object()));
    case TimerOwner::service:  // the dispatcher finds out which calls may be made now
      return parts_->upstreams.look_after(*static_cast<Service*>(timer.object()), now);
    case TimerOwner::unserved:
      return parts_->unserved.look(now);
    case TimerOwner::connection:
      return parts_->life.leave_owned(*static_cast<Connection*>(timer.object()), now);
    case TimerOwner::reader: {
      auto& reader = *static_cast<StreamReader*>(timer.object());
      Job& job = *reader.job;
      if (parts_->streams.check_reader(reader, now) == Streams::After::cancel)
        parts_->life.cancel_unread(job, now);
      return;
    }
    case TimerOwner::progress:
      return parts_->progress.look(*static_cast<Progress*>(timer.object()), now);
    case TimerOwner::result:
      return parts_->results.forget(*static_cast<KeptResult::Extra*>(timer.object())->apart);
    case TimerOwner::watcher:
      return parts_->watchers.look(*static_cast<Watcher*>(timer.object()), now);
    case TimerOwner::waiter:
      return parts_->answers.end_waiting(*static_cast<Waiter*>(timer.object()), now);
    case TimerOwner::job:
      return parts_->life.come_due(*static_cast<Job*>(timer.object()), now);
  }
}

std::optional<TimePoint> Broker::next_wakeup() const {
  TimePoint wakeup = std::min(state_.timers.next_wakeup().value_or(kNever), parts_->dispatcher.next_wakeup());
  wakeup = std::min({wakeup, parts_->life.next_wakeup(), parts_->results.next_wakeup(),
                     state_.budgets.shared.draw_due(parts_->dispatcher.begun_at())});
  return wakeup == kNever ? std::nullopt : std::optional(wakeup);
}

// ---- what happens to all of it ------------------------------------------------------------------------

void Broker::on(const OptionsChanged& event, TimePoint now) {
  const Options& changed = *event.options;
  LANEMQ_CHECK(changed.lanes.size() == state_.lanes.size());
  state_.options.lanes = changed.lanes;
  for (const auto& lane : state_.lanes)
    lane->configure(state_.options.lanes[lane->index()]);
  state_.options.budgets = changed.budgets;
  parts_->dispatcher.limits_changed();
  state_.budgets.configure(state_.options.budgets, now);
  state_.update_flows();
  parts_->terms.reappraise();
  parts_->dispatcher.options_changed();
  state_.options.clients = changed.clients;
  state_.clients.configure(state_.options.clients);
  parts_->life.sweep_soon();
}

void Broker::on(const StoreStalled& event, TimePoint now) {
  if (state_.store_stalled == event.stalled) return;
  state_.store_stalled = event.stalled;
  if (!event.stalled) state_.store_went_on_at = now;
  for (const auto& lane : state_.lanes)
    lane->disk_stalled = event.stalled;
  const auto& all = state_.clients.all();
  for (Client* client = all.front(); client != nullptr; client = all.next(*client))
    update_turns(*client);
}

void Broker::on(const StoodStill& event) {
  state_.callers.stood_still(event.how_long);
  for (const auto& [number, worker] : state_.workers.all()) {
    worker->heard_at += event.how_long;
    if (worker->cut_at != kNever) worker->cut_at += event.how_long;
  }
  for (const auto& [number, worker] : state_.workers.all())
    for (const Away* away = worker->leases.front(); away != nullptr; away = worker->leases.next(*away)) {
      if (const AnswerStream* answer = away->job.answer())
        for (const auto& reader : answer->readers)
          reader->silent_since += event.how_long;
      if (Progress* const progress = away->job.progress()) progress->heard_at += event.how_long;
    }
}

void Broker::give_up_running(TimePoint now) {
  parts_->life.give_up_running(now);
  parts_->clients.make_webhooks(now);
}

// ---- what outlives it ---------------------------------------------------------------------------------

Restorer Broker::restorer() {
  return Restorer(state_, parts_->journal, parts_->results, parts_->groups, parts_->streams, parts_->life);
}

bool Broker::write_notes() {
  parts_->groups.write_notes();
  return parts_->journal.write_notes();
}

bool Broker::has_notes() const {
  return parts_->groups.has_notes() || parts_->journal.has_notes();
}

bool Broker::needs_notes() const {
  return parts_->groups.has_notes() || (state_.options.store_durable && state_.budgets.must_save());
}

// ---- figures ------------------------------------------------------------------------------------------

const Groups& Broker::groups() const {
  return parts_->groups;
}

const KeptResults& Broker::kept() const {
  return parts_->results.kept();
}

Duration Broker::ids_good_for(TimePoint now) const {
  return parts_->results.ids_good_for(now);
}

std::size_t Broker::memory_bytes() const {
  return parts_->results.memory_bytes();
}

std::size_t Broker::lent_bytes_max() const {
  return parts_->handover.lent_bytes_max();
}

std::vector<ShownBreaker> Broker::breakers_of(const Service& service) const {
  return parts_->upstreams.breakers_of(service);
}

std::vector<Duration> Broker::oldest(TimePoint now) const {
  std::vector<Duration> ages(state_.lanes.size());
  const auto& all = state_.clients.all();
  for (const Client* client = all.front(); client != nullptr; client = all.next(*client))
    for (const auto& queue : client->queues)
      if (const Job* job = queue->oldest())
        ages[job->lane] = std::max(ages[job->lane], now - job->accepted_at);
  return ages;
}

}  // namespace lanemq::core
