// SPDX-License-Identifier: Apache-2.0
// The store in PostgreSQL: who owns it, and what becomes of a transaction whose answer is lost.
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/io/offline/store_check.hpp"
#include "broker/io/offline/store_fence.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/postgres/database/owner_row.hpp"
#include "broker/io/store/postgres/net_writes.hpp"
#include "broker/io/store/postgres/postgres_bodies.hpp"
#include "common/postgres/connection.hpp"
#include "tests/support/answer_thief.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/postgres_server.hpp"
#include "tests/support/store_driver.hpp"
#include "tests/unit/broker/io/store_workload.hpp"

namespace lanemq {
namespace {

using namespace std::chrono_literals;
using io::StoreCondition;
using test::content_of;
using test::eventually;
using test::PostgresServer;
using test::submit;
using test::Turn;
using test::wait_for;
using testing::AllOf;
using testing::HasSubstr;

/// Of candidates that must not take over: some signs of life, even on a busy machine.
constexpr auto kSafeLease = 4 * io::OwnerWatch::kBeat;

class PostgresStore : public testing::Test {
 protected:
  io::StoreOptions options(const std::string& instance = "a") const {
    return {.specification = "postgres:" + PostgresServer::shared().conninfo(),
            .schema = schema_,
            .instance = instance,
            .lease = 1s,
            .away_max = 60s};  // a busy machine starts no server in less
  }
  static std::unique_ptr<io::Store> open(const io::StoreOptions& options) {
    auto store = io::open_store(options);
    if (!store) throw std::runtime_error(store.error().message);
    return std::move(*store);
  }
  /// An operator's own session.
  postgres::Connection operator_session() const {
    auto made = postgres::Connection::open(
        {.conninfo = PostgresServer::shared().conninfo(), .application = "operator", .search_path = schema_},
        postgres::Server::any);
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }
  std::int64_t number(const std::string& query) const {
    auto session = operator_session();
    const auto row = session.run(query, postgres::Clock::now() + 10s);
    if (!row) throw std::runtime_error(row.error().message);
    return row->integer(0, 0);
  }
  void run(const std::string& sql) const {
    auto session = operator_session();
    const auto done = session.run_script(sql, postgres::Clock::now() + 10s);
    if (!done) throw std::runtime_error(done.error().message);
  }
  /// Ends the sessions of brokers, as a cut network does, and waits until they are gone: one that was told to
  /// end says more until the machine gets round to it.
  void cut() const {
    run("SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity "
        "WHERE application_name = 'lanemq-broker'");
  }

  static Turn jobs(std::uint64_t count) {
    Turn turn;
    for (std::uint64_t i = 1; i <= count; ++i)
      turn.insert_job(i, {"", "", ""});
    return turn;
  }
  /// Ends the statement of a broker that waits for a lock, as an operator does who sees it in the way.
  void cancel_waiting(const std::string& like) const {
    ASSERT_TRUE(waits_for_lock(like)) << like;
    run("SELECT pg_cancel_backend(pid)" + waiting_like(like));
  }
  /// Waits until a statement of a broker waits for a lock.
  bool waits_for_lock(const std::string& like) const {
    return eventually([&] { return number("SELECT count(*)" + waiting_like(like)) > 0; });
  }

  /// A role that may write to the tables, and owns nothing.
  std::string guest(const std::string& with) const {
    static int count = 0;
    const std::string name = "guest_" + std::to_string(++count), schema = operator_session().quoted(schema_);
    run("CREATE ROLE " + name + " LOGIN " + with + "; GRANT USAGE ON SCHEMA " + schema + " TO " + name +
        "; GRANT ALL ON ALL TABLES IN SCHEMA " + schema + " TO " + name);
    return name;
  }
  /// Whether a number is at some time what is wanted.
  bool comes_true(const std::string& query, std::int64_t wanted) const {
    return eventually([&] { return number(query) == wanted; });
  }
  /// What a candidate does between two looks.
  static bool looks_again(const io::StoreWaiting&) {
    test::pause_between_looks();
    return true;
  }
  /// What a candidate does that gives up once the owner has said for two leases that it is alive.
  std::function<bool(const io::StoreWaiting&)> until_alive_for(std::chrono::milliseconds two_leases) const {
    const std::int64_t end = number("SELECT ticket FROM owner") + two_leases / io::OwnerWatch::kBeat;
    return [this, end](const io::StoreWaiting&) {
      test::pause_between_looks();
      return number("SELECT ticket FROM owner") < end;
    };
  }

  const std::string schema_ = new_schema();

 private:
  static std::string waiting_like(const std::string& like) {
    return " FROM pg_stat_activity WHERE application_name LIKE 'lanemq-broker%' AND wait_event_type = 'Lock' "
           "AND query LIKE '" +
           like + "'";
  }
  static std::string new_schema() {
    static int count = 0;
    return "Store \"" + std::to_string(++count) + "\"";
  }
};

// ---- who owns it --------------------------------------------------------------------------------------

TEST_F(PostgresStore, is_taken_by_a_candidate_once_its_owner_has_given_it_back) {
  auto owner = open(options("a"));
  submit(*owner, Turn().put_note("n", "of a"));
  owner->flush();
  std::atomic<int> waits{0};
  io::StoreOptions wanted = options("b");
  std::string why;
  wanted.waiting = [&](const io::StoreWaiting& seen) {
    why = seen.why;
    if (++waits == 3) owner.reset();
    return true;
  };

  const auto store = open(wanted);

  EXPECT_GE(waits, 3);
  EXPECT_THAT(why, AllOf(HasSubstr("\"a\""), HasSubstr("epoch 1")));
  EXPECT_EQ(content_of(*store)->notes.at("n"), "of a");
}

TEST_F(PostgresStore, tells_who_owns_it_and_who_waits_what_that_one_sees) {
  auto owner = open(options("a"));
  io::StoreOptions wanted = options("b");
  io::StoreWaiting seen;
  wanted.waiting = [&](const io::StoreWaiting& waiting) {
    seen = waiting;
    return false;
  };

  const auto none = io::open_store(wanted);

  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(seen.reached);
  EXPECT_EQ(seen.owner, "a");
  EXPECT_EQ(seen.epoch, 1);
  const auto ownership = owner->ownership();
  ASSERT_TRUE(ownership.has_value());
  EXPECT_EQ(ownership->instance, "a");
  EXPECT_EQ(ownership->epoch, 1);
  EXPECT_LT(ownership->since_commit, 60s);
}

TEST_F(PostgresStore, waits_at_its_end_for_who_goes_on_where_it_is_handed_over) {
  auto owner = open(options("a"));
  submit(*owner, Turn().put_note("n", "of a"));
  std::string successor = "nobody";
  owner->hand_over_at_end([&](std::string_view instance) { successor = instance; });
  std::unique_ptr<io::Store> next;
  std::thread candidate([&] {
    io::StoreOptions wanted = options("b");
    wanted.waiting = looks_again;
    next = open(wanted);
  });

  owner.reset();
  candidate.join();

  EXPECT_EQ(successor, "b");
  EXPECT_EQ(content_of(*next)->notes.at("n"), "of a");
}

TEST_F(PostgresStore, is_given_back_by_a_handover_that_nobody_waits_for) {
  auto owner = open(options("a"));
  std::string successor = "nobody";
  owner->hand_over_at_end([&](std::string_view instance) { successor = instance; });

  owner.reset();

  EXPECT_EQ(successor, "");
  EXPECT_EQ(number("SELECT count(*) FROM owner WHERE epoch = 1 AND instance = ''"), 1);
}

TEST_F(PostgresStore, is_fenced_against_all_owners_from_before) {
  const auto owner = open(options("a"));
  const std::int64_t now = number("SELECT extract(epoch FROM clock_timestamp())::bigint");

  const auto fenced = io::fence_store(options("operator"));

  ASSERT_TRUE(fenced.has_value()) << fenced.error().message;
  EXPECT_EQ(fenced->owner, "a");
  EXPECT_EQ(fenced->before, 1);
  EXPECT_GE(fenced->after, now);
  ASSERT_TRUE(wait_for(*owner, StoreCondition::deposed));
  EXPECT_THAT(owner->trouble(), HasSubstr("--fence"));
  const auto again = io::fence_store(options("operator"));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->before, fenced->after);
  EXPECT_GT(again->after, fenced->after);
  const auto next = open(options("b"));  // at once: nobody owns it
  EXPECT_EQ(next->ownership()->epoch, again->after + 1);
}

TEST_F(PostgresStore, is_not_made_by_a_fence) {
  const auto fenced = io::fence_store(options("operator"));

  ASSERT_FALSE(fenced.has_value());
  EXPECT_EQ(fenced.error().code, ErrorCode::bad_request);
  EXPECT_THAT(fenced.error().message, HasSubstr("there is no store"));
  for (const char* other : {"memory", "sqlite:/tmp/none.db"}) {
    io::StoreOptions wanted = options("operator");
    wanted.specification = other;
    const auto refused = io::fence_store(wanted);
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr(other), HasSubstr("has no epoch")));
  }
}

