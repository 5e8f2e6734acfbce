// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/streams.hpp"

#include <algorithm>

#include "broker/core/life/answers.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

/// A reader that confirms nothing for so long, while there is something for it, is cut off.
constexpr Duration kSlowReader = std::chrono::seconds(30);

/// Least silence that a stream is allowed whose client stated no timeout; else it is the lane's timeout. A
/// reader may pause the stream for up to kSlowReader, which is no fault of the worker.
constexpr Duration kStreamSilenceLeast = std::chrono::minutes(1);

/// How many bytes a reader may lag: all that is kept, which a late reader gets at once, and a window.
std::size_t unseen_bytes_max(const Options& options) {
  return options.stream_kept_bytes_max + limits::stream_bytes_max;
}

bool is_live(const StreamReader& reader) {
  return !reader.connection->unreachable;
}

}  // namespace

// ---- what workers send --------------------------------------------------------------------------------

Streams::After Streams::take_chunk(Job& job, std::int64_t seq, const Blob& body, TimePoint now) {
  AnswerStream& stream = *job.answer();
  ++state_.stats.chunks_in;
  if (!stream.placed()) {
    stream.place(seq);
    refuse_readers_before(job, seq);
  }
  if (let_go_of_far_behind(job, now) == After::cancel) return After::cancel;
  const bool first = !stream.begun();
  const std::size_t kept_before = stream.kept_bytes();
  stream.append(body.owned());
  if (Progress* const progress = job.progress()) progress->heard_at = now;
  let_go_on(job, now);
  // The job now has content, so it is never run again: the next life of the broker must know that.
  if (first) {
    journal_.write_changed(job);
    if (seq == 0 && job.away() != nullptr)  // chunks before a restart are not known
      state_.lanes[job.lane]->first_piece.record(now - job.at_away().dispatched_at, now);
  }
  for (const auto& reader : stream.readers) {
    send_chunk(*reader, seq, now);
    if (reader->seen >= seq) stream.take(seq);  // the reader asked to begin after this chunk
  }
  if (!has_live_reader(stream)) stream.take_all();
  stream.trim(state_.options.stream_kept_bytes_max);
  state_.bytes += stream.kept_bytes() - kept_before;
  if (results_.memory_bytes() > state_.options.memory_max) make_room_in(stream, now);
  say_window(job, now);
  return After::goes_on;
}

void Streams::let_go_on(Job& job, TimePoint now) {
  if (job.timeout_stated) return;
  job.deadline =
      std::max(job.deadline, now + std::max(state_.lanes[job.lane]->options().timeout, kStreamSilenceLeast));
  if (job.state == JobState::running) state_.set_timer(job);
}

/// Frees memory for a stream: first kept results make way, then this stream's own chunks, which its readers
/// were sent.
void Streams::make_room_in(AnswerStream& stream, TimePoint now) {
  results_.evict(now);
  if (results_.memory_bytes() <= state_.options.memory_max) return;
  const std::size_t excess = results_.memory_bytes() - state_.options.memory_max,
                    before = stream.kept_bytes();
  stream.shed(before - std::min(excess, before));
  state_.bytes -= before - stream.kept_bytes();
}

/// Tells the worker how far it may send on, if that is worth a message.
void Streams::say_window(Job& job, TimePoint now, Worth worth) {
  AnswerStream& stream = *job.answer();
  if (job.worker() == nullptr || job.ended()) return;
  if (worth == Worth::half ? !stream.half_taken() : !stream.window_grew()) return;
  state_.tell(*job.worker(),
              wire::Window{static_cast<std::uint64_t>(job.number), job.attempt, stream.taken()});
  job.note_window(now);
  stream.said();
}

void Streams::say_windows(Worker& worker, TimePoint now) {
  for (Away* away = worker.leases.front(); away != nullptr; away = worker.leases.next(*away))
    if (away->job.answer() != nullptr) say_window(away->job, now, Worth::any);
}

// ---- who reads ----------------------------------------------------------------------------------------

bool Streams::has_live_reader(const AnswerStream& stream) {
  return std::any_of(stream.readers.begin(), stream.readers.end(),
                     [](const auto& reader) { return is_live(*reader); });
}

Origin Streams::origin_of(const StreamReader& reader) {
  return {.address = reader.connection->address,
          .envelope = reader.envelope,
          .grouping = &reader.connection->grouping};
}

