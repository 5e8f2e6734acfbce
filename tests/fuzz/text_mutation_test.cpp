// SPDX-License-Identifier: Apache-2.0
// Mutated URLs, paths and texts for a terminal, the same ones in every run. LANEMQ_FUZZ_FRAMES and
// LANEMQ_FUZZ_SEED in the environment ask for more or for others.
#include <cstdint>

#include <gtest/gtest.h>

#include "tests/fuzz/frames.hpp"
#include "tests/fuzz/texts.hpp"

namespace lanemq::fuzz {
namespace {

// What is checked aborts by itself: these have nothing left to expect.
template <class Check>
void run(const std::vector<std::string>& seeds, Check check) {
  for (const std::string& seed : seeds)
    check(seed);
  Mutator mutator(from_environment("LANEMQ_FUZZ_SEED", 1));
  for (std::uint64_t left = from_environment("LANEMQ_FUZZ_FRAMES", 1'000'000) / 20; left > 0; --left)
    check(mutator.next(seeds));
}

TEST(TextMutations, a_url_is_what_its_parts_make_and_shows_no_password) {
  run(url_seeds(), check_url);
}

TEST(TextMutations, no_path_climbs_unseen) {
  run(path_seeds(), check_path);
}

TEST(TextMutations, nothing_acts_on_a_terminal) {
  run(terminal_seeds(), check_terminal);
}

}  // namespace
}  // namespace lanemq::fuzz
