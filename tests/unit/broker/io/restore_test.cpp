// SPDX-License-Identifier: Apache-2.0
#include "broker/io/restore.hpp"

#include <gtest/gtest.h>

namespace lanemq::io {
namespace {

constexpr ClockNote kNote{.stored_us = 1'000, .at = {.unix_us = 50'000, .uptime_us = 700, .boot = 7}};

TEST(StoredClock, goes_by_the_uptime_in_the_same_run_of_the_machine) {
  EXPECT_EQ(stored_us(kNote, {.unix_us = 1, .uptime_us = 900, .boot = 7}), 1'200);
}

TEST(StoredClock, goes_by_the_wall_clock_after_a_start_of_the_machine) {
  EXPECT_EQ(stored_us(kNote, {.unix_us = 50'500, .uptime_us = 900, .boot = 8}), 1'500);
  EXPECT_EQ(stored_us(kNote, {.unix_us = 1, .uptime_us = 900, .boot = 8}), 1'000);
}

TEST(StoredClock, takes_two_starts_that_it_does_not_know_for_different_ones) {
  ClockNote note = kNote;
  note.at.boot = 0;

  EXPECT_EQ(stored_us(note, {.unix_us = 50'500, .uptime_us = 900, .boot = 0}), 1'500);
}

}  // namespace
}  // namespace lanemq::io
