// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/answer_stream.hpp"

#include <utility>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

void AnswerStream::begin_attempt() {
  LANEMQ_CHECK(!begun_);
  next_ = first_ = 0;
  taken_ = said_ = refused_ = -1;
  placed_ = true;
}

void AnswerStream::restore(std::int64_t sent) {
  begun_ = sent > 0;
  whole_ = !begun_;
  first_ = next_ = sent;
  placed_ = false;
}

void AnswerStream::place(std::int64_t seq) {
  LANEMQ_CHECK(!placed_ && chunks_.empty());
  first_ = next_ = seq;
  taken_ = said_ = seq - 1;
  placed_ = true;
}

std::uint64_t AnswerStream::bytes_until(std::int64_t seq) const {
  if (seq < first_) return dropped_bytes_;
  return seq < next_ ? at(seq).end : bytes_;
}

std::size_t AnswerStream::kept_bytes() const {
  return static_cast<std::size_t>(bytes_ - dropped_bytes_) +
         static_cast<std::size_t>(next_ - first_) * kChunkBytes;
}

void AnswerStream::append(Blob body) {
  LANEMQ_CHECK(placed_ && body.owns());
  bytes_ += body.size();
  chunks_.push_back({std::move(body), bytes_});
  ++next_;
  begun_ = true;
}

void AnswerStream::trim(std::size_t bytes_max) {
  while (kept_bytes() > bytes_max && first_ <= taken_ && first_ < next_)
    drop_front();
}

void AnswerStream::shed(std::size_t bytes_max) {
  while (kept_bytes() > bytes_max && first_ < next_)
    drop_front();
}

void AnswerStream::drop_front() {
  dropped_bytes_ = chunks_[front_].end;
  chunks_[front_++] = {};
  ++first_;
  // Moves the rest down once at least half of the list is empty: over time one move per chunk.
  if (2 * front_ < chunks_.size()) return;
  chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(front_));
  front_ = 0;
}

bool AnswerStream::full() const {
  return next_ - 1 - taken_ >= static_cast<std::int64_t>(limits::stream_chunks_max) ||
         bytes_ - taken_bytes_ >= limits::stream_bytes_max;
}

bool AnswerStream::holds_worker() const {
  return next_ - 1 - said_ >= static_cast<std::int64_t>(limits::stream_chunks_max) ||
         bytes_ - said_bytes_ >= limits::stream_bytes_max;
}

void AnswerStream::take(std::int64_t seq) {
  LANEMQ_CHECK(seq < next_);
  if (seq <= taken_) return;
  taken_ = seq;
  taken_bytes_ = bytes_until(seq);
}

bool AnswerStream::half_taken() const {
  return taken_ - said_ >= static_cast<std::int64_t>(limits::stream_chunks_max / 2) ||
         taken_bytes_ - said_bytes_ >= limits::stream_bytes_max / 2;
}

}  // namespace lanemq::core
