// SPDX-License-Identifier: Apache-2.0
#include "worker/session/session.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/text.hpp>

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

using end_times::heartbeat_min, end_times::heartbeat_max, end_times::parting_max;

constexpr char kBadOutcome[] = "bad_outcome";

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

std::string size_message(std::string_view what, std::size_t size, std::size_t limit) {
  return "the " + std::string(what) + " has " + std::to_string(size) + " bytes, over body_bytes_max " +
         std::to_string(limit) + "; ask for less or raise the limit of broker and worker";
}

/// Makes a failure sendable: cuts its texts to their limits, and escapes what a terminal would obey.
void make_sendable(JobOutcome::Report& report) {
  report.code = report.code.empty()
                    ? "failed"
                    : printable(report.code, limits::name_bytes_max - 8);  // cutting adds a few bytes
  report.message = printable(report.message, kMessageBytesMax);
  if (report.retry_after)
    report.retry_after =
        std::clamp(*report.retry_after, milliseconds(0), milliseconds(limits::duration_ms_max));
}

/// Replaces an answer that is too large for the broker by a failure that says so.
void bound_body(JobOutcome& outcome, std::size_t limit) {
  const std::size_t size = outcome.body.size();
  if (size <= limit) return;
  outcome.body = {};
  if (!outcome.succeeded()) return;
  if (!outcome.report) outcome.report = std::make_unique<JobOutcome::Report>();
  outcome.report->error_class = ErrorClass::permanent;
  outcome.report->code = "too_large";
  outcome.report->message = size_message("answer", size, limit);
}

/// Whether a command is about jobs that the session has, or is to have.
bool is_of_leases(const wire::WorkerCommand& command) {
  const auto* refusal = std::get_if<wire::WorkerRefusal>(&command);
  return std::holds_alternative<wire::JobOffer>(command) || std::holds_alternative<wire::Acked>(command) ||
         std::holds_alternative<wire::CancelJob>(command) || std::holds_alternative<wire::Window>(command) ||
         (refusal != nullptr && refusal->job);
}

}  // namespace

// ---- outbox -------------------------------------------------------------------------------------------

Outbox::Message Outbox::front() const {
  const Entry& entry = entries_[next_];
  if (entry.batch) {
    assembled_.clear();
    entry.batch->write(headers_, assembled_);
    return {assembled_.view(), nullptr};
  }
  return {headers_.view().substr(entry.begin, entry.end - entry.begin),
          entry.body.empty() ? nullptr : &entry.body};
}

void Outbox::pop() {
  entries_[next_].body = {};
  if (++next_ == entries_.size()) clear();
}

void Outbox::clear() {
  headers_.clear();
  entries_.clear();
  next_ = 0;
}

template <class WireMessage>
void Outbox::push(const WireMessage& message, const Blob& body) {
  const bool inside = body.size() <= limits::inline_bytes_max;
  if (can_be_batched<WireMessage>() && batch_max_ > 1 && inside) {
    const BatchItem item = write_item(message, headers_);
    if (!empty() && entries_.back().batch &&
        entries_.back().batch->add(item, body.bytes(), batch_max_, headers_))
      return;
    entries_.emplace_back().batch.emplace(item, body.bytes(), headers_);
    return;
  }
  Entry entry{.begin = headers_.size()};
  if (inside && !body.empty())
    encode(message, body.bytes(), headers_);
  else
    encode(message, headers_);
  entry.end = headers_.size();
  if (!inside) entry.body = body;
  entries_.push_back(std::move(entry));
}

SessionCounters& SessionCounters::operator+=(const SessionCounters& other) {
  started += other.started;
  succeeded += other.succeeded;
  failed += other.failed;
  released += other.released;
  cancelled += other.cancelled;
  stale += other.stale;
  duplicates += other.duplicates;
  outcomes_dropped += other.outcomes_dropped;
  return *this;
}

// ---- what the worker does -----------------------------------------------------------------------------

Session::Session(SessionOptions options)
    : options_(std::move(options)),
      answer_bytes_max_(options_.body_bytes_max),
      shard_(options_.shard),
      capacity_(options_.capacity),
      taken_max_(options_.capacity) {}

