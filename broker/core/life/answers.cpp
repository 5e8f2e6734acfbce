// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/answers.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/life/journal.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

/// Requests of one connection that may wait for jobs besides their submits.
constexpr std::size_t kWaitersPerConnectionMax = 20'000;
/// Owners of one job.
constexpr std::size_t kOwnersMax = 64;
/// Requests that may wait for results to be read from the store.
constexpr std::size_t kAskingMax = 1024;
/// When a request that found no room may come again.
constexpr Duration kRetryAfter = std::chrono::milliseconds(100), kRetryAfterFull = std::chrono::seconds(30);

/// The state of a job that nobody knows.
constexpr std::string_view kUnknown = "unknown";

/// The reply to each submit that was taken.
wire::Accepted accepted(std::string_view id, const Lane& lane, bool durable, const State& state,
                        wire::Raw ref) {
  wire::Accepted reply;
  reply.id = id;
  if (&lane != state.default_lane) reply.lane = lane.options().name;
  reply.durable = durable;
  reply.ref = ref;
  return reply;
}

}  // namespace

Answers::Answers(State& state, Journal& journal, Results& results, Dispatcher& dispatcher)
    : state_(state), journal_(journal), results_(results), dispatcher_(dispatcher) {}

// ---- answers ------------------------------------------------------------------------------------------

void Answers::refuse(const Origin& to, wire::Raw ref, std::string_view id, const Refusal& why) {
  wire::ErrorReply reply;
  if (!id.empty()) reply.id = id;
  reply.code = name_of(why.code);
  reply.message = why.message;
  if (why.retry_after) reply.retry_after_ms = to_ms(*why.retry_after);
  if (!why.limiter.empty()) reply.limiter = why.limiter;
  if (why.code == ErrorCode::not_owner) {
    const auto& endpoints = why.shard != nullptr ? why.shard->endpoints : state_.options.client_endpoints;
    reply.endpoints.assign(endpoints.begin(), endpoints.end());
    if (why.shard != nullptr) reply.shard = why.shard->name;
  }
  reply.ref = ref;
  state_.answer(to, reply);
}

const Refusal& Answers::disk_behind() {
  static const Refusal refusal{
      ErrorCode::store_full,
      "more than store_backlog_max waits for the store's disk, which is slow or stands still; ask "
      "again later, or submit with durable false",
      std::chrono::seconds(1), "store_backlog_max"};
  return refusal;
}

const Refusal& Answers::another_owns() {
  static const Refusal refusal{
      ErrorCode::not_owner,
      "this broker has committed nothing for too long to be sure that it still owns the store; ask the "
      "other brokers, and this one again later",
      std::chrono::seconds(1)};
  return refusal;
}

bool Answers::refused_for_store(const Origin& to, wire::Raw ref, std::string_view id) {
  if (state_.store_away)
    refuse(to, ref, id, another_owns());
  else if (state_.store_behind)
    refuse(to, ref, id, disk_behind());
  return state_.store_away || state_.store_behind;
}

void Answers::say_duplicate(const Record& known, const Lane& lane, std::vector<std::string_view> ignored,
                            const Origin& to, wire::Raw ref) {
  wire::Accepted reply = accepted(known.id(), lane, is_durable(known), state_, ref);
  reply.duplicate = true;
  reply.ignored = std::move(ignored);
  state_.answer(to, reply);
}

void Answers::say_accepted(std::string_view id, const Lane& lane, bool durable, std::size_t position,
                           std::optional<std::int64_t> eta_ms, const Origin& to, wire::Raw ref) {
  wire::Accepted reply = accepted(id, lane, durable, state_, ref);
  reply.position = static_cast<std::int64_t>(position);
  reply.eta_ms = eta_ms;
  state_.answer(to, reply);
}

void Answers::say_unknown(std::string_view id, const Origin& to, wire::Raw ref) {
  wire::StatusReply reply;
  reply.id = id;
  reply.state = kUnknown;
  reply.ref = ref;
  state_.answer(to, reply);
}

void Answers::say_status(const Record& record, const Origin& to, wire::Raw ref, TimePoint now) {
  wire::StatusReply reply;
  Dispatcher::Wait wait;
  fill_status(reply, wait, record, now);
  reply.ref = ref;
  state_.outbox.add(to.peer, to.address, to.envelope, reply);
}

