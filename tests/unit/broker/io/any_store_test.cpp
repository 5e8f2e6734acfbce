// SPDX-License-Identifier: Apache-2.0
// What every durable store has to do, whatever it keeps its rows in: one list for all.
#include <functional>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/io/offline/store_copy.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "tests/support/store_driver.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/unit/broker/io/store_workload.hpp"
#ifdef LANEMQ_HAS_POSTGRES
#include "tests/support/postgres_server.hpp"
#endif

namespace lanemq {
namespace {

using io::StoreCondition;
using test::content_of;
using test::StoreContent;
using test::submit;
using test::Turn;
using test::wait_for;
using testing::HasSubstr;

const std::string kSmall(100, 's');
const std::string kLarge(50'000, 'L');
/// Of more parts than one, in stores that have parts.
const std::string kHuge(2'500'000, 'H');

/// Where a test's store is: opened again it is the same one.
class Place {
 public:
  virtual ~Place() = default;
  virtual io::StoreOptions options() const = 0;
};

class SqlitePlace final : public Place {
 public:
  io::StoreOptions options() const override {
    return {.specification = "sqlite:" + folder_.path("lanemq.db"), .reserve_bytes = 1 << 20};
  }

 private:
  const test::TemporaryDirectory folder_;
};

#ifdef LANEMQ_HAS_POSTGRES
class PostgresPlace final : public Place {
 public:
  io::StoreOptions options() const override {
    return {.specification = "postgres:" + test::PostgresServer::shared().conninfo(),
            .schema = schema_,
            .instance = "a",
            .alone = true};
  }

 private:
  static std::string new_schema() {
    static int count = 0;
    return "any store " + std::to_string(++count);
  }
  const std::string schema_ = new_schema();
};
#endif

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Place>()> make;

  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

std::vector<Kind> kinds() {
  std::vector<Kind> all{{"sqlite", [] { return std::make_unique<SqlitePlace>(); }}};
#ifdef LANEMQ_HAS_POSTGRES
  all.push_back({"postgres", [] { return std::make_unique<PostgresPlace>(); }});
#endif
  return all;
}

class AnyStore : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<io::Store> open() const { return open(*place_); }
  static std::unique_ptr<io::Store> open(const Place& place) {
    auto store = io::open_store(place.options());
    if (!store) throw std::runtime_error(store.error().message);
    return std::move(*store);
  }

  const std::unique_ptr<Place> place_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(of, AnyStore, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(AnyStore, says_that_what_it_commits_outlives_a_crash) {
  const auto store = open();

  EXPECT_TRUE(store->durable());
  EXPECT_EQ(store->name(), GetParam().name);
  EXPECT_EQ(store->condition(), StoreCondition::good);
  EXPECT_EQ(store->trouble(), "");
}

TEST_P(AnyStore, gives_back_every_kind_of_write_after_a_restart) {
  StoreContent expected;
  std::vector<Turn> turns;
  turns.emplace_back()
      .insert_job(1, {"waits", "record 1", kSmall})
      .insert_job(2, {"waits", "record 2", kLarge})
      .insert_job(3, {"waits", "record 3", ""})
      .insert_job(4, {"", "", std::string(1024, 'x')})
      .insert_job(5, {"waits", std::string("\0\xff", 2), std::string(1025, 'y')})
      .insert_job(6, {"waits", "record 6", kHuge})
      .insert_job(8, {"waits", "record 8", kHuge})
      .put_note("group g", "over")
      .put_note(std::string("\0\xff", 2), "a name of any bytes")
      .put_note("budgets", "full");
  turns.emplace_back()
      .update_job(1, "runs")
      .rename_job(2, 20, "again")
      .rename_job(3, 30, "again")
      .rename_job(6, 60, "again")
      .erase_job(4)
      .erase_job(8)
      .insert_result(1, {"done", kLarge})
      .insert_result(2, {"done", kHuge})
      .insert_result(9, {"done", kHuge})
      .insert_result(7, {"", ""})
      .put_note("budgets", "half")
      .put_note("", "");
  turns.emplace_back().erase_note("group g").erase_result(7).erase_result(9).erase_job(5).insert_job(
      (1ull << 63) - 1, {"s", "r", "b"});
  {
    const auto store = open();
    for (Turn& turn : turns) {
      turn.apply(expected);
      store->submit(turn.writes());
    }
    store->flush();
    EXPECT_EQ(store->committed(), 3u);
    EXPECT_EQ(store->backlog_bytes(), 0u);
  }

  const auto store = open();
  const auto content = content_of(*store);

  ASSERT_TRUE(content.has_value()) << content.error().message;
  EXPECT_EQ(*content, expected);
}

/// Turns in one transaction, and each in one of its own: what comes back is the same.
TEST_P(AnyStore, gives_back_what_turns_by_chance_have_left) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const std::unique_ptr<Place> place = GetParam().make();
    test::Workload workload(seed, 120);
    for (std::size_t done = 0; done < workload.turns.size();) {
      const auto store = open(*place);
      // Few and many at once, waited for and not.
      for (std::size_t left = 1 + (done * 7 + seed) % 40; left > 0 && done < workload.turns.size(); --left) {
        store->submit(workload.turns[done++].writes());
        if (seed % 2 == 0 && left % 3 == 0) store->flush();
      }
      store->flush();
      ASSERT_EQ(store->condition(), StoreCondition::good) << store->trouble();
    }

    const auto store = open(*place);
    const auto content = content_of(*store);

    ASSERT_TRUE(content.has_value()) << content.error().message;
    EXPECT_EQ(test::turns_in(*content, workload), workload.turns.size()) << "seed " << seed;
  }
}

TEST_P(AnyStore, gives_tickets_in_order_and_tells_of_commits_by_its_descriptor) {
  const auto store = open();

  EXPECT_EQ(submit(*store, Turn().put_note("a", "1")), 1u);
  EXPECT_TRUE(wait_for(*store, std::uint64_t{1}));
  EXPECT_EQ(submit(*store, Turn().put_note("a", "2")), 2u);
  EXPECT_EQ(submit(*store, Turn().put_note("a", "3")), 3u);
  EXPECT_TRUE(wait_for(*store, std::uint64_t{3}));
}

TEST_P(AnyStore, reads_a_body_as_it_is_after_what_was_submitted_before) {
  const auto store = open();
  submit(*store, Turn()
                     .insert_job(1, {"", "r", kSmall})
                     .insert_job(2, {"", "r", kLarge})
                     .insert_job(4, {"", "r", kHuge}));
  submit(*store, Turn().rename_job(2, 3, "s").rename_job(4, 5, "s"));
  submit(*store, Turn().erase_job(1));

  const auto bodies = test::read_bodies(*store, {1, 2, 3, 5});

  ASSERT_EQ(bodies.size(), 4u);
  EXPECT_EQ(bodies[0].number, 1u);
  EXPECT_FALSE(bodies[0].body.has_value());
  EXPECT_FALSE(bodies[1].body.has_value());
  ASSERT_TRUE(bodies[2].body.has_value());
  EXPECT_EQ(bodies[2].body->bytes(), kLarge);
  ASSERT_TRUE(bodies[3].body.has_value());
  EXPECT_EQ(bodies[3].body->bytes(), kHuge);
}

TEST_P(AnyStore, reads_more_bodies_than_go_at_once_in_the_order_asked) {
  const auto store = open();
  constexpr std::uint64_t kJobs = 200;
  Turn many;
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 1; number <= kJobs; ++number) {
    many.insert_job(number, {"", "", kLarge + std::to_string(number)});
    numbers.insert(numbers.begin(), number);
  }
  store->submit(many.writes());

