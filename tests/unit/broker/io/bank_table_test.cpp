// SPDX-License-Identifier: Apache-2.0
// The banks' rows in PostgreSQL, and the thread that carries draws there.
#include "broker/io/bank/bank_table.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "broker/io/bank/bank_desk.hpp"
#include "common/postgres/connection.hpp"
#include "tests/support/postgres_server.hpp"

namespace lanemq {
namespace {

using namespace std::chrono_literals;
using core::TimePoint;
using test::PostgresServer;
using testing::HasSubstr;

std::unique_ptr<io::BankRows> open_rows(const std::string& schema) {
  auto rows = io::open_bank("postgres:" + PostgresServer::shared().conninfo(), schema);
  if (!rows) throw std::runtime_error(rows.error().message);
  return std::move(*rows);
}

/// Appends a letter to the row.
io::BankRows::Change append(char letter) {
  return [letter](std::string_view row, const core::BankClock&) {
    return Result<std::string>(std::string(row) + letter);
  };
}

std::string content(io::BankRows& rows, const std::string& budget) {
  std::string seen;
  const auto read =
      rows.change(budget, [&](std::string_view row, const core::BankClock&) -> Result<std::string> {
        seen = row;
        return failure(ErrorCode::conflict, "only read");
      });
  EXPECT_EQ(read.error().message, "only read");
  return seen;
}

TEST(BankTable, keeps_a_row_for_each_budget_and_makes_its_table) {
  const auto one = open_rows("bank_kept"), other = open_rows("bank_kept");
  ASSERT_TRUE(one->change("api", append('a')));
  ASSERT_TRUE(other->change("api", append('b')));
  ASSERT_TRUE(other->change("else", append('x')));
  ASSERT_TRUE(one->change("api", append('c')));
  EXPECT_EQ(content(*other, "api"), "abc");
  EXPECT_EQ(content(*one, "else"), "x");
}

TEST(BankTable, says_the_databases_clock) {
  const auto rows = open_rows("bank_clock");
  core::BankClock first, second;
  for (core::BankClock* const at : {&first, &second})
    ASSERT_TRUE(rows->change("api", [at](std::string_view, const core::BankClock& clock) {
      *at = clock;
      return Result<std::string>("");
    }));
  EXPECT_GT(second.now, first.now);
  EXPECT_EQ(second.server, first.server);
  EXPECT_NE(first.server, 0u) << "it tells this server from others";
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_LT(std::chrono::abs(second.now.time_since_epoch() - wall), 60s);
}

TEST(BankTable, an_error_leaves_the_row_as_it_is_and_it_goes_on) {
  const auto rows = open_rows("bank_error");
  ASSERT_TRUE(rows->change("api", append('a')));
  EXPECT_EQ(content(*rows, "api"), "a");
  ASSERT_TRUE(rows->change("api", append('b')));
  EXPECT_EQ(content(*rows, "api"), "ab");
}

TEST(BankTable, two_that_change_a_row_at_once_do_it_one_after_the_other) {
  constexpr int kEach = 50;
  ASSERT_TRUE(open_rows("bank_both")->change("api", append('.')));
  const auto work = [](char letter) {
    const auto rows = open_rows("bank_both");
    for (int i = 0; i < kEach; ++i)
      EXPECT_TRUE(rows->change("api", append(letter)));
  };
  std::thread other(work, 'b');
  work('a');
  other.join();
  EXPECT_EQ(content(*open_rows("bank_both"), "api").size(), std::size_t{2 * kEach + 1});
}

TEST(BankTable, whoever_stands_still_with_the_row_is_ended_and_changes_nothing) {
  const auto slow = open_rows("bank_slow"), other = open_rows("bank_slow");
  ASSERT_TRUE(slow->change("api", append('a')));
  // It has the row's lock, and its process stops: the other one waits for it no longer than kHeldMax.
  const auto late = slow->change("api", [&](std::string_view row, const core::BankClock&) {
    EXPECT_TRUE(other->change("api", append('b')));
    return Result<std::string>(std::string(row) + 'c');
  });
  EXPECT_FALSE(late) << "the server has ended its session";
  EXPECT_EQ(content(*other, "api"), "ab");
}

TEST(BankTable, what_cannot_be_reached_is_an_error_soon) {
  auto rows = io::open_bank("postgres:host=/nowhere", "lanemq_bank");
  ASSERT_TRUE(rows);
  const auto changed = (*rows)->change("api", append('a'));
  ASSERT_FALSE(changed);
  EXPECT_THAT(changed.error().message, HasSubstr("/nowhere"));
  EXPECT_FALSE(io::open_bank("sqlite:x", "lanemq_bank"));
  EXPECT_FALSE(io::open_bank("postgres:host=a", "pg_bank"));
}

/// Waits for the next answers of the desk.
std::vector<io::BankAnswer> answers_of(io::BankDesk& desk) {
  pollfd descriptor{desk.descriptor(), POLLIN, 0};
  ::poll(&descriptor, 1, 30'000);
  std::vector<io::BankAnswer> answers;
  EXPECT_TRUE(desk.take(answers));
  return answers;
}

/// Of a desk that has looked at the bank, which is good.
void looks(io::BankDesk& desk) {
  EXPECT_TRUE(answers_of(desk).empty());
  EXPECT_EQ(desk.figures().trouble, "");
}

core::DrawWanted draw_of(const std::string& shard, std::uint64_t number) {
  core::BudgetOptions options{.name = "api"};
  options.rates = {{.name = "requests_per_minute", .limit = 600, .period = 1min}};
  core::LaneWant want{.jobs = 5};
  want.all.requests = 5;
  return {.budget = 3,
          .options = options,
          .draw = {.shard = shard, .epoch = 1, .number = number, .wants = {want}}};
}

TEST(BankDesk, draws_one_after_the_other_and_says_which_is_lost) {
  io::BankDesk desk(open_rows("bank_desk"));
  looks(desk);
  desk.draw({draw_of("a", 1)});
  auto answers = answers_of(desk);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].budget, 3u);
  ASSERT_TRUE(answers[0].drawn);
  ASSERT_FALSE(answers[0].drawn->slices.empty());
  EXPECT_EQ(answers[0].drawn->slices[0].amounts.of(core::Resource::requests), 5);
  EXPECT_EQ(desk.figures().draws, 1u);