TEST_F(PostgresStore, is_not_owned_by_a_candidate_whose_takeover_came_with_a_warning) {
  open(options("a")).reset();
  run("CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS "
      "'BEGIN RAISE WARNING ''canceling wait for synchronous replication''; RETURN NEW; END'; "
      "CREATE TRIGGER warns BEFORE UPDATE ON owner FOR EACH ROW EXECUTE FUNCTION warn()");
  io::StoreOptions wanted = options("b");
  std::vector<std::string> whys;
  wanted.waiting = [&](const io::StoreWaiting& waiting) {
    if (whys.empty()) run("DROP TRIGGER warns ON owner");
    whys.push_back(waiting.why);
    test::pause_between_looks();
    return true;
  };

  const auto store = open(wanted);

  ASSERT_FALSE(whys.empty());
  EXPECT_THAT(whys.front(), HasSubstr("does not know whether"));
  EXPECT_EQ(number("SELECT epoch FROM owner"), 3);
}

TEST_F(PostgresStore, is_not_loaded_from_a_server_that_knows_another_owner) {
  const auto store = open(options("a"));
  run("UPDATE owner SET epoch = epoch + 1, instance = 'b'");

  const auto content = content_of(*store);

  ASSERT_FALSE(content);
  EXPECT_THAT(content.error().message, AllOf(HasSubstr("\"b\" owns it"), HasSubstr("epoch 2 and not 1")));
  EXPECT_EQ(store->condition(), StoreCondition::deposed);
}

/// A former primary that lives on knows of an earlier owner alone.
TEST_F(PostgresStore, has_lost_commits_where_the_database_knows_of_an_earlier_owner) {
  { const auto before = open(options("b")); }
  const auto owner = open(options("a"));
  run("UPDATE owner SET epoch = 1, ticket = 90, instance = 'b'");

  submit(*owner, Turn().put_note("n", ""));
  ASSERT_TRUE(wait_for(*owner, StoreCondition::failed));

  EXPECT_THAT(owner->trouble(), HasSubstr("lost commits: it knows of epoch 1, and this owner has 2"));
}

TEST_F(PostgresStore, a_candidate_says_that_its_database_knows_of_earlier_owners_alone) {
  { const auto before = open(options("b")); }
  run("UPDATE owner SET epoch = 9, instance = 'b'");
  std::vector<std::string> whys;
  io::StoreOptions wanted = options("a");
  wanted.lease = 1000ms;
  wanted.waiting = [&](const io::StoreWaiting& waiting) {
    if (whys.empty()) run("UPDATE owner SET epoch = 3");
    whys.push_back(waiting.why);
    test::pause_between_looks();
    return true;
  };

  const auto store = open(wanted);

  ASSERT_GE(whys.size(), 2u);
  EXPECT_THAT(whys.front(), Not(HasSubstr("former primary")));
  EXPECT_THAT(whys.back(), HasSubstr("there was epoch 9: this is a former primary, or was restored"));
}

/// As a former primary may that lives on: this broker had taken the store there, and nobody heard of it.
TEST_F(PostgresStore, is_not_loaded_from_a_server_that_knows_another_takeover_of_its_name_and_epoch) {
  const auto store = open(options("a"));
  run("UPDATE owner SET claim = claim + 1");

  const auto content = content_of(*store);

  ASSERT_FALSE(content);
  EXPECT_THAT(content.error().message, HasSubstr("by another takeover"));
  EXPECT_EQ(store->condition(), StoreCondition::deposed);
}

TEST_F(PostgresStore, commits_nothing_where_another_takeover_of_its_name_and_epoch_is_known) {
  const auto owner = open(options("a"));
  submit(*owner, Turn().put_note("n", "told"));
  owner->flush();
  run("UPDATE owner SET claim = claim + 1");

  submit(*owner, Turn().put_note("n", "of the other"));
  ASSERT_TRUE(wait_for(*owner, StoreCondition::deposed));

  EXPECT_EQ(owner->committed(), 1u);
}

/// Its server goes away while it reads.
class CutReader final : public io::StoreReader {
 public:
  explicit CutReader(std::function<void()> cut) : cut_(std::move(cut)) {}
  Result<void> note(std::string_view, std::string_view) override { return {}; }
  Result<void> job(std::uint64_t, std::string_view, std::string_view, std::optional<std::string_view>,
                   std::size_t) override {
    if (jobs_++ == 0) cut_();
    return {};
  }
  Result<void> result(std::uint64_t, std::string_view, std::optional<std::string_view>,
                      std::size_t) override {
    return {};
  }

 private:
  std::function<void()> cut_;
  int jobs_ = 0;
};

