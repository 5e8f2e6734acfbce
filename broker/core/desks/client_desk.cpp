// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/client_desk.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/desks/admission.hpp"
#include "broker/core/jobs/stored.hpp"
#include "broker/core/life/answers.hpp"
#include "broker/core/life/job_life.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/life/streams.hpp"
#include "broker/core/life/waits.hpp"
#include "broker/core/life/webhooks.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

/// Holds a reference to a client while its submit is handled.
class ClientHold {
 public:
  ClientHold(Clients& clients, Client& client) : clients_(clients), client_(client) {
    clients_.take_reference(client_);
  }
  ~ClientHold() { clients_.drop_reference(client_); }
  ClientHold(const ClientHold&) = delete;
  ClientHold& operator=(const ClientHold&) = delete;
  Client& operator*() const { return client_; }
  Client* operator->() const { return &client_; }

 private:
  Clients& clients_;
  Client& client_;
};

/// Fields of a submit of a known job that have no effect, since the job has other values. An ended job's
/// fields are not known, and a repeated submit gets its result.
std::vector<std::string_view> ignored_of(const Record& known, const wire::Submit& fields) {
  std::vector<std::string_view> ignored;
  if (known.result() != nullptr) return ignored;
  const JobText& text = known.job()->text;
  if (!fields.group.empty() && fields.group != text.get(JobText::group)) ignored.push_back("group");
  if (!fields.notify.empty() && fields.notify != text.get(JobText::notify)) ignored.push_back("notify");
  return ignored;
}

/// Whether a reader from that chunk on is refused, since older chunks than the first one are kept no more.
bool begins_before_what_is_kept(const Job& job, std::int64_t from_seq) {
  const AnswerStream* const stream = job.answer();
  return stream != nullptr && stream->placed() && from_seq < stream->first();
}

/// In whole milliseconds, and never too early.
std::int64_t wait_ms(Duration wait) {
  return std::chrono::ceil<std::chrono::milliseconds>(wait).count();
}

}  // namespace

void ClientDesk::on(const Submitted& event, TimePoint now) {
  const wire::Submit& fields = *event.fields;
  Connection& connection = state_.connections.at(event.from.address);
  answers_.note_life(connection);
  if (fields.batch > 0 && !event.from.one_answer) connection.grouping.agree(fields.batch);
  if (const auto why = admission_.invalid(event)) {
    ++state_.stats.refused_bad_request;
    return answers_.refuse(event.from, fields.ref, fields.id, *why);
  }
  Lane& lane = *state_.lane_named(fields.lane);
  if (const auto why = Admission::beyond_key(event, lane)) {
    lane.count_refused(why->code);
    tell_refused(state_, event, *why, now);
    return answers_.refuse(event.from, fields.ref, fields.id, *why);
  }
  const ReplyMode mode = Admission::reply_mode_of(fields);
  if (Record* known = fields.id.empty() ? nullptr : state_.jobs.find(fields.id)) {
    ++lane.counters.duplicates;
    if (is_durable(*known) && answers_.refused_for_store(event.from, fields.ref, fields.id)) return;
    if (same_content(*known, event, lane)) return join(*known, event, mode, now);
    return answers_.refuse(
        event.from, fields.ref, fields.id,
        {ErrorCode::conflict,
         "id \"" + std::string(fields.id) +
             "\" is in use by a job with other content (service, lane, model or body); choose another id",
         {}});
  }
  if (const auto why = fields.id.empty() ? std::nullopt : results_.ran_before(fields.id, now)) {
    lane.count_refused(why->code);
    return answers_.refuse(event.from, fields.ref, fields.id, *why);
  }
  const ClientHold client(state_.clients, fields.client.empty() ? state_.connections.client_of(connection)
                                                                : state_.clients.named(fields.client));
  Admitted admitted{.lane = &lane, .client = &*client, .connection = &connection};
  if (const auto elsewhere = admission_.of_another_shard(fields, *client)) {
    ++lane.counters.sent_on;  // no refusal of the job: its client takes it there
    return answers_.refuse(event.from, fields.ref, fields.id, *elsewhere);
  }
  if (const auto why = admission_.admit(event, admitted, now)) {
    lane.count_refused(why->code);
    tell_refused(state_, event, *why, now);
    return answers_.refuse(event.from, fields.ref, fields.id, *why);
  }
  life_.accept(event, admitted, mode, now);
}

