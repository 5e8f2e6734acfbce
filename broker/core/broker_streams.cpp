// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "broker/core/base/check.hpp"
#include "broker/core/broker.hpp"

// Answers that come piece by piece: from the worker that makes them to whoever reads them.

namespace lanemq::core {
namespace {

/// Who may read one stream at a time.
constexpr std::size_t kReadersMax = 64;
/// A reader that takes nothing for so long, while there is something for it, is let go.
constexpr Duration kSlowReader = std::chrono::seconds(30);

/// A stream whose client stated no time may be silent for its lane's timeout, and for so long at least: a
/// reader that pauses it for up to kSlowReader is no fault of its worker's.
constexpr Duration kStreamSilenceLeast = std::chrono::minutes(1);

/// Where a stream may go on after a restart; far from where numbers end.
constexpr std::int64_t kSeqMax = std::int64_t{1} << 53;

/// A reader may be so far behind: everything that is kept, which a late one gets at once, and a window.
std::size_t unseen_bytes_max(const Options& options) {
  return options.stream_kept_bytes_max + limits::stream_bytes_max;
}

bool is_live(const StreamReader& reader) {
  return !reader.connection->unreachable;
}

}  // namespace

// ---- what workers send --------------------------------------------------------------------------------

void Broker::refuse_chunk(Worker& worker, const wire::Chunk& chunk, const std::string& why) {
  ++stats_.chunks_refused;
  wire::WorkerRefusal refusal;
  refusal.code = name_of(ErrorCode::bad_request);
  refusal.message = why;
  refusal.job = static_cast<std::int64_t>(chunk.job);
  refusal.attempt = chunk.attempt;
  tell(worker, refusal);
}

void Broker::on(const ChunkReported& event, TimePoint now) {
  const wire::Chunk& fields = *event.fields;
  Worker* const worker = heard(event.address, now);
  if (worker == nullptr) {
    ++stats_.chunks_unknown_session;
    return;
  }
  Record* const record = jobs_.find(JobNumber{fields.job});
  Job* const job = record != nullptr ? record->job() : nullptr;
  if (job == nullptr || job->worker() != worker || job->attempt != fields.attempt) {
    ++stats_.chunks_stale;
    return say_stale(*worker, fields.job, fields.attempt);
  }
  if (job->ended()) {
    // Its worker has been told, and this was on its way.
    ++stats_.chunks_late;
    return;
  }
  AnswerStream* const stream = job->answer();
  const auto named = [&](std::int64_t seq) {
    return "chunk " + std::to_string(seq) + " of job " + std::to_string(fields.job);
  };
  if (stream == nullptr)
    return refuse_chunk(*worker, fields,
                        named(fields.seq) + ": it asked for no stream; send all of its answer as the result");
  if (!stream->placed() && fields.seq > kSeqMax) {
    stream->refuse(fields.seq);
    return refuse_chunk(*worker, fields, named(fields.seq) + ": no stream is so long");
  }
  if (stream->placed() && fields.seq < stream->next()) {
    ++stats_.chunks_repeated;
    return;
  }
  if (stream->placed() && fields.seq > stream->next()) {
    stream->refuse(fields.seq);
    return refuse_chunk(
        *worker, fields,
        named(fields.seq) + " came where " + std::to_string(stream->next()) + " comes next; leave none out");
  }
  if (stream->placed() && stream->full()) {
    stream->refuse(fields.seq);
    return refuse_chunk(*worker, fields,
                        named(fields.seq) +
                            " is beyond the window: " + std::to_string(limits::stream_chunks_max) +
                            " chunks (stream_chunks_max) or " + std::to_string(limits::stream_bytes_max) +
                            " bytes (stream_bytes_max) behind chunk " + std::to_string(stream->taken()) +
                            " have not been taken; send it when the op window says so");
  }
  take_chunk(*job, fields.seq, event.body, now);
}

/// Requires: it is the stream's next chunk, and within the window.
void Broker::take_chunk(Job& job, std::int64_t seq, const Blob& body, TimePoint now) {
  AnswerStream& stream = *job.answer();
  ++stats_.chunks_in;
  if (!stream.placed()) {
    stream.place(seq);
    refuse_readers_before(job, seq);
  }
  if (!let_go_of_far_behind(job, now)) return;
  const bool first = !stream.begun();
  const std::size_t kept_before = stream.kept_bytes();
  stream.append(body.owned());
  let_go_on(job, now);
  // From now on it is never run again: a broker that comes back knows by this turn's commit.
  if (first) write_changed(job);
  for (const auto& reader : stream.readers) {
    send_chunk(*reader, seq, now);
    if (reader->seen >= seq) stream.take(seq);  // it begins behind it
  }
  if (!has_live_reader(stream)) stream.take_all();
  stream.trim(options_.stream_kept_bytes_max);
  bytes_ += stream.kept_bytes() - kept_before;
  if (memory_bytes() > options_.memory_max) make_room_in(stream, now);
  say_window(job);
}

void Broker::let_go_on(Job& job, TimePoint now) {
  if (job.timeout_stated) return;
  job.deadline =
      std::max(job.deadline, now + std::max(lanes_[job.lane]->options().timeout, kStreamSilenceLeast));
  if (job.state == JobState::running) set_timer(job);
}

/// What is kept of others makes way, so that memory_max holds, and then what is kept here: its readers have
/// been sent it.
void Broker::make_room_in(AnswerStream& stream, TimePoint now) {
  evict_results(now);
  if (memory_bytes() <= options_.memory_max) return;
  const std::size_t excess = memory_bytes() - options_.memory_max, before = stream.kept_bytes();
  stream.shed(before - std::min(excess, before));
  bytes_ -= before - stream.kept_bytes();
}

/// Tells the worker how far it may go on, when that is worth a message.
void Broker::say_window(Job& job, Worth worth) {
  AnswerStream& stream = *job.answer();
  if (job.worker() == nullptr || job.ended()) return;
  if (worth == Worth::half ? !stream.half_taken() : !stream.window_grew()) return;
  tell(*job.worker(), wire::Window{static_cast<std::uint64_t>(job.number), job.attempt, stream.taken()});
  stream.said();
}

/// With a heartbeat the rest is said: less than half of a window may be what a large chunk waits for.
void Broker::say_windows(Worker& worker) {
  for (Away* away = worker.leases.front(); away != nullptr; away = worker.leases.next(*away))
    if (away->job.answer() != nullptr) say_window(away->job, Worth::any);
}

// ---- who reads ----------------------------------------------------------------------------------------

bool Broker::has_live_reader(const AnswerStream& stream) {
  return std::any_of(stream.readers.begin(), stream.readers.end(),
                     [](const auto& reader) { return is_live(*reader); });
}

Origin Broker::origin_of(const StreamReader& reader) {
  return {.address = reader.connection->address,
          .envelope = reader.envelope,
          .grouping = &reader.connection->grouping};
}

/// Why a reader cannot begin with a chunk, of a job whose chunks are kept from `first` on.
Refusal Broker::chunk_gone(std::string_view id, std::int64_t seq, std::int64_t first) {
  return {ErrorCode::gone,
          "chunk " + std::to_string(seq) + " of job \"" + std::string(id) +
              "\" is no longer kept; the oldest is " + std::to_string(first) + ": fetch it with from_seq " +
              std::to_string(first) + ", or without for its end alone",
          {}};
}

/// Sends what is kept from `from_seq` on, and from then on what comes. Requires: that chunk is kept, or not
/// there yet.
StreamReader& Broker::add_reader(Job& job, const Reading& reading, TimePoint now) {
  AnswerStream& stream = *job.answer();
  if (stream.readers.size() >= kReadersMax) {
    // The longest makes way: most likely its connection is gone and came back as this one.
    remove_reader(*stream.readers.front());
    ++stats_.waiters_dropped;
  }
  Connection& connection = connections_.at(reading.from.address);
  connections_.take_reference(connection);
  StreamReader& reader = *stream.readers.emplace_back(std::make_unique<StreamReader>());
  reader.job = &job;
  reader.connection = &connection;
  reader.envelope = reading.from.envelope;
  reader.ref = reading.ref.bytes;
  reader.next = reading.from_seq;
  reader.seen = reading.from_seq - 1;
  reader.seen_bytes = stream.bytes_until(reader.seen);
  reader.until = reading.until;
  reader.waits = reading.waits;
  reader.joined = reading.joined;
  if (reader.joined) {
    waiters_bytes_ += reader.bytes();
    ++connection.waiters;
  }
  connection.readers.push_back(reader);
  connection.unreachable = false;
  if (!reader.ref.empty()) connection.readers_by_ref[reader.ref] = &reader;
  if (reader.until != kNever) timers_.set(reader.timer, reader.until);
  // Who reads from somewhere on has what is before it.
  if (stream.placed() && reader.seen >= 0) stream.take(std::min(reader.seen, stream.next() - 1));
  say_window(job);
  if (stream.placed())
    for (std::int64_t seq = std::max(reading.from_seq, stream.first()); seq < stream.next(); ++seq)
      send_chunk(reader, seq, now);
  return reader;
}

void Broker::send_chunk(StreamReader& reader, std::int64_t seq, TimePoint now) {
  if (seq < reader.next) return;
  const Job& job = *reader.job;
  wire::ChunkReply reply;
  if (job.client_named_it || reader.ref.empty()) reply.id = job.id();
  reply.seq = seq;
  if (!reader.told) {
    reader.told = true;
    const Lane& lane = *lanes_[job.lane];
    if (&lane != default_lane_) reply.lane = lane.options().name;
    reply.attempts = job.attempts;
    reply.queued_ms = job.away() == nullptr ? 0 : job.away()->queued_ms;
  }
  reply.ref = {reader.ref};
  const Outbox::Waiting waiting(outbox_, reader.waits);
  answer(origin_of(reader), reply, job.answer()->chunk(seq));
  ++stats_.chunks_out;
  if (reader.unseen() == 0) {
    reader.silent_since = now;
    if (!reader.timer.is_set() || reader.until > now + kSlowReader)
      timers_.set(reader.timer, std::min(reader.until, now + kSlowReader));
  }
  reader.next = seq + 1;
}

/// The reader is gone, or needs nothing any more.
void Broker::remove_reader(StreamReader& reader) {
  timers_.clear(reader.timer);
  Connection& connection = *reader.connection;
  connection.readers.remove(reader);
  if (reader.joined) {
    waiters_bytes_ -= reader.bytes();
    --connection.waiters;
  }
  const auto by_ref = connection.readers_by_ref.find(reader.ref);
  if (by_ref != connection.readers_by_ref.end() && by_ref->second == &reader)
    connection.readers_by_ref.erase(by_ref);
  connections_.drop_reference(connection);
  auto& readers = reader.job->answer()->readers;
  readers.erase(std::find_if(readers.begin(), readers.end(),
                             [&](const auto& other) { return other.get() == &reader; }));
}

void Broker::remove_readers(Job& job) {
  AnswerStream* const stream = job.answer();
  while (stream != nullptr && !stream->readers.empty())
    remove_reader(*stream->readers.back());
}

/// A reader has left, or a connection is gone or back: where nobody reads, nobody has to be waited for.
void Broker::readers_changed(Job& job) {
  AnswerStream& stream = *job.answer();
  if (has_live_reader(stream)) return;
  stream.take_all();
  say_window(job);
}

/// Readers that wanted what was sent before the broker's restart, as it turns out.
void Broker::refuse_readers_before(Job& job, std::int64_t first) {
  AnswerStream& stream = *job.answer();
  for (std::size_t i = 0; i < stream.readers.size();) {
    StreamReader& reader = *stream.readers[i];
    if (reader.next >= first) {
      ++i;
      continue;
    }
    const Outbox::Waiting waiting(outbox_, reader.waits);
    refuse(origin_of(reader), {reader.ref}, job.id(), chunk_gone(job.id(), reader.next, first));
    remove_reader(reader);
  }
}

/// Returns whether the job goes on.
bool Broker::let_go_of_far_behind(Job& job, TimePoint now) {
  AnswerStream& stream = *job.answer();
  const auto far_behind = [&](const auto& reader) {
    return stream.bytes_until(reader->next - 1) - reader->seen_bytes +
               static_cast<std::uint64_t>(reader->unseen()) * AnswerStream::kChunkBytes >
           unseen_bytes_max(options_);
  };
  while (true) {
    const auto place = std::find_if(stream.readers.begin(), stream.readers.end(), far_behind);
    if (place == stream.readers.end()) return true;
    cut_off(**place,
            "more than " + std::to_string(unseen_bytes_max(options_)) +
                " bytes of them wait (stream_kept_bytes_max and a window)",
            now);
    if (job.ended()) return false;
  }
}

/// A reader has not taken what it was sent: its request ends, and the job goes on without it, where its
/// client did not want it otherwise.
void Broker::cut_off(StreamReader& reader, const std::string& why, TimePoint now) {
  ++stats_.slow_readers;
  Job& job = *reader.job;
  Connection& connection = *reader.connection;
  {
    const std::string next = std::to_string(reader.seen + 1);
    wire::ErrorReply reply;
    const std::string message = "chunk " + next + " and what follows it were not taken (op seen): " + why +
                                "; the job goes on, fetch it with from_seq " + next;
    reply.id = job.id();
    reply.code = name_of(ErrorCode::slow_reader);
    reply.message = message;
    reply.attempts = job.attempts;
    reply.queued_ms = waited_ms(job, now);
    reply.chunks = reader.next;
    reply.ref = {reader.ref};
    const Outbox::Waiting waiting(outbox_, reader.waits);
    answer(origin_of(reader), reply);
  }
  const auto& owners = job.extra->owners;
  const auto place = std::find_if(owners.begin(), owners.end(),
                                  [&](const auto& other) { return other->connection == &connection; });
  const Owner* const owner = place == owners.end() ? nullptr : place->get();
  remove_reader(reader);
  if (owner != nullptr && job.extra->waiters.empty() && !has_live_reader(*job.answer())) {
    // Who does not read its job is gone for it.
    drop_owner(*owner);
    if (owners.empty()) {
      ++stats_.orphans_cancelled;
      return end_with(job, JobState::cancelled, ErrorCode::cancelled,
                      "cancelled because its client does not read it, as its submit asked for (orphan)", now);
    }
  }
  readers_changed(job);
}

/// A reader's time may be over: that of its fetch, or that of its silence.
void Broker::check_reader(StreamReader& reader, TimePoint now) {
  if (now >= reader.until) return end_reading(reader, now);
  TimePoint due = reader.until;
  if (reader.unseen() > 0) {
    if (now >= reader.silent_since + kSlowReader)
      return cut_off(reader, "nothing was for " + std::to_string(to_ms(kSlowReader) / 1000) + " s", now);
    due = std::min(due, reader.silent_since + kSlowReader);
  }
  if (due != kNever) timers_.set(reader.timer, due);
}

/// A fetch has read for as long as it wanted: it is told how far the job is.
void Broker::end_reading(StreamReader& reader, TimePoint now) {
  Job& job = *reader.job;
  {
    const Outbox::Waiting waiting(outbox_, reader.waits);
    say_status(job, origin_of(reader), {reader.ref}, now);
  }
  remove_reader(reader);
  readers_changed(job);
}

void Broker::on(const SeenSaid& event, TimePoint now) {
  const wire::Seen& fields = *event.fields;
  if (fields.id.empty() && !fields.ref.present())
    return refuse(
        event.from, fields.ref, {},
        {ErrorCode::bad_request, "field \"id\" is missing, and so is \"ref\"; name the stream", {}});
  Connection* const connection = connections_.find(event.from.address);
  Job* job = nullptr;
  if (connection != nullptr) {
    note_life(*connection);
    if (!fields.id.empty()) {
      Record* const record = jobs_.find(fields.id);
      if (record != nullptr && !record->is_result) job = record->job();
    } else if (const auto reader = connection->readers_by_ref.find(fields.ref.bytes);
               reader != connection->readers_by_ref.end()) {
      job = reader->second->job;
    }
  }
  bool any = false;
  if (job != nullptr && job->answer() != nullptr)
    for (const auto& reader : job->answer()->readers) {
      if (reader->connection != connection || (fields.id.empty() && reader->ref != fields.ref.bytes))
        continue;
      any = true;
      take_seen(*reader, fields.seq, now);
    }
  // Mostly it is the end that was on its way.
  if (!any) ++stats_.seen_unmatched;
}

void Broker::take_seen(StreamReader& reader, std::int64_t seq, TimePoint now) {
  seq = std::min(seq, reader.next - 1);
  if (seq <= reader.seen) return;
  AnswerStream& stream = *reader.job->answer();
  reader.seen = seq;
  reader.seen_bytes = stream.bytes_until(seq);
  reader.silent_since = now;
  if (!stream.placed() || seq >= stream.next()) return;
  stream.take(seq);
  say_window(*reader.job);
}

/// Takes from a job that ends what is kept of its streamed answer; null for nothing.
std::unique_ptr<AnswerStream> Broker::take_answer(Job& job) {
  if (job.answer() == nullptr) return nullptr;
  bytes_ -= job.answer()->kept_bytes();
  std::unique_ptr<AnswerStream> answer = std::move(job.extra->answer);
  answer->take_all();
  answer->trim(options_.stream_kept_bytes_max);
  if (answer->first() == answer->next()) return nullptr;
  return answer;
}

/// What is kept of a stream that is over, from a chunk on, and its end.
void Broker::replay(const Terminal& end, const AnswerStream* stream, std::int64_t from_seq, const Origin& to,
                    wire::Raw ref) {
  const std::int64_t count = end.ending != nullptr ? end.ending->chunks : 0;
  const std::int64_t first = stream != nullptr ? stream->first() : count;
  if (from_seq < first) return refuse(to, ref, end.id, chunk_gone(end.id, from_seq, first));
  for (std::int64_t seq = from_seq; seq < count; ++seq) {
    wire::ChunkReply reply;
    if (end.client_named_it || !ref.present()) reply.id = end.id;
    reply.seq = seq;
    if (seq == from_seq) {
      const Lane& lane = *lanes_[end.lane];
      if (&lane != default_lane_) reply.lane = lane.options().name;
      reply.attempts = end.attempts;
      reply.queued_ms = end.queued_ms;
    }
    reply.ref = ref;
    answer(to, reply, stream->chunk(seq));
    ++stats_.chunks_out;
  }
  say_terminal(end, to, ref);
}

}  // namespace lanemq::core