TEST_F(PostgresStore, is_read_anew_by_the_next_start_where_its_connection_was_lost_on_the_way) {
  auto store = open(options());
  Turn many;  // more than buffers hold
  for (std::uint64_t job = 1; job <= 20'000; ++job)
    many.insert_job(job, {"waits", "", std::string(1000, 'b')});
  submit(*store, std::move(many));
  store->flush();
  store.reset();
  store = open(options());
  CutReader reader([this] { cut(); });

  const auto loaded = store->load(reader);

  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(store->condition(), StoreCondition::broken_off);
  EXPECT_TRUE(io::is_for_next_start(store->condition()));
  store.reset();
  store = open(options());
  EXPECT_EQ(content_of(*store)->jobs.size(), 20'000u);
}

TEST_F(PostgresStore, is_not_taken_while_its_owner_is_alive) {
  const auto owner = open(options("a"));
  submit(*owner, Turn().put_note("n", ""));
  io::StoreOptions wanted = options("b");
  wanted.lease = kSafeLease;
  wanted.waiting = until_alive_for(2 * wanted.lease);

  const auto store = io::open_store(wanted);

  ASSERT_TRUE(store.has_value());
  EXPECT_EQ(*store, nullptr);
  EXPECT_EQ(owner->condition(), StoreCondition::good) << owner->trouble();
}

TEST_F(PostgresStore, commits_nothing_by_an_owner_that_was_deposed) {
  const auto owner = open(options("a"));
  submit(*owner, Turn().put_note("n", "of a").insert_job(1, {"", "", ""}));
  owner->flush();
  run("UPDATE owner SET instance = ''");  // as if it had given the store back
  const auto store = open(options("b"));

  submit(*owner, Turn().put_note("n", "of the deposed").erase_job(1));
  ASSERT_TRUE(wait_for(*owner, StoreCondition::deposed));

  EXPECT_THAT(owner->trouble(), AllOf(HasSubstr("has taken the store"), HasSubstr("epoch 2 after 1")));
  EXPECT_EQ(owner->committed(), 1u);
  const auto content = content_of(*store);
  EXPECT_EQ(content->notes.at("n"), "of a");
  EXPECT_EQ(content->jobs.size(), 1u);
}

TEST_F(PostgresStore, notices_without_work_that_it_was_deposed) {
  const auto owner = open(options("a"));
  submit(*owner, Turn().put_note("n", ""));
  owner->flush();
  run("UPDATE owner SET epoch = epoch + 1, ticket = 0, instance = 'c'");

  EXPECT_TRUE(wait_for(*owner, StoreCondition::deposed));

  EXPECT_THAT(owner->trouble(), HasSubstr("\"c\" has taken the store"));
}

/// An owner that was stopped in the middle of a transaction holds the row's lock for as long as it stands
/// still.
TEST_F(PostgresStore, is_taken_from_an_owner_that_stopped_in_the_middle_of_a_transaction) {
  { const auto made = open(options("a")); }
  run("UPDATE owner SET instance = 'a'");
  auto stopped = operator_session();
  ASSERT_TRUE(
      stopped.run_script("BEGIN; UPDATE owner SET ticket = ticket + 1", postgres::Clock::now() + 10s));
  std::vector<std::string> reasons;
  io::StoreOptions wanted = options("b");
  wanted.waiting = [&](const io::StoreWaiting& seen) {
    if (reasons.empty() || reasons.back() != seen.why) reasons.push_back(seen.why);
    test::pause_between_looks();
    return true;
  };

  const auto store = open(wanted);

  EXPECT_THAT(reasons, testing::Contains(HasSubstr("says nothing: it was ended")));
  EXPECT_FALSE(stopped.run_script("COMMIT", postgres::Clock::now() + 10s)) << "its session is over";
  EXPECT_EQ(number("SELECT epoch FROM owner"), 2);
}

/// A load may take longer than a lease.
TEST_F(PostgresStore, is_not_taken_from_an_owner_that_is_still_reading) {
  const auto owner = open(options("a"));  // and submits nothing
  io::StoreOptions wanted = options("b");
  wanted.lease = kSafeLease;
  wanted.waiting = until_alive_for(2 * wanted.lease);

  const auto store = io::open_store(wanted);

  ASSERT_TRUE(store.has_value());
  EXPECT_EQ(*store, nullptr);
}

TEST_F(PostgresStore, refuses_tables_of_a_newer_version) {
  open(options());
  run("UPDATE owner SET format = 9, readable_by = 9");

  const auto store = io::open_store(options());

  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error().message, AllOf(HasSubstr("newer version"), HasSubstr("format 9")));
}

TEST_F(PostgresStore, refuses_a_password_that_lists_of_processes_would_show) {
  io::StoreOptions wanted = options();
  wanted.specification += " password=geheim";

  const auto store = io::open_store(wanted);

  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().code, ErrorCode::bad_request);
  EXPECT_THAT(store.error().message, AllOf(HasSubstr("passfile"), testing::Not(HasSubstr("geheim"))));
}

TEST_F(PostgresStore, waits_for_a_database_that_is_not_there_yet) {
  io::StoreOptions wanted = options();
  wanted.specification = "postgres:host=/nowhere user=x";
  std::string why;
  wanted.waiting = [&](const io::StoreWaiting& seen) {
    why = seen.why;
    return false;
  };

  const auto store = io::open_store(wanted);

  ASSERT_TRUE(store.has_value());
  EXPECT_EQ(*store, nullptr);
  EXPECT_THAT(why, HasSubstr("/nowhere"));
}

// ---- what its owner tells of it -----------------------------------------------------------------------

TEST_F(PostgresStore, counts_its_transactions_and_what_is_in_them) {
  const auto store = open(options());
  submit(*store, Turn().put_note("n", "one").insert_job(1, {"s", "record", "body"}));
  store->flush();
  submit(*store, Turn().erase_job(1));
  store->flush();

  const io::StoreTransactions made = store->ownership()->transactions;

  EXPECT_EQ(made.count, 2u);
  EXPECT_EQ(made.writes, 3u);
  EXPECT_GT(made.bytes, 10u);
  EXPECT_GT(made.time, 0us);
  EXPECT_EQ(made.doubts, 0u);
}

TEST_F(PostgresStore, counts_a_transaction_whose_answer_was_lost) {
  const auto store = open(options());
  submit(*store, Turn().put_note("n", ""));
  store->flush();
  auto holder = operator_session();
  ASSERT_TRUE(holder.run_script("BEGIN; LOCK TABLE job IN SHARE MODE", postgres::Clock::now() + 10s));
  submit(*store, Turn().insert_job(1, {"", "", ""}));
  const auto waiting = [&] {
    return number(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lanemq-broker' "
        "AND wait_event_type = 'Lock'");
  };
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));

  run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lanemq-broker' "
      "AND wait_event_type = 'Lock'");
  ASSERT_TRUE(holder.run_script("COMMIT", postgres::Clock::now() + 10s));

  EXPECT_TRUE(eventually([&] { return store->ownership()->transactions.doubts > 0; }));
  store->flush();
  EXPECT_EQ(number("SELECT count(*) FROM job"), 1);
}

TEST_F(PostgresStore, tells_dead_rows_snapshots_and_standbys_as_far_as_its_role_may_see) {
  {
    const auto store = open(options());
    submit(*store, jobs(400));
    store->flush();
    Turn erased;
    for (std::uint64_t i = 1; i <= 400; ++i)
      erased.erase_job(i);
    submit(*store, std::move(erased));
    store->flush();
  }
  auto reader = operator_session();
  ASSERT_TRUE(
      reader.run_script("BEGIN ISOLATION LEVEL REPEATABLE READ; TABLE owner", postgres::Clock::now() + 10s));
  EXPECT_TRUE(  // its snapshot gets an age
      comes_true("SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> "
                 "pg_backend_pid() AND clock_timestamp() - xact_start > interval '20 ms'",
                 1));
  const auto all = open(options());
  submit(*all, Turn().put_note("n", ""));
  ASSERT_TRUE(eventually([&] { return all->ownership()->database.dead_rows.has_value(); }));

  const io::StoreDatabase seen = all->ownership()->database;

  EXPECT_GE(seen.dead_rows, 400u);
  EXPECT_GE(seen.oldest_snapshot, 20ms);
  EXPECT_EQ(seen.standbys, 0u);
}

