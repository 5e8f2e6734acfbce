// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/answer_stream.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

void append(AnswerStream& stream, std::size_t bytes) {
  stream.append(Blob::copy(std::string(bytes, 'x')));
}

TEST(AnswerStream, stops_its_worker_at_the_window_of_chunks) {
  AnswerStream stream;
  for (std::size_t i = 0; i < limits::stream_chunks_max; ++i) {
    ASSERT_FALSE(stream.full());
    append(stream, 1);
  }

  EXPECT_TRUE(stream.full());
  stream.take(0);
  EXPECT_FALSE(stream.full());
}

TEST(AnswerStream, lets_the_last_chunk_go_beyond_the_window_of_bytes) {
  AnswerStream stream;
  append(stream, limits::stream_bytes_max - 1);
  EXPECT_FALSE(stream.full());
  append(stream, 10 * limits::stream_bytes_max);
  EXPECT_TRUE(stream.full());
  stream.take(0);
  EXPECT_TRUE(stream.full());
  stream.take(1);
  EXPECT_FALSE(stream.full());
}

TEST(AnswerStream, speaks_of_its_window_when_half_of_it_was_taken) {
  AnswerStream stream;
  for (int i = 0; i < 40; ++i)
    append(stream, 1);
  const auto half = static_cast<std::int64_t>(limits::stream_chunks_max / 2);

  stream.take(half - 2);
  EXPECT_FALSE(stream.half_taken());
  EXPECT_TRUE(stream.window_grew());
  stream.take(half - 1);
  EXPECT_TRUE(stream.half_taken());
  stream.said();

  EXPECT_FALSE(stream.half_taken());
  EXPECT_FALSE(stream.window_grew());
}

TEST(AnswerStream, never_forgets_by_its_bound_what_was_not_taken) {
  AnswerStream stream;
  for (int i = 0; i < 10; ++i)
    append(stream, 100);
  stream.take(3);

  stream.trim(0);

  EXPECT_EQ(stream.first(), 4);
  EXPECT_EQ(stream.kept_bytes(), 6 * (100 + AnswerStream::kChunkBytes));
  stream.shed(2 * (100 + AnswerStream::kChunkBytes));
  EXPECT_EQ(stream.first(), 8);
  stream.shed(0);
  EXPECT_EQ(stream.first(), stream.next());
  EXPECT_EQ(stream.kept_bytes(), 0U);
}

TEST(AnswerStream, goes_on_after_a_restart_where_its_worker_does) {
  AnswerStream stream;
  stream.restore(3);
  EXPECT_TRUE(stream.begun());
  EXPECT_FALSE(stream.placed());

  stream.place(7);
  append(stream, 5);

  EXPECT_EQ(stream.first(), 7);
  EXPECT_EQ(stream.next(), 8);
  EXPECT_EQ(stream.taken(), 6);
}

TEST(AnswerStream, begins_anew_as_long_as_nothing_was_sent) {
  AnswerStream stream;
  stream.restore(0);
  EXPECT_FALSE(stream.begun());

  stream.begin_attempt();

  EXPECT_TRUE(stream.placed());
  EXPECT_EQ(stream.next(), 0);
}

/// Against a list of all chunks and two numbers.
void check_against_model(const std::vector<std::uint8_t>& steps) {
  AnswerStream stream;
  std::vector<std::string> all;
  std::size_t first = 0;
  std::int64_t taken = -1;
  const auto bytes = [&](std::size_t from) {
    std::size_t sum = 0;
    for (std::size_t i = from; i < all.size(); ++i)
      sum += all[i].size() + AnswerStream::kChunkBytes;
    return sum;
  };
  for (const std::uint8_t draw : steps) {
    const int step = draw % 100;
    if (step < 60 && !stream.full()) {
      all.emplace_back(static_cast<std::size_t>(step) * 200, static_cast<char>('a' + step % 26));
      stream.append(Blob::copy(all.back()));
    } else if (step < 85 && !all.empty()) {
      const std::int64_t seq =
          std::min<std::int64_t>(static_cast<std::int64_t>(all.size()) - 1, taken + step % 7);
      stream.take(seq);
      taken = std::max(taken, seq);
    } else {
      const std::size_t bound = static_cast<std::size_t>(step) * 100;
      stream.trim(bound);
      while (first < all.size() && static_cast<std::int64_t>(first) <= taken && bytes(first) > bound)
        ++first;
    }
    RC_ASSERT(stream.first() == static_cast<std::int64_t>(first));
    RC_ASSERT(stream.next() == static_cast<std::int64_t>(all.size()));
    RC_ASSERT(stream.taken() == taken);
    RC_ASSERT(stream.kept_bytes() == bytes(first));
    for (std::size_t i = first; i < all.size(); ++i)
      RC_ASSERT(stream.chunk(static_cast<std::int64_t>(i)).bytes() == all[i]);
  }
}

TEST(AnswerStream, keeps_what_a_simple_model_keeps) {
  EXPECT_TRUE(rc::check([](const std::vector<std::uint8_t>& steps) { check_against_model(steps); }));
}

}  // namespace
}  // namespace lanemq::core
