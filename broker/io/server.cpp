// SPDX-License-Identifier: Apache-2.0
#include "broker/io/server.hpp"

#include <algorithm>
#include <csignal>

#include <sys/signalfd.h>
#include <unistd.h>

#include <lanemq/admin_table.hpp>
#include <lanemq/version.hpp>

#include "broker/io/failpoint.hpp"
#include "broker/io/restore.hpp"
#include "broker/io/time_slice.hpp"
#include "log/log.hpp"

namespace lanemq::io {
namespace {

/// Messages that one turn takes from one socket, each item of a batch counted: enough to pay for a turn, and
/// few enough that the other ends have something to do while it goes on.
constexpr std::size_t kMessagesPerTurn = 96;
/// So many turns later a worker's end is heard of, however much all workers say.
constexpr int kTurnsDeferredMax = 100;
/// The same for operators: a list may look at thousands of jobs.
constexpr std::size_t kAdminMessagesPerTurn = 4;
/// Messages of one operator that wait to be read.
constexpr int kAdminReceiveHwm = 16;
/// What a commit lets go to clients is sent so many messages a turn, at least: a commit may hold a thousand
/// answers of one client, and jobs and answers of others would wait for the last of them.
constexpr std::size_t kCommittedSendsPerTurn = 64;
/// How long a loop that is never idle may go without looking at its signals.
constexpr auto kSignalsAtLeastEvery = std::chrono::milliseconds(10);
/// The kernel's time slice for the loop and libzmq's threads. With the default one a critical job waits for a
/// slice at each of its steps while bulk work keeps the cores busy.
constexpr auto kTimeSlice = std::chrono::microseconds(100);
/// How soon a client that reads slowly is tried again.
constexpr auto kBacklogPause = std::chrono::milliseconds(2);
/// A disk that has committed nothing for so long, although something waits for it, stands still.
constexpr auto kDiskStandsStill = std::chrono::milliseconds(500);
/// Memory of turns that waited for the disk, kept to be used again: so many, none of them larger.
constexpr std::size_t kSpareOutboxesMax = 32;
constexpr std::size_t kSpareOutboxBytesMax = std::size_t{1} << 20;
/// Bodies read from the store ahead of their hand-over.
constexpr std::size_t kBodiesAheadBytesMax = std::size_t{32} << 20;
/// How old what is on disk of the budgets may be, where no job is written.
constexpr auto kNotesAtLeastEvery = std::chrono::milliseconds(20);
/// The core's time at the start: times before it have room, for what was sent in the last period of a day.
constexpr auto kTimeAtStart = std::chrono::hours(48);
/// A loop that comes back so much later than it wanted to was stopped, or starved.
constexpr auto kStandstill = std::chrono::milliseconds(500);
/// What came meanwhile is read before anything is taken for over: until nothing more comes, for so long at
/// least, since the sockets' threads stood still as well; and no longer than that, since somebody may send
/// without an end.
constexpr auto kCatchUpMin = std::chrono::milliseconds(50);
constexpr auto kCatchUpMax = std::chrono::milliseconds(1000);
constexpr auto kCatchUpPause = std::chrono::milliseconds(5);
/// How long the last answers may take to leave.
constexpr auto kLinger = std::chrono::milliseconds(1000);
/// Room that a frame has beside the largest body: its header, and a body somewhat too large, which gets an
/// answer instead of a broken connection.
constexpr std::int64_t kFrameBytesSpare = 1 << 20;

RouterOptions client_router(const ServerOptions& options, const core::Options& core) {
  return {.endpoint = options.clients,
          .receive_hwm = options.client_receive_hwm,
          .send_hwm = options.client_send_hwm,
          .frame_bytes_max = static_cast<std::int64_t>(core.body_bytes_max) + kFrameBytesSpare,
          .large_bytes_max = static_cast<std::int64_t>(options.client_large_bytes_max)};
}

RouterOptions worker_router(const ServerOptions& options, const core::Options& core) {
  return {.endpoint = options.workers,
          .receive_hwm = options.client_receive_hwm,
          // A worker holds at most capacity_max jobs: with as many again for the rest, its mark is never in
          // the way.
          .send_hwm = 2 * static_cast<int>(limits::capacity_max),
          .frame_bytes_max = static_cast<std::int64_t>(core.body_bytes_max) + kFrameBytesSpare,
          .large_bytes_max = INT64_MAX};
}

RouterOptions admin_router(const ServerOptions& options) {
  return {.endpoint = options.admin,
          .receive_hwm = kAdminReceiveHwm,
          .frame_bytes_max = kFrameBytesSpare,
          .large_bytes_max = INT64_MAX,
          .private_file = true};
}

/// What operators ask for goes by their own socket, and jobs by the clients'; what reads the broker's state
/// or ends a job, by both.
bool belongs(const wire::ClientRequest& request, core::Peer peer) {
  if (std::holds_alternative<wire::AdminQuery>(request)) return peer == core::Peer::admin;
  return peer == core::Peer::client || std::holds_alternative<wire::Cancel>(request) ||
         std::holds_alternative<wire::StatusQuery>(request) ||
         std::holds_alternative<wire::StatsQuery>(request) || std::holds_alternative<wire::Ping>(request);
}

core::Options with_store(core::Options options, bool durable) {
  options.store_durable = durable;
  options.wall_ms -= std::chrono::milliseconds(kTimeAtStart).count();
  return options;
}

/// Asks whoever was given whether the peer may send a batch.
template <class Ask>
class AskedRule final : public BatchRule {
 public:
  explicit AskedRule(Ask ask) : ask_(ask) {}
  std::string refusal(std::size_t maps, std::int64_t first_says) const override {
    return ask_(maps, first_says);
  }

