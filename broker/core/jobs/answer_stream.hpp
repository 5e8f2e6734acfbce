// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/limits.hpp>

#include "broker/core/jobs/stream_reader.hpp"

namespace lanemq::core {

/// A streamed answer: the chunks of it that are kept, and how far its worker may go on.
///
/// Chunks are numbered from 0 without a gap. The last ones are kept for those who read them later; which of
/// the older ones go is the holder's decision. A worker may send another one while fewer than
/// limits::stream_chunks_max chunks and limits::stream_bytes_max bytes have not been taken, so that the last
/// of them may go beyond the bytes.
///
/// What is kept outlives the job, with its result; the readers do not.
class AnswerStream {
 public:
  /// What a chunk counts for in the byte bounds, besides its body.
  static constexpr std::size_t kChunkBytes = 64;

  /// Another hand-over, before any content: the worker begins at 0.
  void begin_attempt();
  /// It was handed over by an earlier life of the broker, which has sent `sent` chunks, or a little more.
  /// Where its worker goes on is known with the next chunk.
  void restore(std::int64_t sent);
  /// The next chunk is `seq`. Requires: !placed().
  void place(std::int64_t seq);

  /// Whether next() is the chunk that the worker is to send.
  bool placed() const { return placed_; }
  /// Clients got a part of the answer: it can never begin anew.
  bool begun() const { return begun_; }
  /// The oldest chunk that is kept; next() where none is.
  std::int64_t first() const { return first_; }
  std::int64_t next() const { return next_; }
  /// Requires: first() <= seq < next().
  const Blob& chunk(std::int64_t seq) const { return at(seq).body; }
  /// Bytes of the stream up to the end of a chunk, as far as that is still known.
  std::uint64_t bytes_until(std::int64_t seq) const;
  /// Bytes of the whole stream so far; none where an earlier life of the broker had a part of it.
  std::optional<std::uint64_t> bytes() const { return whole_ ? std::optional(bytes_) : std::nullopt; }
  /// What is kept counts for so many bytes.
  std::size_t kept_bytes() const;

  /// Requires: placed(), !full(), and that the body owns its bytes.
  void append(Blob body);
  /// Forgets the oldest chunks as long as more than `bytes_max` are kept and they have been taken.
  void trim(std::size_t bytes_max);
  /// The same for want of memory, whether they have been taken or not.
  void shed(std::size_t bytes_max);

  /// The worker may send no more until chunks are taken.
  bool full() const;
  /// A chunk of the worker's was not taken. The right one may follow.
  void refuse(std::int64_t seq) { refused_ = std::max(refused_, seq); }
  /// A chunk that was refused has never come: what is there is not the whole answer.
  bool has_hole() const { return refused_ >= next_; }
  std::int64_t refused() const { return refused_; }
  /// The chunks up to `seq` have been taken. Requires: seq < next().
  void take(std::int64_t seq);
  void take_all() {
    if (placed_) take(next_ - 1);
  }
  /// The last chunk that has been taken; -1 for none.
  std::int64_t taken() const { return taken_; }
  /// More has been taken than the worker was told; then for half of a window.
  bool window_grew() const { return taken_ > said_; }
  bool half_taken() const;
  /// The worker is told of taken().
  void said() {
    said_ = taken_;
    said_bytes_ = taken_bytes_;
  }

  /// Who reads it, in the order in which they came.
  std::vector<std::unique_ptr<StreamReader>> readers;

 private:
  struct Chunk {
    Blob body;
    std::uint64_t end = 0;  // bytes of the stream, this one's included
  };
  const Chunk& at(std::int64_t seq) const { return chunks_[front_ + static_cast<std::size_t>(seq - first_)]; }
  void drop_front();

  std::vector<Chunk> chunks_;  // from front_ on; what is before it is empty
  std::size_t front_ = 0;
  std::int64_t first_ = 0, next_ = 0;
  std::int64_t taken_ = -1, said_ = -1;
  std::int64_t refused_ = -1;  // the last chunk of those that were
  std::uint64_t taken_bytes_ = 0, said_bytes_ = 0;
  std::uint64_t dropped_bytes_ = 0, bytes_ = 0;  // of the stream: up to first_, up to next_
  bool placed_ = true, begun_ = false, whole_ = true;
};

}  // namespace lanemq::core
