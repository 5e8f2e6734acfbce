// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/loop.hpp"

#include <algorithm>

#include "broker/io/store/restore.hpp"
#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

/// After this many turns the loop handles the end of a worker, even if workers still have messages.
constexpr int kTurnsDeferredMax = 100;
/// How soon a client that reads slowly is tried again.
constexpr auto kBacklogPause = std::chrono::milliseconds(2);
/// A store that has to be connected to first answers late, and perhaps not at once.
constexpr int kEpochTries = 10;
/// From a handover that was asked for to the end: the answer leaves meanwhile, by HTTP's thread as well.
constexpr auto kAnswerLeaves = std::chrono::milliseconds(100);
/// How long the last answers may take to leave.
constexpr auto kLinger = std::chrono::milliseconds(1000);

/// This owner's epoch of the shard, for banks: by the store's clock, where it has one. So a later owner, on
/// any machine, has a greater epoch. With the epoch of a machine's clock that is ahead, banks would refuse
/// all later owners.
std::uint64_t epoch_of(Store& store, std::int64_t wall_ms) {
  auto store_us = store.unix_us();
  for (int i = 1; i < kEpochTries && store.shared() && !store_us; ++i)
    store_us = store.unix_us();
  if (store_us || !store.shared())
    return static_cast<std::uint64_t>(std::max<std::int64_t>(store_us ? *store_us / 1000 : wall_ms, 1));
  if (is_for_next_start(store.condition())) throw StoreDeposed(store.trouble());
  throw StoreError("the store's clock cannot be read, by which banks know later owners from earlier ones");
}

core::Options with_adapters(core::Options options, Store& store, bool traces) {
  options.shard_epoch = epoch_of(store, options.wall_ms);
  options.store_durable = store.durable();
  options.store_shared = store.shared();
  options.tells_waits = traces;
  options.wall_ms -= std::chrono::milliseconds(LoopClock::kAtStart).count();
  return options;
}

}  // namespace

Loop::Loop(const ServerOptions& options, const core::Options& core_options, std::unique_ptr<Store> store,
           service::Host host, Configuration configuration, std::uint64_t seed)
    : options_(options),
      broker_(with_adapters(core_options, *store, !options.otlp.endpoint.empty()), seed),
      store_(std::move(store)),
      sockets_(options_, core_options),
      gate_(broker_, [this] { return clock_.read(); }),
      post_(sockets_, options_, stats_, gate_),
      commits_(broker_, *store_, post_, stats_.commits),
      bodies_(broker_, *store_),
      store_watch_(broker_, *store_, commits_, options_.store_backlog_max),
      desks_{.backups = {broker_, *store_},
             .keys = {broker_, sockets_},
             .service = {host.notifier, broker_, *store_, store_watch_},
             .reloads = {broker_, desks_.keys, desks_.service, std::move(configuration.reload)},
             .plugins = PluginDesk(options_.plugins),
             .config = {broker_, std::move(configuration.show)},
             .ownership = {broker_, store_watch_, stats_}},
      intake_(broker_, sockets_, *store_, store_watch_, desks_, stats_, std::move(configuration.edit),
              core::TimePoint(LoopClock::kAtStart)),
      commands_(host.commands) {
  if (!options_.otlp.endpoint.empty())
    spans_ =
        std::make_unique<WaitSpans>(options_.otlp, std::chrono::steady_clock::now() - LoopClock::kAtStart);
  if (configuration.bank) bank_ = std::make_unique<BankDesk>(std::move(configuration.bank));
  restore();
}

void Loop::restore() {
  if (!store_->durable()) return;
  if (const auto ownership = store_->ownership(); ownership && ownership->replication == "none")
    log::event(log::Level::warning, "store.unreplicated",
               {{"store", store_->name()},
                {"do", "what the database's machine loses is lost, as store_replication = \"none\" says"}});
  const auto began = BootClock::now();
  const auto tell = [this](std::size_t rows) { desks_.service.restoring(clock_.read(), rows); };
  tell(0);
  const auto restored =
      io::restore(broker_, *store_, {.now = [this] { return clock_.read(); }, .progress = tell});
  if (!restored && is_for_next_start(store_->condition()))
    throw StoreDeposed(store_->trouble() +
                       "; started again, this broker waits for the store, or reads it anew");
  if (!restored) throw StoreError(restored.error().message);
  store_->begin();
  if (!store_->shared()) clocks_.emplace(restored->clocks);
  tell_restored(*restored, std::chrono::duration_cast<std::chrono::milliseconds>(BootClock::now() - began));
}