 private:
  Ask ask_;
};

DecodeError not_understood(std::string why) {
  DecodeError error;
  error.message = std::move(why);
  return error;
}

zmq::context_t make_context(int io_threads) {
  ask_for_time_slice(kTimeSlice);  // before the context starts its threads
  zmq::context_t context(io_threads);
  context.set(zmq::ctxopt::max_sockets, 1023);
  return context;
}

}  // namespace

Server::Server(const ServerOptions& options, const core::Options& core_options, std::unique_ptr<Store> store,
               int signals, Reload reload, core::OptionEditor edit, std::uint64_t seed)
    : options_(options),
      broker_(with_store(core_options, store->durable()), seed),
      store_(std::move(store)),
      context_(make_context(options.io_threads)),
      clients_(context_, client_router(options, core_options)),
      workers_(context_, worker_router(options, core_options)),
      disconnects_(context_, clients_.handle(), "inproc://client-disconnects"),
      worker_disconnects_(context_, workers_.handle(), "inproc://worker-disconnects"),
      signals_(signals),
      reload_(std::move(reload)),
      edit_(std::move(edit)),
      decoder_(core_options.body_bytes_max),
      started_(Clock::now()),
      bodies_(kBodiesAheadBytesMax) {
  bind_admin();
  restore();
}

void Server::restore() {
  if (!store_->durable()) return;
  const auto began = Clock::now();
  const auto restored = io::restore(broker_, *store_, [this] { return now(); });
  if (!restored) throw StoreError(restored.error().message);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
  log::event(log::Level::info, "store.restored",
             {{"store", store_->name()},
              {"queued", restored->queued},
              {"delayed", restored->delayed},
              {"running", restored->running},
              {"dead", restored->dead},
              {"results", restored->results},
              {"took_ms", static_cast<long long>(took.count())}});
  if (restored->without_lane > 0)
    log::event(log::Level::warning, "store.lanes_missing",
               {{"jobs", restored->without_lane},
                {"do", "their lanes are not configured any more; they are in the default lane"}});
}

void Server::bind_admin() try {
  if (!options_.admin.empty()) admin_.emplace(context_, admin_router(options_));
} catch (const zmq::error_t& error) {
  if (options_.admin_required) throw;
  log::event(log::Level::warning, "admin.unavailable",
             {{"endpoint", options_.admin},
              {"reason", error.what()},
              {"do", "name a free endpoint with --admin; until then operators have none"}});
}

core::TimePoint Server::now() const {
  return core::TimePoint(std::chrono::duration_cast<core::Duration>(Clock::now() - started_ + kTimeAtStart));
}

int Server::run() {
  now_ = now();
  while (true) {
    const bool busy = turn();
    if (over(now_)) break;
    if (!busy || Clock::now() - polled_ > kSignalsAtLeastEvery) wait();
  }
  clients_.set_linger(kLinger);
  workers_.set_linger(kLinger);
  if (admin_) admin_->set_linger(kLinger);
  return exit_code_;
}

/// Reads, decides, commits, sends. Returns whether anything was read.
bool Server::turn() {
  // Workers first: their outcomes free places for what clients send. What operators say comes before that,
  // however much it is.
  read_store(now_);
  tell_store_stalled(now_);
  const core::TimePoint began = now_;
  std::size_t read = read_workers(now_);
  const bool heard_all = read < kMessagesPerTurn;
  read += read_admin(now_);
  read += read_clients(now_);
  for (const std::string& address : unreachable_)
    broker_.handle(core::WorkerUnreachable{address}, now_);
  unreachable_.clear();
  // What they said before comes first: an outcome is worth more than the news that its worker is gone.
  if (heard_all || ++turns_deferred_ > kTurnsDeferredMax) take_disconnected_workers();
  for (std::vector<std::string>* gone : {&gone_clients_, &disconnects_.gone()}) {
    for (const std::string& address : *gone)
      broker_.handle(core::ClientUnreachable{address}, now_);
    gone->clear();
  }
  if (!catches_up(read)) broker_.advance(now_);
  read_bodies(now_);
  commit(now_);
  send_all();
  log_notices();
  note_standstill(core::Duration(0));
  stats_.turns.note(now_ - began, now_);
  return read > 0 || !unreachable_.empty() || !worker_disconnects_.gone().empty() || !gone_clients_.empty() ||
         has_committed();
}

/// Whether the loop still reads what came while it stood still: until then no timer fires, and whoever has
/// spoken in time is not taken for silent. `read`: what this turn found.
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
  if (broker_.has_notes()) at_most(kNotesAtLeastEvery);
  if (store_backlog() > 0) at_most(std::chrono::duration_cast<std::chrono::milliseconds>(kDiskStandsStill));
  if (stood_still_at_) timeout = kCatchUpPause.count();
  if (!backlogs_.empty()) at_most(kBacklogPause);
  if (stop_at_) {
    const long left = std::max<long>(core::to_ms(*stop_at_ - now_) + 1, 0);
    timeout = timeout < 0 ? left : std::min(timeout, left);
  }
  zmq::pollitem_t items[] = {{nullptr, signals_, ZMQ_POLLIN, 0},
                             {workers_.handle().handle(), 0, ZMQ_POLLIN, 0},
                             {clients_.handle().handle(), 0, ZMQ_POLLIN, 0},
                             {disconnects_.handle().handle(), 0, ZMQ_POLLIN, 0},
                             {worker_disconnects_.handle().handle(), 0, ZMQ_POLLIN, 0},
                             {nullptr, processes_.descriptor(), ZMQ_POLLIN, 0},
                             {nullptr, store_->descriptor(), ZMQ_POLLIN, 0},
                             {nullptr, -1, ZMQ_POLLIN, 0}};
  std::size_t count = store_->descriptor() >= 0 ? 7 : 6;
  if (admin_) items[count++] = {admin_->handle().handle(), 0, ZMQ_POLLIN, 0};
  try {
    zmq::poll(items, count, std::chrono::milliseconds(timeout));
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
  polled_ = Clock::now();
  note_standstill(timeout < 0 ? core::Duration::max() : core::Duration(std::chrono::milliseconds(timeout)));
  if ((items[0].revents & ZMQ_POLLIN) != 0) take_signals(now_);
  if ((items[3].revents & ZMQ_POLLIN) != 0) disconnects_.read();
  if ((items[4].revents & ZMQ_POLLIN) != 0) worker_disconnects_.read();
  if ((items[5].revents & ZMQ_POLLIN) != 0) processes_.read();
  if (store_->descriptor() >= 0 && (items[6].revents & ZMQ_POLLIN) != 0) store_->clear_signal();
}

/// Workers whose connections have ended, and those whose processes have. Either may be known first: a worker
/// is dead when both are.
void Server::take_disconnected_workers() {
  using Process = core::WorkerDisconnected::Process;
  turns_deferred_ = 0;
  for (const std::string& address : worker_disconnects_.gone()) {
    const Process process = processes_.of(address);
    broker_.handle(core::WorkerDisconnected{address, process}, now_);
    if (process == Process::ended) processes_.forget(address);
  }
  worker_disconnects_.gone().clear();
  for (const std::string& address : processes_.ended()) {
    const core::Worker* const worker = broker_.workers().find(address);
    if (worker != nullptr && !worker->cut) continue;  // its last words may be on their way
    broker_.handle(core::WorkerDisconnected{address, Process::ended}, now_);
    processes_.forget(address);
  }
  processes_.ended().clear();
}

/// A worker introduces itself: from now on its connection and its process are watched.
void Server::watch_worker(const wire::Ready& ready) {
  const std::string_view address = incoming_.address();
  worker_disconnects_.watch(incoming_.descriptor(), address);
  const auto is_known = [this](const std::string& one) { return broker_.workers().find(one) != nullptr; };
  processes_.watch(ready.process, address, is_known);
}

/// Moves the time on. What is missing since the last time, beyond what was expected, the loop was not there.
void Server::note_standstill(core::Duration expected) {
  const core::TimePoint before = now_;
  now_ = now();
  const core::Duration passed = now_ - before;
  if (passed < kStandstill || passed - kStandstill < expected) return;
  log::event(log::Level::warning, "broker.stood_still",
             {{"ms", static_cast<long long>(core::to_ms(passed))},
              {"do", "the process was stopped, or the machine has too little time for it"}});
  broker_.handle(core::StoodStill{passed - expected}, now_);
  if (!stood_still_at_) stood_still_at_ = now_;  // turns that are slow one after the other end it, too
  went_on_at_ = now_;                            // the disk had no time either
}

// ---- the store ----------------------------------------------------------------------------------------

/// What waits for the disk, in bytes: writes, those of this turn too, and messages.
std::size_t Server::store_backlog() const {
  return store_->backlog_bytes() + uncommitted_bytes_;
}

/// Says whether more waits for the disk than may. Asked before each message, since one may be large.
void Server::tell_store_behind(core::TimePoint now) {
  const bool behind = store_backlog() + broker_.outbox().writes.bytes() > options_.store_backlog_max;
  if (behind == behind_) return;
  behind_ = behind;
  broker_.handle(core::StoreBehind{behind}, now);
}

/// Says whether the disk goes on, and logs it.
void Server::tell_store_stalled(core::TimePoint now) {
  const std::uint64_t committed = store_->committed();
  if (committed != committed_before_ || store_->backlog_bytes() == 0) {
    committed_before_ = committed;
    went_on_at_ = now;
  }
  const core::Duration stands = now - went_on_at_;
  if ((stands >= kDiskStandsStill) == stalled_) return;
  stalled_ = !stalled_;
  broker_.handle(core::StoreStalled{stalled_}, now);
  if (condition_ != StoreCondition::good) return;  // it was said why
  if (stalled_)
    log::event(log::Level::warning, "store.stands_still",
               {{"ms", static_cast<long long>(core::to_ms(stands))},
                {"do", "look at the disk; what is not durable goes on"}});
  else
    log::event(log::Level::info, "store.goes_on", {{"store", store_->name()}});
}

/// Takes what the store has done since the last time.
void Server::read_store(core::TimePoint now) {
  if (const StoreCondition condition = store_->condition(); condition != condition_) {
    condition_ = condition;
    if (condition == StoreCondition::good) {
      log::event(log::Level::info, "store.good", {{"store", store_->name()}});
    } else {
      log::event(log::Level::error, condition == StoreCondition::full ? "store.full" : "store.failed",
                 {{"store", store_->name()}, {"reason", store_->trouble()}});
    }
    if (condition == StoreCondition::failed) {
      // What is on disk and what is here may differ: the next start goes by the disk.
      exit_code_ = kExitStoreFailed;
      stop_now_ = true;
      return;
    }
    broker_.handle(core::StoreFull{condition == StoreCondition::full}, now);
  }
  if (watched_notes_ && store_->committed() >= *watched_notes_) {
    watched_notes_.reset();
    broker_.notes_saved();
  }
  if (reading_ > 0) store_->take_bodies(read_);
  reading_ -= read_.size();
  for (const StoredBody& body : read_) {
    if (body.of_result) {
      broker_.handle(core::ResultRead{body.number,
                                      body.body ? std::optional<std::string_view>(body.record) : std::nullopt,
                                      body.body.value_or(Blob())},
                     now);
    } else if (awaited_.erase(body.number) > 0) {
      bodies_.take(body.number);
      broker_.handle(core::BodyRead{body.number, body.body}, now);
    } else {
      bodies_.put(body.number, body.body);
    }
  }
  read_.clear();
  if (!backup_) return;
  if (const auto ended = store_->take_backup()) answer_backup(*ended);
}

/// Finds the bodies that the turn wants, or asks the store for them.
void Server::read_bodies(core::TimePoint now) {
  std::vector<core::BodyWanted>& wanted = broker_.outbox().reads;
  for (const core::BodyWanted& body : wanted) {
    if (body.of_result) {
      wanted_results_.push_back(body.number);
      continue;
    }
    const bool asked = bodies_.expects(body.number);
    if (body.awaited) {
      if (const auto found = bodies_.take(body.number)) {
        broker_.handle(core::BodyRead{body.number, found}, now);
        continue;
      }
      awaited_.insert(body.number);
    } else if (!asked) {
      bodies_.expect(body.number);
    }
    if (!asked) wanted_.push_back(body.number);
  }
  wanted.clear();
}

/// Gives the turn's writes to the store, which commits them while later turns go on.
void Server::commit(core::TimePoint now) {
  core::Writes& writes = broker_.outbox().writes;
  // Notes alone do not pile up behind a disk that stands still: the next ones say more than those that wait.
  const bool due = now - notes_at_ >= kNotesAtLeastEvery && notes_ticket_ <= store_->committed();
  const bool notes = broker_.has_notes() && (!writes.empty() || broker_.needs_notes() || due);
  bool watched = false;
  if (notes) {
    notes_at_ = now;
    watched = broker_.write_notes();
  }
  if (!writes.empty()) ticket_ = store_->submit(writes);
  if (notes) notes_ticket_ = ticket_;
  if (watched) watched_notes_ = ticket_;
  reading_ += wanted_.size() + wanted_results_.size();
  store_->read(wanted_);
  wanted_.clear();
  store_->read_results(wanted_results_);
  wanted_results_.clear();
}

bool Server::has_committed() const {
  return !uncommitted_.empty() && uncommitted_.front().ticket <= store_->committed();
}

void Server::send_committed() {
  // Jobs that are handed over leave at once: one that a crash keeps here waits for a worker that never had
  // it.
  const std::uint64_t committed = store_->committed();
  for (; offered_ < uncommitted_.size() && uncommitted_[offered_].ticket <= committed; ++offered_)
    send_part(*uncommitted_[offered_].outbox, {.waiting = true, .to_others = false});
  std::size_t sent = 0;
  while (sent < kCommittedSendsPerTurn && offered_ > 0) {
    std::unique_ptr<core::Outbox> outbox = std::move(uncommitted_.front().outbox);
    uncommitted_bytes_ -= uncommitted_.front().bytes;
    uncommitted_.pop_front();
    --offered_;
    reached(Failpoint::loop_before_reply);
    send_part(*outbox, {.waiting = true, .to_workers = false});
    sent += outbox->sends.size();
    if (spare_outboxes_.size() >= kSpareOutboxesMax || outbox->bytes.size() > kSpareOutboxBytesMax) continue;
    outbox->clear_sends();
    spare_outboxes_.push_back(std::move(outbox));
  }
}

/// A copy is written while the work goes on; the answer comes at its end.
void Server::begin_backup(const core::Origin& from, const wire::AdminQuery& query) {
  BackupAsked asked{.address = std::string(from.address),
                    .envelope = std::string(from.envelope),
                    .ref = std::string(query.ref.bytes),
                    .path = std::string(query.path)};
  if (backup_)
    return refuse_backup(
        asked, {ErrorCode::conflict, "a backup to " + backup_->path + " goes on; wait for its end"});
  if (!asked.path.starts_with('/'))
    return refuse_backup(asked, {ErrorCode::bad_request,
                                 "field \"path\" is no absolute path; the broker's folder is not yours"});
  if (const auto begun = store_->begin_backup(asked.path); !begun) return refuse_backup(asked, begun.error());
  backup_ = std::move(asked);
}

void Server::refuse_backup(const BackupAsked& asked, const Error& why) {
  wire::ErrorReply reply;
  reply.code = name_of(why.code);
  reply.message = why.message;
  reply.ref = {asked.ref};
  broker_.outbox().add(core::Peer::admin, asked.address, asked.envelope, reply);
}

/// Requires: there is one.
void Server::answer_backup(const Result<void>& ended) {
  const BackupAsked asked = *std::exchange(backup_, std::nullopt);
  if (!ended) {
    log::event(log::Level::error, "store.backup_failed",
               {{"path", asked.path}, {"reason", ended.error().message}});
    return refuse_backup(asked, ended.error());
  }
  log::event(log::Level::info, "store.backed_up", {{"path", asked.path}});
  document_.clear();
  DocumentWriter(document_).map(1).text("path").text(asked.path);
  wire::AdminReply reply;
  reply.document = {document_.view()};
  reply.ref = {asked.ref};
  broker_.outbox().add(core::Peer::admin, asked.address, asked.envelope, reply);
}

// ---- reading ------------------------------------------------------------------------------------------

std::size_t Server::read_workers(core::TimePoint now) {
  std::size_t read = 0;
  while (read < kMessagesPerTurn && workers_.receive(incoming_))
    read += take_worker_message(now);
  return read;
}

std::size_t Server::read_clients(core::TimePoint now) {
  std::size_t read = 0;
  while (read < kMessagesPerTurn && clients_.receive(incoming_))
    read += take_client_message(core::Peer::client, now);
  return read;
}

std::size_t Server::read_admin(core::TimePoint now) {
  std::size_t read = 0;
  while (admin_ && read < kAdminMessagesPerTurn && admin_->receive(incoming_))
    read += take_client_message(core::Peer::admin, now);
  return read;
}

/// Returns how many messages it was: a batch is as much work as its items.
std::size_t Server::take_client_message(core::Peer peer, core::TimePoint now) {
  tell_store_behind(now);
  const auto refuse = [&](const DecodeError& error) {
    answer_bad_request(peer, error);
    return std::size_t{1};
  };
  if (incoming_.fault() != nullptr) return refuse(not_understood(incoming_.fault()));
  const AskedRule rule([&](std::size_t maps, std::int64_t first_says) {
    return client_batch_refused(peer, maps, first_says);
  });
  if (const DecodeError* error =
          decoder_.decode(incoming_.header(), incoming_.body_frame(), requests_, &rule))
    return refuse(*error);
  if (peer == core::Peer::client) watch_peer();
  if (!requests_.is_batch()) {
    take_request(peer, requests_[0], incoming_.take_body(requests_.body(0), core::JobText::kBodyBytesMax),
                 now);
    return 1;
  }
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (const DecodeError* error = requests_.error(i))
      answer_bad_request(peer, *error);
    else
      take_request(peer, requests_[i], Blob::borrow(requests_.body(i)), now);
  }
  return requests_.size();
}

