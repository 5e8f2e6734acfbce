// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/sqlite/disk_reserve.hpp"
#include "tests/support/failpoint_hook.hpp"
#include "tests/support/store_driver.hpp"
#include "tests/support/temporary_directory.hpp"

namespace lanemq {
namespace {

using io::Failpoint;
using io::StoreCondition;
using test::content_of;
using test::FailpointHook;
using test::StoreContent;
using test::submit;
using test::Turn;
using test::wait_for;
using testing::AllOf;
using testing::HasSubstr;

const std::string kSmall(100, 's');
const std::string kLarge(50'000, 'L');

std::unique_ptr<io::Store> open(const std::string& path) {
  auto store = io::open_store({.specification = "sqlite:" + path, .reserve_bytes = 1 << 20});
  if (!store) throw std::runtime_error(store.error().message);
  return std::move(*store);
}

/// Stops the store's thread where a transaction has begun, until told to go on.
class Gate {
 public:
  Gate()
      : hook_([this](Failpoint point) {
          if (point != Failpoint::store_before_write) return;
          std::unique_lock lock(mutex_);
          waits_ = true;
          changed_.notify_all();
          changed_.wait(lock, [this] { return open_; });
        }) {}
  ~Gate() { let_go(); }
  void wait_until_reached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waits_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool waits_ = false, open_ = false;
  FailpointHook hook_;
};

class SqliteStore : public testing::Test {
 protected:
  const test::TemporaryDirectory folder_;
  const std::string path_ = folder_.path("lanemq.db");
};

TEST_F(SqliteStore, has_a_pulse_that_stays_odd_while_the_disk_holds_it_up) {
  Gate disk;
  const auto store = open(path_);
  EXPECT_EQ(store->pulse() % 2, 0u);

  submit(*store, Turn().insert_job(1, {"", "r", kSmall}));
  disk.wait_until_reached();
  const std::uint64_t held_up = store->pulse();
  submit(*store, Turn().insert_job(2, {"", "r", kSmall}));

  EXPECT_EQ(held_up % 2, 1u);
  EXPECT_EQ(store->pulse(), held_up);
  disk.let_go();
  store->flush();
  EXPECT_EQ(store->pulse() % 2, 0u);
  EXPECT_GT(store->pulse(), held_up);
}

TEST_F(SqliteStore, keeps_the_file_from_others) {
  const auto store = open(path_);
  struct stat file {};

  ASSERT_EQ(stat(path_.c_str(), &file), 0);

  EXPECT_EQ(file.st_mode & 0777, 0600);
}

TEST_F(SqliteStore, commits_what_queued_up_meanwhile_in_one_transaction) {
  const auto store = open(path_);
  std::atomic<int> transactions{0}, commits{0};
  {
    Gate gate;
    submit(*store, Turn().insert_job(1, {"", "", ""}));
    gate.wait_until_reached();
    for (std::uint64_t number = 2; number <= 100; ++number)
      submit(*store, Turn().insert_job(number, {"", "", ""}));
    EXPECT_EQ(store->committed(), 0u);
    EXPECT_GT(store->backlog_bytes(), 0u);
    gate.let_go();
    ASSERT_TRUE(wait_for(*store, std::uint64_t{1}));
    store->flush();
  }
  const FailpointHook count([&](Failpoint point) {
    transactions += point == Failpoint::store_before_write;
    commits += point == Failpoint::store_after_commit;
  });

  EXPECT_EQ(store->committed(), 100u);
  submit(*store, Turn().erase_job(1));
  store->flush();
  EXPECT_EQ(transactions, 1);
  EXPECT_EQ(commits, 1);
}

TEST_F(SqliteStore, bounds_a_transaction) {
  const auto store = open(path_);
  std::atomic<int> transactions{0};
  std::mutex gate;
  std::unique_lock closed(gate);
  const FailpointHook hook([&](Failpoint point) {
    if (point != Failpoint::store_before_write) return;
    ++transactions;
    const std::lock_guard pass(gate);
  });
  submit(*store, Turn().put_note("first", ""));
  while (transactions == 0)
    std::this_thread::yield();

  // Nine turns of a megabyte, and nothing of a turn is torn off.
  for (std::uint64_t turn = 0; turn < 9; ++turn)
    submit(*store, Turn().insert_job(turn, {"", "", std::string(1 << 20, 'b')}));
  closed.unlock();
  store->flush();

  EXPECT_EQ(transactions, 3);
}

TEST_F(SqliteStore, gives_the_memory_of_a_turn_back_to_be_used_again) {
  const auto store = open(path_);
  Turn first;
  first.put_note("a", std::string(100'000, 'r'));
  const void* const memory = first.writes().buffer().view().data();
  core::Writes writes;
  writes.swap(first.writes());
  store->submit(writes);
  EXPECT_TRUE(writes.empty());
  store->flush();

  // The one that is given for the second has come back from the first at the third.
  bool seen = false;
  for (int turn = 0; turn < 3 && !seen; ++turn) {
    writes.add(core::Write::Kind::put_note, 0);
    writes.end_of_record();
    seen = writes.buffer().extend(1) == memory;
    store->submit(writes);
    store->flush();
  }

  EXPECT_TRUE(seen);
}

TEST_F(SqliteStore, reads_between_the_commits_of_a_flood) {
  const auto store = open(path_);
  submit(*store, Turn().insert_job(1, {"", "r", kSmall}));
  store->flush();
  {
    Gate gate;
    submit(*store, Turn().put_note("held", ""));
    gate.wait_until_reached();
    store->read({1});
    for (std::uint64_t number = 2; number < 20; ++number)
      submit(*store, Turn().insert_job(number, {"", "", std::string(1 << 20, 'b')}));
    gate.let_go();
    ASSERT_TRUE(wait_for(*store, std::uint64_t{2}));
  }

  std::vector<io::StoredBody> bodies;
  std::uint64_t committed = 0;
  while (bodies.empty()) {
    committed = store->committed();
    store->take_bodies(bodies);
    if (bodies.empty()) {
      ASSERT_TRUE(test::wait_for_signal(*store));
    }
  }

  EXPECT_LT(committed, 20u);
  EXPECT_EQ(bodies[0].body->bytes(), kSmall);
}

TEST_F(SqliteStore, gives_room_back_to_the_disk_after_a_flood) {
  std::promise<void> idle;
  const io::Disk disk;
  {
    const auto store = open(path_);
    Turn flood, end;
    for (std::uint64_t number = 1; number <= 200; ++number) {
      flood.insert_job(number, {"", "", kLarge});
      end.erase_job(number);
    }
    store->submit(flood.writes());
    store->submit(end.writes());
    store->flush();
    ASSERT_GT(disk.file_bytes(path_) + disk.file_bytes(path_ + "-wal"), 10u << 20);

    // The last it does before it sleeps is to write its log to the file.
    const FailpointHook hook([&, told = std::make_shared<bool>(false)](Failpoint point) {
      if (point == Failpoint::store_in_checkpoint && !std::exchange(*told, true)) idle.set_value();
    });
    idle.get_future().wait();
  }

  EXPECT_LT(disk.file_bytes(path_), 2u << 20);
  EXPECT_EQ(disk.file_bytes(path_ + "-wal"), 0u);
}

// ---- when the writer is wrong -------------------------------------------------------------------------

TEST_F(SqliteStore, fails_for_good_when_a_job_that_is_not_there_is_changed) {
  const auto store = open(path_);
  submit(*store, Turn().insert_job(1, {"", "", ""}));
  store->flush();
  submit(*store, Turn().insert_job(2, {"", "", ""}).update_job(9, "s"));

  ASSERT_TRUE(wait_for(*store, StoreCondition::failed));
  submit(*store, Turn().insert_job(3, {"", "", ""}));
  store->flush();

  EXPECT_THAT(store->trouble(),
              AllOf(HasSubstr(path_), HasSubstr("job 9"), HasSubstr("nothing is committed")));
  EXPECT_EQ(store->committed(), 1u);
}

// ---- backups ------------------------------------------------------------------------------------------

Result<void> wait_for_backup(io::Store& store) {
  while (true) {
    if (auto done = store.take_backup()) return *done;
    if (!test::wait_for_signal(store)) return failure(ErrorCode::internal, "no backup in time");
  }
}

TEST_F(SqliteStore, backs_up_everything_that_is_committed_while_work_goes_on) {
  StoreContent expected;
  const auto store = open(path_);
  Turn many;
  for (std::uint64_t number = 1; number <= 300; ++number)
    many.insert_job(number, {"s", "r" + std::to_string(number), kLarge});
  many.apply(expected);
  store->submit(many.writes());
  store->flush();
  const std::string copy = folder_.path("copy.db");

  ASSERT_TRUE(store->begin_backup(copy).has_value());
  EXPECT_FALSE(store->begin_backup(folder_.path("other.db")).has_value()) << "one at a time";
  // What is committed while it runs is in it or follows it: the jobs of a turn are never apart.
  for (std::uint64_t turn = 1000; !store->take_backup(); turn += 2) {
    submit(*store, Turn()
                       .insert_job(turn, {"", "", kLarge})
                       .insert_job(turn + 1, {"", "", ""})
                       .put_note("turn", std::to_string(turn)));
    store->flush();
  }

  const auto restored = open(copy);
  const auto content = content_of(*restored);
  ASSERT_TRUE(content.has_value()) << content.error().message;
  for (const auto& [number, job] : expected.jobs)
    ASSERT_EQ(content->jobs.at(number), job);
  if (content->notes.contains("turn")) {
    const std::uint64_t last = std::stoull(content->notes.at("turn"));
    EXPECT_EQ(content->jobs.size(), 300 + (last - 1000) + 2);
  } else {
    EXPECT_EQ(content->jobs.size(), 300u);
  }
}

TEST_F(SqliteStore, replaces_no_file_by_a_backup) {
  const auto store = open(path_);
  submit(*store, Turn().put_note("a", "b"));
  const std::string copy = folder_.path("copy.db");
  ASSERT_TRUE(store->begin_backup(copy).has_value());
  ASSERT_TRUE(wait_for_backup(*store).has_value());

  ASSERT_TRUE(store->begin_backup(copy).has_value());
  const auto again = wait_for_backup(*store);
  ASSERT_TRUE(store->begin_backup(folder_.path("no/such/folder.db")).has_value());
  const auto nowhere = wait_for_backup(*store);

  ASSERT_FALSE(again.has_value());
  EXPECT_THAT(again.error().message, AllOf(HasSubstr(copy), HasSubstr("there is such a file")));
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_THAT(nowhere.error().message, HasSubstr("No such file or directory"));
  EXPECT_EQ(store->condition(), StoreCondition::good);
}

// ---- names --------------------------------------------------------------------------------------------

/// Waits until the store says that of its promise.
bool wait_for_promise(io::Store& store, io::StorePromise promise) {
  while (store.promise() != promise)
    if (!test::wait_for_signal(store)) return false;
  return true;
}

TEST_F(SqliteStore, keeps_no_promise_while_one_of_its_files_has_not_its_name) {
  const auto store = open(path_);
  ASSERT_TRUE(wait_for(*store, submit(*store, Turn().insert_job(1, {"", "r", kSmall}))));
  for (const char* const of : {"", "-wal", "-mark"}) {
    EXPECT_EQ(store->promise(), io::StorePromise::kept);

    std::filesystem::rename(path_ + of, path_ + "-away");
    ASSERT_TRUE(wait_for_promise(*store, io::StorePromise::broken));
    EXPECT_EQ(store->promise_trouble(), path_ + of + " is not there any more");

    std::filesystem::rename(path_ + "-away", path_ + of);
    ASSERT_TRUE(wait_for_promise(*store, io::StorePromise::kept));
    EXPECT_EQ(store->promise_trouble(), "");
  }
}

TEST_F(SqliteStore, keeps_no_promise_where_another_file_has_its_name) {
  const auto store = open(path_);
  ASSERT_TRUE(wait_for(*store, submit(*store, Turn().insert_job(1, {"", "r", kSmall}))));

  std::filesystem::copy_file(path_, path_ + "-copy");
  std::filesystem::rename(path_ + "-copy", path_);

  ASSERT_TRUE(wait_for_promise(*store, io::StorePromise::broken));
  EXPECT_EQ(store->promise_trouble(), path_ + " is another file");
}

TEST_F(SqliteStore, backs_up_what_is_in_files_that_were_removed) {
  const auto store = open(path_);
  submit(*store, Turn().insert_job(1, {"", "before", kSmall}));
  ASSERT_TRUE(wait_for(*store, std::uint64_t{1}));
  for (const char* const of : {"", "-wal", "-mark"})
    std::filesystem::remove(path_ + of);
  ASSERT_TRUE(wait_for_promise(*store, io::StorePromise::broken));
  submit(*store, Turn().insert_job(2, {"", "after", kLarge}));

  ASSERT_TRUE(store->begin_backup(folder_.path("saved.db")));
  ASSERT_TRUE(wait_for_backup(*store));

  const auto content = content_of(*open(folder_.path("saved.db")));
  ASSERT_TRUE(content);
  EXPECT_EQ(content->jobs.at(1).record, "before");
  EXPECT_EQ(content->jobs.at(2).body, kLarge);
}

TEST_F(SqliteStore, leaves_all_in_files_that_were_moved_and_removes_nothing_that_has_their_names) {
  {
    const auto store = open(path_);
    ASSERT_TRUE(wait_for(*store, submit(*store, Turn().insert_job(1, {"", "r", kSmall}))));
    std::filesystem::rename(path_, folder_.path("moved.db"));
    std::filesystem::rename(path_ + "-wal", folder_.path("moved.db-wal"));
    folder_.write("lanemq.db-wal", "another's");
    ASSERT_TRUE(wait_for_promise(*store, io::StorePromise::broken));
    submit(*store, Turn().insert_job(2, {"", "r", kSmall}));
  }

  EXPECT_EQ(folder_.read("lanemq.db-wal"), "another's");
  const auto content = content_of(*open(folder_.path("moved.db")));
  ASSERT_TRUE(content);
  EXPECT_EQ(content->jobs.size(), 2u);
}

}  // namespace
}  // namespace lanemq