  const auto bodies = test::read_bodies(*store, numbers);

  ASSERT_EQ(bodies.size(), kJobs);
  for (std::size_t i = 0; i < kJobs; ++i) {
    EXPECT_EQ(bodies[i].number, numbers[i]);
    ASSERT_TRUE(bodies[i].body.has_value());
    EXPECT_EQ(bodies[i].body->bytes(), kLarge + std::to_string(numbers[i]));
  }
}

TEST_P(AnyStore, fails_for_good_when_a_job_that_is_not_there_is_changed) {
  const auto store = open();
  submit(*store, Turn().insert_job(1, {"", "", ""}));
  store->flush();
  submit(*store, Turn().insert_job(2, {"", "", ""}).update_job(9, "s"));

  ASSERT_TRUE(wait_for(*store, StoreCondition::failed));
  submit(*store, Turn().insert_job(3, {"", "", ""}));
  store->flush();

  EXPECT_THAT(store->trouble(), HasSubstr("nothing is committed"));
  EXPECT_EQ(store->committed(), 1u);
}

/// From each kind to each.
TEST_P(AnyStore, is_copied_to_every_kind_of_store_and_back) {
  test::Workload workload(3, 200);
  StoreContent expected = workload.after.back();
  {
    const auto store = open();
    for (Turn& turn : workload.turns)
      store->submit(turn.writes());
    Turn huge;
    huge.insert_job(1'000'000, {"s", "r", kHuge}).insert_result(1'000'001, {"r", kHuge});
    huge.apply(expected);
    store->submit(huge.writes());
    store->flush();
  }
  for (const Kind& kind : kinds()) {
    const std::unique_ptr<Place> there = kind.make(), back = GetParam().make();
    const auto nothing = io::copy_store(there->options(), back->options());
    ASSERT_FALSE(nothing.has_value()) << "a slip in a name is no empty store";
    EXPECT_THAT(nothing.error().message, HasSubstr("there is no store"));

    const auto went = io::copy_store(place_->options(), there->options());
    const auto came = io::copy_store(there->options(), back->options());
    const auto again = io::copy_store(place_->options(), back->options());

    ASSERT_TRUE(went.has_value()) << went.error().message;
    ASSERT_TRUE(came.has_value()) << came.error().message;
    EXPECT_EQ(went->jobs, expected.jobs.size());
    EXPECT_EQ(went->results, expected.results.size());
    ASSERT_FALSE(again.has_value()) << "there is something already";
    EXPECT_THAT(again.error().message, HasSubstr("holds something"));
    auto store = io::open_store(back->options());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    const auto content = content_of(**store);
    ASSERT_TRUE(content.has_value()) << content.error().message;
    EXPECT_EQ(*content, expected);
  }
}

/// Nothing of a turn that was refused is there later.
TEST_P(AnyStore, keeps_nothing_of_a_turn_that_cannot_be_committed) {
  {
    const auto store = open();
    submit(*store, Turn().insert_job(1, {"", "", ""}));
    store->flush();
    submit(*store, Turn().insert_job(2, {"", "", ""}).put_note("n", "").insert_job(1, {"", "", ""}));
    ASSERT_TRUE(wait_for(*store, StoreCondition::failed));
  }

  const auto store = open();
  const auto content = content_of(*store);

  ASSERT_TRUE(content.has_value()) << content.error().message;
  EXPECT_EQ(content->jobs.size(), 1u);
  EXPECT_TRUE(content->notes.empty());
}

}  // namespace
}  // namespace lanemq
