// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/intake.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <lanemq/admin_table.hpp>
#include <lanemq/version.hpp>

#include "broker/io/base/failpoint.hpp"
#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

/// Operators' messages in one turn: a list may look at thousands of jobs.
constexpr std::size_t kAdminMessagesPerTurn = 4;

/// When to come again after a refusal of which the broker does not know when it ends.
constexpr std::int64_t kRetryAfterMs = 1000;

/// Whether the socket takes such a request: operators' requests come by their own socket, jobs by the
/// clients'. Requests that read the broker's state or end a job come by both.
bool belongs(const wire::ClientRequest& request, core::Peer peer) {
  if (std::holds_alternative<wire::AdminQuery>(request)) return peer == core::Peer::admin;
  return peer == core::Peer::client || std::holds_alternative<wire::Cancel>(request) ||
         std::holds_alternative<wire::StatusQuery>(request) ||
         std::holds_alternative<wire::StatsQuery>(request) || std::holds_alternative<wire::Ping>(request) ||
         std::holds_alternative<wire::Watch>(request) || std::holds_alternative<wire::Seen>(request);
}

/// The system's clock, as it is set now.
std::int64_t system_ms() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

/// Asks `ask` whether the peer may send a batch.
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

/// An outcome is held no longer once its worker has been silent for this many heartbeats: one more, and the
/// worker is lost.
constexpr int kSilentHeartbeatsMax = 2;

/// The job that the worker at that address has under that lease; null: it has none.
const core::Job* leased(const core::Broker& broker, std::string_view address, wire::Lease lease) {
  const core::Record* const record = broker.jobs().find(core::JobNumber{lease.job});
  const core::Job* const job = record == nullptr ? nullptr : record->job();
  if (job == nullptr || job->worker() == nullptr || job->attempt != lease.attempt) return nullptr;
  return job->worker()->address == address ? job : nullptr;
}

/// Adds what a request says to what its message says.
void note(const wire::ClientRequest& request, HeldMessages::About& about) {
  const auto name = [&about](std::string_view id) {
    if (!id.empty()) about.ids.emplace_back(id);
  };
  if (const auto* const submit = std::get_if<wire::Submit>(&request)) {
    name(submit->id);
    about.batch = std::max(about.batch, submit->batch);
  }
  if (const auto* const watch = std::get_if<wire::Watch>(&request)) {
    name(watch->id);
    about.batch = std::max(about.batch, watch->batch);
  }
  if (const auto* const cancel = std::get_if<wire::Cancel>(&request)) name(cancel->id);
  if (const auto* const fetch = std::get_if<wire::Fetch>(&request)) name(fetch->id);
  if (const auto* const seen = std::get_if<wire::Seen>(&request)) name(seen->id);
  if (const auto* const status = std::get_if<wire::StatusQuery>(&request)) {
    name(status->id);
    for (const std::string_view id : status->ids)
      name(id);
  }
}

/// The id that a request names; empty: none.
std::string_view id_of(const wire::ClientRequest& request) {
  return std::visit(
      [](const auto& asked) -> std::string_view {
        if constexpr (requires { asked.id; })
          return asked.id;
        else
          return {};
      },
      request);
}

/// An id as an answer may name it; null: there is none (an empty one would be written), or it looks like
/// another tenant's, which is nobody's and would be cut on its way out.
std::string_view told(std::string_view id) {
  if (id.empty() || core::own_name(id).size() != id.size()) return {};
  return id;
}

DecodeError not_understood(std::string why) {
  DecodeError error;
  error.message = std::move(why);
  return error;
}

}  // namespace

Intake::Intake(core::Broker& broker, Sockets& sockets, Store& store, StoreWatch& store_watch,
               LoopDesks& desks, TransportStats& stats, core::OptionEditor edit, core::TimePoint started)
    : broker_(broker),
      sockets_(sockets),
      store_watch_(store_watch),
      desks_(desks),
      stats_(stats),
      edit_(std::move(edit)),
      started_(started),
      decoder_(broker.options().body_bytes_max),
      held_(store) {
  decoder_.refuse_ext();
}