/// Whose going may end a job, or lets a stream go on without him, is watched.
void Server::watch_peer() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const auto* const submit = std::get_if<wire::Submit>(&requests_[i]);
    if (submit != nullptr && submit->orphan.data() == nullptr && !submit->stream) continue;
    if (submit != nullptr || std::holds_alternative<wire::Fetch>(requests_[i]))
      return disconnects_.watch(incoming_.descriptor(), incoming_.address());
  }
}

/// Why a client may not send a batch of so many maps; empty: it may. It may say how many it sends with the
/// first one.
std::string Server::client_batch_refused(core::Peer peer, std::size_t maps, std::int64_t first_says) const {
  if (peer == core::Peer::admin) return "operators send the maps of a batch one by one";
  if (incoming_.from_req())
    return "a REQ socket takes one answer and may not send a batch; send the maps one by one, or use a "
           "DEALER";
  const core::Connection* const connection = broker_.connections().find(incoming_.address());
  const std::int64_t agreed =
      std::max(static_cast<std::int64_t>(connection == nullptr ? 0 : connection->grouping.max), first_says);
  if (static_cast<std::int64_t>(maps) <= agreed) return {};
  return "a batch of " + std::to_string(maps) + " maps, and the largest batch that a submit on this " +
         "connection has said is " + std::to_string(agreed) + " (field \"batch\")";
}

