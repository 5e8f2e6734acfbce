// SPDX-License-Identifier: Apache-2.0
// The decoder under a million mutated frames, and what reads upstreams under half as many, the same ones in
// every run. LANEMQ_FUZZ_FRAMES and LANEMQ_FUZZ_SEED in the environment ask for more or for others.
#include <gtest/gtest.h>

#include <lanemq/limits.hpp>

#include "tests/fuzz/frames.hpp"
#include "tests/fuzz/heavy_shapes.hpp"
#include "tests/fuzz/streams.hpp"

namespace lanemq::fuzz {
namespace {

class Mutations : public testing::TestWithParam<Direction> {};

TEST_P(Mutations, never_break_a_promise_of_the_decoder) {
  const std::uint64_t frames = from_environment("LANEMQ_FUZZ_FRAMES", 1'000'000) / std::size(kDirections);
  const std::uint64_t seed = from_environment("LANEMQ_FUZZ_SEED", 1);
  const std::vector<std::string> seeds = seed_frames(GetParam());
  Mutator mutator(seed);

  std::uint64_t well_formed = 0;
  for (std::uint64_t i = 0; i < frames; ++i)
    well_formed += check_frame(GetParam(), mutator.next(seeds)) ? 1 : 0;

  // A run that found nothing well-formed, or nothing broken, would have tried nothing.
  EXPECT_GT(well_formed, frames / 100);
  EXPECT_LT(well_formed, frames / 2);
}

TEST_P(Mutations, start_from_seeds_that_are_mostly_well_formed) {
  std::size_t well_formed = 0;
  const std::vector<std::string> seeds = seed_frames(GetParam());
  for (const std::string& frame : seeds)
    well_formed += check_frame(GetParam(), frame) ? 1 : 0;

  EXPECT_GE(well_formed, seeds.size() / 3);
}

INSTANTIATE_TEST_SUITE_P(Directions, Mutations, testing::ValuesIn(kDirections),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// Large frames are slow, and their shape is what counts: a few are enough.
TEST(HeavyMutations, cost_no_more_than_their_bytes) {
  Mutator mutator(from_environment("LANEMQ_FUZZ_SEED", 1));
  std::vector<std::string> seeds;
  for (HeavyShape& shape : heavy_shapes(limits::header_bytes_max))
    seeds.push_back(std::move(shape.frame));
  for (std::uint64_t left = from_environment("LANEMQ_FUZZ_FRAMES", 1'000'000) / 200; left > 0; --left)
    check_frame(Direction::client_to_broker, mutator.next(seeds));
}

// What is checked aborts by itself: these have nothing left to expect.
TEST(StreamMutations, lose_no_byte_of_a_stream_and_cut_it_one_way) {
  Mutator mutator(from_environment("LANEMQ_FUZZ_SEED", 1));
  const std::vector<std::string> seeds = event_seeds();
  for (std::uint64_t left = from_environment("LANEMQ_FUZZ_FRAMES", 1'000'000) / 10; left > 0; --left)
    check_events(mutator.next(seeds));
}

TEST(StreamMutations, are_edited_once_as_requests) {
  Mutator mutator(from_environment("LANEMQ_FUZZ_SEED", 1));
  const std::vector<std::string> seeds = request_seeds();
  for (std::uint64_t left = from_environment("LANEMQ_FUZZ_FRAMES", 1'000'000) * 2 / 5; left > 0; --left)
    check_request(mutator.next(seeds));
}

}  // namespace
}  // namespace lanemq::fuzz