TEST_F(PostgresStore, says_nothing_of_what_its_role_may_not_see_and_once_that_it_may_not_vacuum) {
  open(options());  // the tables are this role's
  const std::string role = guest("");
  io::StoreOptions limited = options("b");
  limited.specification += " user=" + role;
  const auto store = open(limited);
  submit(*store, jobs(2000));
  std::string remark;

  ASSERT_TRUE(eventually([&] { return !(remark = store->take_remark()).empty(); }));

  EXPECT_THAT(remark, AllOf(HasSubstr("may not remove dead rows"), HasSubstr("vacuum")));
  EXPECT_EQ(store->take_remark(), "");
  EXPECT_TRUE(eventually([&] { return store->ownership()->database.dead_rows.has_value(); }));
  const io::StoreDatabase seen = store->ownership()->database;
  EXPECT_FALSE(seen.oldest_snapshot.has_value());
  EXPECT_FALSE(seen.standbys.has_value());
}

TEST_F(PostgresStore, promises_nothing_on_a_server_without_standbys_unless_it_is_told_that_it_need_not) {
  {
    const auto store = open(options());
    ASSERT_TRUE(content_of(*store).has_value());  // a load looks

    EXPECT_EQ(store->promise(), io::StorePromise::broken);
    EXPECT_THAT(store->promise_trouble(), HasSubstr("synchronous_standby_names is empty"));
    EXPECT_EQ(store->ownership()->replication, "standby");
  }
  for (const auto replication : {io::Replication::provider, io::Replication::none}) {
    io::StoreOptions wanted = options();
    wanted.replication = replication;
    EXPECT_EQ(open(wanted)->promise(), io::StorePromise::kept);
  }
}

/// What was seen at one server counts for no other: commits ask when they connect.
TEST_F(PostgresStore, knows_its_promise_where_commits_have_connected_anew) {
  const auto store = open(options());  // and no thread that looks
  EXPECT_TRUE(eventually([&] { return store->promise() != io::StorePromise::unknown; }));
  EXPECT_EQ(store->promise(), io::StorePromise::broken);

  for (int times = 0; times < 3; ++times) {
    cut();
    const std::int64_t ticket = number("SELECT ticket FROM owner");
    ASSERT_TRUE(
        eventually([&] { return number("SELECT ticket FROM owner") > ticket + 1; }));  // by a new connection

    EXPECT_EQ(store->promise(), io::StorePromise::broken);
  }
  EXPECT_THAT(store->promise_trouble(), HasSubstr("synchronous_standby_names is empty"));
}

TEST_F(PostgresStore, is_made_by_a_role_that_owns_the_schema_and_may_make_none) {
  run("CREATE ROLE owns_one LOGIN; CREATE SCHEMA owned AUTHORIZATION owns_one");
  io::StoreOptions limited = options();
  limited.specification += " user=owns_one";
  limited.schema = "owned";

  const auto store = io::open_store(limited);

  ASSERT_TRUE(store.has_value()) << store.error().message;
}

TEST_F(PostgresStore, is_not_taken_by_a_role_that_may_have_one_connection) {
  open(options());
  const std::string role = guest("CONNECTION LIMIT 1");
  io::StoreOptions alone = options("b");
  alone.specification += " user=" + role;
  io::StoreWaiting seen;
  alone.waiting = [&](const io::StoreWaiting& waiting) {
    seen = waiting;
    return false;
  };

  const auto store = io::open_store(alone);

  ASSERT_TRUE(store.has_value());
  EXPECT_EQ(*store, nullptr);
  EXPECT_FALSE(seen.reached);
  EXPECT_THAT(seen.why, AllOf(HasSubstr("a second connection"), HasSubstr("too many connections")));
  EXPECT_EQ(number("SELECT epoch FROM owner"), 1);
}

// ---- what becomes of a transaction --------------------------------------------------------------------

/// Submits a workload while `trouble` happens, and compares what is there afterwards. The tickets in the row
/// are whole: none was used twice, none left out.
class Trouble : public PostgresStore {
 protected:
  using Maker = std::function<void(const io::Store&)>;
  void goes_through(const Maker& trouble, std::size_t times) { goes_through(options(), trouble, times); }
  void goes_through(const io::StoreOptions& how, const Maker& trouble, std::size_t times) {
    test::Workload workload(7, 1500);
    auto store = open(how);
    // Half of a trouble's turns may be under way: so some are whenever it comes, others come while it lasts,
    // and some have been committed since the one before.
    const std::size_t turns_per_trouble = workload.turns.size() / times, under_way = turns_per_trouble / 2;
    std::future<void> lasts;
    std::uint64_t told = 0;
    for (std::size_t submitted = 0; submitted < workload.turns.size(); ++submitted) {
      while (submitted >= store->committed() + under_way)
        ASSERT_TRUE(test::wait_for_signal(*store) && !io::is_over(store->condition())) << store->trouble();
      if (submitted % turns_per_trouble == under_way) {
        if (lasts.valid()) wait_for_end_of(lasts);
        lasts = std::async(std::launch::async, [&] { trouble(*store); });
      }
      store->submit(workload.turns[submitted].writes());
      if (store->committed() < told) ADD_FAILURE() << "committed() has gone back";
      told = store->committed();
    }
    wait_for_end_of(lasts);
    EXPECT_TRUE(wait_for(*store, std::uint64_t{workload.turns.size()})) << store->trouble();
    store.reset();
    const auto next = open(options("b"));
    const auto content = content_of(*next);
    ASSERT_TRUE(content.has_value()) << content.error().message;
    EXPECT_EQ(test::turns_in(*content, workload), workload.turns.size());
  }
  /// Nothing more is submitted until the trouble is over: what it waits for may never come.
  bool nothing_comes() const { return nothing_comes_; }

 private:
  void wait_for_end_of(std::future<void>& trouble) {
    nothing_comes_ = true;
    trouble.get();
    nothing_comes_ = false;
  }

  std::atomic<bool> nothing_comes_{false};
};

TEST_F(Trouble, of_connections_that_are_cut_again_and_again_loses_and_doubles_nothing) {
  goes_through([this](const io::Store&) { cut(); }, 12);
}

TEST_F(Trouble, of_a_server_that_crashes_loses_and_doubles_nothing) {
  goes_through([](const io::Store&) { PostgresServer::shared().crash_and_start(); }, 3);
}

TEST_F(Trouble, of_statements_that_an_operator_cancels_loses_and_doubles_nothing) {
  goes_through(
      [this](const io::Store&) {
        run("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'lanemq-broker'");
      },
      12);
}

