// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/restore.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "broker/core/jobs/stored.hpp"
#include "broker/io/loop/clock_keeper.hpp"
#include "broker/io/store/memory_store.hpp"

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

constexpr std::int64_t kNoted = 1'790'000'000'000'000;  // in 2026
constexpr ClockNote kNote{.stored_us = 1'000, .at = {.unix_us = kNoted, .uptime_us = 700, .boot = 7}};

TEST(StoredClock, goes_by_the_uptime_in_the_same_run_of_the_machine) {
  EXPECT_EQ(stored_us(kNote, {.unix_us = 1, .uptime_us = 900, .boot = 7}), 1'200);
}

TEST(StoredClock, goes_by_the_wall_clock_after_a_start_of_the_machine) {
  EXPECT_EQ(stored_us(kNote, {.unix_us = kNoted + 500, .uptime_us = 900, .boot = 8}), 1'500);
  EXPECT_EQ(stored_us(kNote, {.unix_us = 1, .uptime_us = 900, .boot = 8}), 1'000);
}

TEST(StoredClock, takes_nothing_for_passed_since_a_clock_that_was_never_set) {
  ClockNote note = kNote;
  note.at.unix_us = 60'000'000;  // a minute of 1970

  EXPECT_EQ(stored_us(note, {.unix_us = kNoted, .uptime_us = 900, .boot = 8}), 1'000);
  EXPECT_EQ(stored_us(note, {.unix_us = 1, .uptime_us = 900, .boot = 7}), 1'200);
}

TEST(StoredClock, takes_two_starts_that_it_does_not_know_for_different_ones) {
  ClockNote note = kNote;
  note.at.boot = 0;

  EXPECT_EQ(stored_us(note, {.unix_us = kNoted + 500, .uptime_us = 900, .boot = 0}), 1'500);
}

// ---- a machine that is off, and whose clock is wrong --------------------------------------------------

using namespace std::chrono_literals;
using std::chrono::microseconds;

constexpr microseconds kIn2026 = 1'790'000'000s;
constexpr microseconds k1970 = -kIn2026 + 60s;

/// Its true time, its wall clock, and the clock since its boot.
class Machine {
 public:
  void start(microseconds clock_off_by) {
    ++boot_;
    booted_ = truth_;
    off_by_ = clock_off_by;
  }
  void pass(microseconds time) { truth_ += time; }
  void set_clock(microseconds off_by) { off_by_ = off_by; }
  microseconds truth() const { return truth_; }
  ClockReading read() const {
    return {.unix_us = (truth_ + off_by_).count(), .uptime_us = (truth_ - booted_).count(), .boot = boot_};
  }

 private:
  microseconds truth_ = kIn2026, booted_{}, off_by_{};
  std::int64_t boot_ = 6;
};

/// A life of the broker.
class Life {
 public:
  Life(Machine& machine, StoreWithClock& store) : machine_(machine), store_(store) {
    core::Options options = core::default_options();
    options.store_durable = true;
    core::Broker broker(options, 1);
    const auto restored = restore(broker, store,
                                  {.now = [] { return core::TimePoint(); },
                                   .progress = [](std::size_t) {},
                                   .clock = [&machine] { return machine.read(); }});
    if (!restored) throw std::runtime_error(restored.error().message);
    behind_us_ = restored->clocks.behind_us;
    stored_at_start_ = microseconds(restored->clocks.noted.stored_us);
    keeper_.emplace(restored->clocks, [&machine] { return machine.read(); });
  }

  /// As the loop does: a look each second, and other writes in each of these turns or in none.
  void run(microseconds time, bool with_writes = false) {
    for (const microseconds end = machine_.truth() + time; machine_.truth() < end;) {
      machine_.pass(1s);
      core::Writes writes;
      if (with_writes) core::write_note("numbers", {{.name = "n", .numbers = core::StoredNumbers()}}, writes);
      const std::size_t others = writes.size();
      keeper_->look(core::TimePoint(machine_.truth()), writes);
      notes_ += writes.size() - others;
      if (!writes.empty()) store_.submit(writes);
    }
  }
  void stop() {
    core::Writes writes;
    keeper_->note(writes);
    store_.submit(writes);
  }
  /// The store's clock at the start.
  microseconds stored_at_start() const { return stored_at_start_; }
  microseconds behind() const { return microseconds(behind_us_); }
  std::size_t notes() const { return notes_; }

 private:
  Machine& machine_;
  StoreWithClock& store_;
  std::optional<ClockKeeper> keeper_;
  microseconds stored_at_start_{};
  std::int64_t behind_us_ = 0;
  std::size_t notes_ = 0;
};

class WrongClock : public testing::TestWithParam<microseconds> {
 protected:
  Machine machine_;
  StoreWithClock store_;
};
INSTANTIATE_TEST_SUITE_P(By, WrongClock, testing::Values(k1970, -9h, -3s, 0s, 3s, 26h, 40 * 24h));

TEST_P(WrongClock, of_the_last_start_that_was_set_right_does_not_count) {
  for (const bool is_killed : {true, false})
    for (const microseconds off : {60s, 26 * 3600s}) {
      machine_.start(GetParam());
      const microseconds began = machine_.truth();
      Life last(machine_, store_);
      last.run(5s);
      machine_.set_clock(0s);  // a time server has answered
      last.run(1h + 7s);
      if (!is_killed) last.stop();
      machine_.pass(off);
      machine_.start(0s);
      const Life next(machine_, store_);

      EXPECT_EQ((next.stored_at_start() - last.stored_at_start()).count(),
                (machine_.truth() - began).count());
      EXPECT_EQ(next.behind(), 0s);
    }
}

TEST_P(WrongClock, of_this_start_passes_nothing_where_it_is_behind) {
  if (GetParam() > -2s) return;  // one that is ahead looks like one that was off for longer
  machine_.start(0s);
  Life last(machine_, store_);
  last.run(1h);
  last.stop();
  machine_.pass(1s);
  machine_.start(GetParam());
  Life now(machine_, store_);

  EXPECT_EQ(now.stored_at_start() - last.stored_at_start(), 1h);
  EXPECT_EQ(now.behind(), -GetParam() - 1s);

  now.run(10s);
  machine_.set_clock(0s);
  now.run(10min);
  machine_.pass(3h);
  machine_.start(0s);
  const Life next(machine_, store_);
  EXPECT_EQ(next.stored_at_start() - now.stored_at_start(), 10min + 10s + 3h);
}

TEST_P(WrongClock, of_every_start_passes_no_more_than_has_passed) {
  if (GetParam() > 0s) return;
  machine_.start(0s);
  const microseconds began = machine_.truth();
  const Life first(machine_, store_);
  for (const bool is_restarted : {false, true, false}) {  // the broker alone, on the same boot
    machine_.pass(3h);
    if (!is_restarted) machine_.start(GetParam());
    Life life(machine_, store_);
    life.run(10min);
    EXPECT_LE(life.stored_at_start() - first.stored_at_start(), machine_.truth() - began);
  }
  machine_.pass(1h);
  machine_.start(0s);
  const Life last(machine_, store_);

  EXPECT_EQ((last.stored_at_start() - first.stored_at_start()).count(), (machine_.truth() - began).count());
}

TEST_P(WrongClock, of_the_last_start_that_nobody_set_passes_no_more_than_has_passed_where_it_was_ahead) {
  if (GetParam() < 0s) return;
  machine_.start(GetParam());
  const microseconds began = machine_.truth();
  Life last(machine_, store_);
  last.run(1h);
  last.stop();
  machine_.pass(60s);
  machine_.start(0s);
  Life now(machine_, store_);
  now.run(1h);
  now.stop();
  machine_.pass(60s);
  machine_.start(0s);
  const Life next(machine_, store_);

  EXPECT_LE(next.stored_at_start() - last.stored_at_start(), machine_.truth() - began);
  EXPECT_GE(next.stored_at_start() - last.stored_at_start(), 2h);
}

TEST(StoredClock, is_noted_once_a_minute_and_beside_other_writes_where_there_are_any) {
  Machine machine;
  StoreWithClock store;
  machine.start(0s);
  Life life(machine, store);

  life.run(1h);
  EXPECT_EQ(life.notes(), 59u);
  life.run(1h, true);
  EXPECT_EQ(life.notes(), 59u + 72u);
}

TEST(StoredClock, is_noted_at_once_when_the_wall_clock_is_set) {
  Machine machine;
  StoreWithClock store;
  machine.start(0s);
  Life life(machine, store);
  life.run(10s);

  machine.set_clock(900ms);  // as a time server corrects a clock that runs
  life.run(10s);
  EXPECT_EQ(life.notes(), 0u);
  machine.set_clock(3s);
  life.run(10s);
  EXPECT_EQ(life.notes(), 1u);
  machine.set_clock(-1h);
  life.run(10s);
  EXPECT_EQ(life.notes(), 2u);
}

}  // namespace
}  // namespace lanemq::io
