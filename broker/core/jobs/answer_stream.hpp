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

/// A streamed answer: the chunks that are kept, and how far the worker may send on.
///
/// Chunks are numbered from 0 without a gap. The last ones are kept for readers who come later; the holder
/// decides which older ones go. The worker may send another chunk while fewer than limits::stream_chunks_max
/// chunks and limits::stream_bytes_max bytes are not taken; so the last chunk may go beyond the bytes.
///
/// Kept chunks outlive the job, with its result; the readers do not.
class AnswerStream {
 public:
  /// A chunk's share of the byte bounds, without its body.
  static constexpr std::size_t kChunkBytes = 64;

  /// Begins another hand-over. Requires: no content yet, so that the worker starts at 0.
  void begin_attempt();
  /// An earlier life of the broker has sent at least `sent` chunks. The worker's next chunk tells where the
  /// stream stands.
  void restore(std::int64_t sent);
  /// Sets the number of the next chunk. Requires: !placed().
  void place(std::int64_t seq);

  /// Whether the number of the next chunk is known.
  bool placed() const { return placed_; }
  /// Whether clients got part of the answer, so that it cannot begin anew.
  bool begun() const { return begun_; }
  /// The oldest kept chunk; next() where none is kept.
  std::int64_t first() const { return first_; }
  std::int64_t next() const { return next_; }
  /// Requires: first() <= seq < next().
  const Blob& chunk(std::int64_t seq) const { return at(seq).body; }
  /// Bytes of the stream up to the end of a chunk, as far as known.
  std::uint64_t bytes_until(std::int64_t seq) const;
  /// Bytes of the stream so far; none where an earlier life of the broker had its beginning.
  std::optional<std::uint64_t> bytes() const { return whole_ ? std::optional(bytes_) : std::nullopt; }
  /// The kept chunks' share of the byte bounds.
  std::size_t kept_bytes() const;

  /// Requires: placed(), !full(), and that the body owns its bytes.
  void append(Blob body);
  /// Drops the oldest chunks that were taken while more than `bytes_max` are kept.
  void trim(std::size_t bytes_max);
  /// Drops the oldest chunks, taken or not, while more than `bytes_max` are kept: memory is short.
  void shed(std::size_t bytes_max);

  /// Whether the worker must wait until chunks are taken.
  bool full() const;
  /// The same, by what the worker was told.
  bool holds_worker() const;
  /// Notes a chunk that was refused; the right one may follow.
  void refuse(std::int64_t seq) { refused_ = std::max(refused_, seq); }
  /// Whether a refused chunk never came, so that the answer has a hole.
  bool has_hole() const { return refused_ >= next_; }
  std::int64_t refused() const { return refused_; }
  /// Notes that readers have taken the chunks up to `seq`. Requires: seq < next().
  void take(std::int64_t seq);
  void take_all() {
    if (placed_) take(next_ - 1);
  }
  /// The last chunk that was taken; -1: none.
  std::int64_t taken() const { return taken_; }
  /// Whether readers have taken half a window more than the worker was told.
  bool window_grew() const { return taken_ > said_; }
  bool half_taken() const;
  /// Notes that the worker was told taken().
  void said() {
    said_ = taken_;
    said_bytes_ = taken_bytes_;
  }

  /// The readers, in the order in which they came.
  std::vector<std::unique_ptr<StreamReader>> readers;

 private:
  struct Chunk {
    Blob body;
    std::uint64_t end = 0;  // bytes of the stream, this chunk included
  };
  const Chunk& at(std::int64_t seq) const { return chunks_[front_ + static_cast<std::size_t>(seq - first_)]; }
  void drop_front();

  std::vector<Chunk> chunks_;  // from front_ on; those before it are empty
  std::size_t front_ = 0;
  std::int64_t first_ = 0, next_ = 0;
  std::int64_t taken_ = -1, said_ = -1;
  std::int64_t refused_ = -1;  // the highest refused chunk
  std::uint64_t taken_bytes_ = 0, said_bytes_ = 0;
  std::uint64_t dropped_bytes_ = 0, bytes_ = 0;  // of the stream: up to first_, and up to next_
  bool placed_ = true, begun_ = false, whole_ = true;
};

}  // namespace lanemq::core