bool ClientDesk::make_webhooks(TimePoint now) {
  if (!webhooks_.any()) return false;
  bool made = false;
  for (const Webhook& webhook : webhooks_.take())
    made = make(webhook, now) || made;
  return made;
}

/// Makes the job that tells of an end, as if its client had submitted it. False: it is refused.
bool ClientDesk::make(const Webhook& webhook, TimePoint now) {
  Lane& lane = state_.lane_or_default(state_.options.webhook_lane);
  const ClientHold client(state_.clients, state_.clients.named(webhook.client));
  const std::string id = webhooks_.free_id(webhook), model = Webhooks::model_of(webhook);
  Buffer extras;
  DocumentWriter(extras).text(Webhooks::kUrlField).text(webhook.url);
  wire::Submit fields{.service = state_.options.webhook_service,
                      .id = id,
                      .lane = lane.options().name,
                      .model = model,
                      .timeout_ms = to_ms(state_.options.webhook_timeout),
                      .attempts_max = state_.options.webhook_attempts_max,
                      .durable = webhook.durable,
                      .extras = {1, extras.view()}};
  if (!webhook.named_client.empty()) fields.client = webhook.named_client;
  const Submitted event{.from = {}, .fields = &fields, .body = Blob::borrow(webhook.body)};
  Admitted admitted{.lane = &lane, .client = &*client, .owed = true};
  if (const auto why = admission_.admit(event, admitted, now)) {
    lane.count_refused(why->code);
    webhooks_.refused(webhook, name_of(why->code), why->message);
    return false;
  }
  ++state_.stats.webhooks_made;
  life_.accept(event, admitted, ReplyMode::accepted, now);
  return true;
}

/// Whether a submit equals the earlier one of the same id. Compares the body's hash, since the body may be
/// gone.
bool ClientDesk::same_content(const Record& known, const Submitted& event, const Lane& lane) const {
  const wire::Submit& fields = *event.fields;
  const auto same = [&](const auto& of, std::uint64_t body_hash, std::string_view service,
                        std::string_view model) {
    const std::string_view body = event.body.bytes();
    return of.client_named_it && of.submitted_lane == lane.index() && service == fields.service &&
           model == fields.model && (body_hash == kHashNotKnown || body_hash == journal_.hash_of(body));
  };
  if (const KeptResult* result = known.result())
    return same(*result, result->body_hash, result->service(), result->model());
  const Job& job = *known.job();
  return same(job, journal_.body_hash_of(job), job.flow().service().name, job.text.get(JobText::model));
}

/// A submit of a known job: it starts no second run, and its sender gets the job's answer, too.
void ClientDesk::join(Record& known, const Submitted& event, ReplyMode mode, TimePoint now) {
  const wire::Raw ref = event.fields->ref;
  Job* const job = known.result() == nullptr ? known.job() : nullptr;
  const bool reads = event.fields->stream;
  const bool late = reads && job != nullptr && begins_before_what_is_kept(*job, 0);
  if (mode != ReplyMode::accepted && job != nullptr && !late)
    if (const auto why = answers_.no_room_to_wait(event.from, ref, now))
      return answers_.refuse(event.from, ref, known.id(), *why);
  const Outbox::Waiting waiting(state_.outbox, is_durable(known));
  if (mode != ReplyMode::result)
    answers_.say_duplicate(known, *state_.lane_named(event.fields->lane), ignored_of(known, *event.fields),
                           event.from, ref);
  if (job != nullptr && job->extra && !job->extra->owners.empty())
    answers_.add_owner(*job, state_.connections.at(event.from.address));
  if (mode == ReplyMode::accepted) return;
  if (const KeptResult* result = known.result())
    return answers_.tell_end(*result, reads ? std::optional<std::int64_t>(0) : std::nullopt, event.from, ref);
  if (!reads || job->answer() == nullptr) return answers_.add_waiter(*job, event.from, ref, std::nullopt);
  if (late)
    return answers_.refuse(event.from, ref, known.id(),
                           answers_.chunk_gone(known.id(), 0, job->answer()->first()));
  streams_.add_reader(
      *job,
      {.from = event.from, .ref = ref, .waits = job->durable && mode == ReplyMode::both, .joined = true},
      now);
}

