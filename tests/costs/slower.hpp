// SPDX-License-Identifier: Apache-2.0
// For scripts/costs --planted alone, which has it included in front of each file of a copy of the sources:
// there each slow-down of planted.txt takes so many rounds as LANEMQ_SLOWER says, as in "7:120": of the plant
// 7, 120.
#pragma once

#include <array>
#include <cstdlib>

inline std::array<int, 128> lanemq_rounds() {
  std::array<int, 128> rounds{};
  if (const char* const said = std::getenv("LANEMQ_SLOWER")) {
    char* end = nullptr;
    const unsigned long plant = std::strtoul(said, &end, 10);
    if (plant < rounds.size() && *end == ':') rounds[plant] = std::atoi(end + 1);
  }
  return rounds;
}

inline const std::array<int, 128> kLanemqRounds = lanemq_rounds();

[[gnu::noinline]] inline void lanemq_slower(unsigned plant) {
  for (volatile int round = 0; round < kLanemqRounds[plant]; round = round + 1) {
  }
}
