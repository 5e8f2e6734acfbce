// SPDX-License-Identifier: Apache-2.0
#include "broker/io/restore.hpp"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "broker/core/jobs/stored.hpp"
#include "broker/io/memory_store.hpp"

namespace lanemq::io {
namespace {

std::vector<std::int64_t> numbers_of(const std::string& clock_note) {
  core::StoredDecoder decoder;
  auto entries = decoder.entries(clock_note);
  std::vector<std::int64_t> numbers;
  if (!entries || entries->empty()) return numbers;
  for (int i = 0; i < 4; ++i)
    numbers.push_back(entries->front().numbers.next());
  return numbers;
}

/// Holds the note of the clock, and has a clock of its own.
class StoreWithClock final : public MemoryStore {
 public:
  bool durable() const override { return true; }
  std::optional<std::int64_t> unix_us() override { return unix_us_; }
  Result<void> load(StoreReader& reader) override {
    return clock_.empty() ? Result<void>() : reader.note("clock", clock_);
  }
  std::uint64_t submit(core::Writes& writes) override {
    for (const core::Write& write : writes)
      if (writes.state(write) == "clock") clock_ = writes.record(write);
    return MemoryStore::submit(writes);
  }
  std::optional<std::int64_t> unix_us_;
  std::string clock_;
};

void start(StoreWithClock& store) {
  core::Options options = core::default_options();
  options.store_durable = true;
  core::Broker broker(options, 1);
  const auto restored =
      restore(broker, store, {.now = [] { return core::TimePoint(); }, .progress = [](std::size_t) {}});
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
}

TEST(StoredClock, goes_by_the_stores_own_clock_where_it_has_one) {
  StoreWithClock store;
  store.unix_us_ = 5'000'000'000;  // an hour of 1970: no machine's clock is so far back
  start(store);
  const auto before = numbers_of(store.clock_);
  store.unix_us_ = 5'003'000'000;

  start(store);  // on another machine, whose clock does not count

  const auto after = numbers_of(store.clock_);
  ASSERT_EQ(before.size(), 4u);
  ASSERT_EQ(after.size(), 4u);
  EXPECT_EQ(after[0] - before[0], 3'000'000) << "the store's clock";
  EXPECT_EQ(after[1], 5'003'000'000);
  EXPECT_EQ(after[2], 0) << "its uptime would mean nothing to a successor";
  EXPECT_EQ(after[3], 0);
}

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