/// Tells the log what the store had.
void Loop::tell_restored(const Restored& restored, std::chrono::milliseconds took) const {
  log::event(log::Level::info, "store.restored",
             {{"store", store_->name()},
              {"queued", restored.queued},
              {"delayed", restored.delayed},
              {"running", restored.running},
              {"dead", restored.dead},
              {"results", restored.results},
              {"took_ms", static_cast<long long>(took.count())}});
  if (const std::size_t left = restored.queued + restored.delayed + restored.running; left > 0)
    log::event(log::Level::info, "store.jobs_left",
               {{"jobs", left},
                {"do", "they go on from where they were; lanemq jobs lists them, lanemq cancel ends one"}});
  if (restored.without_lane > 0)
    log::event(log::Level::warning, "store.lanes_missing",
               {{"jobs", restored.without_lane},
                {"do", "their lanes are not configured any more; they are in the default lane"}});
  if (restored.untold > 0)
    log::event(
        log::Level::warning, "webhook.nobody_told",
        {{"jobs", restored.untold},
         {"do", "their notify is told to nobody: webhook_service is empty; say one, and start again"}});
}

int Loop::run() {
  desks_.service.ready();
  clock_.begin();
  while (true) {
    const bool busy = turn();
    if (desks_.ownership.hands_over() && !end_.at) begin_handover();
    if (over()) break;
    if (!busy || clock_.commands_are_due()) wait();
  }
  sockets_.set_linger(kLinger);
  return end_.exit_code;
}

/// Reads, decides, commits, sends. Returns whether it has read anything.
bool Loop::turn() {
  const core::TimePoint now = clock_.now();
  // Workers first: their outcomes free places for what clients send. Operators before clients, however much
  // clients send.
  read_store(now);
  store_watch_.tell_stalled(now);
  store_watch_.tell_away(now);
  store_watch_.tell_unsafe(now);
  intake_.hear_held(now);
  take_bank(now);
  desks_.service.look(now);
  depths_.look(broker_, now);
  std::size_t read = intake_.read_workers(now);
  const bool heard_all = read < Intake::kMessagesPerTurn;
  read += intake_.read_admin(now);
  read += intake_.read_clients(now);
  for (const std::string& address : post_.unreachable_workers()) {
    intake_.let_go(address, now);
    broker_.handle(core::WorkerUnreachable{address}, now);
  }
  post_.unreachable_workers().clear();
  // Messages of lost workers come first: an outcome is worth more than the news that its worker is gone.
  if (heard_all || ++turns_deferred_ > kTurnsDeferredMax) take_disconnected_workers();
  take_gone_clients();
  desks_.keys.expire(now);
  look_at_connections();
  if (!clock_.catches_up(read)) broker_.advance(now);
  if (bank_) bank_->draw(broker_.budgets().shared.begin_draws(now));
  bodies_.find(now);
  if (clocks_) clocks_->look(now, broker_.outbox().writes);
  commits_.commit(now);
  bodies_.ask_store();
  commits_.send();
  log_notices(broker_.outbox().notices);
  broker_.outbox().notices.clear();
  make_spans();
  move_time_on(core::Duration(0));
  stats_.turns.note(clock_.now() - now, clock_.now());
  return read > 0 || !post_.unreachable_workers().empty() || !sockets_.worker_connections.gone().empty() ||
         !post_.gone_clients().empty() || commits_.has_committed() || gate_.any_void();
}

void Loop::take_gone_clients() {
  for (std::vector<std::string>* gone : {&post_.gone_clients(), &sockets_.client_connections.gone()}) {
    for (const std::string& address : *gone)
      intake_.client_gone(address, clock_.now());
    gone->clear();
  }
}

/// Tells the core what became of draws, and of hand-overs that came too late for what was drawn.
void Loop::take_bank(core::TimePoint now) {
  for (const core::HandoverVoid& unsent : gate_.take_void())
    broker_.handle(unsent, now);
  if (!bank_) return;
  std::vector<BankAnswer> answers;
  if (!bank_->take(answers)) return;
  for (const BankAnswer& answer : answers)
    broker_.handle(core::BankAnswered{answer.budget, answer.drawn ? &*answer.drawn : nullptr}, now);
  note_bank();
}

/// Says once that the bank is there, or is away, after the start and after each change.
void Loop::note_bank() {
  const auto before = std::exchange(stats_.bank, bank_->figures());
  const bool away = !stats_.bank->trouble.empty();
  if (before && away != before->trouble.empty()) return;
  if (!away) return log::event(log::Level::info, "bank.good", {{"bank", bank_->name()}});
  log::event(
      log::Level::warning, "bank.away",
      {{"bank", bank_->name()},
       {"reason", stats_.bank->trouble},
       {"do", "jobs of budgets that shards share wait, all else goes on; see to what the reason says"}});
}