void Server::take_request(core::Peer peer, const wire::ClientRequest& request, const Blob& body,
                          core::TimePoint now) {
  if (!belongs(request, peer)) return answer_forbidden(peer, request);
  const core::Origin from{.address = incoming_.address(),
                          .envelope = incoming_.envelope(),
                          .one_answer = incoming_.from_req(),
                          .peer = peer};
  if (const auto* submit = std::get_if<wire::Submit>(&request))
    return broker_.handle(core::Submitted{from, submit, body}, now);
  if (const auto* cancel = std::get_if<wire::Cancel>(&request))
    return broker_.handle(core::CancelAsked{from, cancel}, now);
  if (const auto* query = std::get_if<wire::StatusQuery>(&request))
    return broker_.handle(core::StatusAsked{from, query}, now);
  if (const auto* fetch = std::get_if<wire::Fetch>(&request))
    return broker_.handle(core::FetchAsked{from, fetch}, now);
  if (const auto* query = std::get_if<wire::StatsQuery>(&request)) return answer_stats(from, *query, now);
  if (const auto* ping = std::get_if<wire::Ping>(&request)) {
    wire::Pong pong;
    pong.now_ms = broker_.options().wall_ms + core::to_ms(now.time_since_epoch());
    pong.version = kVersion;
    if (ping->batch > 0) pong.batch = limits::batch_items_max;
    pong.ref = ping->ref;
    return broker_.outbox().add(peer, from.address, from.envelope, pong);
  }
  if (const auto* query = std::get_if<wire::AdminQuery>(&request);
      query != nullptr && query->verb == name_of(AdminVerb::backup) && !admin_fault(*query))
    return begin_backup(from, *query);
  if (const auto* query = std::get_if<wire::AdminQuery>(&request))
    return broker_.handle(core::AdminAsked{from, query, &edit_}, now);
  broker_.handle(core::SeenSaid{from, &std::get<wire::Seen>(request)}, now);
}