  // Bytes that are no bank's: nothing is granted, and nothing is overwritten.
  ASSERT_TRUE(open_rows("bank_desk")->change("api", [](std::string_view, const core::BankClock&) {
    return Result<std::string>("garbage");
  }));
  desk.draw({draw_of("a", 2)});
  answers = answers_of(desk);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers[0].drawn);
  EXPECT_EQ(desk.figures().lost, 1u);
  EXPECT_FALSE(desk.figures().trouble.empty());
  EXPECT_EQ(content(*open_rows("bank_desk"), "api"), "garbage");
}

/// A bank that is away or there, as the test says; it counts looks.
struct SwitchedRows final : io::BankRows {
  SwitchedRows(const std::atomic<bool>& is_away, std::atomic<int>& count) : away(is_away), looks(count) {}
  Result<void> change(const std::string&, const Change&) override { return look(); }
  Result<void> look() override {
    ++looks;
    if (away) return failure(ErrorCode::unavailable, "nobody answers");
    return {};
  }
  std::string name() const override { return "switched"; }

  const std::atomic<bool>& away;
  std::atomic<int>& looks;
};

TEST(BankDesk, knows_without_a_draw_that_the_bank_is_away_and_that_it_is_back) {
  std::atomic<bool> away{true};
  std::atomic<int> looks{0};
  io::BankDesk desk(std::make_unique<SwitchedRows>(away, looks));
  std::vector<io::BankAnswer> answers;

  EXPECT_TRUE(answers_of(desk).empty());
  EXPECT_EQ(desk.figures().trouble, "nobody answers");
  EXPECT_EQ(desk.figures().lost, 0u) << "a look is no draw";
  EXPECT_FALSE(desk.take(answers)) << "nothing has changed";
  away = false;
  EXPECT_TRUE(answers_of(desk).empty());
  EXPECT_EQ(desk.figures().trouble, "");
  EXPECT_EQ(looks, 2);
}

postgres::Connection connected(const std::string& conninfo) {
  auto connection =
      postgres::Connection::open({.conninfo = conninfo, .search_path = {}}, postgres::Server::any);
  if (!connection) throw std::runtime_error(connection.error().message);
  return std::move(*connection);
}

/// Steps from no right at all to all that a draw needs.
TEST(BankTable, what_a_role_may_not_do_is_found_before_a_draw_and_nothing_is_made) {
  const std::string conninfo = PostgresServer::shared().conninfo();
  postgres::Connection owner = connected(conninfo);
  const auto run = [&](const std::string& script) {
    const auto done = owner.run_script(script, postgres::Clock::now() + 10s);
    ASSERT_TRUE(done) << done.error().message;
  };
  run("CREATE ROLE bank_weak LOGIN");
  const std::string weak = "postgres:" + conninfo + " user=bank_weak";
  const auto problem = [&] {
    const auto checked = io::check_bank(weak, "bank_rights");
    auto rows = io::open_bank(weak, "bank_rights");
    EXPECT_TRUE(rows);
    const auto looked = checked ? (*rows)->look() : Result<void>();
    EXPECT_TRUE(looked) << looked.error().message;
    if (!checked) {
      EXPECT_FALSE((*rows)->look()) << "a look finds it, too";
    }
    return checked ? *checked : checked.error().message;
  };

  EXPECT_THAT(problem(), HasSubstr("its role may not make a schema in the database"));
  run("CREATE SCHEMA bank_rights");
  EXPECT_THAT(problem(), HasSubstr("may not use the schema \"bank_rights\""));
  run("GRANT USAGE ON SCHEMA bank_rights TO bank_weak");
  EXPECT_THAT(problem(), HasSubstr("may not make tables in the schema \"bank_rights\""));
  run("CREATE TABLE bank_rights.quota (budget text PRIMARY KEY, row bytea NOT NULL);"
      "GRANT SELECT, UPDATE ON bank_rights.quota TO bank_weak");
  EXPECT_THAT(problem(), HasSubstr("may not write the table \"quota\""));
  run("GRANT INSERT ON bank_rights.quota TO bank_weak");
  EXPECT_EQ(problem(), "");
  run("DROP TABLE bank_rights.quota; ALTER SCHEMA bank_rights OWNER TO bank_weak");
  EXPECT_EQ(problem(), "") << "it makes its table in a schema that it owns";
  EXPECT_THAT(io::check_bank("postgres:host=/nowhere", "bank_rights").value_or("refused"),
              HasSubstr("was not reached"));
}

}  // namespace
}  // namespace lanemq