std::size_t Intake::read_workers(core::TimePoint now) {
  std::size_t read = 0;
  while (read < kMessagesPerTurn && sockets_.workers.receive(incoming_)) {
    note_sender(sockets_.workers, sockets_.worker_connections);
    read += take_worker_message(now);
  }
  return read;
}

std::size_t Intake::read_clients(core::TimePoint now) {
  std::size_t read = 0;
  while (read < kMessagesPerTurn && sockets_.clients.receive(incoming_)) {
    note_sender(sockets_.clients, sockets_.client_connections);
    read += take_client_message(core::Peer::client, now);
  }
  return read;
}

std::size_t Intake::read_admin(core::TimePoint now) {
  std::size_t read = 0;
  while (sockets_.admin && read < kAdminMessagesPerTurn && sockets_.admin->receive(incoming_)) {
    note_sender(*sockets_.admin, *sockets_.admin_connections);
    read += take_client_message(core::Peer::admin, now);
  }
  return read;
}

/// Returns how many messages it was: each item of a batch counts.
std::size_t Intake::take_client_message(core::Peer peer, core::TimePoint now) {
  store_watch_.tell_behind(now);
  const auto refuse = [&](const DecodeError& error) {
    note_unreadable(peer == core::Peer::admin ? kOperatorsDomain : name_of(Door::clients), error);
    answer_bad_request(peer, error);
    return std::size_t{1};
  };
  if (incoming_.fault() != nullptr) return refuse(not_understood(incoming_.fault()));
  if (peer == core::Peer::admin)
    sockets_.authorizer.trust();
  else if (const std::string_view why =
               sockets_.authorizer.identify(incoming_, sockets_.clients, Door::clients);
           !why.empty())
    return answer_unauthorized(why), std::size_t{1};
  const AskedRule rule([&](std::size_t maps, std::int64_t first_says) {
    return client_batch_refused(peer, maps, first_says);
  });
  if (const DecodeError* error =
          decoder_.decode(incoming_.header(), incoming_.body_frame(), requests_, &rule))
    return refuse(*error);
  // Its connection may have ended since it was held.
  if (peer == core::Peer::client && !incoming_.was_held()) watch_client();
  if (!requests_.is_batch()) {
    take_request(peer, requests_[0], incoming_.take_body(requests_.body(0), core::JobText::kBodyBytesMax),
                 now);
    return 1;
  }
  const std::size_t maps = requests_.size();
  if (hold_batch(now)) return maps;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (const DecodeError* error = requests_.error(i))
      answer_bad_request(peer, *error);
    else
      take_request(peer, requests_[i], Blob::borrow(requests_.body(i)), now);
  }
  return requests_.size();
}

/// Watches a client whose leaving may end a job, release a stream, or give back a gateway's places.
void Intake::watch_client() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const auto* const submit = std::get_if<wire::Submit>(&requests_[i]);
    if (submit != nullptr && submit->orphan.data() == nullptr && !submit->stream) continue;
    if (submit != nullptr || std::holds_alternative<wire::Fetch>(requests_[i]) ||
        std::holds_alternative<wire::Spend>(requests_[i]) ||
        std::holds_alternative<wire::Watch>(requests_[i]))
      return sockets_.client_connections.watch(incoming_.descriptor(), incoming_.address());
  }
}

/// Why a client may not send a batch of `maps`; empty: it may. The first message may state the size of its
/// batches.
std::string Intake::client_batch_refused(core::Peer peer, std::size_t maps, std::int64_t first_says) const {
  if (peer == core::Peer::admin) return "operators send the maps of a batch one by one";
  if (incoming_.from_req())
    return "a REQ socket takes one answer and may not send a batch; send the maps one by one, or use a "
           "DEALER";
  const core::Connection* const connection = broker_.connections().find(incoming_.address());
  const std::int64_t agreed =
      std::max({static_cast<std::int64_t>(connection == nullptr ? 0 : connection->grouping.max), first_says,
                held_.batch_of(incoming_.address())});
  if (static_cast<std::int64_t>(maps) <= agreed) return {};
  return "a batch of " + std::to_string(maps) + " maps, and the largest batch that a submit on this " +
         "connection has said is " + std::to_string(agreed) + " (field \"batch\")";
}