/// Returns how many messages it was.
std::size_t Server::take_worker_message(core::TimePoint now) {
  const auto refuse = [this](const DecodeError& error) {
    refuse_worker(error);
    return std::size_t{1};
  };
  if (incoming_.fault() != nullptr) return refuse(not_understood(incoming_.fault()));
  const AskedRule rule([this](std::size_t maps, std::int64_t) { return worker_batch_refused(maps); });
  if (const DecodeError* error = decoder_.decode(incoming_.header(), incoming_.body_frame(), reports_, &rule))
    return refuse(*error);
  if (!reports_.is_batch()) {
    take_report(reports_[0], incoming_.take_body(reports_.body(0), core::JobText::kBodyBytesMax), now);
    return 1;
  }
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    if (const DecodeError* error = reports_.error(i))
      refuse_worker(*error);
    else
      take_report(reports_[i], Blob::borrow(reports_.body(i)), now);
  }
  return reports_.size();
}

/// Why a worker may not send a batch of so many maps; empty: it may. One that is not known has to hear for
/// each outcome that it is not.
std::string Server::worker_batch_refused(std::size_t maps) const {
  const core::Worker* const worker = broker_.workers().find(incoming_.address());
  if (worker == nullptr || maps <= worker->grouping.max) return {};
  return "a batch of " + std::to_string(maps) + " maps, and this worker's ready has said " +
         std::to_string(worker->grouping.max) + " (field \"batch\")";
}