void Session::connected(TimePoint now) {
  outbox_.clear();
  greet(now);
}

void Session::found_nobody(TimePoint again) {
  if (state_ == State::greeting) reconnect_at_ = std::min(reconnect_at_, again);
  if (state_ != State::serving) return;
  state_ = State::greeting;
  reconnect_at_ = again;
}

/// Sends `ready` and, to a broker that may know this worker or its jobs, the inventory and the outcomes that
/// are not acknowledged.
void Session::greet(TimePoint now) {
  state_ = State::greeting;
  told_to_drain_ = false;
  heard_at_ = now;
  reconnect_at_ = now + (met_before_ ? kSilentIntervals * heartbeat_ : kFirstWordWithin);
  outbox_.set_batch_max(0);  // until the broker says that it accepts them
  taken_max_ = capacity_;    // who answers this has heard of no other number
  unconfirmed_ = 0;
  say_ready(leaving_ ? std::max<std::size_t>(running_, 1) : capacity_);
  if (met_before_ && !holds_back()) say_what_it_holds(now);
}

/// Sends the inventory, and what the broker may have missed.
void Session::say_what_it_holds(TimePoint now) {
  say_inventory(true, now);
  for (auto& [lease, held] : table_) {
    if (held.phase != Held::Phase::running) continue;
    if (held.word) say_word(lease, *held.word, now);
    if (held.stream) say_chunks_again(lease, *held.stream);
  }
  say_outcomes_again(now);
}

void Session::finish(wire::Lease lease, JobOutcome outcome, TimePoint now, Effects& effects) {
  const auto place = table_.find(lease);
  if (place == table_.end() || place->second.phase == Held::Phase::finished) return;
  if (place->second.phase == Held::Phase::dropped) {
    table_.erase(place);
    return;
  }
  if (Stream* stream = place->second.stream.get(); stream && stream->has_unsent())
    stream->outcome = std::move(outcome);
  else
    complete(place, std::move(outcome), now, effects);
}

/// Ends a job. Its outcome is the last message about its lease, pieces included.
void Session::complete(Table::iterator place, JobOutcome outcome, TimePoint now, Effects& effects) {
  const wire::Lease lease = place->first;
  const bool counted = place->second.phase == Held::Phase::running;
  if (counted) --running_;
  bound_body(outcome, answer_bytes_max_);
  if (outcome.report) make_sendable(*outcome.report);
  ++(outcome.succeeded() ? counters_.succeeded : counters_.failed);

  // Sent before the outcome, so that the broker does not fill the freed place again.
  if (leaving_ && counted && running_ > 0 && state_ == State::serving) say_ready(running_);
  if (large_.may_go(lease, outcome.body.size(), now)) say_outcome(lease, outcome);
  keep(place, std::move(outcome));
  if (leaving_ && running_ == 0 && state_ == State::serving) part(now, effects);
}

/// Ends a job that its handler still runs.
void Session::fail(Table::iterator place, JobFailure failure, TimePoint now, Effects& effects) {
  effects.push_back(CancelJob{place->first, place->second.service});
  if (place->second.stream) place->second.stream->stop();
  complete(place, JobOutcome::failure(std::move(failure)), now, effects);
}

void Session::chunk(StreamPiece piece, TimePoint now, Effects& effects) {
  const auto place = table_.find(piece.lease);
  if (place == table_.end() || place->second.phase != Held::Phase::running) return;
  Stream* stream = place->second.stream.get();
  if (!stream)
    return fail(place,
                {.error_class = ErrorClass::permanent,
                 .code = "not_a_stream",
                 .message = "the handler answers in pieces, and the job asks for a whole answer; pieces are "
                            "for jobs with `stream`"},
                now, effects);
  if (stream->unwanted) return;
  if (piece.overrun)
    return fail(
        place,
        {.error_class = ErrorClass::permanent,
         .code = "stream_overrun",
         .message = "the handler went on for more than " + std::to_string(kSurplusChunksMax) + " pieces or " +
                    std::to_string(kSurplusBytesMax) +
                    " bytes after it was told that its reader is behind; it must stop until resume()"},
        now, effects);
  if (piece.body.size() > answer_bytes_max_)
    return fail(place,
                {.error_class = ErrorClass::permanent,
                 .code = "too_large",
                 .message = size_message("piece", piece.body.size(), answer_bytes_max_)},
                now, effects);
  stream->kept_bytes += piece.body.size();
  stream->kept.push_back(std::move(piece.body));
  say_chunks(piece.lease, *stream);
}