StreamReader& Streams::add_reader(Job& job, const Reading& reading, TimePoint now) {
  AnswerStream& stream = *job.answer();
  Connection& connection = state_.connections.at(reading.from.address);
  state_.connections.take_reference(connection);
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
    state_.waiters_bytes += reader.bytes();
    ++connection.waiters;
  }
  connection.readers.push_back(reader);
  connection.unreachable = false;
  if (!reader.ref.empty()) connection.readers_by_ref[reader.ref] = &reader;
  if (reader.until != kNever) state_.timers.set(reader.timer, reader.until);
  // A reader that begins at a later chunk has the ones before it.
  if (stream.placed() && reader.seen >= 0) stream.take(std::min(reader.seen, stream.next() - 1));
  say_window(job, now);
  if (stream.placed())
    for (std::int64_t seq = std::max(reading.from_seq, stream.first()); seq < stream.next(); ++seq)
      send_chunk(reader, seq, now);
  return reader;
}

void Streams::send_chunk(StreamReader& reader, std::int64_t seq, TimePoint now) {
  if (seq < reader.next) return;
  const Job& job = *reader.job;
  wire::ChunkReply reply;
  if (job.client_named_it || reader.ref.empty()) reply.id = job.id();
  reply.seq = seq;
  if (!reader.told) {
    reader.told = true;
    const Lane& lane = *state_.lanes[job.lane];
    if (&lane != state_.default_lane) reply.lane = lane.options().name;
    reply.attempts = job.attempts;
    reply.queued_ms = job.away() == nullptr ? 0 : job.away()->queued_ms;
  }
  reply.ref = {reader.ref};
  const Outbox::Waiting waiting(state_.outbox, reader.waits);
  state_.answer(origin_of(reader), reply, job.answer()->chunk(seq));
  ++state_.stats.chunks_out;
  if (reader.unseen() == 0) {
    reader.silent_since = now;
    if (!reader.timer.is_set() || reader.until > now + kSlowReader)
      state_.timers.set(reader.timer, std::min(reader.until, now + kSlowReader));
  }
  reader.next = seq + 1;
}

/// Unlinks a reader and destroys it.
void Streams::remove_reader(StreamReader& reader) {
  state_.timers.clear(reader.timer);
  Connection& connection = *reader.connection;
  connection.readers.remove(reader);
  if (reader.joined) {
    state_.waiters_bytes -= reader.bytes();
    --connection.waiters;
  }
  const auto by_ref = connection.readers_by_ref.find(reader.ref);
  if (by_ref != connection.readers_by_ref.end() && by_ref->second == &reader)
    connection.readers_by_ref.erase(by_ref);
  state_.connections.drop_reference(connection);
  auto& readers = reader.job->answer()->readers;
  readers.erase(std::find_if(readers.begin(), readers.end(),
                             [&](const auto& other) { return other.get() == &reader; }));
}

void Streams::remove_readers(Job& job) {
  AnswerStream* const stream = job.answer();
  while (stream != nullptr && !stream->readers.empty())
    remove_reader(*stream->readers.back());
}

void Streams::readers_changed(Job& job, TimePoint now) {
  AnswerStream& stream = *job.answer();
  if (has_live_reader(stream)) return;
  stream.take_all();
  say_window(job, now);
}

/// Refuses readers of chunks that were sent before the broker's restart.
void Streams::refuse_readers_before(Job& job, std::int64_t first) {
  AnswerStream& stream = *job.answer();
  for (std::size_t i = 0; i < stream.readers.size();) {
    StreamReader& reader = *stream.readers[i];
    if (reader.next >= first) {
      ++i;
      continue;
    }
    const Outbox::Waiting waiting(state_.outbox, reader.waits);
    answers_.refuse(origin_of(reader), {reader.ref}, job.id(),
                    answers_.chunk_gone(job.id(), reader.next, first));
    remove_reader(reader);
  }
}

Streams::After Streams::let_go_of_far_behind(Job& job, TimePoint now) {
  AnswerStream& stream = *job.answer();
  const auto far_behind = [&](const auto& reader) {
    return stream.bytes_until(reader->next - 1) - reader->seen_bytes +
               static_cast<std::uint64_t>(reader->unseen()) * AnswerStream::kChunkBytes >
           unseen_bytes_max(state_.options);
  };
  while (true) {
    const auto place = std::find_if(stream.readers.begin(), stream.readers.end(), far_behind);
    if (place == stream.readers.end()) return After::goes_on;
    const After after = cut_off(**place,
                                "more than " + std::to_string(unseen_bytes_max(state_.options)) +
                                    " bytes of them wait (stream_kept_bytes_max and a window)",
                                now);
    if (after == After::cancel) return after;
  }
}