void ClientDesk::on(const CancelAsked& event, TimePoint now) {
  const wire::Cancel& fields = *event.fields;
  Record* record = state_.jobs.find(fields.id);
  const bool by_operator = event.from.peer == Peer::admin;
  const bool ends = record != nullptr && record->result() == nullptr;
  // On a full disk, or one with a long backlog, operators are answered at once, and so is a client whose
  // cancel changes nothing.
  const bool at_once =
      !state_.store_away && (state_.store_full || state_.store_behind) && (by_operator || !ends);
  const bool waits = !at_once && (record == nullptr ? state_.options.store_durable : is_durable(*record));
  if (waits && answers_.refused_for_store(event.from, fields.ref, fields.id)) return;
  const Outbox::Waiting waiting(state_.outbox, waits);
  if (record == nullptr) return answers_.say_unknown(fields.id, event.from, fields.ref);
  if (ends) {
    life_.end_with(*record->job(), JobState::cancelled, ErrorCode::cancelled,
                   by_operator ? "cancelled by an operator" : "cancelled by its client", now);
    record = state_.jobs.find(fields.id);
  }
  if (record != nullptr) return answers_.say_status(*record, event.from, fields.ref, now);
  // The job keeps no result, so it is gone by now.
  wire::StatusReply reply;
  reply.id = fields.id;
  reply.state = name_of(JobState::cancelled);
  reply.ref = fields.ref;
  state_.answer(event.from, reply);
}

void ClientDesk::on(const StatusAsked& event, TimePoint now) {
  const wire::StatusQuery& fields = *event.fields;
  if (state_.store_away) return answers_.refuse(event.from, fields.ref, fields.id, Answers::another_owns());
  // On a full disk, or one with a long backlog, the answer does not wait for the commit: that could take as
  // long as the fault lasts.
  const Outbox::Waiting waiting(state_.outbox,
                                state_.options.store_durable && !state_.store_full && !state_.store_behind);
  if (!fields.ids.empty()) {
    if (!fields.id.empty())
      return answers_.refuse(event.from, fields.ref, fields.id,
                             bad_request("fields \"id\" and \"ids\" are both there; send one of them"));
    return answers_.say_statuses(event, now);
  }
  if (fields.id.empty())
    return answers_.refuse(event.from, fields.ref, {},
                           bad_request("field \"id\" is missing, and so is \"ids\""));
  if (const Record* record = state_.jobs.find(fields.id))
    return answers_.say_status(*record, event.from, fields.ref, now);
  answers_.say_unknown(fields.id, event.from, fields.ref);
}

void ClientDesk::on(const FetchAsked& event, TimePoint now) {
  const wire::Fetch& fields = *event.fields;
  Record* const record = state_.jobs.find(fields.id);
  if (fields.from_seq && event.from.one_answer)
    return answers_.refuse(
        event.from, fields.ref, fields.id,
        bad_request("field \"from_seq\" is set, but a REQ socket takes one answer; use a DEALER"));
  if (record == nullptr)
    return answers_.refuse(event.from, fields.ref, fields.id, results_.not_known(fields.id));
  if (is_durable(*record) && answers_.refused_for_store(event.from, fields.ref, fields.id)) return;
  const Outbox::Waiting waiting(state_.outbox, is_durable(*record));
  if (const KeptResult* result = record->result())
    return answers_.tell_end(*result, fields.from_seq, event.from, fields.ref);
  Job& waited_for = *record->job();
  const bool owned = waited_for.extra && !waited_for.extra->owners.empty();
  if (owned) answers_.note_life(state_.connections.at(event.from.address));
  const bool late = fields.from_seq && begins_before_what_is_kept(waited_for, *fields.from_seq);
  if (fields.wait_ms > 0 && !late)
    if (const auto why = answers_.no_room_to_wait(event.from, fields.ref, now))
      return answers_.refuse(event.from, fields.ref, fields.id, *why);
  // A client that waits for a job also keeps it from being an orphan.
  if (owned) answers_.add_owner(waited_for, state_.connections.at(event.from.address));
  if (late)
    return answers_.refuse(event.from, fields.ref, fields.id,
                           answers_.chunk_gone(fields.id, *fields.from_seq, waited_for.answer()->first()));
  if (waited_for.answer() != nullptr && fields.from_seq) {
    StreamReader& reader = streams_.add_reader(*record->job(),
                                               {.from = event.from,
                                                .ref = fields.ref,
                                                .from_seq = *fields.from_seq,
                                                .until = now + std::chrono::milliseconds(fields.wait_ms),
                                                .joined = fields.wait_ms > 0},
                                               now);
    if (fields.wait_ms == 0) streams_.end_reading(reader, now);
    return;
  }
  if (fields.wait_ms == 0) return answers_.say_status(*record, event.from, fields.ref, now);
  answers_.add_waiter(*record->job(), event.from, fields.ref,
                      now + std::chrono::milliseconds(fields.wait_ms));
}