void Session::progress(ProgressWord word, TimePoint now) {
  const auto place = table_.find(word.lease);
  if (place == table_.end() || place->second.phase != Held::Phase::running) return;
  auto& known = place->second.word;
  const bool first = !known;
  if (first) known = std::make_unique<Word>();
  known->said = std::move(word.said);
  if (first || now >= known->sent_at + kProgressEvery) return say_word(place->first, *known, now);
  known->unsent = true;
  words_due_ = std::min(words_due_, known->sent_at + kProgressEvery);
}

void Session::drain(TimePoint deadline, TimePoint now, Effects& effects) {
  if (leaving_ || state_ == State::left) return;
  leaving_ = true;
  drain_deadline_ = deadline;
  if (state_ == State::serving && running_ > 0)
    say_ready(running_);
  else if (running_ == 0 && (outcomes_ == 0 || !holds_back()))
    part(now, effects);
}

void Session::leave(TimePoint now, Effects& effects) {
  if (state_ == State::left) return;
  leaving_ = true;
  for (auto& [lease, held] : table_)
    if (held.phase != Held::Phase::finished) effects.emplace_back(CancelJob{lease, held.service});
  if (state_ != State::parting) {
    say_all_large(now);
    outbox_.push(wire::Bye{});
  }
  depart(effects);
}

/// No job runs any more: sends `bye`, and waits for the broker's last acknowledgements.
void Session::part(TimePoint now, Effects& effects) {
  say_all_large(now);
  outbox_.push(wire::Bye{});
  if (outcomes_ == 0) return depart(effects);
  state_ = State::parting;
  parting_until_ = now + std::min(heartbeat_, parting_max);
}

void Session::depart(Effects& effects) {
  state_ = State::left;
  effects.push_back(Left{});
}

void Session::set_capacity(std::size_t capacity) {
  if (leaving_ || capacity == capacity_) return;
  capacity_ = capacity;
  const bool connected = state_ == State::serving || (state_ == State::greeting && unconfirmed_ > 0);
  taken_max_ = connected ? std::max(taken_max_, capacity) : capacity;
  if (connected) say_ready(capacity);
}

void Session::advance(TimePoint now, Effects& effects) {
  if (state_ == State::unconnected || state_ == State::left) return;
  if (state_ == State::parting) {
    if (outcomes_ == 0 || now >= parting_until_) depart(effects);
    return;
  }
  if (leaving_ && now >= drain_deadline_) return leave(now, effects);
  const bool unheard =
      state_ == State::greeting ? now >= reconnect_at_ : now >= heard_at_ + kSilentIntervals * heartbeat_;
  if (unheard) {
    effects.push_back(Reconnect{});
    return;
  }
  if (now >= words_due_) say_words_due(now);
  while (large_.any_wait()) {
    const std::optional<wire::Lease> next = large_.next(now);
    if (!next) break;
    say_large(*next);
  }
  if (state_ == State::serving && now >= heartbeat_due()) say_inventory(false, now);
}

TimePoint Session::next_wakeup() const {
  if (state_ == State::unconnected || state_ == State::left) return TimePoint::max();
  if (state_ == State::parting) return parting_until_;
  TimePoint due = state_ == State::greeting
                      ? reconnect_at_
                      : std::min(heartbeat_due(), heard_at_ + kSilentIntervals * heartbeat_);
  due = std::min({due, large_.due(), words_due_});
  if (leaving_) due = std::min(due, drain_deadline_);
  return due;
}

