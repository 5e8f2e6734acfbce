// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/io/store/sqlite/log_mark.hpp"
#include "tests/unit/broker/io/store_workload.hpp"

namespace lanemq {
namespace {

using test::FaultyDisk;
using test::Workload;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kFile = "store";
constexpr const char* kLog = "store-wal";
constexpr const char* kMark = "store-mark";

/// What a broker leaves that was killed after everything was committed: a file, a log that was begun anew
/// several times, and a mark.
class Damage : public testing::Test {
 protected:
  explicit Damage(std::size_t turns_kept = 40) : turns_kept_(turns_kept) {
    FaultyDisk disk;
    const auto store = test::open_on(disk);
    for (const test::Turn& turn : workload_.turns) {
      test::submit(**store, turn);
      (*store)->flush();
    }
    files_ = disk.files();
  }

  /// A changed file must be refused, or be without effect: not one job may be lost or be another.
  bool is_refused(const FaultyDisk::Files& files, const std::string& where) {
    const auto turns = test::turns_on(files, workload_);
    if (turns) {
      EXPECT_EQ(*turns, turns_kept_) << where;
      return false;
    }
    EXPECT_THAT(turns.error().message, AllOf(HasSubstr("the store store"), HasSubstr("; "))) << where;
    return true;
  }

