// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/sqlite_schema.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "broker/core/jobs/stored.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "tests/support/store_driver.hpp"
#include "tests/support/temporary_directory.hpp"

namespace lanemq {
namespace {

using io::open_store_file;
using io::OpenFor;
using test::content_of;
using test::Turn;
using testing::AllOf;
using testing::HasSubstr;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string hex(const Buffer& bytes) {
  std::string text;
  for (const char byte : bytes.view()) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += {kDigits[static_cast<unsigned char>(byte) >> 4], kDigits[byte & 15]};
  }
  return text;
}

class StoreFile : public testing::Test {
 protected:
  Result<std::unique_ptr<io::Store>> open() {
    return io::open_store({.specification = "sqlite:" + path_, .reserve_bytes = 0});
  }
  std::string refusal() {
    const auto store = open();
    return store ? "it was opened" : store.error().message;
  }
  void fill() {
    const auto store = open();
    ASSERT_TRUE(store.has_value()) << store.error().message;
    test::submit(**store, Turn().insert_job(1, {"waits", "record", "body"}).put_note("n", "note"));
    (*store)->flush();
  }

  const test::TemporaryDirectory folder_;
  const std::string path_ = folder_.path("lanemq.db");
};

TEST_F(StoreFile, is_refused_while_another_has_it) {
  const auto first = open();
  ASSERT_TRUE(first.has_value());

  EXPECT_THAT(refusal(),
              AllOf(HasSubstr(path_), HasSubstr("another process has it open"), HasSubstr("stop the other")));
}

TEST_F(StoreFile, of_a_newer_version_is_refused_and_left_alone) {
  fill();
  {
    auto database = sqlite::Database::open(path_, sqlite::Database::Mode::existing);
    ASSERT_TRUE(database->execute("PRAGMA user_version=7").has_value());
  }
  const std::string before = read_file(path_);

  EXPECT_THAT(refusal(),
              AllOf(HasSubstr(path_), HasSubstr("schema 7"), HasSubstr("start the newer version")));
  EXPECT_EQ(read_file(path_), before);
}

TEST_F(StoreFile, of_another_program_is_refused_and_left_alone) {
  {
    auto database = sqlite::Database::open(path_, sqlite::Database::Mode::create);
    ASSERT_TRUE(database->execute("CREATE TABLE theirs (a)").has_value());
  }
  const std::string before = read_file(path_);

  EXPECT_THAT(refusal(), AllOf(HasSubstr(path_), HasSubstr("another program")));
  EXPECT_EQ(read_file(path_), before);
}

TEST_F(StoreFile, that_is_no_database_is_refused_and_left_alone) {
  const std::string text(10'000, 't');
  write_file(path_, text);

  EXPECT_THAT(refusal(), AllOf(HasSubstr(path_), HasSubstr("not a database"), HasSubstr("restore a backup")));
  EXPECT_EQ(read_file(path_), text);
}

TEST_F(StoreFile, that_is_missing_beside_its_log_is_refused) {
  write_file(path_ + "-wal", std::string(5000, 'w'));

  EXPECT_THAT(refusal(), AllOf(HasSubstr(path_ + "-wal"), HasSubstr("missing or empty"),
                               HasSubstr("-mark away to begin with an empty store")));
  write_file(path_, "");
  EXPECT_THAT(refusal(), HasSubstr("missing or empty"));
}

TEST_F(StoreFile, with_a_changed_byte_is_refused_or_gives_back_what_was_written) {
  fill();
  const std::string before = read_file(path_);
  auto whole = content_of(**open());
  ASSERT_TRUE(whole.has_value());
  int refused = 0;
  for (std::size_t at = 0; at < before.size(); at += 97) {
    std::string changed = before;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    write_file(path_, changed);
    ::unlink((path_ + "-wal").c_str());

    const auto store = open();
    const auto content = store ? content_of(**store) : tl::unexpected(store.error());

    refused += !content;
    if (content) {
      EXPECT_EQ(*content, *whole) << "byte " << at;
    } else {
      EXPECT_THAT(content.error().message, HasSubstr(path_));
    }
  }
  EXPECT_GT(refused, 1);
}

TEST_F(StoreFile, in_a_folder_that_is_not_there_is_refused) {
  const std::string path = folder_.path("no/folder.db");

  const auto store = io::open_store({.specification = "sqlite:" + path});

  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error().message,
              AllOf(HasSubstr(path), HasSubstr("No such file"), HasSubstr("the folder must exist")));
}

TEST_F(StoreFile, behind_a_link_has_its_companions_beside_it) {
  fill();
  const std::string link = folder_.path("link.db");
  ASSERT_EQ(::symlink(path_.c_str(), link.c_str()), 0);
  const auto store = io::open_store({.specification = "sqlite:" + link, .reserve_bytes = 1 << 20});
  ASSERT_TRUE(store.has_value()) << store.error().message;

  test::submit(**store, Turn().put_note("a", "b"));
  (*store)->flush();

  for (const char* companion : {"-wal", "-mark", ".reserve"}) {
    EXPECT_TRUE(std::filesystem::exists(path_ + companion)) << companion;
    EXPECT_FALSE(std::filesystem::exists(link + companion)) << companion;
  }
}

TEST_F(StoreFile, that_is_a_folder_is_refused) {
  const auto store = io::open_store({.specification = "sqlite:" + folder_.path("")});

  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error().message, HasSubstr("not a regular file"));
}