/// When the worker sends a heartbeat of its own. It leaves that to a broker that sends heartbeats: two
/// inventories close together could both miss a job on its way, and the broker would take it for lost.
TimePoint Session::heartbeat_due() const {
  return std::max(said_heartbeat_at_ + heartbeat_, heard_heartbeat_at_ + heartbeat_ * 5 / 4);
}

// ---- what the broker says -----------------------------------------------------------------------------

void Session::receive(const wire::WorkerCommand& command, TimePoint now, Effects& effects) {
  if (state_ == State::unconnected || state_ == State::left) return;
  heard_at_ = now;
  // What is left of an earlier connection is said again; and leases may be another shard's.
  if (holds_back() && is_of_leases(command)) return;
  std::visit([&](const auto& said) { on(said, now, effects); }, command);
}

void Session::on(const wire::Welcome& welcome, TimePoint now, Effects& effects) {
  if (!is_ours(welcome.shard)) return turn_from(welcome.shard, now, effects);
  if (!welcome.shard.empty()) shard_ = welcome.shard;
  if (unconfirmed_ > 0) --unconfirmed_;
  if (unconfirmed_ == 0) taken_max_ = capacity_;
  session_ = welcome.session;
  broker_session_ = printable(welcome.session, limits::name_bytes_max);
  if (welcome.heartbeat_ms > 0)
    heartbeat_ = std::clamp(milliseconds(std::min(welcome.heartbeat_ms, limits::duration_ms_max)),
                            heartbeat_min, heartbeat_max);
  told_to_drain_ = false;
  default_lane_ = welcome.default_lane;
  answer_bytes_max_ = options_.body_bytes_max;
  if (welcome.body_bytes_max > 0)
    answer_bytes_max_ = std::min(answer_bytes_max_, static_cast<std::size_t>(welcome.body_bytes_max));
  outbox_.set_batch_max(static_cast<std::size_t>(std::clamp<std::int64_t>(welcome.batch, 0, kBatchMax)));
  if (!shard_.empty()) effects.push_back(ShardsTold{std::string(welcome.shards.bytes)});
  if (state_ != State::greeting) return;
  state_ = State::serving;
  if (std::exchange(met_before_, true) && !shard_.empty()) {
    say_what_it_holds(now);
    complete_streams(now, effects);
  }
  said_heartbeat_at_ = now;
  heard_heartbeat_at_ = TimePoint{};
  effects.push_back(Welcomed{{welcome.endpoints.begin(), welcome.endpoints.end()}});
  if (leaving_ && running_ == 0 && state_ == State::serving) part(now, effects);
}

/// Whether a broker of that shard may see what the session holds. One without shards may: they come and go
/// with its configuration.
bool Session::is_ours(std::string_view shard) const {
  if (shard.empty() || shard_.empty() || shard == shard_) return true;
  return options_.shard.empty() && table_.empty();
}

/// The next endpoint may be one of the right shard.
void Session::turn_from(std::string_view shard, TimePoint now, Effects& effects) {
  refusal_ = "this broker serves shard \"" + printable(shard, 64) + "\", and this worker holds jobs of \"" +
             printable(shard_, 64) +
             "\"; check the endpoints of the shards, and restart workers when one gets another name";
  effects.push_back(Refused{});
  outbox_.push(wire::Bye{});  // with what it has handed over already
  reconnect_later(now);
}