void Intake::take_request(core::Peer peer, wire::ClientRequest& request, const Blob& body,
                          core::TimePoint now) {
  if (!belongs(request, peer)) return answer_forbidden(peer, request);
  const std::string_view id = id_of(request);  // before it is renamed
  if (peer == core::Peer::client)
    if (const auto why = sockets_.authorizer.admit(request)) return answer_refused(request, id, *why);
  if (peer == core::Peer::client && !requests_.is_batch() && hold_request(request, body, now)) return;
  if (auto* const submit = std::get_if<wire::Submit>(&request); submit != nullptr && !desks_.plugins.empty())
    if (const auto why = desks_.plugins.judge(*submit, body.bytes(), sockets_.authorizer.sender()))
      return answer_refused(request, id, *why);
  const core::Origin from{.address = incoming_.address(),
                          .envelope = incoming_.envelope(),
                          .one_answer = incoming_.from_req(),
                          .peer = peer,
                          .identity = sockets_.authorizer.sender()};
  if (const auto* submit = std::get_if<wire::Submit>(&request))
    return broker_.handle(core::Submitted{from, submit, body}, now);
  if (const auto* cancel = std::get_if<wire::Cancel>(&request)) {
    if (peer == core::Peer::admin) {
      const std::string who = operator_of(incoming_);
      log::event(log::Level::info, "admin.cancel", {{"name", cancel->id}, {"by", who}});
      operator_log_.changes().add(
          {.verb = "cancel", .what = "job", .name = std::string(cancel->id), .how = {}, .by = who}, now);
    }
    return broker_.handle(core::CancelAsked{from, cancel}, now);
  }
  if (const auto* query = std::get_if<wire::StatusQuery>(&request))
    return broker_.handle(core::StatusAsked{from, query}, now);
  if (const auto* fetch = std::get_if<wire::Fetch>(&request))
    return broker_.handle(core::FetchAsked{from, fetch}, now);
  if (const auto* watch = std::get_if<wire::Watch>(&request))
    return broker_.handle(core::WatchAsked{from, watch}, now);
  if (const auto* query = std::get_if<wire::StatsQuery>(&request)) return answer_stats(from, *query, now);
  if (const auto* ping = std::get_if<wire::Ping>(&request)) return answer_ping(from, *ping, now);
  if (const auto* spend = std::get_if<wire::Spend>(&request))
    return broker_.handle(core::SpendAsked{from, spend}, now);
  if (const auto* query = std::get_if<wire::AdminQuery>(&request)) return take_admin_query(from, *query, now);
  broker_.handle(core::SeenSaid{from, &std::get<wire::Seen>(request)}, now);
}

/// Whether a submit makes a new job that outlives the broker, as far as the store's state, the lane and the
/// id tell. The core may refuse it all the same.
bool Intake::may_be_kept(const wire::Submit& submit) const {
  if (store_watch_.state() != "good" || (!submit.id.empty() && broker_.jobs().find(submit.id) != nullptr))
    return false;
  const auto is_its = [&](const std::unique_ptr<core::Lane>& lane) {
    return submit.lane.empty() ? lane->options().is_default : lane->options().name == submit.lane;
  };
  const auto lane = std::find_if(broker_.lanes().begin(), broker_.lanes().end(), is_its);
  return lane != broker_.lanes().end() && submit.durable.value_or((*lane)->options().durable);
}

/// Holds a submit whose body the store wants ahead of its turn, and what names the job of such a one: later
/// it is heard as if it came then. False: it is neither, or there is no room.
bool Intake::hold_request(const wire::ClientRequest& request, const Blob& body, core::TimePoint now) {
  if (incoming_.was_held()) return false;
  const auto* const submit = std::get_if<wire::Submit>(&request);
  const bool puts = submit != nullptr && held_.wants(body) && may_be_kept(*submit);
  if (!puts && !held_.names_any()) return false;
  HeldMessages::About about;
  note(request, about);
  if (incoming_.from_req()) about.batch = 0;
  if (held_.names_any_of(about.ids)) return held_.hold_behind(incoming_, body, std::move(about), now);
  if (puts) held_.hold_and_put(incoming_, body, std::move(about), now);
  return puts;
}

