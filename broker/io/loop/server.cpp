// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/server.hpp"

#include <algorithm>
#include <csignal>

#include <sys/signalfd.h>
#include <unistd.h>

#include "broker/io/store/restore.hpp"
#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

/// After so many turns the loop handles the end of a worker, even if workers still have messages.
constexpr int kTurnsDeferredMax = 100;
/// A loop that is never idle looks at its signals this often.
constexpr auto kSignalsAtLeastEvery = std::chrono::milliseconds(10);
/// How soon a client that reads slowly is tried again.
constexpr auto kBacklogPause = std::chrono::milliseconds(2);
/// The core's time at the start, so that the last day, the longest period, lies after time zero.
constexpr auto kTimeAtStart = std::chrono::hours(48);
/// A loop that returns so much later than expected was stopped, or starved.
constexpr auto kStandstill = std::chrono::milliseconds(500);
/// After a standstill the loop reads all that came meanwhile before timers fire. It reads at least this long,
/// since the sockets' threads stood still as well, and at most that long, since a peer may send without end.
constexpr auto kCatchUpMin = std::chrono::milliseconds(50);
constexpr auto kCatchUpMax = std::chrono::milliseconds(1000);
constexpr auto kCatchUpPause = std::chrono::milliseconds(5);
/// A store that has to be connected to first answers late, and perhaps not at once.
constexpr int kEpochTries = 10;
/// From a handover that was asked for to the end: the answer leaves meanwhile, by HTTP's thread as well.
constexpr auto kAnswerLeaves = std::chrono::milliseconds(100);
/// How long the last answers may take to leave.
constexpr auto kLinger = std::chrono::milliseconds(1000);

/// Of this owner of the shard, for banks: by the store's clock, where it has one. So a later owner, on
/// whatever machine, has a greater epoch. By a machine's clock that is ahead banks would refuse all who come
/// after.
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
  options.wall_ms -= std::chrono::milliseconds(kTimeAtStart).count();
  return options;
}

}  // namespace

Server::Server(const ServerOptions& options, const core::Options& core_options, std::unique_ptr<Store> store,
               int signals, Configuration configuration, std::uint64_t seed, service::Notifier& notifier)
    : options_(options),
      broker_(with_adapters(core_options, *store, !options.otlp.endpoint.empty()), seed),
      store_(std::move(store)),
      sockets_(options_, core_options),
      gate_(broker_, [this] { return now(); }),
      post_(sockets_, options_, stats_, gate_),
      commits_(broker_, *store_, post_, stats_.commits),
      bodies_(broker_, *store_),
      store_watch_(broker_, *store_, commits_, options_.store_backlog_max),
      backups_(broker_, *store_),
      keys_(broker_, sockets_),
      service_watch_(notifier, broker_, *store_, store_watch_),
      reloads_(broker_, keys_, service_watch_, std::move(configuration.reload)),
      plugins_(options_.plugins),
      config_desk_(broker_, std::move(configuration.show)),
      ownership_(broker_, store_watch_, stats_),
      intake_(broker_, sockets_, *store_, store_watch_,
              {backups_, reloads_, plugins_, config_desk_, ownership_}, stats_, std::move(configuration.edit),
              core::TimePoint(kTimeAtStart)),
      signals_(signals),
      started_(Clock::now()) {
  if (!options_.otlp.endpoint.empty())
    spans_ = std::make_unique<WaitSpans>(options_.otlp, std::chrono::steady_clock::now() - kTimeAtStart);
  if (configuration.bank) bank_ = std::make_unique<BankDesk>(std::move(configuration.bank));
  restore();
}

std::string Server::admin_endpoint() const {
  if (!sockets_.admin || sockets_.admin->endpoint() == kOwnOperators) return {};
  return sockets_.admin->endpoint();
}

void Server::restore() {
  if (!store_->durable()) return;
  if (const auto ownership = store_->ownership(); ownership && ownership->replication == "none")
    log::event(log::Level::warning, "store.unreplicated",
               {{"store", store_->name()},
                {"do", "what the database's machine loses is lost, as store_replication = \"none\" says"}});
  const auto began = Clock::now();
  const auto tell = [this](std::size_t rows) { service_watch_.restoring(now(), rows); };
  tell(0);
  const auto restored = io::restore(broker_, *store_, {.now = [this] { return now(); }, .progress = tell});
  if (!restored && is_for_next_start(store_->condition()))
    throw StoreDeposed(store_->trouble() +
                       "; started again, this broker waits for the store, or reads it anew");
  if (!restored) throw StoreError(restored.error().message);
  store_->begin();
  if (!store_->shared()) clocks_.emplace(restored->clocks);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
  log::event(log::Level::info, "store.restored",
             {{"store", store_->name()},
              {"queued", restored->queued},
              {"delayed", restored->delayed},
              {"running", restored->running},
              {"dead", restored->dead},
              {"results", restored->results},
              {"took_ms", static_cast<long long>(took.count())}});
  if (const std::size_t left = restored->queued + restored->delayed + restored->running; left > 0)
    log::event(log::Level::info, "store.jobs_left",
               {{"jobs", left},
                {"do", "they go on from where they were; lanemq jobs lists them, lanemq cancel ends one"}});
  if (restored->without_lane > 0)
    log::event(log::Level::warning, "store.lanes_missing",
               {{"jobs", restored->without_lane},
                {"do", "their lanes are not configured any more; they are in the default lane"}});
  if (restored->untold > 0)
    log::event(
        log::Level::warning, "webhook.nobody_told",
        {{"jobs", restored->untold},
         {"do", "their notify is told to nobody: webhook_service is empty; say one, and start again"}});
}