void Session::on(const wire::JobOffer& offer, TimePoint now, Effects& effects) {
  if (state_ == State::parting) return;  // the worker's `bye` gives it back already
  const wire::Lease lease{offer.job, offer.attempt};
  if (const auto held = table_.find(lease); held != table_.end()) {
    ++counters_.duplicates;
    // The broker offers an attempt again whose outcome it was sent: the outcome was lost.
    if (held->second.phase == Held::Phase::finished && !large_.waits(lease))
      say_outcome(lease, held->second.outcome);
    return;
  }
  supersede_older(lease, now, effects);
  if (leaving_ || told_to_drain_)
    return refuse(lease, {.error_class = ErrorClass::released,
                          .code = "draining",
                          .message = "the worker takes no more jobs"});
  if (running_ >= taken_max_ || table_.size() >= options_.capacity + kOutcomesMax)
    return refuse(lease, {.error_class = ErrorClass::released,
                          .code = "full",
                          .message = "the worker holds " + std::to_string(running_) + " jobs (capacity " +
                                     std::to_string(taken_max_) + ")"});
  const std::optional<std::size_t> service = service_index(offer.service);
  if (!service)
    return refuse(lease, {.code = "unknown_service",
                          .message = "the worker does not serve \"" + printable(offer.service, 64) + '"'});
  Held held{.service = static_cast<std::uint32_t>(*service), .outcome = {}};
  std::shared_ptr<StreamGate> gate;
  if (offer.stream) {
    gate = std::make_shared<StreamGate>();
    held.stream = std::make_unique<Stream>();
    held.stream->gate = gate;
  }
  table_.emplace(lease, std::move(held));
  peak_ = std::max(peak_, ++running_);
  ++counters_.started;
  effects.push_back(StartJob{lease, *service, std::move(gate)});
}

void Session::on(const wire::Acked& acked, TimePoint, Effects& effects) {
  for (const wire::Lease& lease : acked.jobs) {
    const auto place = table_.find(lease);
    if (place != table_.end() && place->second.phase == Held::Phase::finished) forget_outcome(place);
  }
  if (state_ == State::parting && outcomes_ == 0) depart(effects);
}

void Session::on(const wire::CancelJob& cancel, TimePoint now, Effects& effects) {
  const auto place = table_.find({cancel.job, cancel.attempt});
  if (place == table_.end() || place->second.phase != Held::Phase::running) return;
  ++counters_.cancelled;
  if (!stop_stream(place, now, effects)) effects.push_back(CancelJob{place->first, place->second.service});
}

void Session::on(const wire::Window& window, TimePoint now, Effects& effects) {
  const auto place = table_.find({window.job, window.attempt});
  if (place == table_.end() || !place->second.stream) return;
  Held& held = place->second;
  Stream& stream = *held.stream;
  std::size_t count = 0, bytes = 0;
  for (; stream.first <= window.seq && stream.sent > 0; ++count, ++stream.first, --stream.sent) {
    bytes += stream.kept.front().size();
    stream.kept.pop_front();
  }
  stream.sent_bytes -= bytes;
  stream.kept_bytes -= bytes;
  if (held.phase == Held::Phase::finished) outcome_bytes_ -= bytes;
  const bool in_handler = held.phase != Held::Phase::finished && !stream.outcome;
  if (stream.gate->taken(count, bytes) && in_handler)
    effects.push_back(ResumeJob{place->first, held.service});
  say_chunks(place->first, stream);
  if (stream.outcome && !stream.has_unsent())
    complete(place, *std::exchange(stream.outcome, std::nullopt), now, effects);
}

/// Ends jobs that were over while their last pieces were held back.
void Session::complete_streams(TimePoint now, Effects& effects) {
  std::vector<wire::Lease> over;
  for (const auto& [lease, held] : table_)
    if (held.stream && held.stream->outcome && !held.stream->has_unsent()) over.push_back(lease);
  for (const wire::Lease& lease : over) {
    const auto place = table_.find(lease);
    complete(place, *std::exchange(place->second.stream->outcome, std::nullopt), now, effects);
  }
}

/// Nobody wants more pieces of a stream. Returns whether that ends the job: its handler is done already.
bool Session::stop_stream(Table::iterator place, TimePoint now, Effects& effects) {
  Stream* stream = place->second.stream.get();
  if (!stream) return false;
  stream->stop();
  if (!stream->outcome) return false;
  complete(place, *std::exchange(stream->outcome, std::nullopt), now, effects);
  return true;
}

void Session::Stream::stop() {
  gate->close();
  unwanted = true;
  for (; has_unsent(); kept.pop_back())
    kept_bytes -= kept.back().size();
}

void Session::on(const wire::Heartbeat&, TimePoint now, Effects&) {
  heard_heartbeat_at_ = now;
  if (state_ == State::serving) say_inventory(false, now);
}