void ClientDesk::on(const SeenSaid& event, TimePoint now) {
  streams_.take_seen(event, now);
}

void ClientDesk::on(const SpendAsked& event, TimePoint now) {
  const wire::Spend& fields = *event.fields;
  answers_.note_life(state_.connections.at(event.from.address));
  const auto granted =
      state_.callers.spend({.key = fields.key,
                            .session = fields.session,
                            .address = event.from.address,
                            .limits = {.requests_per_minute = fields.requests_per_minute,
                                       .tokens_per_minute = fields.tokens_per_minute,
                                       .concurrency = fields.concurrency},
                            .requests = {.used = fields.requests, .ahead = fields.requests_ahead},
                            .tokens = {.used = fields.tokens, .ahead = fields.tokens_ahead},
                            .places = {.used = fields.places, .ahead = fields.places_ahead}},
                           now);
  if (!granted)
    return answers_.refuse(event.from, fields.ref, {},
                           {ErrorCode::client_full,
                            "the broker keeps the budgets of " + std::to_string(CallerBudgets::kKeysMax) +
                                " keys for " + std::to_string(CallerBudgets::kSessionsMax) +
                                " gateways, a quarter of both for one tenant, and all are in use; share no "
                                "more keys by one broker",
                            std::chrono::seconds(1)});
  state_.answer(event.from, wire::Spent{.key = own_name(fields.key),
                                        .requests = granted->requests,
                                        .tokens = granted->tokens,
                                        .places = granted->places,
                                        .requests_left = granted->requests_left,
                                        .tokens_left = granted->tokens_left,
                                        .requests_wait_ms = wait_ms(granted->requests_wait),
                                        .tokens_wait_ms = wait_ms(granted->tokens_wait),
                                        .ref = fields.ref});
}

void ClientDesk::on(const ClientUnreachable& event, TimePoint now) {
  if (!state_.store_away) state_.callers.lost(event.address, now);
  if (Connection* const connection = state_.connections.find(event.address)) lose(*connection, now);
}

void ClientDesk::on(const KeyRevoked& event, TimePoint now) {
  state_.connections.each_of_key(event.name, [&](Connection& connection) { lose(connection, now); });
}

void ClientDesk::note_key(const Origin& from) {
  if (from.identity == nullptr) return;
  if (Connection* const connection = state_.connections.find(from.address))
    if (connection->key != from.identity->name) connection->key = from.identity->name;
}

/// Nobody seems to be there any more. While the store is away a gateway has gone to look for the owner: its
/// session is over only if it stays silent.
void ClientDesk::lose(Connection& connection, TimePoint now) {
  connection.unreachable = true;
  if (!state_.store_away) state_.callers.lost(connection.address, now);
  for (StreamReader* reader = connection.readers.front(); reader != nullptr;
       reader = connection.readers.next(*reader))
    streams_.readers_changed(*reader->job, now);
  if (connection.owned.empty() || connection.timer.is_set()) return;
  state_.timers.set(connection.timer, now + Answers::kOrphanPause);
}

}  // namespace lanemq::core