/// Holds a batch of a client that names a job of a submit that is held: as its messages one by one, none of
/// them overtakes it, and none the others. False: it names none, or there is no room.
bool Intake::hold_batch(core::TimePoint now) {
  if (incoming_.was_held() || !held_.names_any()) return false;
  HeldMessages::About about;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_.error(i) != nullptr) continue;
    wire::ClientRequest request = requests_[i];  // its names are not renamed twice
    if (!sockets_.authorizer.admit(request)) note(request, about);
  }
  return held_.names_any_of(about.ids) && held_.hold_behind(incoming_, {}, std::move(about), now);
}

void Intake::hear_held(core::TimePoint now) {
  for (HeldMessages::Ready& ready : held_.take_ready(now)) {
    const std::size_t before = broker_.outbox().writes.size();
    for (HeldMessages::Message& message : ready.messages)
      hear_again(message, ready.of_worker ? core::Peer::worker : core::Peer::client, now);
    held_.heard(ready.body, broker_.outbox().writes, before);
  }
  hear_outcomes(
      now, [&](std::string_view address, wire::Lease lease) { return is_given_up_now(address, lease, now); });
}

void Intake::let_go(std::string_view address, core::TimePoint now) {
  hear_outcomes(now, [address](std::string_view of, wire::Lease) { return of == address; });
}

void Intake::let_all_go(core::TimePoint now) {
  hear_outcomes(now, [](std::string_view, wire::Lease) { return true; });
}

/// Tells the core of outcomes that are held, with their bodies in their turn.
template <class Goes>
void Intake::hear_outcomes(core::TimePoint now, Goes goes) {
  if (held_.empty()) return;
  for (HeldMessages::Message& message : held_.take_outcomes(goes))
    hear_again(message, core::Peer::worker, now);
}

void Intake::hear_again(HeldMessages::Message& message, core::Peer peer, core::TimePoint now) {
  incoming_ = std::move(message.message);
  if (peer == core::Peer::worker)
    take_worker_message(now);
  else
    take_client_message(peer, now);
  if (message.sender_gone) broker_.handle(core::ClientUnreachable{incoming_.address()}, now);
}

void Intake::client_gone(std::string_view address, core::TimePoint now) {
  held_.sender_gone(address);
  broker_.handle(core::ClientUnreachable{address}, now);
}

/// Whether a query changes what no notice of the core tells of.
bool Intake::changes_unnoticed(const AdminInfo& info, const wire::AdminQuery& query) {
  if (query.dry_run) return false;
  return info.verb == AdminVerb::reload || info.verb == AdminVerb::handover ||
         (info.verb == AdminVerb::plugin && !query.value.empty());
}

/// The core knows neither files nor disks: the verbs about these are the loop's.
void Intake::take_admin_query(const core::Origin& from, const wire::AdminQuery& query, core::TimePoint now) {
  const AdminInfo* const info = admin_info(query);
  const bool is_for_loop = info != nullptr && !admin_fault(query);
  core::Outbox& outbox = broker_.outbox();
  const OperatorLog::Asked asked{.who = operator_of(incoming_),
                                 .verb = query.verb,
                                 .what = query.what,
                                 .name = !query.name.empty() ? query.name
                                         : !query.id.empty() ? query.id
                                                             : query.code,
                                 .sends = outbox.sends.size(),
                                 .notices = outbox.notices.size(),
                                 .is_change = is_for_loop && changes_unnoticed(*info, query)};
  if (is_for_loop && info->verb == AdminVerb::backup)
    desks_.backups.begin(from, query);
  else if (is_for_loop && info->verb == AdminVerb::reload)
    desks_.reloads.asked(from, query, asked.who, now);
  else if (is_for_loop && info->verb == AdminVerb::plugin)
    desks_.plugins.asked(from, query, asked.who, outbox);
  else if (is_for_loop && info->verb == AdminVerb::handover)
    desks_.ownership.asked(from, query, asked.who);
  else if (is_for_loop && info->verb == AdminVerb::config)
    desks_.config.asked(from, query);
  else if (is_for_loop && info->verb == AdminVerb::changes)
    operator_log_.changes().asked(from, query, outbox, now);
  else
    broker_.handle(core::AdminAsked{from, &query, &edit_}, now);
  operator_log_.told(asked, outbox, now);
}