void Session::on(const wire::Drain&, TimePoint, Effects&) {
  told_to_drain_ = true;
}

/// The broker goes. Running jobs go on, in case it comes back: it will find its jobs here.
void Session::on(const wire::Bye&, TimePoint now, Effects& effects) {
  if (state_ == State::parting) return depart(effects);
  reconnect_later(now);
}

/// Greets again after one interval, by a new connection.
void Session::reconnect_later(TimePoint now) {
  state_ = State::greeting;
  unconfirmed_ = 0;
  reconnect_at_ = now + heartbeat_;
}

void Session::on(const wire::WorkerRefusal& refusal, TimePoint now, Effects& effects) {
  const std::optional<RefusalCode> code = refusal_code(refusal.code);
  if (code == RefusalCode::stale) {
    if (refusal.job && *refusal.job >= 0)
      on_stale({static_cast<std::uint64_t>(*refusal.job), refusal.attempt.value_or(1)}, effects);
    return;
  }
  if (code == RefusalCode::unknown_session) {
    // A greeting under way covers all earlier messages, each of which causes one of these refusals.
    if (state_ == State::serving) return greet(now);
    if (state_ != State::parting || parted_again_ || outcomes_ == 0) return;
    parted_again_ = true;
    greet(now);
    return holds_back() ? void() : part(now, effects);  // else at its welcome
  }
  refusal_ = printable(refusal.code, 64) + ": " + printable(refusal.message);
  effects.push_back(Refused{.ever = code == RefusalCode::bad_request && !refusal.job});
  if (!refusal.job || *refusal.job < 0) return;
  const auto place = table_.find({static_cast<std::uint64_t>(*refusal.job), refusal.attempt.value_or(1)});
  if (place == table_.end()) return;
  if (place->second.phase == Held::Phase::finished) return on_unread(place, refusal, now, effects);
  // A piece was not accepted, so all that follow would leave a hole.
  if (place->second.phase != Held::Phase::running || !place->second.stream) return;
  fail(place,
       {.error_class = ErrorClass::permanent, .code = "chunk_refused", .message = printable(refusal.message)},
       now, effects);
}

/// The broker could not read an outcome. A failure that says so takes its place, which it can read: it
/// answers no other word for that job, which would run until its deadline. Where it cannot read that either,
/// there is nothing to say: it misses the job in the next inventories.
void Session::on_unread(Table::iterator place, const wire::WorkerRefusal& refusal, TimePoint now,
                        Effects& effects) {
  JobOutcome& unread = place->second.outcome;
  if (!unread.succeeded() && unread.report->code == kBadOutcome) {
    forget_outcome(place);
    if (state_ == State::parting && outcomes_ == 0) depart(effects);
    return;
  }
  --outcomes_;
  outcome_bytes_ -= place->second.bytes();
  large_.forget(place->first);
  JobOutcome failure = JobOutcome::failure({.error_class = ErrorClass::permanent,
                                            .code = kBadOutcome,
                                            .message = "the broker cannot read the job's outcome: " +
                                                       printable(refusal.message, kMessageBytesMax / 2)});
  if (large_.may_go(place->first, 0, now)) say_outcome(place->first, failure);
  keep(place, std::move(failure));
}

void Session::on_stale(wire::Lease lease, Effects& effects) {
  const auto place = table_.find(lease);
  if (place == table_.end()) return;
  ++counters_.stale;
  if (place->second.phase == Held::Phase::finished) {
    forget_outcome(place);
    if (state_ == State::parting && outcomes_ == 0) depart(effects);
    return;
  }
  if (place->second.phase == Held::Phase::dropped) return;
  const bool counted = place->second.phase == Held::Phase::running;
  if (counted) --running_;
  if (Stream* stream = place->second.stream.get()) {
    stream->stop();
    if (stream->outcome) {  // the handler is done, and only its pieces were missing
      table_.erase(place);
      return;
    }
  }
  place->second.phase = Held::Phase::dropped;
  effects.push_back(CancelJob{lease, place->second.service});
}

