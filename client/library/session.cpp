// SPDX-License-Identifier: Apache-2.0
#include "client/library/session.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/codec.hpp>
#include <lanemq/shards.hpp>
#include <lanemq/text.hpp>

namespace lanemq::client {
namespace {

using std::chrono::milliseconds;

// The ref of the session's pings. Refs of requests count from 1.
constexpr std::uint64_t kOwnRef = 0;
using end_times::reopen_pause, end_times::reopen_pause_max, end_times::reopen_failed_pause,
    end_times::not_owner_pause;

bool takes_a_result(RequestKind kind) {
  return kind == RequestKind::submit || kind == RequestKind::stream || kind == RequestKind::fetch;
}

bool takes_a_status(RequestKind kind) {
  return kind == RequestKind::status || kind == RequestKind::cancel || kind == RequestKind::fetch;
}

std::optional<milliseconds> to_ms(std::optional<std::int64_t> value) {
  return value ? std::optional(milliseconds(*value)) : std::nullopt;
}

std::optional<int> to_int(std::optional<std::int64_t> value) {
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

/// A text of the wire, empty if absent.
std::string text(std::string_view value) {
  return std::string(value);
}

ClientError local_error(ErrorCode code, std::string message, std::string id) {
  return {
      .code = std::string(name_of(code)), .message = std::move(message), .id = std::move(id), .local = true};
}

std::string own_ping(std::size_t batch_max) {
  Buffer ref, header;
  const auto batch = static_cast<std::int64_t>(batch_max > 1 ? batch_max : 0);
  encode(wire::Ping{.ref = number_ref(kOwnRef, ref), .batch = batch, .cluster = true}, header);
  return std::string(header.view());
}

}  // namespace

Session::Session(TimePoint now, std::size_t batch_max, std::size_t endpoints, std::string shard)
    : batch_max_(std::min(batch_max, limits::batch_items_max)),
      ping_header_(own_ping(batch_max_)),
      probes_(now),
      quiet_since_(now),
      pinged_(now),
      unheard_since_(now),
      endpoints_(endpoints),
      shard_wanted_(std::move(shard)) {}

// ---- what the caller wants ----------------------------------------------------------------------------

void Session::begin(Request&& request, TimePoint now) {
  if (pending_.empty()) {  // from now on silence counts
    quiet_since_ = std::max(quiet_since_, now);
    unheard_since_ = std::max(unheard_since_, now);
    probes_.begin(now);
  }
  if (request.deadline) deadlines_.emplace(*request.deadline, request.ref);
  to_send_.push_back(request.ref);
  const std::uint64_t ref = request.ref;
  Pending& pending = pending_.try_emplace(ref).first->second;
  pending.request = std::move(request);
  if (pending.request.kind == RequestKind::stream) {
    pending.stream = std::make_unique<Stream>();
    Stream& stream = *pending.stream;
    stream.by_fetch = pending.request.from_seq.has_value();
    stream.first = stream.next = stream.taken = stream.said = pending.request.from_seq.value_or(0);
    if (!pending.request.takes_at_once) streams_by_id_.emplace(pending.request.id, ref);
  }
  if (pending.request.kind == RequestKind::watch) {
    pending.watch = std::make_unique<Following>();
    if (!renew_at_) renew_at_ = now + kRenewEvery;
  }
}

void Session::close() {
  end_all(local_error(ErrorCode::cancelled, "the client was closed before the answer came", {}));
}

void Session::end_all(const ClientError& why) {
  std::vector<std::uint64_t> refs;
  for (const auto& [ref, pending] : pending_)
    refs.push_back(ref);
  std::sort(refs.begin(), refs.end());  // they rise with time
  for (const std::uint64_t ref : refs) {
    const auto at = pending_.find(ref);
    ClientError error = why;
    error.id = at->second.request.id;
    finish(at, std::move(error));
  }
}

// ---- what was heard -----------------------------------------------------------------------------------

void Session::heard(const wire::ClientReply& reply, const Blob& body, TimePoint now) {
  note_life(now);
  std::visit([&](const auto& message) { on(message, body, now); }, reply);
}

void Session::heard_nonsense() {
  ++counters_.undecodable;
}

void Session::note_life(TimePoint now) {
  quiet_since_ = unheard_since_ = now;
  heard_here_ = true;
  counters_.heard = now;
  counters_.answers = true;
  fruitless_ = lost_ = 0;
}

Session::Table::iterator Session::find(wire::Raw ref, std::string_view id) {
  if (ref.present()) {
    const std::optional<std::uint64_t> number = ref_number(ref);
    return number ? pending_.find(*number) : pending_.end();
  }
  // Each request has a ref, so the peer has lost it: rare enough for a search.
  if (id.empty()) return pending_.end();
  return std::find_if(pending_.begin(), pending_.end(),
                      [id](const Table::value_type& entry) { return entry.second.request.id == id; });
}

Session::Table::iterator Session::oldest(RequestKind kind) {
  auto found = pending_.end();
  for (auto at = pending_.begin(); at != pending_.end(); ++at)
    if (at->second.request.kind == kind && (found == pending_.end() || at->first < found->first)) found = at;
  return found;
}

/// Takes it out of all that refers to it, before it is taken out of the table.
void Session::untie(Table::iterator at) {
  const Request& request = at->second.request;
  if (request.deadline) deadlines_.erase({*request.deadline, request.ref});
  if (at->second.stream && !request.takes_at_once) {
    auto [named, end] = streams_by_id_.equal_range(request.id);
    while (named != end && named->second != request.ref)
      ++named;
    if (named != end) streams_by_id_.erase(named);
  }
}

Request Session::take_out(Table::iterator at) {
  untie(at);
  Request taken = std::move(at->second.request);
  pending_.erase(at);
  return taken;
}

void Session::drop(std::uint64_t ref) {
  if (const auto at = pending_.find(ref); at != pending_.end()) static_cast<void>(take_out(at));
}

void Session::finish(Table::iterator at, Outcome outcome) {
  // An error may lack the number of pieces: the broker may have forgotten the job, or this client made the
  // error.
  if (at->second.stream && !outcome)
    outcome.error().chunks = std::max(outcome.error().chunks, at->second.stream->next);
  untie(at);
  Request& request = at->second.request;
  finished_.push_back(
      {std::move(request.handler), std::move(outcome), request.body_bytes, request.takes_place});
  pending_.erase(at);
}

/// Takes the job's id out of a request that is about to end. A stream keeps it, since it is found by its id.
std::string Session::take_id(Table::iterator at) {
  return at->second.stream ? at->second.request.id : std::move(at->second.request.id);
}

bool Session::answers(Table::iterator at, RequestKind kind) {
  const bool does = at != pending_.end() && at->second.request.kind == kind;
  if (!does) ++counters_.dropped_answers;
  return does;
}

void Session::answer(Table::iterator at, Outcome outcome) {
  ++counters_.answered;
  finish(at, std::move(outcome));
}

void Session::on(const wire::Accepted& reply, const Blob&, TimePoint) {
  const auto at = find(reply.ref, reply.id);
  if (!answers(at, RequestKind::leave)) return;
  answer(at, JobAccepted{.id = text(reply.id),
                         .lane = text(reply.lane),
                         .durable = reply.durable,
                         .duplicate = reply.duplicate,
                         .position = reply.position});
}

void Session::on(const wire::ChunkReply& reply, const Blob& body, TimePoint now) {
  const auto at = find(reply.ref, reply.id);
  if (at == pending_.end() || !at->second.stream || reply.seq < at->second.stream->next) {
    ++counters_.dropped_answers;
    return;
  }
  Request& request = at->second.request;
  Stream& stream = *at->second.stream;
  stream.heard_at = now;
  if (reply.seq > stream.next) {  // the broker had no room for a piece in between
    ++counters_.dropped_answers;
    return fetch_stream_later(at, now);
  }
  stream.fetch_at.reset();
  stream.ends_without_pieces = 0;
  Arrived arrived{.ref = at->first, .takes_at_once = request.takes_at_once, .on_chunk = request.on_chunk};
  arrived.chunk = {.id = request.id, .seq = reply.seq, .body = body.owned()};
  if (stream.next == stream.first) {
    arrived.chunk.lane = text(reply.lane);
    arrived.chunk.attempts = reply.attempts;
    arrived.chunk.queued = milliseconds(reply.queued_ms);
    stream.by_fetch = true;  // from now on it is asked for with a fetch
    request.header = {};
    request.body = {};
    arrived.freed_bytes = std::exchange(request.body_bytes, 0);
  }
  ++stream.next;
  stream.sizes.push_back(body.size());
  arrived_.push_back(std::move(arrived));
}

void Session::on(const wire::JobResult& reply, const Blob& body, TimePoint) {
  const auto at = find(reply.ref, reply.id);
  if (at == pending_.end() || !takes_a_result(at->second.request.kind)) {
    ++counters_.dropped_answers;
    return;
  }
  if (fetched_for_pieces(at, reply.chunks)) return;
  answer(at, JobDone{.id = take_id(at),
                     .lane = text(reply.lane),
                     .attempts = reply.attempts,
                     .queued = milliseconds(reply.queued_ms),
                     .ran = milliseconds(reply.ran_ms),
                     .usage = reply.usage,
                     .chunks = reply.chunks,
                     .body = body.owned()});
}

bool Session::is_unheard_submit(const Pending& pending) {
  switch (pending.request.kind) {
    case RequestKind::submit:
    case RequestKind::leave:
      return true;
    case RequestKind::stream:
      return !pending.stream->by_fetch;
    default:
      return false;
  }
}

void Session::on(const wire::ErrorReply& reply, const Blob& body, TimePoint now) {
  const bool not_owner = reply.code == name_of(ErrorCode::not_owner);
  if (not_owner && reply.shard.empty()) return look_for_owner(reply, now);
  if (not_owner && reply.shard == shard_wanted_) return leave_wrong_shard(now);
  if (ref_number(reply.ref) == Probes::kRef) return;  // the broker refused our probe: go on waiting
  const auto at = find(reply.ref, reply.id);
  if (not_owner && at != pending_.end() && is_unheard_submit(at->second)) return move(at, reply);
  // To a message that the broker did not read, and so to all requests: the key was taken back.
  if (reply.code == name_of(ErrorCode::unauthorized) && !reply.ref.present() && reply.id.empty())
    return end_all(local_error(ErrorCode::unauthorized, text(reply.message), {}));
  if (at == pending_.end()) {
    ++counters_.dropped_answers;
    return;
  }
  if (at->second.watch && reply.code == name_of(ErrorCode::slow_reader)) return watch_again(at);
  const bool has_no_more = reply.code == name_of(ErrorCode::gone);
  if (!has_no_more && fetched_for_pieces(at, reply.chunks)) return;
  answer(at, ClientError{.code = text(reply.code),
                         .message = text(reply.message),
                         .id = take_id(at),
                         .retry_after = to_ms(reply.retry_after_ms),
                         .attempts = reply.attempts,
                         .queued = milliseconds(reply.queued_ms),
                         .limiter = text(reply.limiter),
                         .chunks = reply.chunks,
                         .upstream_status = to_int(reply.upstream_status),
                         .body = body.owned()});
}

void Session::on(const wire::StatusReply& reply, const Blob&, TimePoint now) {
  if (ref_number(reply.ref) == Probes::kRef) return probed(reply, now);
  const auto at = find(reply.ref, reply.id);
  if (at != pending_.end() && at->second.stream) return fetch_stream_later(at, now);  // its fetch is over
  if (at == pending_.end() || !takes_a_status(at->second.request.kind)) {
    ++counters_.dropped_answers;
    return;
  }
  answer(at, JobStatus{.id = text(reply.id),
                       .state = text(reply.state),
                       .lane = text(reply.lane),
                       .attempts = reply.attempts,
                       .queued = milliseconds(reply.queued_ms),
                       .position = reply.position,
                       .eta = to_ms(reply.eta_ms),
                       .blocked_by = text(reply.blocked_by),
                       .worker = text(reply.worker),
                       .group = text(reply.group),
                       .pct = to_int(reply.pct),
                       .note = text(reply.note),
                       .silent = to_ms(reply.silent_ms),
                       .error_json = reply.error.present() ? to_json(reply.error.bytes) : std::string()});
}

void Session::on(const wire::StatsReply& reply, const Blob&, TimePoint) {
  // Answers without a ref come in the order of the questions.
  const auto at = reply.ref.present() ? find(reply.ref, {}) : oldest(RequestKind::stats);
  if (!answers(at, RequestKind::stats)) return;
  answer(at, BrokerStats{to_json(reply.document.bytes)});
}

void Session::on(const wire::Pong& reply, const Blob&, TimePoint now) {
  const std::optional<std::uint64_t> number = ref_number(reply.ref);
  if (number == kOwnRef) {
    broker_batch_ = std::min(batch_max_, static_cast<std::size_t>(reply.batch));
    note_cluster(reply);
    if (!shard_wanted_.empty() && !reply.shard.empty() && reply.shard != shard_wanted_)
      return leave_wrong_shard(now);
    told_.assign(reply.endpoints.begin(), reply.endpoints.end());
    return;
  }
  note_cluster(reply);
  const auto at = find(reply.ref, {});
  if (!answers(at, RequestKind::ping)) return;
  BrokerPong pong{.round_trip = now - at->second.request.asked,
                  .broker_time = milliseconds(reply.now_ms),
                  .version = text(reply.version),
                  .default_lane = text(reply.default_lane),
                  .shard = text(reply.shard)};
  if (reply.shards.present())
    if (const std::optional<ShardMap> map = decode_shards(reply.shards.bytes))
      for (const Shard& shard : map->all())
        pong.shards.push_back({.name = shard.name, .endpoints = shard.endpoints});
  answer(at, std::move(pong));
}

/// The endpoint has another shard's broker now, or was given by mistake: all requests wait for another
/// connection.
void Session::leave_wrong_shard(TimePoint now) {
  if (reopen_at_) return;
  const TimePoint next = endpoints_ > 1 ? rounds_.found_nobody(endpoints_, now) : now + reopen_failed_pause;
  reopen_at(next, next > now ? Reason::round : Reason::nobody);
}

void Session::note_cluster(const wire::Pong& reply) {
  has_spoken_ = true;
  if (reply.shard == word_.shard && reply.tenant == word_.tenant && reply.shards.bytes == word_.shards)
    return;
  word_ = {.shard = text(reply.shard), .tenant = text(reply.tenant), .shards = text(reply.shards.bytes)};
  word_is_new_ = true;
}

std::optional<ClusterWord> Session::take_word() {
  if (!std::exchange(word_is_new_, false)) return std::nullopt;
  return word_;
}

/// Nothing was taken, and the job belongs to another shard: by rules that this client does not have yet, or
/// cannot know.
void Session::move(Table::iterator at, const wire::ErrorReply& reply) {
  moved_.push_back({.request = take_out(at),
                    .shard = text(reply.shard),
                    .endpoints = {reply.endpoints.begin(), reply.endpoints.end()}});
  ping_due_ = true;  // its answer has the rules
}

void Session::on(const wire::Spent& reply, const Blob&, TimePoint) {
  const auto at = find(reply.ref, {});
  if (!answers(at, RequestKind::spend)) return;
  answer(at, BrokerSpent{.requests = reply.requests,
                         .tokens = reply.tokens,
                         .places = reply.places,
                         .requests_left = reply.requests_left,
                         .tokens_left = reply.tokens_left,
                         .requests_wait = milliseconds(reply.requests_wait_ms),
                         .tokens_wait = milliseconds(reply.tokens_wait_ms)});
}

void Session::on(const wire::AdminReply& reply, const Blob&, TimePoint) {
  const auto at = reply.ref.present() ? find(reply.ref, {}) : oldest(RequestKind::admin);
  if (!answers(at, RequestKind::admin)) return;
  answer(at, AdminDocument{to_json(reply.document.bytes)});
}

void Session::on(const wire::Watching& reply, const Blob&, TimePoint) {
  const auto at = find(reply.ref, {});
  if (at == pending_.end() || !at->second.watch) {
    ++counters_.dropped_answers;
    return;
  }
  Following& watch = *at->second.watch;
  if (watch.begun && reply.seq == watch.next) return;
  // More: the last changes found no room on their way. Less: the broker has let go of the watch, and has it
  // anew.
  const bool lost = watch.begun && reply.seq > watch.next;
  Arrived arrived{.ref = at->first, .on_change = at->second.request.on_change};
  arrived.change = {.what = "watching",
                    .seq = reply.seq,
                    .gap = watch.again,
                    .left_out = lost ? reply.seq - watch.next : 0,
                    .shard = shard()};
  watch.begun = watch.again = true;
  watch.next = reply.seq;
  watch.said = std::min(watch.said, watch.next);
  arrived_.push_back(std::move(arrived));
}

void Session::on(const wire::JobEvent& reply, const Blob&, TimePoint) {
  const auto at = find(reply.ref, {});
  if (at == pending_.end() || !at->second.watch || reply.seq < at->second.watch->next) {
    ++counters_.dropped_answers;
    return;
  }
  Following& watch = *at->second.watch;
  const std::int64_t lost = reply.seq - watch.next;  // they found no room on their way
  Arrived arrived{.ref = at->first, .on_change = at->second.request.on_change};
  arrived.change = {.what = text(reply.what),
                    .seq = reply.seq,
                    .gap = reply.gap || lost > 0,
                    .left_out = reply.left_out + lost,
                    .id = text(reply.id),
                    .state = text(reply.state),
                    .lane = text(reply.lane),
                    .service = text(reply.service),
                    .client = text(reply.client),
                    .model = text(reply.model),
                    .from_lane = text(reply.from_lane),
                    .worker = text(reply.worker),
                    .code = text(reply.code),
                    .attempts = reply.attempts,
                    .delay = to_ms(reply.delay_ms),
                    .queued = to_ms(reply.queued_ms),
                    .ran = to_ms(reply.ran_ms),
                    .dead = reply.dead,
                    .pct = to_int(reply.pct),
                    .note = text(reply.note),
                    .group = text(reply.group),
                    .succeeded = reply.succeeded,
                    .failed = reply.failed,
                    .cancelled = reply.cancelled,
                    .expired = reply.expired,
                    .died = reply.died,
                    .incomplete = reply.incomplete,
                    .at = milliseconds(reply.at_ms),
                    .shard = shard()};
  arrived_.push_back(std::move(arrived));
  watch.next = reply.seq + 1;
  if (watch.next - watch.said < kChangesConfirmed || std::exchange(watch.seen_due, true)) return;
  seens_.push_back(at->first);
}

/// The broker has let go of a watch, or never had it on this connection: it begins anew.
void Session::watch_again(Table::iterator at) {
  const bool again = at->second.watch->again;
  *at->second.watch = Following{.again = again};
  to_send_.push_back(at->first);
}

/// Says each watch again, which the broker answers with the number of the next change.
void Session::renew_watches(TimePoint now) {
  renew_at_.reset();
  for (const auto& [ref, pending] : pending_) {
    if (!pending.watch) continue;
    renew_at_ = now + kRenewEvery;
    if (pending.watch->begun) to_send_.push_back(ref);
  }
}

// ---- the connection -----------------------------------------------------------------------------------

void Session::connected() {
  if (reason_ == Reason::unmet) reopen_at_.reset();
  connected_ = true;
  ping_due_ = broker_batch_asked_ =
      true;  // its answer says where other brokers are, which nobody says any more once they are needed
}

/// Nothing was taken, and the owner takes it: all requests wait for another connection.
void Session::look_for_owner(const wire::ErrorReply& reply, TimePoint now) {
  if (reopen_at_) return;  // said of an earlier request
  if (!reply.endpoints.empty()) told_.assign(reply.endpoints.begin(), reply.endpoints.end());
  // Those that are named are others than this one. Where there is none it is asked again after a pause.
  const std::size_t endpoints =
      std::max(endpoints_, told_.empty() ? 1 : std::max<std::size_t>(told_.size(), 2));
  const milliseconds pause(
      std::min(reply.retry_after_ms.value_or(not_owner_pause.count()), limits::duration_ms_max));
  reopen_at(endpoints > 1 ? rounds_.found_nobody(endpoints, now) : now + pause, Reason::not_owner);
}

void Session::disconnected(TimePoint now) {
  if (reopen_at_) return;  // known already
  const bool unmet = !std::exchange(connected_, false);
  if (!unmet) ++fruitless_;
  ++lost_;
  if (fruitless_ >= kFruitlessMax) {
    if (blame_largest_body()) lost_ = 0;
    fruitless_ = 0;
  }
  // The first message resets the count, so a broker that restarts is joined again at once.
  reopen_at(
      lost_ <= 1 ? now : now + std::min(reopen_pause * (1 << std::min(lost_ - 2, 30)), reopen_pause_max),
      unmet ? Reason::unmet : Reason::silence);
}

void Session::found_nobody(TimePoint now, bool named) {
  if ((endpoints_ < 2 && !named) || connected_ || reopen_at_) return;
  const TimePoint next = rounds_.found_nobody(endpoints_, now);
  reopen_at(next, next > now ? Reason::round : Reason::nobody);
}

/// Ends the request with the largest body; false: there is none.
bool Session::blame_largest_body() {
  auto largest = pending_.end();
  for (auto at = pending_.begin(); at != pending_.end(); ++at) {
    if (at->second.request.body.empty()) continue;
    if (largest == pending_.end() || at->second.request.body.size() > largest->second.request.body.size())
      largest = at;
  }
  if (largest == pending_.end()) return false;
  const Request& request = largest->second.request;
  ClientError error =
      local_error(ErrorCode::too_large,
                  "the broker cut the connection " + std::to_string(kFruitlessMax) +
                      " times without a word; a body of " + std::to_string(request.body.size()) +
                      " bytes is probably over its body_bytes_max: send less or raise it",
                  request.id);
  finish(largest, std::move(error));
  return true;
}

bool Session::take_reopen(TimePoint now) {
  if (!reopen_is_due(now)) return false;
  reopen_at_.reset();
  connected_ = heard_here_ = false;
  quiet_since_ = now;
  ping_due_ = false;
  broker_batch_ = 0;
  broker_batch_asked_ = false;
  probes_.begin_anew(now);
  ++counters_.reconnected;
  to_send_.clear();
  seens_.clear();  // the fetches tell it
  for (auto& [ref, pending] : pending_) {
    to_send_.push_back(ref);
    if (pending.watch) *pending.watch = Following{.again = pending.watch->again};
    if (!pending.stream) continue;
    Stream& stream = *pending.stream;
    // A job without any piece may be unknown to the broker, so it is submitted again.
    stream.by_fetch = pending.request.from_seq || stream.next > stream.first;
    stream.seen_due = false;
    stream.seen_at.reset();
    stream.fetch_at.reset();
  }
  std::sort(to_send_.begin(), to_send_.end());  // refs rise with time
  return true;
}

void Session::reopen_failed(TimePoint now) {
  reopen_at(now + reopen_failed_pause, Reason::silence);
}

// ---- time ---------------------------------------------------------------------------------------------

void Session::advance(TimePoint now) {
  expire(now);
  if (pending_.empty() || reopen_at_) return;
  expire_streams(now);
  if (renew_at_ && now >= *renew_at_) renew_watches(now);
  if (now >= silent_at()) return reopen_at(now, Reason::silence);
  if (now >= ping_at()) {
    pinged_ = now;
    ping_due_ = true;
  }
  if (now >= probes_.at()) probe(now);
}

std::optional<TimePoint> Session::Pending::waits_since() const {
  if (request.kind != RequestKind::submit && request.kind != RequestKind::leave && !stream)
    return std::nullopt;
  if (!sent_at || !stream || !stream->heard_at) return sent_at;
  return std::max(*sent_at, *stream->heard_at);
}

/// Asks for the states of jobs of which nothing was heard for long.
void Session::probe(TimePoint now) {
  std::vector<Probes::Job> waiting;
  for (const auto& [ref, pending] : pending_) {
    const std::optional<TimePoint> since = pending.waits_since();
    if (!since || now - *since < Probes::kAfter) continue;
    const TimePoint due = std::max(*since + Probes::kAfter, pending.probed_at + Probes::kEvery);
    waiting.push_back({due, ref, pending.request.id});
  }
  for (const std::uint64_t ref : probes_.ask(std::move(waiting), now))
    pending_.find(ref)->second.probed_at = now;
}

/// Sends what is over again, which brings its answer. A job that is left is not waited for: what was lost is
/// the word that it was taken.
void Session::probed(const wire::StatusReply& reply, TimePoint now) {
  probes_.answered(reply, [&](std::uint64_t ref, std::string_view state) {
    const auto at = pending_.find(ref);
    if (at == pending_.end()) return;  // answered meanwhile
    const bool goes_on = state == "queued" || state == "delayed" || state == "running";
    if (goes_on && at->second.request.kind != RequestKind::leave) return;
    to_send_.push_back(ref);
    at->second.sent_at = now;  // not probed while the answer is on its way
    probes_.hurry(now);
  });
}

void Session::expire(TimePoint now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto at = pending_.find(deadlines_.begin()->second);
    const Request& request = at->second.request;
    const auto waited = std::chrono::duration_cast<milliseconds>(*request.deadline - request.asked);
    const std::string whose = shard_wanted_.empty() ? "" : " of shard \"" + printable(shard_wanted_) + "\"";
    ClientError error =
        local_error(ErrorCode::deadline,
                    "no answer from the broker" + whose + " within " + std::to_string(waited.count()) + " ms",
                    request.id);
    ++counters_.expired;
    finish(at, std::move(error));
  }
}

std::optional<TimePoint> Session::next_wakeup() const {
  if (pending_.empty()) return reopen_at_;
  TimePoint next = reopen_at_ ? *reopen_at_ : std::min(ping_at(), silent_at());
  if (!reopen_at_) {
    next = std::min(next, probes_.at());
    if (renew_at_) next = std::min(next, *renew_at_);
    if (!seen_timers_.empty()) next = std::min(next, seen_timers_.front().first);
    if (!fetch_timers_.empty()) next = std::min(next, fetch_timers_.front().first);
  }
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  return next;
}

// ---- what to send -------------------------------------------------------------------------------------

std::optional<Outgoing> Session::next_send() {
  if (reopen_at_) return std::nullopt;  // the old connection is given up
  if (batch_max_ > 1 && to_send_.size() > 1 && !std::exchange(broker_batch_asked_, true)) ping_due_ = true;
  const bool asks = !probes_.next().empty();
  next_ = ping_due_ ? Next::ping : asks ? Next::probe : show_seen() ? Next::seen : Next::request;
  if (next_ == Next::ping) return Outgoing{ping_header_};
  if (next_ == Next::probe) return Outgoing{probes_.next()};
  if (next_ == Next::seen) return Outgoing{stream_header_.view()};
  collect();
  if (sending_.empty()) return std::nullopt;
  if (sending_.size() > 1) return Outgoing{batch_.view()};
  const Pending& pending = pending_.find(sending_.front())->second;
  if (pending.stream && pending.stream->by_fetch) return show_fetch(pending);
  const Request& request = pending.request;
  return Outgoing{request.header, request.body.empty() ? nullptr : &request.body};
}

/// Chooses the requests of the next message: the first one, and jobs behind it that join a batch.
void Session::collect() {
  sending_.clear();
  sending_from_ = 0;
  items_.clear();
  std::optional<Batch> batch;
  for (const std::uint64_t ref : to_send_) {
    const auto at = pending_.find(ref);
    if (at != pending_.end()) {
      const Request& request = at->second.request;
      const std::string_view header = request.header;
      const bool by_fetch = at->second.stream && at->second.stream->by_fetch;
      const bool joins = broker_batch_ > 1 && request.item.op != nullptr && !by_fetch;
      if (!sending_.empty() && !joins) break;
      if (joins) {
        const BatchItem item =
            copy_item(request.item, header.substr(request.item.begin, request.item.bytes), items_);
        const std::string_view body = header.substr(header.size() - request.body_bytes);
        if (!batch)
          batch.emplace(item, body, items_);
        else if (!batch->add(item, body, broker_batch_, items_))
          break;
      }
      sending_.push_back(ref);
      if (!joins) {
        ++sending_from_;
        break;
      }
    }
    ++sending_from_;
  }
  if (sending_.size() < 2) return;
  batch_.clear();
  batch->write(items_, batch_);
}

void Session::sent(TimePoint now) {
  if (next_ == Next::ping) ping_due_ = false;
  if (next_ == Next::probe) probes_.sent();
  if (next_ == Next::seen) {
    Pending& pending = pending_.find(seens_.front())->second;
    seens_.pop_front();
    if (pending.watch) {
      pending.watch->said = pending.watch->next;
      pending.watch->seen_due = false;
    } else {
      said_all(*pending.stream);
    }
  }
  if (next_ != Next::request) return;
  to_send_.erase(to_send_.begin(), to_send_.begin() + static_cast<std::ptrdiff_t>(sending_from_));
  for (const std::uint64_t ref : sending_) {
    Pending& pending = pending_.find(ref)->second;
    ++counters_.sent;
    if (pending.sent_at) ++counters_.resent;
    pending.sent_at = now;
    if (pending.stream && pending.stream->by_fetch) said_all(*pending.stream);
  }
}

// ---- streams ------------------------------------------------------------------------------------------

bool Session::seen(std::uint64_t ref, std::int64_t seq, TimePoint now) {
  const auto at = pending_.find(ref);
  return at != pending_.end() && at->second.stream && seen(at, seq, now);
}

bool Session::seen(const std::string& id, std::int64_t seq, TimePoint now) {
  bool changed = false;
  const auto [begin, end] = streams_by_id_.equal_range(id);
  for (auto named = begin; named != end; ++named)
    changed |= seen(pending_.find(named->second), seq, now);
  return changed;
}

bool Session::seen(Table::iterator at, std::int64_t seq, TimePoint now) {
  Stream& stream = *at->second.stream;
  const std::int64_t end = std::min(seq, stream.next - 1) + 1;
  for (; stream.taken < end; ++stream.taken)
    stream.unsaid_bytes += stream.sizes[static_cast<std::size_t>(stream.taken - stream.said)];
  if (stream.taken == stream.said || stream.seen_due) return false;
  const auto unsaid = static_cast<std::size_t>(stream.taken - stream.said);
  if (unsaid >= kSeenChunks || stream.unsaid_bytes >= kSeenBytes) {
    stream.seen_due = true;
    seens_.push_back(at->first);
    return true;
  }
  if (stream.seen_at) return false;
  stream.seen_at = now + kSeenAfter;
  seen_timers_.emplace_back(*stream.seen_at, at->first);
  return seen_timers_.size() == 1;  // else an earlier timer is set
}

/// What the reader has taken is now known to the broker, or on its way there.
void Session::said_all(Stream& stream) {
  stream.sizes.erase(stream.sizes.begin(), stream.sizes.begin() + (stream.taken - stream.said));
  stream.said = stream.taken;
  stream.unsaid_bytes = 0;
  stream.seen_due = false;
  stream.seen_at.reset();
}

/// Does what is due for streams: reports what was taken, asks for what is missing.
void Session::expire_streams(TimePoint now) {
  const bool seen_is_due = !seen_timers_.empty() && seen_timers_.front().first <= now;
  const TimePoint seen_until = seen_is_due ? now + kSeenTogether : now;
  for (; !seen_timers_.empty() && seen_timers_.front().first <= seen_until; seen_timers_.pop_front()) {
    const auto at = pending_.find(seen_timers_.front().second);
    if (at == pending_.end() || at->second.stream->seen_at != seen_timers_.front().first) continue;
    Stream& stream = *at->second.stream;
    stream.seen_at.reset();
    if (!std::exchange(stream.seen_due, true)) seens_.push_back(at->first);
  }
  for (; !fetch_timers_.empty() && fetch_timers_.front().first <= now; fetch_timers_.pop_front()) {
    const auto at = pending_.find(fetch_timers_.front().second);
    if (at != pending_.end() && at->second.stream->fetch_at == fetch_timers_.front().first) fetch_stream(at);
  }
}

/// Asks for the pieces from the next one on.
void Session::fetch_stream(Table::iterator at) {
  at->second.stream->fetch_at.reset();
  at->second.stream->by_fetch = true;
  to_send_.push_back(at->first);
}

/// The same, but not while the answer to the last fetch may be on its way.
void Session::fetch_stream_later(Table::iterator at, TimePoint now) {
  Stream& stream = *at->second.stream;
  if (stream.fetch_at) return;
  if (!at->second.sent_at || now >= *at->second.sent_at + kFetchPause) {
    fetch_stream(at);
    at->second.sent_at = now;
    return;
  }
  stream.fetch_at = now + kFetchPause;
  fetch_timers_.emplace_back(*stream.fetch_at, at->first);
}

/// Whether a stream's end came without the pieces before it; asks for these and the end again.
bool Session::fetched_for_pieces(Table::iterator at, std::int64_t chunks) {
  if (!at->second.stream || chunks <= at->second.stream->next) return false;
  Stream& stream = *at->second.stream;
  if (++stream.ends_without_pieces < kEndsWithoutPiecesMax) {
    fetch_stream(at);
    return true;
  }
  ClientError error =
      local_error(ErrorCode::gone,
                  "pieces " + std::to_string(stream.next) + " to " + std::to_string(chunks - 1) +
                      " of the answer were lost, and the broker sends only its end",
                  at->second.request.id);
  error.chunks = chunks;
  finish(at, std::move(error));
  return true;
}

/// Prepares the next `seen`; false: none is due.
bool Session::show_seen() {
  for (; !seens_.empty(); seens_.pop_front()) {
    const auto at = pending_.find(seens_.front());
    if (at == pending_.end()) continue;
    const Pending& pending = at->second;
    if (pending.watch ? !pending.watch->seen_due : !pending.stream->seen_due) continue;
    Buffer ref;
    stream_header_.clear();
    encode(wire::Seen{.seq = (pending.watch ? pending.watch->next : pending.stream->taken) - 1,
                      .ref = number_ref(at->first, ref)},
           stream_header_);
    return true;
  }
  return false;
}

/// A fetch from what the reader has taken, not from what has come: so the broker knows how far it may send
/// ahead.
Outgoing Session::show_fetch(const Pending& pending) {
  Buffer ref;
  stream_header_.clear();
  encode(wire::Fetch{.id = pending.request.id,
                     .wait_ms = kFetchWait.count(),
                     .from_seq = pending.stream->taken,
                     .ref = number_ref(pending.request.ref, ref)},
         stream_header_);
  return {stream_header_.view()};
}

void Session::take_arrived(std::vector<Arrived>& out) {
  out.clear();
  out.swap(arrived_);
}

void Session::take_finished(std::vector<Finished>& out) {
  out.clear();
  out.swap(finished_);
}

}  // namespace lanemq::client