/// Keeps connections within their bounds, and tells of them.
void Loop::look_at_connections() {
  const Connections& clients = sockets_.client_connections;
  const Connections& workers = sockets_.worker_connections;
  const auto now = Connections::Clock::now();
  sockets_.client_connections.look(now);
  sockets_.worker_connections.look(now);
  stats_.connections = clients.table().size() + workers.table().size();
  stats_.connections_silent = clients.table().silent() + workers.table().silent();
  stats_.connections_gave_way = clients.counts().gave_way + workers.counts().gave_way;
  stats_.connections_refused = clients.counts().refused + workers.counts().refused;
  stats_.connections_cut = clients.counts().cut + workers.counts().cut;
  stats_.keys_refused = sockets_.door_check.refused() + clients.counts().keyless + workers.counts().keyless;
  stats_.receiving_bytes = clients.table().receiving_bytes() + workers.table().receiving_bytes();
}

/// Makes spans of what the core tells of waits.
void Loop::make_spans() {
  if (!spans_) return;
  spans_->take(broker_.outbox().waits);
  broker_.outbox().waits.clear();
  stats_.spans_sent = spans_->sent();
  stats_.spans_lost = spans_->lost();
}

/// How long the loop may sleep, in ms; -1: until something comes.
long Loop::poll_timeout() {
  const core::TimePoint now = clock_.now();
  long timeout = -1;
  const auto at_most = [&](std::chrono::milliseconds bound) {
    timeout = timeout < 0 ? bound.count() : std::min<long>(timeout, bound.count());
  };
  if (const auto wakeup = broker_.next_wakeup()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wakeup - now).count();
    timeout = std::clamp<long>(left, 0, 60000);
  }
  if (clocks_) at_most(ClockKeeper::kLookEvery);
  if (broker_.has_notes()) at_most(CommitQueue::kNotesAtLeastEvery);
  if (commits_.backlog_bytes() > 0)
    at_most(std::chrono::duration_cast<std::chrono::milliseconds>(StoreWatch::kDiskStandsStill));
  if (const auto every = desks_.service.every()) at_most(*every);
  if (clock_.catching_up()) timeout = LoopClock::kCatchUpPause.count();
  if (post_.holds_answers()) at_most(kBacklogPause);
  if (const auto due = intake_.next_wakeup())
    at_most(std::max(std::chrono::ceil<std::chrono::milliseconds>(*due - now), std::chrono::milliseconds(0)));
  if (desks_.keys.has_keys()) at_most(KeyDesk::kLookEvery);
  if (sockets_.client_connections.table().size() + sockets_.worker_connections.table().size() > 0)
    at_most(Connections::kLookEvery);
  if (end_.at) at_most(std::chrono::milliseconds(std::max<long>(core::to_ms(*end_.at - now) + 1, 0)));
  return timeout;
}