/// Ends older attempts of a job that still run here, since there is a newer one.
void Session::supersede_older(wire::Lease lease, TimePoint now, Effects& effects) {
  for (auto place = table_.lower_bound({lease.job, 0}); place != table_.end(); ++place) {
    if (place->first.job != lease.job || place->first.attempt >= lease.attempt) return;
    if (place->second.phase != Held::Phase::running) continue;
    place->second.phase = Held::Phase::superseded;
    --running_;
    if (stop_stream(place, now, effects)) continue;
    effects.push_back(CancelJob{place->first, place->second.service});
  }
}

std::optional<std::size_t> Session::service_index(std::string_view name) const {
  if (name.empty() && options_.services.size() == 1) return 0;
  for (std::size_t i = 0; i < options_.services.size(); ++i)
    if (options_.services[i] == name) return i;
  return std::nullopt;
}

// ---- outcomes -----------------------------------------------------------------------------------------

void Session::refuse_unreadable(wire::Lease lease, std::string_view why) {
  if (table_.contains(lease)) return;
  refuse(lease, {.error_class = ErrorClass::permanent,
                 .code = "bad_job",
                 .message = "the worker cannot read the job: " + printable(why, kMessageBytesMax / 2)});
}

void Session::refuse(wire::Lease lease, JobFailure failure) {
  if (failure.error_class == ErrorClass::released)
    ++counters_.released;
  else
    ++counters_.failed;
  JobOutcome outcome = JobOutcome::failure(std::move(failure));
  say_outcome(lease, outcome);
  keep(table_.emplace(lease, Held{.outcome = {}}).first, std::move(outcome));
}

void Session::keep(Table::iterator place, JobOutcome outcome) {
  Held& held = place->second;
  held.phase = Held::Phase::finished;
  held.word.reset();
  held.order = ++finished_;
  held.outcome = std::move(outcome);
  ++outcomes_;
  outcome_bytes_ += held.bytes();
  while (outcomes_ > kOutcomesMax || (outcome_bytes_ > kOutcomeBytesMax && outcomes_ > 1))
    drop_oldest_outcome();
}

void Session::forget_outcome(Table::iterator place) {
  --outcomes_;
  outcome_bytes_ -= place->second.bytes();
  large_.forget(place->first);
  table_.erase(place);
}

void Session::drop_oldest_outcome() {
  auto oldest = table_.end();
  for (auto place = table_.begin(); place != table_.end(); ++place) {
    if (place->second.phase != Held::Phase::finished) continue;
    if (oldest == table_.end() || place->second.order < oldest->second.order) oldest = place;
  }
  ++counters_.outcomes_dropped;
  forget_outcome(oldest);
}

// ---- saying -------------------------------------------------------------------------------------------

void Session::say_ready(std::size_t capacity) {
  ++unconfirmed_;
  const auto stated = [](const std::string& text) {
    return text.empty() ? std::string_view{} : std::string_view(text);
  };
  outbox_.push(wire::Ready{.services = views(options_.services),
                           .capacity = static_cast<std::int64_t>(capacity),
                           .lanes = views(options_.lanes),
                           .name = options_.name,
                           .version = options_.version,
                           .batch = options_.capacity > 1 ? static_cast<std::int64_t>(kBatchMax) : 0,
                           .resumes = true,
                           .session = stated(session_),
                           .process = stated(options_.process),
                           .labels = {},
                           .cluster = true});
}

