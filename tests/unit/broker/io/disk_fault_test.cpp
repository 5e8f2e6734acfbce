// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/io/store/open/open_store.hpp"
#include "tests/unit/broker/io/store_workload.hpp"

namespace lanemq {
namespace {

using io::StoreCondition;
using test::FaultyDisk;
using test::submit;
using test::Turn;
using test::Workload;
using testing::AllOf;
using testing::HasSubstr;
using Call = test::FaultyDisk::Call;

constexpr std::size_t kTurnsOfRun = 24;

/// How a run ended that the disk may have failed.
struct Ending {
  bool opened = false;
  std::size_t committed = 0;
  StoreCondition condition = StoreCondition::good;
  std::string trouble;
  std::int64_t calls = 0;  ///< of the kind that was to fail, before the store was closed
};

/// Submits all turns, closes the store as at a normal end, and says what it had promised.
Ending run_on(FaultyDisk& disk, const Workload& workload, Call call) {
  Ending run;
  {
    const auto store = test::open_on(disk);
    run.opened = store.has_value();
    if (!store) {
      run.trouble = store.error().message;
      run.calls = disk.calls(call);
      return run;
    }
    for (std::size_t turn = 0; turn < workload.turns.size(); ++turn) {
      submit(**store, workload.turns[turn]);
      if (turn % 3 != 0) (*store)->flush();
    }
    (*store)->flush();
    run.calls = disk.calls(call);
    run.condition = (*store)->condition();
    run.trouble = (*store)->trouble();
    run.committed = (*store)->committed();
    if (run.condition == StoreCondition::failed) {
      submit(**store, Turn().put_note("after", "the failure"));
      (*store)->flush();
      EXPECT_EQ((*store)->committed(), run.committed) << "nothing is committed any more";
    }
  }
  return run;
}

class DiskError : public testing::TestWithParam<std::pair<Call, int>> {};

/// At the n-th call, for every n of the run; once, after which the disk says that all is well, and for good.
TEST_P(DiskError, ends_the_store_for_good_and_loses_nothing_that_was_committed) {
  const auto [call, code] = GetParam();
  const Workload workload(7, kTurnsOfRun);
  FaultyDisk::Random random(7);
  std::int64_t calls = 0;
  {
    FaultyDisk disk;
    ASSERT_EQ(run_on(disk, workload, call).committed, kTurnsOfRun);
    calls = disk.calls(call);
  }
  ASSERT_GT(calls, 5);
  int failed = 0;
  for (std::int64_t nth = 1; nth <= calls; ++nth)
    for (const std::int64_t times : {std::int64_t{1}, FaultyDisk::kForGood}) {
      FaultyDisk disk;
      disk.fail(call, nth, code, times);
      const Ending run = run_on(disk, workload, call);

      const std::string where = "call " + std::to_string(nth) + (times == 1 ? " once" : " for good");
      if (run.opened && run.condition == StoreCondition::failed) {
        ++failed;
        EXPECT_THAT(run.trouble, AllOf(HasSubstr("store has failed"), HasSubstr("nothing is committed"),
                                       HasSubstr(std::to_string(code))))
            << where;
      } else if (run.opened) {
        // SQLite does without some reads; of what was to be written nothing is done without.
        EXPECT_TRUE(call == Call::read || run.calls < nth) << where << ": the store did not notice";
        EXPECT_EQ(run.committed, kTurnsOfRun) << where;
      } else {
        EXPECT_THAT(run.trouble, HasSubstr("store cannot be used")) << where;
      }
      for (const auto& files : {disk.files(), disk.files_after_power_loss(random)}) {
        const auto turns = test::turns_on(files, workload);
        ASSERT_TRUE(turns.has_value()) << where << ": " << turns.error().message;
        ASSERT_NE(*turns, std::string::npos) << where << ": a content that no turn has made";
        ASSERT_GE(*turns, run.committed) << where;
      }
    }
  EXPECT_GT(failed, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, DiskError,
                         testing::Values(std::pair(Call::sync, SQLITE_IOERR_FSYNC),
                                         std::pair(Call::write, SQLITE_IOERR_WRITE),
                                         std::pair(Call::read, SQLITE_IOERR_READ)),
                         [](const auto& what) {
                           return std::string(what.param.first == Call::sync    ? "sync"
                                              : what.param.first == Call::write ? "write"
                                                                                : "read");
                         });

// ---- a full disk --------------------------------------------------------------------------------------

TEST(DiskFull, at_any_write_delays_what_is_committed_and_loses_nothing) {
  const Workload workload(8, kTurnsOfRun);
  std::int64_t calls = 0;
  {
    FaultyDisk disk;
    ASSERT_EQ(run_on(disk, workload, Call::write).committed, kTurnsOfRun);
    calls = disk.calls(Call::write);
  }
  int full = 0;
  for (std::int64_t nth = 1; nth <= calls; ++nth) {
    FaultyDisk disk;
    // Once is what the reserve is for; more than that waits for room.
    disk.fail(Call::write, nth, SQLITE_FULL, nth % 20 == 0 ? 3 : 1);
    const auto store = test::open_on(disk);
    if (!store) {
      EXPECT_THAT(store.error().message, HasSubstr("free some of the disk"));
      continue;
    }
    for (std::size_t turn = 0; turn < kTurnsOfRun; ++turn) {
      submit(**store, workload.turns[turn]);
      if (turn % 3 != 0) (*store)->flush();
    }
    ASSERT_TRUE(test::wait_for(**store, std::uint64_t{kTurnsOfRun})) << "write " << nth;
    full += disk.calls(Call::write) >= nth;
    EXPECT_NE((*store)->condition(), StoreCondition::failed) << (*store)->trouble();
    const auto turns = test::turns_on(disk.files(), workload);
    ASSERT_TRUE(turns.has_value()) << "write " << nth << ": " << turns.error().message;
    ASSERT_EQ(*turns, kTurnsOfRun) << "write " << nth;
  }
  EXPECT_GT(full, 100);
}

constexpr std::uint64_t kDiskBytes = 16u << 20;
const std::string kBody(10'000, 'b');

/// A store on a disk of 16 MiB, with the reserve that the broker asks for.
class SmallDisk : public testing::Test {
 protected:
  SmallDisk() {
    disk_.set_capacity(kDiskBytes);
    auto store = io::open_store({.specification = "sqlite:store", .vfs = disk_.vfs(), .disk = &disk_});
    if (!store) throw std::runtime_error(store.error().message);
    store_ = std::move(*store);
  }
  /// Takes jobs as the broker does: until the store says that it is full.
  std::uint64_t fill() {
    std::uint64_t number = 0;
    while (store_->condition() == StoreCondition::good && number < 10'000) {
      submit(*store_, Turn().insert_job(++number, {"s", "r", kBody}));
      if (number % 10 == 0) store_->flush();
    }
    return number;
  }
  /// Everything but so many bytes is taken by somebody else.
  void leave(std::uint64_t bytes) {
    disk_.allocate("other", disk_.file_bytes("other") + disk_.free_bytes("").value() - bytes);
  }

  FaultyDisk disk_;
  std::unique_ptr<io::Store> store_;
};

TEST_F(SmallDisk, is_full_before_a_commit_fails_and_good_again_when_jobs_have_ended) {
  EXPECT_EQ(disk_.file_bytes("store.reserve"), 4u << 20);

  const std::uint64_t jobs = fill();
  ASSERT_TRUE(test::wait_for(*store_, jobs));

  EXPECT_EQ(store_->condition(), StoreCondition::full);
  EXPECT_THAT(store_->trouble(), HasSubstr("4.0 MiB are kept for running jobs (store_reserve)"));
  EXPECT_GT(jobs, 200u);
  EXPECT_EQ(disk_.file_bytes("store.reserve"), 4u << 20);

  for (std::uint64_t number = 1; number <= jobs; ++number)
    submit(*store_, Turn().insert_result(number, {"done", "small"}).erase_job(number));
  ASSERT_TRUE(test::wait_for(*store_, 2 * jobs));
  ASSERT_TRUE(test::wait_for(*store_, StoreCondition::good));
  EXPECT_EQ(store_->trouble(), "");
}

TEST_F(SmallDisk, lets_running_jobs_finish_with_what_was_kept_back) {
  for (std::uint64_t number = 1; number <= 200; ++number)
    submit(*store_, Turn().insert_job(number, {"s", "r", kBody}));
  store_->flush();
  leave(0);

  std::uint64_t ticket = 0;
  for (std::uint64_t number = 1; number <= 200; ++number)
    ticket = submit(*store_, Turn().insert_result(number, {"done", kBody}).erase_job(number));
  ASSERT_TRUE(test::wait_for(*store_, ticket));
  ASSERT_TRUE(test::wait_for(*store_, StoreCondition::full));
  EXPECT_THAT(store_->trouble(), AllOf(HasSubstr("is full"), HasSubstr("free some of the disk")));

  disk_.remove("other");
  ASSERT_TRUE(test::wait_for(*store_, StoreCondition::good));
  EXPECT_GT(disk_.file_bytes("store.reserve"), 0u) << "kept back again first";
}

TEST_F(SmallDisk, waits_for_room_where_even_that_is_gone_and_reads_meanwhile) {
  submit(*store_, Turn().insert_job(1, {"s", "r", kBody}));
  store_->flush();
  leave(0);
  disk_.remove("store.reserve");
  leave(0);

  for (std::uint64_t number = 2; number <= 100; ++number)
    submit(*store_, Turn().insert_job(number, {"s", "r", kBody}));
  const auto last = submit(*store_, Turn().erase_job(2));
  ASSERT_TRUE(test::wait_for(*store_, StoreCondition::full));
  store_->flush();
  EXPECT_LT(store_->committed(), last) << "flush() does not wait for room";
  const auto bodies = test::read_bodies(*store_, {1});
  ASSERT_EQ(bodies.size(), 1u);
  EXPECT_EQ(bodies[0].body->bytes(), kBody);

  disk_.remove("other");
  ASSERT_TRUE(test::wait_for(*store_, last));
  ASSERT_TRUE(test::wait_for(*store_, StoreCondition::good));
  const auto rest = test::read_bodies(*store_, {2, 100});
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_FALSE(rest[0].body.has_value());
  EXPECT_EQ(rest[1].body->bytes(), kBody);
}

TEST_F(SmallDisk, that_is_full_holds_nobody_up) {
  submit(*store_, Turn().insert_job(1, {"s", "r", kBody}));
  store_->flush();
  leave(0);
  disk_.remove("store.reserve");
  leave(0);
  for (std::uint64_t number = 2; number <= 100; ++number)
    submit(*store_, Turn().insert_job(number, {"s", "r", kBody}));
  ASSERT_TRUE(test::wait_for(*store_, StoreCondition::full));
  store_->flush();

  // It asks for room time and again.
  const std::uint64_t before = store_->pulse();
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (store_->pulse() == before && std::chrono::steady_clock::now() < patience)
    std::this_thread::yield();
  EXPECT_GT(store_->pulse(), before);
}

TEST_F(SmallDisk, that_is_full_at_a_restart_says_so_and_has_its_reserve) {
  const std::uint64_t jobs = fill();
  ASSERT_TRUE(test::wait_for(*store_, jobs));
  store_.reset();
  leave(1 << 20);

  auto store = io::open_store({.specification = "sqlite:store", .vfs = disk_.vfs(), .disk = &disk_});

  ASSERT_TRUE(store.has_value()) << store.error().message;
  EXPECT_EQ((*store)->condition(), StoreCondition::full);
  EXPECT_GE(disk_.file_bytes("store.reserve"), 2u << 20);
  const auto content = test::content_of(**store);
  ASSERT_TRUE(content.has_value());
  EXPECT_EQ(content->jobs.size(), jobs);
}

}  // namespace
}  // namespace lanemq