void Server::take_report(const wire::WorkerReport& report, const Blob& body, core::TimePoint now) {
  const std::string_view address = incoming_.address();
  if (const auto* outcome = std::get_if<wire::Outcome>(&report)) {
    broker_.handle(core::OutcomeReported{address, outcome, body}, now);
    return reached(Failpoint::loop_after_result);
  }
  if (const auto* failure = std::get_if<wire::Failure>(&report))
    return broker_.handle(core::FailureReported{address, failure, body}, now);
  if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&report))
    return broker_.handle(core::HeartbeatHeard{address, heartbeat}, now);
  if (const auto* ready = std::get_if<wire::Ready>(&report)) {
    watch_worker(*ready);
    return broker_.handle(core::WorkerReady{address, ready}, now);
  }
  if (std::holds_alternative<wire::Bye>(report)) return broker_.handle(core::WorkerLeaving{address}, now);
  broker_.handle(core::ChunkReported{address, &std::get<wire::Chunk>(report), body}, now);
}

void Server::answer_bad_request(core::Peer peer, const DecodeError& error) {
  ++stats_.frames_refused;
  wire::ErrorReply reply;
  if (!error.id.empty()) reply.id = error.id;
  reply.code = name_of(error.code);
  reply.message = error.message;
  reply.ref = {error.ref};
  broker_.outbox().add(peer, incoming_.address(), incoming_.envelope(), reply);
}

void Server::answer_forbidden(core::Peer peer, const wire::ClientRequest& request) {
  wire::ErrorReply reply;
  reply.code = name_of(ErrorCode::forbidden);
  reply.message = peer == core::Peer::client
                      ? "op \"admin\" is for operators; send it to the endpoint that the broker's option "
                        "admin_endpoint names"
                      : "operators say admin, stats, status, cancel and ping; send jobs to the endpoint that "
                        "the broker's option clients_endpoint names";
  std::visit([&](const auto& asked) { reply.ref = asked.ref; }, request);
  broker_.outbox().add(peer, incoming_.address(), incoming_.envelope(), reply);
}