/// Returns how many messages it was: each item of a batch counts.
std::size_t Intake::take_worker_message(core::TimePoint now) {
  const auto refuse = [&](const DecodeError& error) {
    note_unreadable(name_of(Door::workers), error);
    refuse_worker(error, now);
    return std::size_t{1};
  };
  if (incoming_.fault() != nullptr) return refuse(not_understood(incoming_.fault()));
  if (const std::string_view why = sockets_.authorizer.identify(incoming_, sockets_.workers, Door::workers);
      !why.empty())
    return refuse_key(why), std::size_t{1};
  const AskedRule rule([this](std::size_t maps, std::int64_t) { return worker_batch_refused(maps); });
  if (const DecodeError* error = decoder_.decode(incoming_.header(), incoming_.body_frame(), reports_, &rule))
    return refuse(*error);
  if (hear_behind_outcomes(now)) return reports_.size();
  if (!reports_.is_batch()) {
    take_report(reports_[0], incoming_.take_body(reports_.body(0), core::JobText::kBodyBytesMax), now);
    return 1;
  }
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    if (const DecodeError* error = reports_.error(i))
      refuse_worker(*error, now);
    else
      take_report(reports_[i], Blob::borrow(reports_.body(i)), now);
  }
  return reports_.size();
}

/// Why a worker may not send a batch of `maps`; empty: it may. An unknown worker is told so for each outcome.
std::string Intake::worker_batch_refused(std::size_t maps) const {
  const core::Worker* const worker = broker_.workers().find(incoming_.address());
  if (worker == nullptr || maps <= worker->grouping.max) return {};
  return "a batch of " + std::to_string(maps) + " maps, and this worker's ready has said " +
         std::to_string(worker->grouping.max) + " (field \"batch\")";
}

/// Where the message says that its worker leaves, or comes back by another connection: tells the core first
/// of that one's outcomes that wait, and then of the message. False: there are none.
bool Intake::hear_behind_outcomes(core::TimePoint now) {
  if (held_.empty()) return false;
  std::string address;
  for (std::size_t i = 0; i < reports_.size() && address.empty(); ++i) {
    if (reports_.error(i) != nullptr) continue;
    if (std::holds_alternative<wire::Bye>(reports_[i])) address = incoming_.address();
    if (const auto* const ready = std::get_if<wire::Ready>(&reports_[i]))
      if (const core::Worker* const known = broker_.workers().of_session(ready->session);
          known != nullptr && known->address != incoming_.address())
        address = known->address;
  }
  if (address.empty() || !held_.has_outcome_of(address)) return false;
  Incoming message = std::exchange(incoming_, Incoming());
  let_go(address, now);
  incoming_ = std::move(message);
  take_worker_message(now);
  return true;
}

/// Holds an outcome whose body the store wants ahead of its turn. False: it is none, or there is no room.
bool Intake::hold_outcome(const wire::Outcome& outcome, const Blob& body, core::TimePoint now) {
  if (incoming_.was_held() || reports_.is_batch() || !held_.wants(body) || store_watch_.state() != "good")
    return false;
  const wire::Lease lease{outcome.job, outcome.attempt};
  const core::Job* const job = leased(broker_, incoming_.address(), lease);
  if (job == nullptr || !job->durable || job->ended()) return false;
  broker_.handle(core::WorkerHeard{incoming_.address()}, now);
  held_.hold_and_put(incoming_, body, lease, now);
  return true;
}

/// Whether the core, which has not heard the outcome that is held, would end this attempt now or soon: its
/// deadline has come, its lane's stall_timeout is over, or its worker has been silent for long.
bool Intake::is_given_up_now(std::string_view address, wire::Lease lease, core::TimePoint now) const {
  const core::Job* const job = leased(broker_, address, lease);
  if (job == nullptr || job->ended()) return false;
  const core::Duration patience = broker_.lanes()[job->lane]->options().stall_timeout;
  const core::Progress* const said = job->progress();
  return now >= job->deadline ||
         (said != nullptr && patience.count() > 0 && now >= said->heard_at + patience) ||
         now >= job->worker()->heard_at + kSilentHeartbeatsMax * broker_.options().heartbeat;
}