/// A reader is too slow: ends its request. The job goes on, unless its client wants it cancelled without
/// readers.
Streams::After Streams::cut_off(StreamReader& reader, const std::string& why, TimePoint now) {
  ++state_.stats.slow_reader;
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
    const Outbox::Waiting waiting(state_.outbox, reader.waits);
    state_.answer(origin_of(reader), reply);
  }
  const auto& owners = job.extra->owners;
  const auto place = std::find_if(owners.begin(), owners.end(),
                                  [&](const auto& other) { return other->connection == &connection; });
  const Owner* const owner = place == owners.end() ? nullptr : place->get();
  remove_reader(reader);
  if (owner != nullptr && job.extra->waiters.empty() && !has_live_reader(*job.answer())) {
    // An owner that does not read its job is gone for that job.
    answers_.drop_owner(*owner);
    if (owners.empty()) {
      ++state_.stats.orphans_cancelled;
      return After::cancel;
    }
  }
  readers_changed(job, now);
  return After::goes_on;
}

Streams::After Streams::check_reader(StreamReader& reader, TimePoint now) {
  if (state_.store_away) {
    state_.timers.set(reader.timer, now + kAwayLook);
    return After::goes_on;
  }
  if (now >= reader.until) {
    end_reading(reader, now);
    return After::goes_on;
  }
  TimePoint due = reader.until;
  if (reader.unseen() > 0) {
    const TimePoint slow_at = state_.silent_from(reader.silent_since, now) + kSlowReader;
    if (now >= slow_at)
      return cut_off(reader, "nothing was for " + std::to_string(to_ms(kSlowReader) / 1000) + " s", now);
    due = std::min(due, slow_at);
  }
  if (due != kNever) state_.timers.set(reader.timer, due);
  return After::goes_on;
}

void Streams::end_reading(StreamReader& reader, TimePoint now) {
  Job& job = *reader.job;
  {
    const Outbox::Waiting waiting(state_.outbox, reader.waits);
    answers_.say_status(job, origin_of(reader), {reader.ref}, now);
  }
  remove_reader(reader);
  readers_changed(job, now);
}

void Streams::take_seen(const SeenSaid& event, TimePoint now) {
  const wire::Seen& fields = *event.fields;
  if (fields.id.empty() && !fields.ref.present())
    return answers_.refuse(
        event.from, fields.ref, {},
        {ErrorCode::bad_request, "field \"id\" is missing, and so is \"ref\"; name the stream", {}});
  Connection* const connection = state_.connections.find(event.from.address);
  Job* job = nullptr;
  if (connection != nullptr) {
    answers_.note_life(*connection);
    if (!fields.id.empty()) {
      Record* const record = state_.jobs.find(fields.id);
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
  // Mostly the job's end was on its way to this client.
  if (!any) ++state_.stats.seen_unmatched;
}

void Streams::take_seen(StreamReader& reader, std::int64_t seq, TimePoint now) {
  seq = std::min(seq, reader.next - 1);
  if (seq <= reader.seen) return;
  AnswerStream& stream = *reader.job->answer();
  reader.seen = seq;
  reader.seen_bytes = stream.bytes_until(seq);
  reader.silent_since = now;
  if (!stream.placed() || seq >= stream.next()) return;
  stream.take(seq);
  say_window(*reader.job, now);
}

// ---- its end ------------------------------------------------------------------------------------------

void Streams::say_end(Job& job, const Terminal& how) {
  AnswerStream* const stream = job.answer();
  if (stream == nullptr) return;
  // The chunks of an earlier life are not known any more, so the answer is not whole.
  if (how.state == JobState::succeeded && !stream->placed()) refuse_readers_before(job, stream->next());
  for (const auto& reader : stream->readers)
    answers_.say_terminal(how, origin_of(*reader), {reader->ref});
}

std::unique_ptr<AnswerStream> Streams::take_answer(Job& job) {
  if (job.answer() == nullptr) return nullptr;
  state_.bytes -= job.answer()->kept_bytes();
  std::unique_ptr<AnswerStream> answer = std::move(job.extra->answer);
  answer->take_all();
  answer->trim(state_.options.stream_kept_bytes_max);
  if (answer->first() == answer->next()) return nullptr;
  return answer;
}

}  // namespace lanemq::core