void Loop::wait() {
  const long timeout = poll_timeout();
  zmq::pollitem_t items[] = {{nullptr, commands_.descriptor(), ZMQ_POLLIN, 0},
                             {sockets_.workers.handle().handle(), 0, ZMQ_POLLIN, 0},
                             {sockets_.clients.handle().handle(), 0, ZMQ_POLLIN, 0},
                             {sockets_.client_connections.handle().handle(), 0, ZMQ_POLLIN, 0},
                             {sockets_.worker_connections.handle().handle(), 0, ZMQ_POLLIN, 0},
                             {nullptr, sockets_.worker_processes.descriptor(), ZMQ_POLLIN, 0},
                             {nullptr, store_->descriptor(), ZMQ_POLLIN, 0},
                             {nullptr, -1, ZMQ_POLLIN, 0},
                             {nullptr, -1, ZMQ_POLLIN, 0},
                             {nullptr, -1, ZMQ_POLLIN, 0}};
  std::size_t count = store_->descriptor() >= 0 ? 7 : 6;
  if (bank_) items[count++] = {nullptr, bank_->descriptor(), ZMQ_POLLIN, 0};
  if (sockets_.admin) items[count++] = {sockets_.admin->handle().handle(), 0, ZMQ_POLLIN, 0};
  if (sockets_.admin) items[count++] = {sockets_.admin_connections->handle().handle(), 0, ZMQ_POLLIN, 0};
  try {
    zmq::poll(items, count, std::chrono::milliseconds(timeout));
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
  clock_.polled();
  move_time_on(timeout < 0 ? core::Duration::max() : core::Duration(std::chrono::milliseconds(timeout)));
  if ((items[0].revents & ZMQ_POLLIN) != 0) take_commands();
  if ((items[3].revents & ZMQ_POLLIN) != 0) sockets_.client_connections.read();
  if ((items[4].revents & ZMQ_POLLIN) != 0) sockets_.worker_connections.read();
  if ((items[5].revents & ZMQ_POLLIN) != 0) sockets_.worker_processes.read();
  if (sockets_.admin && (items[count - 1].revents & ZMQ_POLLIN) != 0) sockets_.admin_connections->read();
  if (store_->descriptor() >= 0 && (items[6].revents & ZMQ_POLLIN) != 0) store_->clear_signal();
}

/// Workers whose connections, or processes, have ended. Either may be known first: a worker is dead when both
/// have.
void Loop::take_disconnected_workers() {
  using Process = core::WorkerDisconnected::Process;
  turns_deferred_ = 0;
  for (const std::string& address : sockets_.worker_connections.gone()) {
    const Process process = sockets_.worker_processes.of(address);
    intake_.let_go(address, clock_.now());
    broker_.handle(core::WorkerDisconnected{address, process}, clock_.now());
    if (process == Process::ended) sockets_.worker_processes.forget(address);
  }
  sockets_.worker_connections.gone().clear();
  for (const std::string& address : sockets_.worker_processes.ended()) {
    const core::Worker* const worker = broker_.workers().find(address);
    if (worker != nullptr && !worker->cut) continue;  // its last messages may be on their way
    intake_.let_go(address, clock_.now());
    broker_.handle(core::WorkerDisconnected{address, Process::ended}, clock_.now());
    sockets_.worker_processes.forget(address);
  }
  sockets_.worker_processes.ended().clear();
}

/// Advances the loop's time. More elapsed time than `expected` was a standstill.
void Loop::move_time_on(core::Duration expected) {
  const auto passed = clock_.move_on(expected);
  if (!passed) return;
  log::event(log::Level::warning, "broker.stood_still",
             {{"ms", static_cast<long long>(core::to_ms(*passed))},
              {"do", "the process was stopped, or the machine has too little time for it"}});
  broker_.handle(core::StoodStill{*passed - expected}, clock_.now());
  store_watch_.stood_still(clock_.now());
}

/// Reads what the store has done since the last call.
void Loop::read_store(core::TimePoint now) {
  if (!store_watch_.tell_condition(now)) {
    // Disk and memory may differ now: the next start goes by the disk.
    end_.exit_code = is_for_next_start(store_->condition()) ? kExitDeposed : kExitStoreFailed;
    end_.now = true;
    desks_.service.stopping(core::Duration::zero());
    return;
  }
  if (const std::string remark = store_->take_remark(); !remark.empty())
    log::event(log::Level::warning, "store.remark", {{"store", store_->name()}, {"reason", remark}});
  commits_.take_committed(now);
  bodies_.take(now);
  desks_.backups.answer_ended();
}

// ---- stopping -----------------------------------------------------------------------------------------

void Loop::take_commands() {
  while (const auto command = commands_.next()) {
    if (*command == service::Command::reload) {
      desks_.reloads.asked_by_signal(clock_.now());
      continue;
    }
    if (end_.at) {
      end_.now = true;
      continue;
    }
    const core::Duration timeout = broker_.options().drain_timeout;
    begin_end(timeout);
    log::event(
        log::Level::info, "broker.draining",
        {{"running", broker_.running()}, {"drain_timeout_ms", static_cast<long long>(core::to_ms(timeout))}});
  }
}

/// No work is taken or handed over any more.
void Loop::begin_end(core::Duration within) {
  end_.at = clock_.now() + within;
  stats_.draining = true;
  broker_.handle(core::DrainAsked{}, clock_.now());
  desks_.service.stopping(within);
}

/// The next owner adopts what workers hold, so no running job is waited for.
void Loop::begin_handover() {
  begin_end(kAnswerLeaves);
  store_->hand_over_at_end([epoch = store_->ownership()->epoch](std::string_view successor) {
    if (!successor.empty())
      return log::event(log::Level::info, "store.handed_over", {{"to", successor}, {"epoch", epoch + 1}});
    log::event(
        log::Level::warning, "store.not_taken",
        {{"ms", static_cast<long long>(Store::kSuccessorMax.count())},
         {"do", "no other broker waits for the store: whoever starts next goes on, this one as well"}});
  });
}

bool Loop::over() {
  if (!end_.at && !end_.now) return false;
  if (end_.exit_code == kExitStoreFailed || end_.exit_code == kExitDeposed) return true;
  const core::TimePoint now = clock_.now();
  const bool drained = !desks_.ownership.hands_over() && broker_.drained();
  if (!drained && !end_.now && now < *end_.at) return false;
  intake_.let_all_go(now);
  const std::size_t given_up = broker_.running();
  broker_.give_up_running(now);
  broker_.end_notes();
  if (clocks_) clocks_->note(broker_.outbox().writes);
  commits_.commit_last(now);
  store_->flush();
  read_store(now);
  do
    commits_.send();
  while (commits_.has_committed());
  log::event(log::Level::info, "broker.stopped", {{"given_up", given_up}});
  if (desks_.ownership.hands_over() && end_.exit_code == 0) end_.exit_code = kExitDeposed;
  return true;
}

}  // namespace lanemq::io