/// Sends the running jobs and, `with_outcomes`, the unacknowledged outcomes, as far as they fit: first those
/// that the broker is most likely to miss.
void Session::say_inventory(bool with_outcomes, TimePoint now) {
  wire::Heartbeat heartbeat;
  for (const auto& [lease, held] : table_)
    if (held.phase == Held::Phase::running || (!with_outcomes && large_.waits(lease)))
      heartbeat.jobs.push_back(lease);
  if (with_outcomes) {
    std::vector<std::pair<std::uint64_t, wire::Lease>> finished;
    for (const auto& [lease, held] : table_)
      if (held.phase == Held::Phase::finished) finished.emplace_back(held.order, lease);
    std::sort(finished.begin(), finished.end(),
              [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [order, lease] : finished) {
      if (heartbeat.jobs.size() == kInventoryMax) break;
      heartbeat.jobs.push_back(lease);
    }
  }
  outbox_.push(heartbeat);
  said_heartbeat_at_ = now;
}

void Session::say_outcome(const wire::Lease& lease, const JobOutcome& outcome) {
  if (state_ == State::unconnected || holds_back()) return;
  const JobOutcome::Report* report = outcome.report.get();
  if (outcome.succeeded()) {
    wire::Outcome message;
    message.job = lease.job;
    message.attempt = lease.attempt;
    if (report) {
      message.usage = report->usage;
      message.limits = report->limits;
    }
    outbox_.push(message, outcome.body);
    return;
  }
  wire::Failure message;
  message.job = lease.job;
  message.attempt = lease.attempt;
  message.error_class = name_of(*report->error_class);
  message.code = report->code;
  message.message = report->message;
  message.usage = report->usage;
  message.limits = report->limits;
  message.upstream_status = report->upstream_status;
  if (report->retry_after) message.retry_after_ms = report->retry_after->count();
  if (report->limited_by) message.limited_by = name_of(*report->limited_by);
  outbox_.push(message, outcome.body);
}

void Session::say_word(const wire::Lease& lease, Word& word, TimePoint now) {
  if (holds_back()) return;
  word.unsent = false;
  word.sent_at = now;
  wire::Progress message{.job = lease.job, .attempt = lease.attempt, .pct = word.said.pct, .note = {}};
  if (!word.said.note.empty()) message.note = word.said.note;
  outbox_.push(message);
}

/// Sends the words that came too soon before. A job that is over says none.
void Session::say_words_due(TimePoint now) {
  words_due_ = TimePoint::max();
  for (auto& [lease, held] : table_) {
    if (held.phase != Held::Phase::running || !held.word || !held.word->unsent) continue;
    const TimePoint due = held.word->sent_at + kProgressEvery;
    if (now >= due)
      say_word(lease, *held.word, now);
    else
      words_due_ = std::min(words_due_, due);
  }
}

/// Sends as many unsent pieces of a stream as the window allows; the last one may go beyond it.
void Session::say_chunks(const wire::Lease& lease, Stream& stream) {
  if (holds_back()) return;
  while (stream.has_unsent() && stream.sent < limits::stream_chunks_max &&
         stream.sent_bytes < limits::stream_bytes_max) {
    const Blob& body = stream.kept[stream.sent];
    const std::int64_t seq = stream.first + static_cast<std::int64_t>(stream.sent);
    outbox_.push(wire::Chunk{.job = lease.job, .attempt = lease.attempt, .seq = seq}, body);
    ++stream.sent;
    stream.sent_bytes += body.size();
  }
}

void Session::say_chunks_again(const wire::Lease& lease, Stream& stream) {
  stream.sent = stream.sent_bytes = 0;
  say_chunks(lease, stream);
}

void Session::say_outcomes_again(TimePoint now) {
  large_.clear();
  std::vector<Table::const_iterator> finished;
  for (auto place = table_.cbegin(); place != table_.cend(); ++place)
    if (place->second.phase == Held::Phase::finished) finished.push_back(place);
  std::sort(finished.begin(), finished.end(),
            [](auto a, auto b) { return a->second.order < b->second.order; });
  for (const auto& place : finished) {
    if (place->second.stream) say_chunks_again(place->first, *place->second.stream);
    const JobOutcome& outcome = place->second.outcome;
    if (large_.may_go(place->first, outcome.body.size(), now)) say_outcome(place->first, outcome);
  }
}

void Session::say_large(wire::Lease lease) {
  say_outcome(lease, table_.at(lease).outcome);
}

/// Sends all large outcomes at once, for a goodbye: nothing follows it.
void Session::say_all_large(TimePoint now) {
  while (large_.any_wait())
    say_large(large_.next_at_once(now));
}

}  // namespace lanemq::worker