core::TimePoint Server::now() const {
  return core::TimePoint(std::chrono::duration_cast<core::Duration>(Clock::now() - started_ + kTimeAtStart));
}

int Server::run() {
  service_watch_.ready();
  now_ = now();
  while (true) {
    const bool busy = turn();
    if (ownership_.hands_over() && !stop_at_) begin_handover();
    if (over(now_)) break;
    if (!busy || Clock::now() - polled_ > kSignalsAtLeastEvery) wait();
  }
  sockets_.set_linger(kLinger);
  return exit_code_;
}

/// Reads, decides, commits, sends. Returns whether it has read anything.
bool Server::turn() {
  // Workers first: their outcomes free places for what clients send. Operators before clients, however much
  // clients send.
  read_store(now_);
  store_watch_.tell_stalled(now_);
  store_watch_.tell_away(now_);
  store_watch_.tell_unsafe(now_);
  intake_.hear_held(now_);
  take_bank(now_);
  service_watch_.look(now_);
  depths_.look(broker_, now_);
  const core::TimePoint began = now_;
  std::size_t read = intake_.read_workers(now_);
  const bool heard_all = read < Intake::kMessagesPerTurn;
  read += intake_.read_admin(now_);
  read += intake_.read_clients(now_);
  for (const std::string& address : post_.unreachable_workers()) {
    intake_.let_go(address, now_);
    broker_.handle(core::WorkerUnreachable{address}, now_);
  }
  post_.unreachable_workers().clear();
  // Messages of lost workers come first: an outcome is worth more than the news that its worker is gone.
  if (heard_all || ++turns_deferred_ > kTurnsDeferredMax) take_disconnected_workers();
  for (std::vector<std::string>* gone : {&post_.gone_clients(), &sockets_.client_connections.gone()}) {
    for (const std::string& address : *gone)
      intake_.client_gone(address, now_);
    gone->clear();
  }
  keys_.expire(now_);
  look_at_connections();
  if (!catches_up(read)) broker_.advance(now_);
  if (bank_) bank_->draw(broker_.budgets().shared.begin_draws(now_));
  bodies_.find(now_);
  if (clocks_) clocks_->look(now_, broker_.outbox().writes);
  commits_.commit(now_);
  bodies_.ask_store();
  commits_.send();
  log_notices(broker_.outbox().notices);
  broker_.outbox().notices.clear();
  make_spans();
  note_standstill(core::Duration(0));
  stats_.turns.note(now_ - began, now_);
  return read > 0 || !post_.unreachable_workers().empty() || !sockets_.worker_connections.gone().empty() ||
         !post_.gone_clients().empty() || commits_.has_committed() || gate_.any_void();
}