  const std::size_t turns_kept_;
  const Workload workload_{3, turns_kept_};
  FaultyDisk::Files files_;
};

/// Of a store whose log has not been written to the file yet: the tables, too, are in the log alone.
class DamageOfAYoungStore : public Damage {
 protected:
  DamageOfAYoungStore() : Damage(1) {}
};

TEST_F(Damage, of_nothing_is_nothing) {
  ASSERT_GT(files_.at(kLog).size(), 10'000u);
  EXPECT_EQ(test::turns_on(files_, workload_), turns_kept_);
  const FaultyDisk disk(files_);
  EXPECT_EQ(io::read_log(kFile, disk.vfs()), io::LogMark::read(kFile, disk.vfs()));
}

TEST_F(Damage, of_a_bit_is_found_or_does_no_harm) {
  FaultyDisk::Random random(11);
  int refused = 0, tried = 0;
  for (const char* name : {kFile, kLog, kMark}) {
    const std::size_t bytes = files_.at(name).size();
    // Every byte of the headers, and some of the rest.
    for (std::size_t at = 0; at < bytes; at += at < 128 ? 1 : 1 + random() % (bytes / 128)) {
      FaultyDisk::Files files = files_;
      files[name][at] = static_cast<char>(files[name][at] ^ (1 << random() % 8));
      refused += is_refused(files, std::string(name) + " byte " + std::to_string(at));
      ++tried;
    }
  }
  EXPECT_GT(refused, tried / 4);
  EXPECT_LT(refused, tried);
}

TEST_F(Damage, of_a_log_that_was_cut_off_is_found) {
  const std::size_t bytes = files_.at(kLog).size();
  int refused = 0, tried = 0;
  for (std::size_t left = 0; left < bytes; left += 1 + bytes / 60, ++tried) {
    FaultyDisk::Files files = files_;
    files[kLog].resize(left);
    refused += is_refused(files, std::to_string(left) + " bytes of the log");
  }
  EXPECT_GT(refused, 1);
  FaultyDisk::Files files = files_;
  files.erase(kLog);
  EXPECT_TRUE(is_refused(files, "no log"));

  const auto turns = test::turns_on(files, workload_);
  EXPECT_THAT(turns.error().message,
              AllOf(HasSubstr("its log store-wal has 0 of the"), HasSubstr("remove store-mark")));
  files.erase(kMark);
  const auto without = test::turns_on(files, workload_);
  ASSERT_TRUE(without.has_value()) << without.error().message;
  EXPECT_LT(*without, turns_kept_) << "who removes the mark goes on without what is missing";
}

TEST_F(Damage, that_is_refused_is_left_as_it_is) {
  FaultyDisk::Files cut = files_;
  cut[kLog].resize(100);
  FaultyDisk disk(cut);

  EXPECT_FALSE(test::open_on(disk).has_value());

  const FaultyDisk::Files after = disk.files();
  EXPECT_EQ(after.size(), cut.size());
  for (const auto& [name, content] : cut)
    EXPECT_TRUE(after.at(name) == content) << name;
}

TEST_F(Damage, of_a_file_that_was_cut_off_is_found) {
  const std::size_t bytes = files_.at(kFile).size();
  for (std::size_t left = 0; left < bytes; left += 1 + bytes / 40) {
    FaultyDisk::Files files = files_;
    files[kFile].resize(left);
    is_refused(files, std::to_string(left) + " bytes of the file");
  }
}

TEST_F(Damage, of_a_file_that_is_gone_or_empty_is_found) {
  for (const bool has_log : {true, false})
    for (const bool is_gone : {true, false}) {
      FaultyDisk::Files files = files_;
      if (is_gone)
        files.erase(kFile);
      else
        files[kFile].clear();
      if (!has_log) files.erase(kLog);
      EXPECT_TRUE(
          is_refused(files, std::string(is_gone ? "gone" : "empty") + (has_log ? ", its log not" : "")));
    }
}

TEST_F(Damage, of_the_file_of_a_store_that_was_stopped_is_found) {
  FaultyDisk stopped(files_);
  ASSERT_TRUE(test::open_on(stopped).has_value());
  FaultyDisk::Files files = stopped.files();
  ASSERT_TRUE(files[kLog].empty());
  ASSERT_EQ(io::LogMark::read(kFile, stopped.vfs()), io::LogExtent{});
  files.erase(kLog);
  files[kFile].clear();
  EXPECT_TRUE(is_refused(files, "empty"));

  files.erase(kFile);
  FaultyDisk disk(files);
  const auto store = test::open_on(disk);

  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error().message,
              AllOf(HasSubstr("store-mark says that a store was here"), HasSubstr("restore a backup"),
                    HasSubstr("move store, store-wal and store-mark away")));
  EXPECT_TRUE(disk.files() == files) << "what is refused is left as it is";
  files.erase(kMark);
  EXPECT_EQ(test::turns_on(files, workload_), 0u) << "who moves the mark away begins anew";
}

TEST_F(DamageOfAYoungStore, of_its_log_is_found) {
  const std::uint64_t pages = io::read_log(kFile, FaultyDisk(files_).vfs())->pages;
  for (std::size_t left = 0; left < files_.at(kLog).size(); left += 1 + files_.at(kLog).size() / 200) {
    FaultyDisk::Files files = files_;
    files[kLog].resize(left);
    EXPECT_TRUE(is_refused(files, std::to_string(left) + " bytes of the log"));
  }
  FaultyDisk::Files files = files_;
  files.erase(kLog);
  FaultyDisk disk(files);

  const auto store = test::open_on(disk);

  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error().message,
              AllOf(HasSubstr("store-mark says that " + std::to_string(pages) + " pages were committed"),
                    HasSubstr("restore a backup"), HasSubstr("move store, store-wal and store-mark away")));
  for (const auto& [name, content] : files)
    EXPECT_TRUE(disk.files().at(name) == content) << name;
}

TEST(NewStore, is_made_where_nothing_was_committed) {
  const Workload workload{3, 1};
  FaultyDisk first;
  FaultyDisk::Files interrupted;
  {
    const auto store = test::open_on(first);
    ASSERT_TRUE(store.has_value());
    interrupted = first.files();
  }
  FaultyDisk::Files without_log = interrupted;
  without_log.erase(kLog);
  for (const FaultyDisk::Files& files :
       {FaultyDisk::Files{}, FaultyDisk::Files{{"store.reserve", std::string(64 << 10, '\0')}},
        FaultyDisk::Files{{kFile, ""}}, FaultyDisk::Files{{kMark, ""}},
        FaultyDisk::Files{{kMark, std::string(32, '\0')}}, interrupted, without_log}) {
    const auto turns = test::turns_on(files, workload);
    ASSERT_TRUE(turns.has_value()) << turns.error().message;
    EXPECT_EQ(*turns, 0u);
  }
}

TEST(LogMark, says_what_was_written_last) {
  FaultyDisk disk;
  io::LogMark mark;
  EXPECT_EQ(io::LogMark::read("a", disk.vfs()), std::nullopt);
  ASSERT_EQ(mark.open("a", disk.vfs()), SQLITE_OK);
  EXPECT_EQ(io::LogMark::read("a", disk.vfs()), std::nullopt);

  ASSERT_EQ(mark.write({.salts = 7, .pages = 8}), SQLITE_OK);
  EXPECT_EQ(io::LogMark::read("a", disk.vfs()), (io::LogExtent{.salts = 7, .pages = 8}));
  EXPECT_FALSE(io::check_log("a", disk.vfs()).has_value());
  ASSERT_EQ(mark.clear(), SQLITE_OK);
  EXPECT_EQ(io::LogMark::read("a", disk.vfs()), io::LogExtent{});
  EXPECT_TRUE(io::check_log("a", disk.vfs()).has_value());
}

}  // namespace
}  // namespace lanemq
