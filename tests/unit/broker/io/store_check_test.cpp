// SPDX-License-Identifier: Apache-2.0
#include "broker/io/offline/store_check.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/open/store_place.hpp"
#include "common/sqlite/database.hpp"
#include "tests/support/store_driver.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq {
namespace {

using io::check_store;
using test::Turn;
using testing::AllOf;
using testing::HasSubstr;

class CheckStore : public testing::Test {
 protected:
  CheckStore() {
    const auto store = io::open_store({.specification = "sqlite:" + path_, .reserve_bytes = 0});
    test::submit(**store, Turn()
                              .insert_job(1, {"s", "r", "body"})
                              .insert_job(2, {"s", "r", std::string(5000, 'b')})
                              .insert_result(1, {"r", "body"})
                              .put_note("name", "note"));
    (*store)->flush();
  }
  Result<io::StoreSummary> check() { return check_store({.specification = "sqlite:" + path_}); }
  /// Changes the file behind its owner's back.
  void run(const std::string& sql) {
    auto database = sqlite::Database::open(path_, sqlite::Database::Mode::existing);
    const auto done = database->execute(sql);
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }

  const test::TemporaryDirectory folder_;
  const std::string path_ = folder_.path("lanemq.db");
};

TEST_F(CheckStore, counts_what_is_there) {
  const auto summary = check();

  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  EXPECT_EQ(summary->jobs.count, 2u);
  EXPECT_EQ(summary->jobs.bytes, 8u);
  EXPECT_EQ(summary->bodies.count, 1u);
  EXPECT_EQ(summary->bodies.bytes, 5000u);
  EXPECT_EQ(summary->results.count, 1u);
  EXPECT_EQ(summary->results.bytes, 5u);
  EXPECT_EQ(summary->notes.count, 1u);
  EXPECT_EQ(summary->notes.bytes, 8u);
  EXPECT_THAT(io::to_text(*summary), AllOf(HasSubstr(path_), HasSubstr("jobs                2          8 B"),
                                           HasSubstr("Every page and every checksum is right")));
}

TEST_F(CheckStore, finds_what_is_not_what_was_written) {
  for (const auto& [sql, what] :
       {std::pair("UPDATE job SET state = x'00' WHERE number = 1", "job 1"),
        std::pair("UPDATE job SET record = x'00' WHERE number = 2", "job 2"),
        std::pair("UPDATE body SET bytes = zeroblob(5000)", "the body of job 2"),
        std::pair("UPDATE result SET body = x'00'", "result 1"),
        std::pair("UPDATE note SET record = x'00'", "note \"name\""),
        std::pair("DELETE FROM body", "the body of job 2"),
        std::pair("DELETE FROM job WHERE number = 2", "1 bodies are there for 0 jobs")}) {
    const std::string copy = folder_.path("copy.db");
    std::filesystem::copy_file(path_, copy, std::filesystem::copy_options::overwrite_existing);
    run(sql);

    const auto summary = check();

    ASSERT_FALSE(summary.has_value()) << sql;
    EXPECT_THAT(summary.error().message,
                AllOf(HasSubstr(path_), HasSubstr(what), HasSubstr("restore a backup")))
        << sql;
    std::filesystem::copy_file(copy, path_, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::remove(path_ + "-wal");
  }
}

TEST_F(CheckStore, says_what_to_name_where_there_is_no_file) {
  const auto missing = check_store({.specification = "sqlite:" + folder_.path("missing.db")});
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("there is no such file"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("missing.db")));

  const auto memory = check_store({.specification = "memory"});
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, ErrorCode::bad_request);
}

TEST_F(CheckStore, keeps_out_while_a_broker_has_it) {
  const auto store = io::open_store({.specification = "sqlite:" + path_});

  const auto summary = check();

  ASSERT_FALSE(summary.has_value());
  EXPECT_THAT(summary.error().message, HasSubstr("another process has it open"));
}

TEST(DefaultStore, is_the_services_folder_then_the_users) {
  const settings::Variables service{{"STATE_DIRECTORY", "/var/lib/lanemq:/b"}, {"XDG_STATE_HOME", "/x"}};
  EXPECT_EQ(io::default_store(settings::environment(service)), "sqlite:/var/lib/lanemq/lanemq.db");
  const settings::Variables user{{"XDG_STATE_HOME", "/x"}, {"HOME", "/h"}};
  EXPECT_EQ(io::default_store(settings::environment(user)), "sqlite:/x/lanemq/lanemq.db");
  EXPECT_EQ(io::default_store(settings::environment(user), "eu"), "sqlite:/x/lanemq/lanemq-eu.db");
  const settings::Variables none{{"HOME", "relative"}};
  const auto nowhere = io::default_store(settings::environment(none));
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_THAT(nowhere.error().message, HasSubstr("--store sqlite:PATH"));
}

TEST(DefaultStore, has_a_folder_for_the_user_alone) {
  const test::TemporaryDirectory folder;
  const std::string specification = "sqlite:" + folder.path("a/b/lanemq.db");

  ASSERT_TRUE(io::make_default_folder(specification).has_value());
  ASSERT_TRUE(io::make_default_folder(specification).has_value());

  EXPECT_EQ(std::filesystem::status(folder.path("a/b")).permissions(), std::filesystem::perms::owner_all);
  std::ofstream(folder.path("file")) << "";
  EXPECT_FALSE(io::make_default_folder("sqlite:" + folder.path("file/b/lanemq.db")).has_value());
}

}  // namespace
}  // namespace lanemq