void Intake::take_report(const wire::WorkerReport& report, const Blob& body, core::TimePoint now) {
  const std::string_view address = incoming_.address();
  if (const auto* outcome = std::get_if<wire::Outcome>(&report)) {
    if (hold_outcome(*outcome, body, now)) return;
    broker_.handle(core::OutcomeReported{address, outcome, body}, now);
    return reached(Failpoint::loop_after_result);
  }
  if (const auto* failure = std::get_if<wire::Failure>(&report))
    return broker_.handle(core::FailureReported{address, failure, body}, now);
  if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&report)) {
    if (!held_.has_outcome_of(address)) return broker_.handle(core::HeartbeatHeard{address, heartbeat}, now);
    // A worker may leave out what it has handed in. The core has not heard of that: for it the job is there.
    wire::Heartbeat all = *heartbeat;
    held_.add_leases(address, all.jobs);
    return broker_.handle(core::HeartbeatHeard{address, &all}, now);
  }
  if (const auto* ready = std::get_if<wire::Ready>(&report)) {
    watch_worker(*ready);
    const bool watched = sockets_.worker_processes.of(address) == core::WorkerDisconnected::Process::lives;
    return broker_.handle(core::WorkerReady{address, ready, sockets_.authorizer.sender(), watched}, now);
  }
  if (const auto* progress = std::get_if<wire::Progress>(&report))
    return broker_.handle(core::ProgressReported{address, progress}, now);
  if (std::holds_alternative<wire::Bye>(report)) return broker_.handle(core::WorkerLeaving{address}, now);
  broker_.handle(core::ChunkReported{address, &std::get<wire::Chunk>(report), body}, now);
}

/// Watches the connection and the process of a worker that sent `ready`.
void Intake::watch_worker(const wire::Ready& ready) {
  const std::string_view address = incoming_.address();
  sockets_.worker_connections.watch(incoming_.descriptor(), address);
  const auto is_known = [this](const std::string& one) { return broker_.workers().find(one) != nullptr; };
  sockets_.worker_processes.watch(ready.process, address, is_known);
}

/// Writes down a message of which not even that was read which would tell its sender what the answer is to.
void Intake::note_unreadable(std::string_view door, const DecodeError& error) {
  if (!error.ref.empty() || !error.id.empty() || error.job ||
      !unreadable_lines_.may_write(std::chrono::steady_clock::now()))
    return;
  log::event(log::Level::warning, "peer.unreadable_message",
             {{"door", door},
              {"address", incoming_.peer_address()},
              {"reason", error.message},
              {"left_out", unreadable_lines_.take_left_out()},
              {"do", "see what runs there; a REQ hears nothing of it, a DEALER gets the reason"}});
}

void Intake::answer_bad_request(core::Peer peer, const DecodeError& error) {
  ++stats_.frames_refused;
  wire::ErrorReply reply;
  reply.id = told(error.id);
  reply.code = name_of(error.code);
  reply.message = error.message;
  reply.ref = {error.ref};
  broker_.outbox().add(peer, incoming_.address(), incoming_.envelope(), reply);
}

void Intake::answer_forbidden(core::Peer peer, const wire::ClientRequest& request) {
  wire::ErrorReply reply;
  reply.code = name_of(ErrorCode::forbidden);
  reply.message = peer == core::Peer::client
                      ? "op \"admin\" is for operators; send it to the endpoint that the broker's option "
                        "admin_endpoint names"
                      : "operators say admin, stats, status, cancel, watch, seen and ping; send jobs to the "
                        "endpoint that "
                        "the broker's option clients_endpoint names";
  reply.id = told(id_of(request));
  std::visit([&](const auto& asked) { reply.ref = asked.ref; }, request);
  broker_.outbox().add(peer, incoming_.address(), incoming_.envelope(), reply);
}