/// Tells the core what became of draws, and of hand-overs that came too late for what was drawn.
void Server::take_bank(core::TimePoint now) {
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
void Server::note_bank() {
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
void Server::look_at_connections() {
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
void Server::make_spans() {
  if (!spans_) return;
  spans_->take(broker_.outbox().waits);
  broker_.outbox().waits.clear();
  stats_.spans_sent = spans_->sent();
  stats_.spans_lost = spans_->lost();
}

/// Whether the loop still reads what came during a standstill: until then no timer fires, so that no peer
/// that spoke in time counts as silent. `read`: messages of this turn.
bool Server::catches_up(std::size_t read) {
  if (!stood_still_at_) return false;
  const core::Duration since = now_ - *stood_still_at_;
  const bool over = since >= kCatchUpMax || (read == 0 && since >= kCatchUpMin);
  if (over) stood_still_at_.reset();
  return !over;
}

void Server::wait() {
  long timeout = -1;
  if (const auto wakeup = broker_.next_wakeup()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wakeup - now_).count();
    timeout = std::clamp<long>(left, 0, 60000);
  }
  const auto at_most = [&](std::chrono::milliseconds bound) {
    timeout = timeout < 0 ? bound.count() : std::min<long>(timeout, bound.count());
  };
  if (clocks_) at_most(ClockKeeper::kLookEvery);
  if (broker_.has_notes()) at_most(CommitQueue::kNotesAtLeastEvery);
  if (commits_.backlog_bytes() > 0)
    at_most(std::chrono::duration_cast<std::chrono::milliseconds>(StoreWatch::kDiskStandsStill));
  if (const auto every = service_watch_.every()) at_most(*every);
  if (stood_still_at_) timeout = kCatchUpPause.count();
  if (post_.holds_answers()) at_most(kBacklogPause);
  if (const auto due = intake_.next_wakeup())
    at_most(
        std::max(std::chrono::ceil<std::chrono::milliseconds>(*due - now_), std::chrono::milliseconds(0)));
  if (keys_.has_keys()) at_most(KeyDesk::kLookEvery);
  if (sockets_.client_connections.table().size() + sockets_.worker_connections.table().size() > 0)
    at_most(Connections::kLookEvery);
  if (stop_at_) {
    const long left = std::max<long>(core::to_ms(*stop_at_ - now_) + 1, 0);
    timeout = timeout < 0 ? left : std::min(timeout, left);
  }
  zmq::pollitem_t items[] = {{nullptr, signals_, ZMQ_POLLIN, 0},
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
  polled_ = Clock::now();
  note_standstill(timeout < 0 ? core::Duration::max() : core::Duration(std::chrono::milliseconds(timeout)));
  if ((items[0].revents & ZMQ_POLLIN) != 0) take_signals(now_);
  if ((items[3].revents & ZMQ_POLLIN) != 0) sockets_.client_connections.read();
  if ((items[4].revents & ZMQ_POLLIN) != 0) sockets_.worker_connections.read();
  if ((items[5].revents & ZMQ_POLLIN) != 0) sockets_.worker_processes.read();
  if (sockets_.admin && (items[count - 1].revents & ZMQ_POLLIN) != 0) sockets_.admin_connections->read();
  if (store_->descriptor() >= 0 && (items[6].revents & ZMQ_POLLIN) != 0) store_->clear_signal();
}

/// Workers whose connections, or processes, have ended. Either may be known first: a worker is dead when both
/// have.
void Server::take_disconnected_workers() {
  using Process = core::WorkerDisconnected::Process;
  turns_deferred_ = 0;
  for (const std::string& address : sockets_.worker_connections.gone()) {
    const Process process = sockets_.worker_processes.of(address);
    intake_.let_go(address, now_);
    broker_.handle(core::WorkerDisconnected{address, process}, now_);
    if (process == Process::ended) sockets_.worker_processes.forget(address);
  }
  sockets_.worker_connections.gone().clear();
  for (const std::string& address : sockets_.worker_processes.ended()) {
    const core::Worker* const worker = broker_.workers().find(address);
    if (worker != nullptr && !worker->cut) continue;  // its last messages may be on their way
    intake_.let_go(address, now_);
    broker_.handle(core::WorkerDisconnected{address, Process::ended}, now_);
    sockets_.worker_processes.forget(address);
  }
  sockets_.worker_processes.ended().clear();
}

/// Advances the loop's time. More elapsed time than `expected` was a standstill.
void Server::note_standstill(core::Duration expected) {
  const core::TimePoint before = now_;
  now_ = now();
  const core::Duration passed = now_ - before;
  if (passed < kStandstill || passed - kStandstill < expected) return;
  log::event(log::Level::warning, "broker.stood_still",
             {{"ms", static_cast<long long>(core::to_ms(passed))},
              {"do", "the process was stopped, or the machine has too little time for it"}});
  broker_.handle(core::StoodStill{passed - expected}, now_);
  if (!stood_still_at_) stood_still_at_ = now_;  // slow turns one after the other are one standstill
  store_watch_.stood_still(now_);
}

/// Reads what the store has done since the last call.
void Server::read_store(core::TimePoint now) {
  if (!store_watch_.tell_condition(now)) {
    // Disk and memory may differ now: the next start goes by the disk.
    exit_code_ = is_for_next_start(store_->condition()) ? kExitDeposed : kExitStoreFailed;
    stop_now_ = true;
    service_watch_.stopping(core::Duration::zero());
    return;
  }
  if (const std::string remark = store_->take_remark(); !remark.empty())
    log::event(log::Level::warning, "store.remark", {{"store", store_->name()}, {"reason", remark}});
  commits_.take_committed(now);
  bodies_.take(now);
  backups_.answer_ended();
}

// ---- stopping -----------------------------------------------------------------------------------------

void Server::take_signals(core::TimePoint now) {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP) {
      reloads_.asked_by_signal(now);
      continue;
    }
    if (stop_at_) {
      stop_now_ = true;
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
void Server::begin_end(core::Duration within) {
  stop_at_ = now_ + within;
  stats_.draining = true;
  broker_.handle(core::DrainAsked{}, now_);
  service_watch_.stopping(within);
}

/// Whoever goes on adopts what workers hold, so nothing that runs is waited for.
void Server::begin_handover() {
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

bool Server::over(core::TimePoint now) {
  if (!stop_at_ && !stop_now_) return false;
  if (exit_code_ == kExitStoreFailed || exit_code_ == kExitDeposed) return true;
  const bool drained = !ownership_.hands_over() && broker_.drained();
  if (!drained && !stop_now_ && now < *stop_at_) return false;
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
  if (ownership_.hands_over() && exit_code_ == 0) exit_code_ = kExitDeposed;
  return true;
}

}  // namespace lanemq::io