TEST_F(StoreFile, of_an_older_version_is_brought_to_this_one_step_by_step) {
  fill();
  std::vector<const char*> steps(io::schema_steps().begin(), io::schema_steps().end());
  const auto now = static_cast<std::int64_t>(steps.size());
  steps.push_back("CREATE TABLE later (number INTEGER PRIMARY KEY) STRICT");
  steps.push_back("INSERT INTO later SELECT number FROM job; CREATE TABLE latest (a)");
  {
    auto database = open_store_file(path_, OpenFor::serving, {}, steps);
    ASSERT_TRUE(database.has_value()) << database.error().message;
    EXPECT_EQ(database->integer("SELECT count(*) FROM later"), 1);
    EXPECT_EQ(database->integer("PRAGMA user_version"), now + 2);
  }

  EXPECT_THAT(refusal(), HasSubstr("newer version"));
}

TEST_F(StoreFile, is_refused_by_a_version_that_would_read_the_clients_of_results_wrongly) {
  fill();
  constexpr std::size_t kBeforeClients = 2;

  const auto database =
      open_store_file(path_, OpenFor::serving, {}, io::schema_steps().first(kBeforeClients));

  ASSERT_FALSE(database.has_value());
  EXPECT_THAT(database.error().message, AllOf(HasSubstr("schema 4"), HasSubstr("this one knows 2")));
}

TEST_F(StoreFile, is_refused_by_a_version_that_would_count_no_groups) {
  fill();
  constexpr std::size_t kBeforeGroups = 3;

  const auto database = open_store_file(path_, OpenFor::serving, {}, io::schema_steps().first(kBeforeGroups));

  ASSERT_FALSE(database.has_value());
  EXPECT_THAT(database.error().message, AllOf(HasSubstr("schema 4"), HasSubstr("this one knows 3")));
}

/// An older version reads what it knows of a record, and what is behind that is nothing to it. Where this
/// fails for anything but a value at the end of a list, schema_steps() needs another step.
TEST_F(StoreFile, has_records_in_the_form_of_its_version) {
  Buffer state, result;
  core::write(core::StoredState{.arrival = 1,
                                .accepted_us = 2,
                                .deadline_us = 3,
                                .due_us = 4,
                                .delay = core::Duration(5),
                                .attempt = 6,
                                .attempts = 7,
                                .attempts_max = 8,
                                .crashes = 9,
                                .input_tokens = 10,
                                .output_tokens = 11,
                                .raw_input = 12,
                                .retain_ms = 13,
                                .body_hash = 14,
                                .lane = "l",
                                .key = "k",
                                .chunks = 15,
                                .ends_limited = true},
              core::History(), 0, state);
  core::Ending ending;
  ending.code = ErrorCode::deadline;
  ending.message = "m";
  ending.chunks = 9;
  core::write(core::StoredResult{.id = "i",
                                 .model = "m",
                                 .service = "s",
                                 .lane = "l",
                                 .submitted_lane = "u",
                                 .state = core::JobState::expired,
                                 .attempt = 1,
                                 .attempts = 2,
                                 .queued_ms = 3,
                                 .ran_ms = 4,
                                 .body_hash = 5,
                                 .client_named_it = true,
                                 .due_us = 6,
                                 .ended_us = 7,
                                 .client = 8},
              &ending, result);

  EXPECT_EQ(io::schema_steps().size(), 4u);
  EXPECT_EQ(hex(state), "dc0014000102030405060708090a0b0c0d0ea16ca16b900f01");
  EXPECT_EQ(hex(result),
            "dc0019a169a16da173a16ca175060102030405090607"
            "08"
            "a8646561646c696e65a16dffffffffffffff09");
}

TEST_F(StoreFile, keeps_its_version_when_a_step_fails) {
  fill();
  std::vector<const char*> steps(io::schema_steps().begin(), io::schema_steps().end());
  steps.push_back("CREATE TABLE later (a); this is no SQL");

  EXPECT_FALSE(open_store_file(path_, OpenFor::serving, {}, steps).has_value());

  const auto store = open();
  ASSERT_TRUE(store.has_value()) << store.error().message;
  EXPECT_EQ(content_of(**store)->jobs.size(), 1u);
}

TEST_F(StoreFile, begun_by_a_start_that_crashed_is_finished) {
  write_file(path_, "");
  ASSERT_TRUE(open().has_value());
  {
    auto database = sqlite::Database::open(folder_.path("second.db"), sqlite::Database::Mode::create);
    ASSERT_TRUE(database->execute("PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL").has_value());
  }

  const auto store = io::open_store({.specification = "sqlite:" + folder_.path("second.db")});

  EXPECT_TRUE(store.has_value()) << store.error().message;
}

TEST(OpenStore, names_what_it_knows) {
  for (const char* unknown : {"", "sqlite", "sqlite:", "floppy:a"}) {
    const auto store = io::open_store({.specification = unknown});
    ASSERT_FALSE(store.has_value());
    EXPECT_THAT(store.error().message, AllOf(HasSubstr("sqlite:PATH"), HasSubstr("memory")));
  }
  EXPECT_FALSE((*io::open_store({.specification = "memory"}))->durable());
}

}  // namespace
}  // namespace lanemq