/// Answers a request that the sender's key does not allow, or a plugin. `id`: as the sender has said it.
void Intake::answer_refused(const wire::ClientRequest& request, std::string_view id,
                            const Authorizer::Refusal& why) {
  wire::ErrorReply reply;
  reply.id = told(id);
  reply.code = name_of(why.code);
  reply.message = why.message;
  if (error_info(why.code).says_when_to_retry) reply.retry_after_ms = kRetryAfterMs;
  std::visit([&](const auto& asked) { reply.ref = asked.ref; }, request);
  broker_.outbox().add(core::Peer::client, incoming_.address(), incoming_.envelope(), reply);
}

/// Answers a message whose key does not count. Its requests are not read, so the answer is to all of them.
void Intake::answer_unauthorized(std::string_view why) {
  wire::ErrorReply reply;
  reply.code = name_of(ErrorCode::unauthorized);
  reply.message = why;
  broker_.outbox().add(core::Peer::client, incoming_.address(), incoming_.envelope(), reply);
}

void Intake::refuse_key(std::string_view why) {
  wire::WorkerRefusal refusal;
  refusal.code = name_of(RefusalCode::unauthorized);
  refusal.message = why;
  broker_.outbox().add(core::Peer::worker, incoming_.address(), incoming_.envelope(), refusal);
}

void Intake::answer_ping(const core::Origin& from, const wire::Ping& ping, core::TimePoint now) {
  wire::Pong pong;
  pong.now_ms = broker_.options().unix_ms(now);
  pong.version = version();
  if (ping.batch > 0) pong.batch = limits::batch_items_max;
  for (const auto& lane : broker_.lanes())
    if (lane->options().is_default) pong.default_lane = lane->options().name;
  const auto& endpoints = broker_.options().client_endpoints;
  std::string shards;  // until the pong is encoded
  if (ping.cluster) {
    pong.endpoints.assign(endpoints.begin(), endpoints.end());
    if (const core::Options& options = broker_.options(); !options.shards.empty()) {
      pong.shard = options.shard;
      shards = encode_shards(core::shards_for_clients(options));
      pong.shards = {shards};
    }
    if (from.identity != nullptr)
      if (const std::string_view tenant = core::tenant_of(from.identity->space); !tenant.empty())
        pong.tenant = tenant;
  }
  pong.ref = ping.ref;
  broker_.outbox().add(from.peer, from.address, from.envelope, pong);
}

void Intake::refuse_worker(const DecodeError& error, core::TimePoint now) {
  ++stats_.frames_refused;
  broker_.handle(core::WorkerHeard{incoming_.address()}, now);
  wire::WorkerRefusal refusal;
  refusal.code = name_of(refusal_of(error.code));
  refusal.message = error.message;
  refusal.ref = {error.ref};
  if (error.job) {
    refusal.job = static_cast<std::int64_t>(*error.job);
    refusal.attempt = error.attempt;
  }
  broker_.outbox().add(core::Peer::worker, incoming_.address(), incoming_.envelope(), refusal);
}

/// The names that who asks may see: those of its own space; none: an operator, who may see all.
static std::optional<std::string_view> space_seen(const core::Origin& from) {
  if (from.peer == core::Peer::admin) return std::nullopt;
  return from.identity != nullptr ? std::string_view(from.identity->space) : std::string_view();
}

void Intake::answer_stats(const core::Origin& from, const wire::StatsQuery& query, core::TimePoint now) {
  Buffer document;
  stats_.store_backlog_bytes = store_watch_.backlog_bytes();
  stats_.lent_bytes = broker_.lent_bytes();
  const Surroundings around{.store = store_watch_.kind(),
                            .store_state = store_watch_.state(),
                            .room = store_watch_.room(),
                            .ownership = store_watch_.ownership(),
                            .now = now,
                            .uptime = now - started_,
                            .clock_set_ms = system_ms() - broker_.options().unix_ms(now),
                            .space = space_seen(from)};
  write_stats_document(broker_, stats_, around, static_cast<std::size_t>(query.from), document);
  wire::StatsReply reply;
  reply.document.bytes = document.view();
  reply.ref = query.ref;
  broker_.outbox().add(from.peer, from.address, from.envelope, reply);
}

}  // namespace lanemq::io
