// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <lanemq/codec.hpp>

#include "tests/sim/auditor.hpp"

// Answers that come piece by piece: what workers may send, who gets it, and in which order.

namespace lanemq::sim {
namespace {

constexpr Duration kSlowReader = std::chrono::seconds(30);
/// What a chunk counts for besides its bytes.
constexpr std::uint64_t kPieceBytes = 64;
/// Of a stream whose client stated no time.
constexpr Duration kStreamSilenceLeast = std::chrono::minutes(1);
/// Where the broker may have to make room, it is asked what it has kept.
constexpr std::size_t kMemoryEnough = 10'000'000;

}  // namespace

std::uint64_t ModelAnswer::bytes_until(std::int64_t seq) const {
  seq = std::clamp<std::int64_t>(seq, first - 1, next() - 1);
  return seq < 0 ? 0 : ends[static_cast<std::size_t>(seq)];
}

void ModelAnswer::take(std::int64_t seq) {
  if (seq <= taken) return;
  taken = seq;
  taken_bytes = bytes_until(seq);
}

bool ModelAnswer::full() const {
  return next() - 1 - taken >= static_cast<std::int64_t>(limits::stream_chunks_max) ||
         bytes_until(next() - 1) - taken_bytes >= limits::stream_bytes_max;
}

bool ModelAnswer::keeps_waiting() const {
  return next() - 1 - said >= static_cast<std::int64_t>(limits::stream_chunks_max) ||
         bytes_until(next() - 1) - said_bytes >= limits::stream_bytes_max;
}

/// The oldest go while more than so much is kept.
void ModelAnswer::trim(std::size_t bytes_max) {
  const auto kept = [&] {
    return bytes_until(next() - 1) - bytes_until(first - 1) +
           static_cast<std::uint64_t>(next() - first) * kPieceBytes;
  };
  while (first < next() && first <= taken && kept() > bytes_max)
    ++first;
}

bool Auditor::has_live_reader(const ModelJob& job) const {
  return std::any_of(job.readers.begin(), job.readers.end(), [&](const ModelReader& reader) {
    return !unreachable_.contains(requests_.at(reader.ref).address);
  });
}

void Auditor::readers_changed(ModelJob& job) {
  if (!has_live_reader(job)) job.parts.take(job.parts.next() - 1);
}

/// The request is to get what is kept from a chunk on, and what comes.
void Auditor::add_reader(ModelJob& job, std::uint64_t ref, std::int64_t from_seq) {
  ModelRequest& asked = requests_[ref];
  asked.reads = true;
  asked.next_chunk = from_seq;
  if (job.ended()) return;
  unreachable_.erase(asked.address);
  if (job.readers.size() >= kWaitersMax) {
    ModelRequest& oldest = requests_[job.readers.front().ref];
    oldest.terminal_due = oldest.status_due = false;
    job.readers.erase(job.readers.begin());
  }
  job.readers.push_back(
      {.ref = ref, .seen = from_seq - 1, .seen_bytes = job.parts.bytes_until(from_seq - 1)});
  asked.taken_before = job.parts.taken;
  asked.taken_bytes_before = job.parts.taken_bytes;
  if (from_seq > 0) job.parts.take(std::min(from_seq, job.parts.next()) - 1);
}

void Auditor::drop_reader(ModelJob& job, std::uint64_t ref) {
  std::erase_if(job.readers, [&](const ModelReader& reader) { return reader.ref == ref; });
}

/// It is refused what is no longer kept.
bool Auditor::chunk_gone(ModelRequest& asked, const ModelJob& job, std::int64_t from_seq) {
  if (from_seq >= job.parts.first) return false;
  asked.job = nullptr;
  asked.refusals = {"gone"};
  asked.must_refuse = asked.terminal_due = true;
  return true;
}

// ---- what is said -------------------------------------------------------------------------------------

void Auditor::on(ModelWorker& worker, const wire::Chunk& chunk, std::string_view body) {
  const auto place = by_number_.find(chunk.job);
  ModelJob* const job = place == by_number_.end() ? nullptr : place->second;
  const auto refused = [&](const char* code) {
    refusal_due_ = code;
    refusal_address_ = worker.address;
  };
  if (job == nullptr || job->place != &worker || job->attempt != chunk.attempt) return refused("stale");
  if (job->ended()) return;
  ModelAnswer& parts = job->parts;
  if (!job->streams) return refused("bad_request");
  if (chunk.seq < parts.next()) return;
  if (chunk.seq > parts.next() || parts.full()) {
    job->refused = std::max(job->refused, chunk.seq);
    return refused("bad_request");
  }
  // Who lies too far behind is let go first.
  for (std::size_t i = 0; i < job->readers.size();) {
    const ModelReader reader = job->readers[i];
    const std::int64_t next = requests_[reader.ref].next_chunk;
    const std::uint64_t unseen = parts.bytes_until(next - 1) - reader.seen_bytes +
                                 static_cast<std::uint64_t>(next - 1 - reader.seen) * kPieceBytes;
    if (unseen <= options_.stream_kept_bytes_max + limits::stream_bytes_max) {
      ++i;
      continue;
    }
    slow_due_.push_back(reader.ref);
    if (!let_go(*job, reader.ref)) return;
  }
  parts.bodies.emplace_back(body);
  if (job->alive_at) job->alive_at = now_;
  parts.ends.push_back(parts.bytes_until(parts.next() - 2) + body.size());
  streaming_.insert(job);
  if (!job->timeout_stated) {
    deadlines_.erase({job->deadline, job});
    job->deadline =
        std::max(job->deadline, now_ + std::max(options_.lanes[job->lane].timeout, kStreamSilenceLeast));
    deadlines_.emplace(job->deadline, job);
  }
  for (const ModelReader& reader : job->readers)
    if (reader.seen >= chunk.seq) parts.take(chunk.seq);
  if (!has_live_reader(*job)) parts.take(chunk.seq);
  parts.trim(options_.stream_kept_bytes_max);
}

/// A slow reader goes. Returns whether the job goes on.
bool Auditor::let_go(ModelJob& job, std::uint64_t ref) {
  drop_reader(job, ref);
  const std::string& address = requests_[ref].address;
  if (job.owners.contains(address) && job.waiters.empty() && !has_live_reader(job)) {
    if (job.owners.size() == 1) {
      must_end(job, {"cancelled"});
      return false;
    }
    drop_owner(job, address);
  }
  readers_changed(job);
  return true;
}

void Auditor::on(const std::string& address, const wire::Seen& seen) {
  unreachable_.erase(address);
  shows_itself(address);
  const std::uint64_t ref = ref_number(seen.ref).value_or(0);
  for (ModelJob* job : streaming_) {
    const auto named = by_id_.find(std::string(seen.id));
    if (!seen.id.empty() && (named == by_id_.end() || named->second != job)) continue;
    for (ModelReader& reader : job->readers) {
      const ModelRequest& asked = requests_[reader.ref];
      if (asked.address != address || (seen.id.empty() && reader.ref != ref)) continue;
      const std::int64_t seq = std::min(seen.seq, asked.next_chunk - 1);
      if (seq <= reader.seen) continue;
      reader.seen = seq;
      reader.seen_bytes = job->parts.bytes_until(seq);
      reader.silent_since = now_;
      if (seq < job->parts.next()) job->parts.take(seq);
    }
  }
}

// ---- what is heard ------------------------------------------------------------------------------------

void Auditor::heard_chunk(ModelRequest& asked, std::uint64_t ref, const wire::ChunkReply& chunk,
                          std::string_view body) {
  if (asked.job == nullptr) violated("a chunk for what is no job");
  ModelJob& job = *asked.job;
  const std::string name = "chunk " + std::to_string(chunk.seq) + " of " + job.name();
  if (!asked.reads || !asked.open()) violated(name + " was said to who did not ask for it");
  if (asked.accepted_due) violated(name + " came before accepted");
  if (chunk.seq != asked.next_chunk)
    violated(name + " came where " + std::to_string(asked.next_chunk) + " is next");
  if (chunk.seq >= job.parts.next()) violated(name + " was never said");
  if (body != job.parts.bodies[static_cast<std::size_t>(chunk.seq)])
    violated(name + " is not what its worker said");
  if (job.named && chunk.id != job.id) violated(name + " names " + std::string(chunk.id));
  const core::LaneOptions& lane = options_.lanes[job.lane];
  const std::string_view said =
      lane.is_default || asked.told ? std::string_view{} : std::string_view(lane.name);
  if (chunk.lane != said || chunk.attempts != (asked.told ? 1 : job.attempts))
    violated(name + " is wrong about where the stream stands");
  asked.told = true;
  for (ModelReader& reader : job.readers)
    if (reader.ref == ref && reader.seen == chunk.seq - 1) reader.silent_since = now_;
  ++asked.next_chunk;
}

void Auditor::heard_slow(ModelRequest& asked, std::uint64_t ref, std::int64_t chunks) {
  if (asked.job == nullptr || !asked.reads || !asked.terminal_due)
    violated("slow_reader was said to who does not read");
  ModelJob& job = *asked.job;
  if (chunks != asked.next_chunk) violated(job.name() + ": slow_reader counts other chunks than were sent");
  const auto due = std::find(slow_due_.begin(), slow_due_.end(), ref);
  if (due != slow_due_.end()) {
    slow_due_.erase(due);
  } else {
    const auto reader = std::find_if(job.readers.begin(), job.readers.end(),
                                     [&](const ModelReader& one) { return one.ref == ref; });
    if (reader == job.readers.end() || !advancing_ || asked.next_chunk - 1 <= reader->seen ||
        now_ < reader->silent_since + kSlowReader)
      violated(job.name() + ": a reader was let go for no reason");
    let_go(job, ref);
  }
  asked.terminal_due = asked.status_due = false;
}

void Auditor::heard_window(const std::string& address, const wire::Window& window) {
  const auto place = by_number_.find(window.job);
  ModelJob* const job = place == by_number_.end() ? nullptr : place->second;
  // Notices of a turn are read first: an attempt that has just been ended may have got its window before.
  const auto ended_in_this_turn = [&](const Cancel& cancel) {
    return cancel.address == address && cancel.lease == wire::Lease{window.job, window.attempt};
  };
  if (advancing_ && std::any_of(cancels_due_.begin(), cancels_due_.end(), ended_in_this_turn)) return;
  if (job == nullptr || job->place == nullptr || job->place->address != address ||
      job->attempt != window.attempt || !job->streams)
    violated("a window of what its worker does not hold");
  if (job->alive_at && job->parts.keeps_waiting()) job->alive_at = now_;
  if (std::exchange(job->window_due, false)) {
    if (window.seq != job->parts.taken)
      violated(job->name() + ": its worker has come back and is told a wrong window");
    job->parts.said = window.seq;
    job->parts.said_bytes = job->parts.taken_bytes;
    return;
  }
  // Before the chunk of this step was taken, who was let go may have left less.
  if (window.seq > job->parts.taken || window.seq <= job->parts.said)
    violated(job->name() + ": a window of " + std::to_string(window.seq) + " where " +
             std::to_string(job->parts.taken) + " are taken");
  job->parts.said = window.seq;
  job->parts.said_bytes =
      window.seq == job->parts.taken ? job->parts.taken_bytes : job->parts.bytes_until(window.seq);
}

/// How many chunks an end says, and that who read got all of them.
void Auditor::check_chunks(const ModelRequest& asked, std::int64_t chunks) const {
  const ModelJob& job = *asked.job;
  if (chunks != job.parts.next())
    violated(job.name() + ": its end counts " + std::to_string(chunks) + " chunks, not " +
             std::to_string(job.parts.next()));
  if (asked.reads && asked.next_chunk < chunks)
    violated(job.name() + ": its end came where chunk " + std::to_string(asked.next_chunk) + " is next");
}

/// At the end of a step everybody has got everything, and workers know how far they may go.
void Auditor::check_streams() {
  if (!slow_due_.empty()) violated("a reader that lies far behind was not let go");
  for (auto place = streaming_.begin(); place != streaming_.end();) {
    ModelJob& job = **place;
    if (job.window_due) violated(job.name() + ": its worker has come back and is not told its window");
    check_kept_chunks(job);
    const ModelAnswer& parts = job.parts;
    for (const ModelReader& reader : job.readers) {
      const ModelRequest& asked = requests_[reader.ref];
      if (asked.next_chunk < parts.next())
        violated(job.name() + ": a reader was not sent chunk " + std::to_string(asked.next_chunk));
      if (advancing_ && asked.next_chunk - 1 > reader.seen &&
          now_ >= reader.silent_since + kSlowReader + kTick)
        violated(job.name() + ": a reader that takes nothing was not let go");
    }
    const bool half = parts.taken - parts.said >= static_cast<std::int64_t>(limits::stream_chunks_max / 2) ||
                      parts.taken_bytes - parts.said_bytes >= limits::stream_bytes_max / 2;
    if (half && !job.ended() && job.place != nullptr)
      violated(job.name() + ": its worker was not told that half of its window is free");
    place = job.ended() ? streaming_.erase(place) : std::next(place);
  }
}

/// What is kept of a stream is what the bound lets in, where memory is not short.
void Auditor::check_kept_chunks(ModelJob& job) {
  const core::Record* const record = broker_.jobs().find(core::JobNumber{job.number});
  ModelAnswer& parts = job.parts;
  if (job.ended()) {
    parts.take(parts.next() - 1);
    parts.trim(options_.stream_kept_bytes_max);
  }
  const core::AnswerStream* answer = nullptr;
  if (record != nullptr && record->result() != nullptr) answer = record->result()->answer();
  if (record != nullptr && record->result() == nullptr) answer = record->job()->answer();
  // Of one that has ended and is not kept nothing is to be said.
  if (record == nullptr || (job.ended() && record->result() == nullptr)) return;
  const std::int64_t first = answer == nullptr ? parts.next() : answer->first();
  if (first < parts.first || (first > parts.first && options_.memory_max > kMemoryEnough))
    violated(job.name() + ": chunks are kept from " + std::to_string(first) + " on, not from " +
             std::to_string(parts.first));
  parts.first = first;
}

}  // namespace lanemq::sim