/// Fills in the state of a job. The reply's texts are views of `wait` and of state_.scratch.
void Answers::fill_status(wire::StatusReply& reply, Dispatcher::Wait& wait, const Record& record,
                          TimePoint now) {
  reply.id = record.id();
  LaneIndex lane = 0;
  state_.scratch.clear();
  if (const KeptResult* result = record.result()) {
    lane = result->lane;
    reply.state = name_of(result->state);
    reply.attempts = result->attempts;
    reply.queued_ms = result->queued_ms;
    const Ending* const ending = result->terminal().ending;
    if (ending != nullptr && result->state != JobState::succeeded) {
      DocumentWriter(state_.scratch)
          .map(2)
          .text("code")
          .text(name_of(ending->code))
          .text("message")
          .text(ending->message);
      reply.error = {state_.scratch.view()};
    }
  } else {
    const Job& job = *record.job();
    lane = job.lane;
    if (const std::string_view group = job.text.get(JobText::group); !group.empty())
      reply.group = own_name(group);
    reply.state = name_of(job.state);
    reply.attempts = job.attempts;
    reply.queued_ms = waited_ms(job, now);
    if (job.state == JobState::queued || job.state == JobState::delayed) {
      wait = dispatcher_.wait_of(job, now);
      reply.blocked_by = wait.what;
      if (wait.until) reply.eta_ms = std::max<std::int64_t>(to_ms(*wait.until - now), 0);
    }
    if (const Worker* worker = job.worker(); worker != nullptr && !worker->name.empty())
      reply.worker = worker->name;
    if (const Progress* progress = job.progress()) {
      reply.pct = progress->pct;
      if (!progress->note.empty()) reply.note = progress->note;
      reply.silent_ms = to_ms(now - progress->heard_at);
    }
  }
  if (state_.lanes[lane].get() != state_.default_lane) reply.lane = state_.lanes[lane]->options().name;
}

void Answers::say_statuses(const StatusAsked& event, TimePoint now) {
  const wire::StatusQuery& fields = *event.fields;
  constexpr std::size_t kHeadBytes = 3;  // of an array of up to 65,535
  constexpr std::size_t kRoom = limits::header_bytes_max - limits::ref_bytes_max - 64;
  std::size_t count = 0;
  list_.clear();
  for (const std::string_view id : fields.ids) {
    wire::StatusReply entry;
    Dispatcher::Wait wait;
    entry.state = kUnknown;
    if (const Record* record = state_.jobs.find(id)) fill_status(entry, wait, *record, now);
    entry.id = event.from.peer == Peer::client ? own_name(id) : id;
    const std::size_t before = list_.size();
    encode_fields(entry, list_);
    if (list_.size() + kHeadBytes > kRoom) {
      list_.shrink(before);
      break;
    }
    ++count;
  }
  state_.scratch.clear();
  DocumentWriter(state_.scratch).array(count).written(list_.view());
  wire::StatusReply reply;
  reply.jobs = {state_.scratch.view()};
  reply.ref = fields.ref;
  state_.answer(event.from, reply);
}

void Answers::say_terminal(const Terminal& end, const Origin& to, wire::Raw ref) {
  // A client that gave neither ref nor id knows the job by the broker's id alone.
  const std::string_view id = end.client_named_it || !ref.present() ? end.id : std::string_view{};
  if (end.state == JobState::succeeded) {
    const Lane& lane = *state_.lanes[end.lane];
    wire::JobResult reply;
    reply.id = id;
    if (&lane != state_.default_lane) reply.lane = lane.options().name;
    reply.attempts = end.attempts;
    reply.queued_ms = end.queued_ms;
    reply.ran_ms = end.ran_ms;
    if (end.ending != nullptr) {
      reply.usage = end.ending->usage;
      reply.chunks = end.ending->chunks;
    }
    reply.ref = ref;
    return state_.answer(to, reply, end.body);
  }
  wire::ErrorReply reply;
  reply.id = id;
  reply.code = name_of(end.ending->code);
  reply.message = end.ending->message;
  if (end.ending->retry_after) reply.retry_after_ms = to_ms(*end.ending->retry_after);
  reply.attempts = end.attempts;
  reply.queued_ms = end.queued_ms;
  reply.chunks = end.ending->chunks;
  reply.upstream_status = end.ending->upstream_status;
  reply.ref = ref;
  state_.answer(to, reply, end.body);
}