void Server::refuse_worker(const DecodeError& error) {
  ++stats_.frames_refused;
  broker_.handle(core::WorkerHeard{incoming_.address()}, now_);
  wire::WorkerRefusal refusal;
  refusal.code = name_of(error.code);
  refusal.message = error.message;
  broker_.outbox().add(core::Peer::worker, incoming_.address(), incoming_.envelope(), refusal);
}

void Server::answer_stats(const core::Origin& from, const wire::StatsQuery& query, core::TimePoint now) {
  document_.clear();
  stats_.store_backlog_bytes = store_backlog();
  write_stats_document(broker_, stats_, now, now.time_since_epoch() - kTimeAtStart,
                       static_cast<std::size_t>(query.from), document_);
  wire::StatsReply reply;
  reply.document.bytes = document_.view();
  reply.ref = query.ref;
  broker_.outbox().add(from.peer, from.address, from.envelope, reply);
}

// ---- sending ------------------------------------------------------------------------------------------

void Server::send_all() {
  flush_backlogs();
  core::Outbox& outbox = broker_.outbox();
  send_part(outbox, {.waiting = false});  // what needs no disk does not wait for what did
  send_committed();
  const bool any_waits = std::any_of(outbox.sends.begin(), outbox.sends.end(),
                                     [](const core::Send& send) { return send.waits; });
  if (any_waits && (!uncommitted_.empty() || ticket_ > store_->committed())) {
    if (spare_outboxes_.empty()) spare_outboxes_.push_back(std::make_unique<core::Outbox>());
    uncommitted_.push_back({ticket_, outbox.held_bytes(), std::move(spare_outboxes_.back())});
    uncommitted_bytes_ += uncommitted_.back().bytes;
    spare_outboxes_.pop_back();
    return outbox.move_sends(*uncommitted_.back().outbox);
  }
  if (any_waits) send_part(outbox, {.waiting = true});
  outbox.clear_sends();
}

void Server::send_part(const core::Outbox& outbox, Part part) {
  bool any_to_workers = false;
  for (const core::Send& send : outbox.sends) {
    if (send.waits != part.waiting) continue;
    if (!(send.peer == core::Peer::worker ? part.to_workers : part.to_others)) continue;
    any_to_workers = any_to_workers || send.peer == core::Peer::worker;
    switch (send.peer) {
      case core::Peer::client:
        send_to_client(outbox, send);
        break;
      case core::Peer::worker:
        send_to_worker(outbox, send);
        break;
      case core::Peer::admin:
        send_to_admin(outbox, send);
        break;
    }
  }
  if (any_to_workers) reached(Failpoint::loop_after_dispatch);
}

void Server::send_to_client(const core::Outbox& outbox, const core::Send& send) {
  const std::string_view address = outbox.address(send);
  if (!backlogs_.empty() && backlogs_.find(address) != backlogs_.end())
    return hold_back(address, outbox, send);
  switch (clients_.send(address, outbox.envelope(send), outbox.header(send), send.body)) {
    case SendStatus::sent:
      return;
    case SendStatus::gone:
      stats_.sends_undeliverable += outbox.items(send);
      if (gone_clients_.empty() || gone_clients_.back() != address) gone_clients_.emplace_back(address);
      return;  // a result stays fetchable
    case SendStatus::slow:
      return hold_back(address, outbox, send);
  }
}

/// An operator who does not read what he asked for can ask again: nothing is held for him.
void Server::send_to_admin(const core::Outbox& outbox, const core::Send& send) {
  const SendStatus status =
      admin_->send(outbox.address(send), outbox.envelope(send), outbox.header(send), send.body);
  if (status == SendStatus::gone) ++stats_.sends_undeliverable;
  if (status == SendStatus::slow) ++stats_.sends_dropped_slow;
}

void Server::send_to_worker(const core::Outbox& outbox, const core::Send& send) {
  const std::string_view address = outbox.address(send);
  const SendStatus status = workers_.send(address, outbox.envelope(send), outbox.header(send), send.body);
  if (status == SendStatus::sent) return;
  if (status == SendStatus::gone) {
    stats_.sends_undeliverable += outbox.items(send);
    worker_disconnects_.gone().emplace_back(address);
    return;
  }
  // A worker within its capacity cannot be slow: one that is has stopped reading, and its jobs go elsewhere.
  stats_.sends_dropped_slow += outbox.items(send);
  unreachable_.emplace_back(address);
}

