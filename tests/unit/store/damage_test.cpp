// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/io/log_mark.hpp"
#include "tests/unit/store/store_workload.hpp"

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
  static constexpr std::size_t kTurnsKept = 40;
  Damage() {
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
      EXPECT_EQ(*turns, kTurnsKept) << where;
      return false;
    }
    EXPECT_THAT(turns.error().message, AllOf(HasSubstr("the store store"), HasSubstr("; "))) << where;
    return true;
  }

  const Workload workload_{3, kTurnsKept};
  FaultyDisk::Files files_;
};

TEST_F(Damage, of_nothing_is_nothing) {
  ASSERT_GT(files_.at(kLog).size(), 10'000u);
  EXPECT_EQ(test::turns_on(files_, workload_), kTurnsKept);
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
  EXPECT_LT(*without, kTurnsKept) << "who removes the mark goes on without what is missing";
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

TEST(LogMark, says_what_was_written_last) {
  FaultyDisk disk;
  io::LogMark mark;
  EXPECT_EQ(io::LogMark::read("a", disk.vfs()), io::LogExtent{});
  ASSERT_EQ(mark.open("a", disk.vfs()), SQLITE_OK);

  ASSERT_EQ(mark.write({.salts = 7, .pages = 8}), SQLITE_OK);
  EXPECT_EQ(io::LogMark::read("a", disk.vfs()), (io::LogExtent{.salts = 7, .pages = 8}));
  EXPECT_FALSE(io::check_log("a", disk.vfs()).has_value());
  ASSERT_EQ(mark.clear(), SQLITE_OK);
  EXPECT_EQ(io::LogMark::read("a", disk.vfs()), io::LogExtent{});
  EXPECT_TRUE(io::check_log("a", disk.vfs()).has_value());
}

}  // namespace
}  // namespace lanemq