TEST_F(Trouble, of_a_read_that_an_operator_cancels_is_no_end) {
  const auto store = open(options());
  submit(*store, Turn().insert_job(1, {"s", "r", std::string(5'000, 'b')}));
  store->flush();
  auto other = operator_session();
  ASSERT_TRUE(other.run_script("BEGIN; LOCK TABLE job", postgres::Clock::now() + 10s));
  store->read({1});

  cancel_waiting("SELECT number, record%");

  EXPECT_TRUE(eventually([&] { return !store->take_remark().empty(); }))
      << "an operator can see why it waits";
  other.close();
  std::vector<io::StoredBody> found;
  ASSERT_TRUE(eventually([&] {
    store->take_bodies(found);
    return !found.empty() || store->condition() != StoreCondition::good;
  }));
  ASSERT_EQ(store->condition(), StoreCondition::good) << store->trouble();
  EXPECT_EQ(found[0].body->size(), 5'000u);
}

TEST_F(Trouble, of_a_reconnect_that_an_operator_cancels_is_no_end) {
  const auto store = open(options());
  submit(*store, jobs(1));
  store->flush();
  auto other = operator_session();
  ASSERT_TRUE(other.run_script("BEGIN; LOCK TABLE job", postgres::Clock::now() + 10s));
  cut();

  cancel_waiting("WITH gone AS (DELETE FROM job%");  // which is prepared

  other.close();
  EXPECT_TRUE(wait_for(*store, submit(*store, Turn().put_note("n", "")))) << store->trouble();
}

TEST_F(Trouble, of_a_load_that_an_operator_cancels_is_for_the_next_start) {
  const auto store = open(options());
  auto other = operator_session();
  ASSERT_TRUE(other.run_script("BEGIN; LOCK TABLE note", postgres::Clock::now() + 10s));
  auto loaded = std::async(std::launch::async, [&] { return content_of(*store).has_value(); });

  cancel_waiting("COPY%");

  EXPECT_FALSE(loaded.get());
  EXPECT_EQ(store->condition(), StoreCondition::broken_off);
}

TEST_F(Trouble, of_a_candidate_whose_look_an_operator_cancels_is_no_end_of_it) {
  const auto owner = open(options("a"));
  auto other = operator_session();
  ASSERT_TRUE(other.run_script("BEGIN; LOCK TABLE owner", postgres::Clock::now() + 10s));
  auto waits = std::async(std::launch::async, [&] {
    io::StoreOptions wanted = options("b");
    wanted.lease = kSafeLease;
    std::string why;
    wanted.waiting = [&](const io::StoreWaiting& seen) {
      why = seen.why;
      return false;
    };
    const auto store = io::open_store(wanted);
    return store ? why : "it ended: " + store.error().message;
  });

  cancel_waiting("SELECT epoch%");

  EXPECT_THAT(waits.get(), testing::StartsWith("the database cannot be used now"));
}

/// Commits that are in, and of which nobody hears: the same is not done again, and nothing is left out.
TEST_F(Trouble, of_answers_that_are_lost_loses_and_doubles_nothing) {
  test::AnswerThief thief(PostgresServer::shared().socket());
  io::StoreOptions how = options();
  how.specification =
      "postgres:host=127.0.0.1 port=" + std::to_string(thief.port()) + " user=lanemq dbname=postgres";
  goes_through(
      how,
      [&](const io::Store&) {
        const std::size_t stolen = thief.stolen();
        thief.begin_to_steal();
        EXPECT_TRUE(eventually([&] { return thief.stolen() > stolen || nothing_comes(); }));
        thief.cut();
      },
      12);
  EXPECT_GT(thief.stolen(), 0u);
}

TEST_F(Trouble, of_a_server_that_stands_still_loses_and_doubles_nothing) {
  goes_through(
      [](const io::Store& store) {
        PostgresServer::shared().stop_processes();
        EXPECT_TRUE(eventually([&] { return !store.trouble().empty(); })) << "it has looked for another one";
        PostgresServer::shared().continue_processes();
      },
      1);
}

/// Cut off from the database it cannot see that another broker serves; clients and workers would stay with
/// it.
TEST_F(PostgresStore, ends_an_owner_that_has_not_committed_for_long) {
  io::StoreOptions wanted = options();
  wanted.away_max = 1s;
  const auto store = open(wanted);
  submit(*store, Turn().put_note("n", "1"));
  store->flush();
  PostgresServer::shared().stop_processes();

  const bool ended = wait_for(*store, StoreCondition::deposed);

  PostgresServer::shared().continue_processes();
  EXPECT_TRUE(ended);
  EXPECT_THAT(store->trouble(), AllOf(testing::StartsWith("this broker has committed nothing for "),
                                      testing::Not(HasSubstr("postgres:"))))
      << "the log has its first 256 bytes";
}

TEST_F(PostgresStore, fails_when_the_database_has_lost_what_it_had_committed) {
  const auto store = open(options());
  for (int i = 1; i <= 5; ++i) {
    submit(*store, Turn().put_note("n", std::to_string(i)));
    store->flush();
  }
  run("UPDATE owner SET ticket = ticket - 3");
  cut();
  submit(*store, Turn().put_note("n", "6"));

  ASSERT_TRUE(wait_for(*store, StoreCondition::failed));

  EXPECT_THAT(store->trouble(), HasSubstr("has lost commits"));
  EXPECT_EQ(store->committed(), 5u);
}

/// An earlier sending of the same transaction may come in behind the reconnect: it is not committed twice.
TEST_F(PostgresStore, counts_a_transaction_once_that_is_in_by_an_earlier_sending) {
  const auto store = open(options());
  submit(*store, Turn().insert_job(1, {"", "", ""}));
  store->flush();
  const std::int64_t ticket = number("SELECT ticket FROM owner");
  run("UPDATE owner SET ticket = ticket + 1");  // as that sending has done, with its rows

  submit(*store, Turn().put_note("n", ""));
  ASSERT_TRUE(wait_for(*store, std::uint64_t{2}));

  // And one more, of our own, before it was told.
  EXPECT_GE(number("SELECT ticket FROM owner"), ticket + 2);
  EXPECT_EQ(store->condition(), StoreCondition::good);
}

// ---- large bodies -------------------------------------------------------------------------------------

class LargeBody : public PostgresStore {
 protected:
  static Blob body_of(std::size_t bytes) {
    std::string text(bytes, 'x');
    for (std::size_t i = 0; i < bytes; i += 1000)
      text[i] = static_cast<char>('a' + i / 1000 % 26);
    return Blob::copy(text);
  }
  /// Waits until the store has told of so many.
  static std::vector<Blob> take(io::Store& store, std::size_t count) {
    std::vector<Blob> put;
    store.take_put(put);
    while (put.size() < count && test::wait_for_signal(store))
      store.take_put(put);
    return put;
  }
  static void put(io::Store& store, const Blob& body) {
    store.put_ahead(body);
    ASSERT_EQ(take(store, 1).size(), 1u);
  }
  /// A turn as the core makes it: it shares the body.
  static core::Writes with_job(std::uint64_t number, const Blob& body) {
    return with(core::Write::Kind::insert_job, number, body);
  }
  static core::Writes with(core::Write::Kind kind, std::uint64_t number, const Blob& body) {
    core::Writes writes;
    append(writes, kind, number, body);
    return writes;
  }
  static void append(core::Writes& writes, core::Write::Kind kind, std::uint64_t number, const Blob& body) {
    writes.add(kind, number);
    writes.buffer().write("state", 5);
    writes.end_of_state();
    writes.buffer().write("record", 6);
    writes.end_of_record();
    writes.set_body(body);
  }
  static void commit(io::Store& store, core::Writes writes) {
    ASSERT_TRUE(test::wait_for(store, store.submit(writes))) << store.trouble();
  }
};

TEST_F(LargeBody, is_put_before_its_turn_which_refers_to_it) {
  const Blob body = body_of((3u << 20) + 5);
  auto store = open(options("a"));
  ASSERT_TRUE(store->wants_ahead(body.size()));
  put(*store, body);
  EXPECT_EQ(number("SELECT count(*) FROM body"), 4);
  EXPECT_EQ(store->put_bytes(), body.size());

  commit(*store, with_job(7, body));

  EXPECT_EQ(store->put_bytes(), 0u);
  EXPECT_EQ(number("SELECT count(*) FROM body"), 4) << "not a second time";
  EXPECT_LT(number("SELECT parts_of FROM job"), 0);
  commit(*store, std::move(Turn().rename_job(7, 9, "renamed").writes()));
  store.reset();
  store = open(options("b"));
  EXPECT_EQ(content_of(*store)->jobs.at(9).body, body.bytes());
  commit(*store, std::move(Turn().erase_job(9).writes()));
  EXPECT_EQ(number("SELECT count(*) FROM body"), 0);
}

TEST_F(LargeBody, of_a_result_is_put_before_its_turn_as_well) {
  const Blob body = body_of((3u << 20) + 5), in_turn = body_of(2u << 20);
  auto store = open(options("a"));
  put(*store, body);

  commit(*store, with(core::Write::Kind::insert_result, 7, body));
  commit(*store, with(core::Write::Kind::insert_result, 8, in_turn));

  EXPECT_EQ(store->put_bytes(), 0u);
  EXPECT_EQ(number("SELECT count(*) FROM body"), 4 + 2) << "not a second time";
  store.reset();
  store = open(options("b"));
  commit(*store, with_job(9, Blob()));
  EXPECT_EQ(test::read_results(*store, {7})[0].body->bytes(), body.bytes());
  EXPECT_EQ(test::read_results(*store, {8})[0].body->bytes(), in_turn.bytes());
  commit(*store, std::move(Turn().erase_result(7).writes()));
  EXPECT_EQ(number("SELECT count(*) FROM body"), 2);
  commit(*store, std::move(Turn().erase_result(8).writes()));
  EXPECT_EQ(number("SELECT count(*) FROM body"), 0);
}

TEST_F(LargeBody, that_goes_into_no_turn_is_removed) {
  const Blob refused = body_of(1u << 20), ended = body_of(2u << 20);
  const auto store = open(options("a"));
  put(*store, refused);
  put(*store, ended);
  store->drop_put(refused);
  EXPECT_TRUE(comes_true("SELECT count(*) FROM body", 2));

  core::Writes both = with_job(1, ended);
  both.add(core::Write::Kind::erase_job, 1);
  commit(*store, std::move(both));

  EXPECT_TRUE(comes_true("SELECT count(*) FROM body", 0));
  EXPECT_EQ(store->put_bytes(), 0u);
}

TEST_F(LargeBody, of_an_owner_that_is_gone_is_removed_where_no_row_has_it) {
  const Blob used = body_of(1u << 20), answer = body_of(1u << 20), left = body_of(1u << 20);
  auto store = open(options("a"));
  put(*store, used);
  put(*store, answer);
  put(*store, left);
  commit(*store, with_job(1, used));
  commit(*store, with(core::Write::Kind::insert_result, 3, answer));
  store.reset();
  EXPECT_EQ(number("SELECT count(*) FROM body"), 3);

  store = open(options("b"));
  ASSERT_TRUE(content_of(*store).has_value());
  commit(*store, with_job(2, Blob()));

  EXPECT_TRUE(comes_true("SELECT count(*) FROM body", 2));
  const auto found = test::read_bodies(*store, {1});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].body->bytes(), used.bytes());
  EXPECT_EQ(test::read_results(*store, {3})[0].body->bytes(), answer.bytes());
}

TEST_F(LargeBody, of_an_owner_that_is_gone_is_removed_however_often_the_connection_is_lost) {
  auto store = open(options("a"));
  put(*store, body_of(1u << 20));
  commit(*store, with_job(1, Blob()));
  store.reset();
  auto other = operator_session();
  ASSERT_TRUE(other.run_script("BEGIN; UPDATE body SET part = part", postgres::Clock::now() + 10s));

  store = open(options("b"));
  ASSERT_TRUE(content_of(*store).has_value());
  commit(*store, with_job(2, Blob()));
  ASSERT_TRUE(waits_for_lock("%body%"));
  cut();
  // Meanwhile the owner puts its own.
  const Blob body = body_of(1u << 20);
  store->put_ahead(body);
  other.close();

  ASSERT_EQ(take(*store, 1).size(), 1u);
  EXPECT_TRUE(comes_true("SELECT count(DISTINCT number) FROM body", 1));
  commit(*store, with_job(3, body));
  EXPECT_EQ(test::read_bodies(*store, {3})[0].body->bytes(), body.bytes());
}

/// There may be millions of rows, and nothing is put while they are read.
TEST_F(LargeBody, of_an_owner_that_is_gone_is_removed_without_a_look_at_all_rows) {
  auto store = open(options("a"));
  put(*store, body_of(1u << 20));
  commit(*store, with_job(1, Blob()));
  store.reset();
  store = open(options("b"));
  ASSERT_TRUE(content_of(*store).has_value());
  auto other = operator_session();
  ASSERT_TRUE(other.run_script("BEGIN; LOCK TABLE job, result", postgres::Clock::now() + 10s));

  store->begin();

  EXPECT_TRUE(comes_true("SELECT count(*) FROM body", 0));
}

/// It may lie at a former primary that lives on, or at one whose standby was promoted without it.
TEST_F(LargeBody, that_the_server_of_its_turn_does_not_have_goes_with_the_turn) {
  const Blob of_job = body_of((1u << 20) + 5), of_result = body_of(1u << 20), there = body_of(1u << 20);
  auto store = open(options("a"));
  put(*store, of_job);
  put(*store, of_result);
  run("DELETE FROM body");
  put(*store, there);

  commit(*store, with_job(1, of_job));
  core::Writes both = with(core::Write::Kind::insert_result, 2, of_result);
  append(both, core::Write::Kind::insert_job, 3, there);
  commit(*store, std::move(both));

  EXPECT_EQ(store->put_bytes(), 0u);
  EXPECT_EQ(store->condition(), StoreCondition::good);
  EXPECT_EQ(test::read_bodies(*store, {1})[0].body->bytes(), of_job.bytes());
  EXPECT_EQ(test::read_results(*store, {2})[0].body->bytes(), of_result.bytes());
  EXPECT_EQ(test::read_bodies(*store, {3})[0].body->bytes(), there.bytes());
  store.reset();
  store = open(options("b"));
  EXPECT_EQ(content_of(*store)->jobs.at(1).body, of_job.bytes());
  commit(*store, std::move(Turn().erase_job(1).erase_result(2).erase_job(3).writes()));
  EXPECT_TRUE(comes_true("SELECT count(*) FROM body", 0)) << "nor what was put for nothing";
}

TEST_F(LargeBody, is_put_whole_however_often_its_connection_is_lost) {
  const Blob body = body_of(32u << 20);
  const auto store = open(options("a"));
  // Each of the first five attempts is cut off at its eighth part. On a slow machine the last of them may be
  // with the turn; a sequence counts those of transactions, too.
  run("CREATE SEQUENCE attempt; CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN "
      "IF NEW.part = 7 AND nextval(''attempt'') <= 5 THEN "
      "PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END'; "
      "CREATE TRIGGER cuts BEFORE INSERT ON body FOR EACH ROW EXECUTE FUNCTION cut()");
  store->put_ahead(body);
  ASSERT_EQ(take(*store, 1).size(), 1u);
  commit(*store, with_job(1, body));

  EXPECT_EQ(number("SELECT last_value FROM attempt"), 6);
  EXPECT_TRUE(comes_true("SELECT count(*) FROM body", 32)) << "what was begun is removed";
  EXPECT_EQ(test::read_bodies(*store, {1})[0].body->bytes(), body.bytes());
}

/// The primary hangs, and a standby is promoted: nothing tells the connection that it waits for nobody.
TEST_F(LargeBody, is_put_at_the_server_that_commits_have_reached) {
  PostgresServer primary;
  PostgresServer standby(primary, PostgresServer::Sync::no, std::filesystem::temp_directory_path());
  const std::string first = primary.conninfo(), second = standby.conninfo();
  const auto host = [](const std::string& conninfo) {
    return conninfo.substr(std::strlen("host="), conninfo.find(' ') - std::strlen("host="));
  };
  io::StoreOptions both = options("a");
  both.specification = "postgres:host=" + host(first) + "," + host(second) + " user=lanemq dbname=postgres";
  both.lease = 5s;
  both.away_max = 60s;
  const Blob before = body_of(1u << 20), meanwhile = body_of(64u << 20);
  const auto store = open(both);
  put(*store, before);

  auto looks = postgres::Connection::open({.conninfo = first, .search_path = schema_}, postgres::Server::any);
  store->put_ahead(meanwhile);
  ASSERT_TRUE(eventually([&] {
    const auto parts = looks->run("SELECT count(*) FROM body", postgres::Clock::now() + 10s);
    return parts && parts->integer(0, 0) > 1;
  }));
  primary.stop_processes();
  auto promotes = postgres::Connection::open({.conninfo = second}, postgres::Server::any);
  ASSERT_TRUE(promotes.has_value());
  for (const char* const statement :
       {"ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()", "SELECT pg_promote()"})
    ASSERT_TRUE(promotes->run(statement, postgres::Clock::now() + 20s)) << statement;
  const auto promoted = std::chrono::steady_clock::now();

  ASSERT_EQ(take(*store, 1).size(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - promoted, 20s);
  primary.continue_processes();
  commit(*store, with_job(1, before));
  commit(*store, with_job(2, meanwhile));
  EXPECT_EQ(test::read_bodies(*store, {1})[0].body->bytes(), before.bytes());
  EXPECT_EQ(test::read_bodies(*store, {2})[0].body->bytes(), meanwhile.bytes());
}

TEST_F(LargeBody, goes_with_its_turn_where_its_role_has_no_connection_for_it) {
  open(options());
  const std::string role = guest("CONNECTION LIMIT 2");
  io::StoreOptions two = options("b");
  two.specification += " user=" + role;
  two.lease = kSafeLease;
  const auto store = open(two);
  ASSERT_TRUE(content_of(*store).has_value());
  commit(*store, with_job(1, Blob()));
  EXPECT_EQ(test::read_bodies(*store, {1}).size(), 1u);  // both are taken
  const Blob first = body_of(1u << 20), second = body_of(2u << 20);

  store->put_ahead(first);
  store->put_ahead(second);
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_EQ(take(*store, 2).size(), 2u);

  EXPECT_LT(std::chrono::steady_clock::now() - begun, 15s);
  EXPECT_EQ(store->put_bytes(), 0u);
  EXPECT_THAT(store->take_remark(),
              AllOf(HasSubstr("go with their turns"), HasSubstr("too many connections")));
  commit(*store, with_job(2, first));
  commit(*store, with_job(3, second));
  EXPECT_EQ(test::read_bodies(*store, {2})[0].body->bytes(), first.bytes());

  run("ALTER ROLE " + role + " CONNECTION LIMIT 4");
  const Blob third = body_of(1u << 20);
  EXPECT_TRUE(eventually([&] {  // one a second tries
    store->put_ahead(third);
    take(*store, 1);
    return store->put_bytes() > 0;
  }));
  commit(*store, with_job(4, third));
  EXPECT_EQ(number("SELECT count(*) FROM body"), 1 + 2 + 1);
  EXPECT_EQ(store->take_remark(), "") << "it was said once";
}

/// Where the database is away as a whole, nothing is gained by a larger turn.
TEST_F(LargeBody, waits_while_nothing_is_committed_either) {
  const auto store = open(options());
  commit(*store, with_job(1, Blob()));
  PostgresServer::shared().stop_processes();

  store->put_ahead(body_of(1u << 20));
  EXPECT_TRUE(eventually([&] { return store->away(); }));

  std::vector<Blob> given;
  store->take_put(given);
  EXPECT_TRUE(given.empty());
  PostgresServer::shared().continue_processes();
  EXPECT_EQ(take(*store, 1).size(), 1u);
  EXPECT_GT(store->put_bytes(), 0u);
}

TEST_F(LargeBody, is_waited_for_by_no_end) {
  auto store = open(options());
  submit(*store, Turn().put_note("n", ""));
  store->flush();
  auto other = operator_session();
  ASSERT_TRUE(other.run_script("BEGIN; LOCK TABLE body", postgres::Clock::now() + 10s));
  store->put_ahead(body_of(1u << 20));
  ASSERT_TRUE(waits_for_lock("%body%"));

  auto end = std::async(std::launch::async, [&] { store.reset(); });
  const auto ended = end.wait_for(20s);  // a statement has 30 s and more

  other.close();
  EXPECT_EQ(ended, std::future_status::ready);
}

// ---- rows ---------------------------------------------------------------------------------------------

TEST_F(PostgresStore, removes_the_rows_of_jobs_that_have_ended) {
  const auto store = open(options());
  std::uint64_t next = 0;
  for (int round = 0; round < 30; ++round) {
    Turn begin, end;
    for (int job = 0; job < 200; ++job) {
      begin.insert_job(++next, {"waits", std::string(100, 'r'), std::string(200, 'b')});
      end.erase_job(next);
    }
    store->submit(begin.writes());
    store->flush();  // in one transaction nothing of them would be written
    store->submit(end.writes());
    store->flush();
  }
  const auto bytes = [&] { return number("SELECT pg_relation_size('job')"); };
  const std::int64_t grown = bytes();

  // Its own vacuum makes the room of the dead rows free for new ones.
  EXPECT_TRUE(comes_true("SELECT count(*) FROM pg_stat_all_tables WHERE relname = 'job' AND schemaname = '" +
                             schema_ + "' AND vacuum_count > 0",
                         1));
  Turn more;
  for (int job = 0; job < 1000; ++job)
    more.insert_job(++next, {"waits", std::string(100, 'r'), std::string(200, 'b')});
  store->submit(more.writes());
  store->flush();

  EXPECT_LE(bytes(), grown);
}

/// Nor for a server that is cut off: what reads and vacuums gives up as what commits does.
TEST_F(PostgresStore, waits_for_no_vacuum_when_it_ends) {
  auto store = open(options());
  auto other = operator_session();
  ASSERT_TRUE(
      other.run_script("BEGIN; LOCK TABLE job IN SHARE UPDATE EXCLUSIVE MODE", postgres::Clock::now() + 10s));
  Turn many;
  for (std::uint64_t job = 1; job <= 1000; ++job)
    many.insert_job(job, {"waits", "", ""});
  submit(*store, std::move(many));
  store->flush();
  ASSERT_TRUE(waits_for_lock("VACUUM%"));

  auto end = std::async(std::launch::async, [&] { store.reset(); });
  const auto ended = end.wait_for(20s);  // a statement has 30 s and more

  other.close();  // where it waits it now goes on
  EXPECT_EQ(ended, std::future_status::ready);
}

TEST_F(PostgresStore, is_checked_while_a_broker_goes_on_with_it) {
  const auto store = open(options());
  submit(*store, Turn()
                     .insert_job(1, {"s", "r", std::string(300'000, 'b')})
                     .insert_job(2, {"s", "r", std::string(5'000, 'b')})
                     .insert_result(3, {"r", "b"}));
  store->flush();

  const auto summary = io::check_store(options());

  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  EXPECT_EQ(summary->jobs.count, 2u);
  EXPECT_EQ(summary->bodies.bytes, 305'000u);
  EXPECT_EQ(summary->results.count, 1u);
  EXPECT_THAT(io::to_text(*summary), HasSubstr("Every checksum is right"));
  submit(*store, Turn().erase_job(1));
  store->flush();
  EXPECT_EQ(store->condition(), StoreCondition::good) << "the check owns nothing";
}

TEST_F(PostgresStore, is_damaged_where_a_row_is_not_what_was_written) {
  {
    const auto store = open(options());
    submit(*store, Turn()
                       .insert_job(1, {"s", "r", std::string(300'000, 'b')})
                       .insert_job(2, {"s", "r", "small"})
                       .insert_result(3, {"r", "b"})
                       .put_note("n", "x"));
    store->flush();
  }
  const std::string whole = "SELECT 1";
  for (const auto& [harm, mend] : std::vector<std::pair<std::string, std::string>>{
           {"UPDATE job SET state = '\\x00' WHERE number = 2", "UPDATE job SET state = 's' WHERE number = 2"},
           {"UPDATE job SET body = 'smell' WHERE number = 2",
            "UPDATE job SET body = 'small' WHERE number = 2"},
           {"UPDATE job SET number = 9 WHERE number = 2", "UPDATE job SET number = 2 WHERE number = 9"},
           {"UPDATE result SET record = 'q'", "UPDATE result SET record = 'r'"},
           {"UPDATE note SET record = 'y' WHERE name = 'n'", "UPDATE note SET record = 'x' WHERE name = 'n'"},
           {"UPDATE body SET bytes = overlay(bytes placing 'c' from 9)",
            "UPDATE body SET bytes = overlay(bytes placing 'b' from 9)"},
           {"DELETE FROM body", whole}}) {
    run(harm);
    EXPECT_FALSE(io::check_store(options()).has_value()) << harm;
    run(mend);
    if (mend != whole) {
      EXPECT_TRUE(io::check_store(options()).has_value()) << mend;
    }
  }
}

TEST_F(PostgresStore, asks_for_the_databases_own_backup) {
  const auto store = open(options());

  const auto begun = store->begin_backup("/tmp/never");

  ASSERT_FALSE(begun.has_value());
  EXPECT_THAT(begun.error().message, HasSubstr("pg_basebackup"));
}

// ---- when a candidate may take it, by its own clock ----------------------------------------------------

using Moment = io::OwnerWatch::TimePoint;

TEST(OwnerWatch, waits_a_lease_from_when_it_saw_the_row_move_last) {
  io::OwnerWatch watch("b", false, 5s);
  const Moment begin{};

  EXPECT_FALSE(watch.may_take({1, 10, "a"}, begin));
  EXPECT_FALSE(watch.may_take({1, 11, "a"}, begin + 4s));
  EXPECT_FALSE(watch.may_take({1, 11, "a"}, begin + 8s));
  EXPECT_TRUE(watch.may_take({1, 11, "a"}, begin + 9s));
}

TEST(OwnerWatch, begins_anew_where_it_could_not_look) {
  io::OwnerWatch watch("b", false, 5s);
  const Moment begin{};
  EXPECT_FALSE(watch.may_take({1, 10, "a"}, begin));
  watch.blind();

  EXPECT_FALSE(watch.may_take({1, 10, "a"}, begin + 20s));
  EXPECT_TRUE(watch.may_take({1, 10, "a"}, begin + 25s));
}

TEST(OwnerWatch, takes_at_once_what_is_free) {
  io::OwnerWatch watch("b", false, 5s);

  EXPECT_TRUE(watch.may_take({1, 10, ""}, Moment{}));
}

TEST(OwnerWatch, waits_less_for_an_owner_that_was_a_process_before_this_one) {
  io::OwnerWatch alone("a", true, 5s), not_alone("a", false, 5s);
  const Moment begin{};
  EXPECT_FALSE(alone.may_take({1, 10, "a"}, begin)) << "another machine may have the name by mistake";
  EXPECT_FALSE(not_alone.may_take({1, 10, "a"}, begin));

  EXPECT_TRUE(alone.may_take({1, 10, "a"}, begin + 2500ms));
  EXPECT_FALSE(not_alone.may_take({1, 10, "a"}, begin + 2500ms)) << "a process of that name may be alive";
}

// ---- what turns make of the rows together --------------------------------------------------------------

TEST(WriteReducer, leaves_one_change_a_row) {
  Turn turn;
  turn.insert_job(1, {"a", "r1", "b1"})
      .update_job(1, "b")
      .rename_job(1, 2, "c")  // new, by its last number
      .insert_job(3, {"", "", ""})
      .erase_job(3)  // nothing
      .update_job(10, "x")
      .rename_job(10, 11, "y")
      .update_job(11, "z")  // one change
      .rename_job(20, 21, "")
      .erase_job(21)  // erased by the number that the table has
      .insert_result(1, {"r", "b"})
      .erase_result(1)  // nothing
      .erase_result(5)
      .insert_result(5, {"again", ""})  // erased and new
      .put_note("n", "1")
      .put_note("n", "2")
      .put_note("gone", "1")
      .erase_note("gone");
  io::WriteReducer reducer;
  reducer.add(turn.writes());
  const io::NetWrites net = reducer.net();

  ASSERT_EQ(net.new_jobs.size(), 1u);
  EXPECT_EQ(net.new_jobs[0].number, 2u);
  EXPECT_EQ(net.new_jobs[0].state, "c");
  EXPECT_EQ(net.new_jobs[0].record, "r1");
  EXPECT_EQ(net.new_jobs[0].body, "b1");
  ASSERT_EQ(net.changed_jobs.size(), 1u);
  EXPECT_EQ(net.changed_jobs[0].number, 10u);
  EXPECT_EQ(net.changed_jobs[0].renamed, 11u);
  EXPECT_EQ(net.changed_jobs[0].state, "z");
  EXPECT_THAT(net.erased_jobs, testing::ElementsAre(20u));
  EXPECT_THAT(net.erased_results, testing::ElementsAre(5u));
  ASSERT_EQ(net.new_results.size(), 1u);
  EXPECT_EQ(net.new_results[0].record, "again");
  ASSERT_EQ(net.put_notes.size(), 1u);
  EXPECT_EQ(net.put_notes[0].record, "2");
  EXPECT_THAT(net.erased_notes, testing::ElementsAre("gone"));
}

}  // namespace
}  // namespace lanemq