/// Keeps an answer for a client that reads slowly, up to its bound. What goes over it is dropped and counted;
/// the client gets it by `fetch`, or by submitting again.
void Server::hold_back(std::string_view address, const core::Outbox& outbox, const core::Send& send) {
  Held held{std::string(outbox.envelope(send)), std::string(outbox.header(send)), send.body};
  auto place = backlogs_.find(address);
  const std::size_t bytes = place == backlogs_.end() ? 0 : place->second.bytes;
  if (bytes + held.bytes() > options_.client_backlog_bytes_max ||
      stats_.backlog_bytes + held.bytes() > options_.backlog_bytes_max) {
    stats_.sends_dropped_slow += outbox.items(send);
    return;
  }
  if (place == backlogs_.end()) place = backlogs_.emplace(address, Backlog{}).first;
  place->second.bytes += held.bytes();
  stats_.backlog_bytes += held.bytes();
  place->second.messages.push_back(std::move(held));
}

void Server::flush_backlogs() {
  for (auto place = backlogs_.begin(); place != backlogs_.end();) {
    Backlog& backlog = place->second;
    while (!backlog.messages.empty()) {
      const Held& held = backlog.messages.front();
      const SendStatus status = clients_.send(place->first, held.envelope, held.header, held.body);
      if (status == SendStatus::slow) break;
      if (status == SendStatus::gone) ++stats_.sends_undeliverable;
      stats_.backlog_bytes -= held.bytes();
      backlog.bytes -= held.bytes();
      backlog.messages.pop_front();
    }
    place = backlog.messages.empty() ? backlogs_.erase(place) : std::next(place);
  }
}

void Server::log_notices() {
  for (const core::Notice& notice : broker_.outbox().notices) {
    switch (notice.kind) {
      case core::Notice::Kind::worker_ready:
        log::event(log::Level::info, "worker.ready",
                   {{"name", notice.worker}, {"session", notice.session}, {"capacity", notice.jobs}});
        break;
      case core::Notice::Kind::worker_returned:
        log::event(log::Level::info, "worker.returned",
                   {{"name", notice.worker}, {"session", notice.session}, {"jobs", notice.jobs}});
        break;
      case core::Notice::Kind::worker_left:
        log::event(log::Level::info, "worker.left",
                   {{"name", notice.worker}, {"session", notice.session}, {"jobs", notice.jobs}});
        break;
      case core::Notice::Kind::worker_lost:
        log::event(log::Level::warning, "worker.lost",
                   {{"name", notice.worker}, {"session", notice.session}, {"jobs", notice.jobs}});
        break;
      case core::Notice::Kind::upstream_opened:
        log::event(log::Level::warning, "upstream.opened",
                   {{"service", notice.service},
                    {"model", notice.model},
                    {"retry_ms", static_cast<long long>(notice.retry_ms)}});
        break;
      case core::Notice::Kind::upstream_closed:
        log::event(log::Level::info, "upstream.closed",
                   {{"service", notice.service}, {"model", notice.model}});
        break;
      case core::Notice::Kind::key_spent:
        log::event(log::Level::error, "key.spent",
                   {{"service", notice.service},
                    {"key", notice.key},
                    {"code", notice.code},
                    {"retry_ms", static_cast<long long>(notice.retry_ms)},
                    {"do", "see to the account or the secret; SIGHUP has this broker try it at once"}});
        break;
      case core::Notice::Kind::key_back:
        log::event(log::Level::info, "key.back", {{"service", notice.service}, {"key", notice.key}});
        break;
      case core::Notice::Kind::upstream_word_bounded:
        log::event(log::Level::warning, "upstream.word_bounded",
                   {{"service", notice.service},
                    {"what", notice.what},
                    {"said", static_cast<long long>(notice.said)},
                    {"counts_as", static_cast<long long>(notice.bound)},
                    {"do", "no upstream means that; see what the service's workers call"}});
        break;
      case core::Notice::Kind::changed_by_operator:
        log::event(log::Level::info, "admin." + notice.verb,
                   {{"what", notice.what}, {"name", notice.name}, {"how", notice.how}, {"by", "admin"}});
        break;
    }
  }
  broker_.outbox().notices.clear();
}

// ---- stopping -----------------------------------------------------------------------------------------

void Server::take_signals(core::TimePoint now) {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP) {
      if (const auto options = reload_()) broker_.handle(core::OptionsChanged{&*options}, now);
      continue;
    }
    if (stop_at_) {
      stop_now_ = true;
      continue;
    }
    const core::Duration timeout = broker_.options().drain_timeout;
    stop_at_ = now + timeout;
    broker_.handle(core::DrainAsked{}, now);
    log::event(
        log::Level::info, "broker.draining",
        {{"running", broker_.running()}, {"drain_timeout_ms", static_cast<long long>(core::to_ms(timeout))}});
  }
}

bool Server::over(core::TimePoint now) {
  if (!stop_at_ && !stop_now_) return false;
  if (exit_code_ == kExitStoreFailed) return true;
  if (!broker_.drained() && !stop_now_ && now < *stop_at_) return false;
  const std::size_t given_up = broker_.running();
  broker_.give_up_running(now);
  broker_.end_notes();
  notes_at_ = {};  // what budgets gave is written in any case
  notes_ticket_ = 0;
  commit(now);
  store_->flush();
  read_store(now);
  do
    send_all();
  while (has_committed());
  log::event(log::Level::info, "broker.stopped", {{"given_up", given_up}});
  return true;
}

}  // namespace lanemq::io