void Answers::tell_end(const KeptResult& result, std::optional<std::int64_t> from_seq, const Origin& to,
                       wire::Raw ref) {
  if (!result.body_stored) {
    if (from_seq) return replay(result.terminal(), result.answer(), *from_seq, to, ref);
    return say_terminal(result.terminal(), to, ref);
  }
  if (asking_count_ >= kAskingMax)
    return refuse(to, ref, result.id(),
                  {ErrorCode::bytes_full,
                   std::to_string(asking_count_) +
                       " results are being read back from the store, and no more may wait; ask again later",
                   kRetryAfter, "results_read_max"});
  const auto number = static_cast<std::uint64_t>(result.number);
  std::vector<Asking>& asking = asking_[number];
  if (asking.empty()) state_.outbox.reads.push_back({.number = number, .awaited = true, .of_result = true});
  asking.push_back({.id = std::string(result.id()),
                    .address = std::string(to.address),
                    .envelope = std::string(to.envelope),
                    .ref = std::string(ref.bytes),
                    .from_seq = from_seq});
  ++asking_count_;
}

void Answers::result_read(const ResultRead& event) {
  const auto place = asking_.find(event.number);
  if (place == asking_.end()) return;
  const std::vector<Asking> asking = std::move(place->second);
  asking_.erase(place);
  asking_count_ -= asking.size();
  ++state_.stats.results_read;
  if (!decoder_) decoder_ = std::make_unique<StoredDecoder>();
  std::unique_ptr<Ending> ending;
  const auto stored = event.record ? decoder_->result(*event.record, ending)
                                   : failure(ErrorCode::internal, "it is not there");
  // The result went meanwhile; another job may have its id by now.
  const bool went = state_.jobs.find(JobNumber{event.number}) == nullptr;
  for (const Asking& who : asking) {
    const Origin to{.address = who.address, .envelope = who.envelope};
    if (!stored && went) {
      refuse(to, {who.ref}, who.id, results_.not_known(who.id));
    } else if (!stored) {
      refuse(to, {who.ref}, who.id,
             {ErrorCode::internal,
              "the result cannot be read from the store: " + stored.error().message +
                  "; check it with lanemq-broker --check-store",
              {}});
    } else {
      const Terminal end = journal_.terminal_of(*stored, ending.get(), event.body);
      if (who.from_seq)
        replay(end, nullptr, *who.from_seq, to, {who.ref});
      else
        say_terminal(end, to, {who.ref});
    }
  }
}

Refusal Answers::chunk_gone(std::string_view id, std::int64_t seq, std::int64_t first) {
  return {ErrorCode::gone,
          "chunk " + std::to_string(seq) + " of job \"" + std::string(id) +
              "\" is no longer kept; the oldest is " + std::to_string(first) + ": fetch it with from_seq " +
              std::to_string(first) + ", or without for its end alone",
          {}};
}

/// Sends a finished stream from a chunk on, as far as it is kept, and then its end.
void Answers::replay(const Terminal& end, const AnswerStream* stream, std::int64_t from_seq, const Origin& to,
                     wire::Raw ref) {
  const std::int64_t count = end.ending != nullptr ? end.ending->chunks : 0;
  const std::int64_t first = stream != nullptr ? stream->first() : count;
  if (from_seq < first) return refuse(to, ref, end.id, chunk_gone(end.id, from_seq, first));
  for (std::int64_t seq = from_seq; seq < count; ++seq) {
    wire::ChunkReply reply;
    if (end.client_named_it || !ref.present()) reply.id = end.id;
    reply.seq = seq;
    if (seq == from_seq) {
      const Lane& lane = *state_.lanes[end.lane];
      if (&lane != state_.default_lane) reply.lane = lane.options().name;
      reply.attempts = end.attempts;
      reply.queued_ms = end.queued_ms;
    }
    reply.ref = ref;
    state_.answer(to, reply, stream->chunk(seq));
    ++state_.stats.chunks_out;
  }
  say_terminal(end, to, ref);
}

// ---- who waits ----------------------------------------------------------------------------------------

std::optional<Refusal> Answers::no_room_to_wait(const Origin& from, wire::Raw ref, TimePoint now) {
  if (const Connection* const connection = state_.connections.find(from.address);
      connection != nullptr && connection->waiters >= kWaitersPerConnectionMax)
    return Refusal{
        ErrorCode::client_full,
        "the connection waits for " + std::to_string(connection->waiters) +
            " jobs besides those that it submitted (connection_waiters_max); ask for fewer at a time",
        kRetryAfter, "connection_waiters_max"};
  const std::size_t needed =
      std::max(sizeof(Waiter), sizeof(StreamReader)) + from.envelope.size() + ref.bytes.size();
  if (results_.make_room(needed, false, now)) return std::nullopt;
  return Refusal{
      ErrorCode::bytes_full,
      "the broker holds " + std::to_string(results_.memory_bytes()) + " bytes (memory_max); retry later",
      kRetryAfterFull, "memory_max"};
}

void Answers::add_waiter(Job& job, const Origin& from, wire::Raw ref, std::optional<TimePoint> until) {
  Connection& connection = state_.connections.at(from.address);
  state_.connections.take_reference(connection);
  auto waiter = std::make_unique<Waiter>();
  waiter->job = &job;
  waiter->connection = &connection;
  waiter->envelope = from.envelope;
  waiter->ref = ref.bytes;
  if (until) state_.timers.set(waiter->timer, *until);
  auto& waiters = job.need_extra().waiters;
  waiter->at = waiters.size();
  state_.waiters_bytes += waiter->bytes();
  ++connection.waiters;
  waiters.push_back(std::move(waiter));
}

void Answers::end_waiting(Waiter& waiter, TimePoint now) {
  // A client that asks now would be refused: this broker may not know the job's state.
  if (state_.store_away) return state_.timers.set(waiter.timer, now + kAwayLook);
  Job& job = *waiter.job;
  auto& waiters = job.extra->waiters;
  const std::size_t place = waiter.at;
  LANEMQ_CHECK(place < waiters.size() && waiters[place].get() == &waiter);
  say_status(job, {.address = waiter.connection->address, .envelope = waiter.envelope}, {waiter.ref}, now);
  drop_waiter(waiter);
  waiters.back()->at = place;
  std::swap(waiters[place], waiters.back());
  waiters.pop_back();
}

/// Takes back what a waiter holds; the caller destroys it.
void Answers::drop_waiter(Waiter& waiter) {
  state_.timers.clear(waiter.timer);
  state_.waiters_bytes -= waiter.bytes();
  --waiter.connection->waiters;
  state_.connections.drop_reference(*waiter.connection);
}

void Answers::drop_waiters(Job& job) {
  if (!job.extra) return;
  for (const auto& waiter : job.extra->waiters)
    drop_waiter(*waiter);
  job.extra->waiters.clear();
}

// ---- for whom a job goes on ----------------------------------------------------------------------------

void Answers::add_owner(Job& job, Connection& connection) {
  note_life(connection);
  auto& owners = job.need_extra().owners;
  const auto is_its = [&](const auto& owner) { return owner->connection == &connection; };
  if (std::any_of(owners.begin(), owners.end(), is_its)) return;
  if (owners.size() >= kOwnersMax) {
    // At the bound an owner that seems gone makes room; the other owners keep the job alive.
    const auto gone = std::find_if(owners.begin(), owners.end(),
                                   [](const auto& owner) { return owner->connection->unreachable; });
    if (gone == owners.end()) return;
    drop_owner(**gone);
  }
  state_.connections.take_reference(connection);
  Owner& owner = *owners.emplace_back(std::make_unique<Owner>());
  owner.job = &job;
  owner.connection = &connection;
  connection.owned.push_back(owner);
}

void Answers::drop_owner(const Owner& owner) {
  Connection& connection = *owner.connection;
  auto& owners = owner.job->extra->owners;
  const auto place =
      std::find_if(owners.begin(), owners.end(), [&](const auto& other) { return other.get() == &owner; });
  connection.owned.remove(**place);
  if (connection.owned.empty()) state_.timers.clear(connection.timer);
  owners.erase(place);
  state_.connections.drop_reference(connection);
}

void Answers::drop_owners(Job& job) {
  while (job.extra && !job.extra->owners.empty())
    drop_owner(*job.extra->owners.back());
}

void Answers::note_life(Connection& connection) {
  state_.timers.clear(connection.timer);
  connection.unreachable = false;
}

}  // namespace lanemq::core
