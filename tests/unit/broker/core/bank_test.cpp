// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shared/bank.hpp"

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/core/budgets/shared/slices.hpp"

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TimePoint kBegin{std::chrono::hours(500'000)};

BudgetOptions a_budget(std::int64_t limit = 60, std::int64_t concurrency = 0) {
  BudgetOptions budget{.name = "shared"};
  budget.rates.push_back({.name = "requests_per_minute",
                          .limit = limit,
                          .period = minutes(1),
                          .capacity = limit,
                          .resource = Resource::requests});
  budget.concurrency = concurrency;
  return budget;
}

/// A bank whose database and shards have one clock, and whose row is written and read between all draws.
class Row {
 public:
  explicit Row(BudgetOptions budget = a_budget(), int offline_share = 0)
      : budget_(std::move(budget)), offline_share_(offline_share) {}

  Drawn draw(Draw draw) {
    Bank bank(budget_, offline_share_);
    const bool restored = row_.empty() || bank.restore(row_).has_value();
    EXPECT_TRUE(restored);
    draw.epoch = draw.epoch == 0 ? 1 : draw.epoch;
    draw.number = draw.number == 0 ? ++numbers_[draw.shard] : draw.number;
    if (!draw.saw) draw.saw = now;
    draw.draws_known = draws_known;
    Drawn drawn = bank.draw(draw, {.now = now});
    draws_known = drawn.draws;
    row_ = bank.save();
    return drawn;
  }
  /// What the shard gets of `jobs` that it wants for a lane, in all its slices.
  std::int64_t get(const std::string& shard, std::int64_t jobs, std::size_t lane = 0, int hold = 0) {
    std::int64_t got = 0;
    for (const Slice& slice : draw({.shard = shard, .wants = {want(jobs, lane, hold)}}).slices)
      got += slice.amounts.of(Resource::requests);
    return got;
  }
  static LaneWant want(std::int64_t jobs, std::size_t lane = 0, int hold = 0) {
    return {.lane = lane, .jobs = jobs, .all = {.requests = jobs}, .hold = hold};
  }
  static Report report(std::uint64_t number, std::uint64_t slice, std::int64_t used, Duration age) {
    Counts counts(Amounts{.requests = used});
    return {.number = number, .slices = {{.slice = slice, .uses = {{.age = age, .used = counts}}}}};
  }
  std::string& row() { return row_; }
  void configure(BudgetOptions budget) { budget_ = std::move(budget); }

  TimePoint now = kBegin;
  std::uint64_t draws_known = 0;

 private:
  BudgetOptions budget_;
  int offline_share_;
  std::string row_;
  std::map<std::string, std::uint64_t> numbers_;
};

TEST(Bank, grants_no_more_than_the_limit_to_all_shards_together) {
  Row row;

  std::int64_t got = 0;
  for (int i = 0; i < 200; ++i) {
    got += row.get(i % 2 == 0 ? "a" : "b", 10);
    row.now += milliseconds(200);
  }

  EXPECT_LE(got, 60);
  EXPECT_GE(got, 50);
}

TEST(Bank, a_slice_that_nobody_reports_counts_for_a_period_from_its_end) {
  Row row(a_budget(1));
  ASSERT_EQ(row.get("a", 1), 1);

  // Its time is half a second, the window's slack a hundredth of a minute.
  row.now = kBegin + milliseconds(61'000);
  EXPECT_EQ(row.get("b", 1), 0);
  row.now = kBegin + milliseconds(61'300);
  EXPECT_EQ(row.get("b", 1), 1);
}

TEST(Bank, a_reported_use_counts_for_a_period_from_its_time) {
  Row row(a_budget(1));
  const Drawn drawn = row.draw({.shard = "a", .wants = {Row::want(1)}});
  row.now += milliseconds(400);
  row.draw({.shard = "a", .report = Row::report(2, drawn.slices.at(0).number, 1, milliseconds(300))});

  row.now = kBegin + milliseconds(60'800);
  EXPECT_EQ(row.get("b", 1), 0);
  row.now = kBegin + milliseconds(61'050);
  EXPECT_EQ(row.get("b", 1), 1);
}

TEST(Bank, a_report_gives_back_what_was_not_used) {
  Row row;
  const Drawn drawn = row.draw({.shard = "a", .wants = {Row::want(30)}});
  ASSERT_EQ(row.get("b", 1), 0) << "the burst is spent";

  row.now += milliseconds(100);
  row.draw({.shard = "a", .report = Row::report(2, drawn.slices.at(0).number, 3, milliseconds(100))});

  EXPECT_GE(row.get("b", 60), 27);
}

TEST(Bank, takes_a_report_once_however_often_it_is_said) {
  Row row;
  const Drawn drawn = row.draw({.shard = "a", .wants = {Row::want(30)}});
  Report report = Row::report(2, drawn.slices.at(0).number, 30, milliseconds(100));
  report.corrections.push_back({.at = row.now, .more = Counts(Amounts{.requests = -20})});
  const Drawn first = row.draw({.shard = "a", .report = report});
  row.now += milliseconds(10);

  const Drawn again = row.draw({.shard = "a", .report = report});

  EXPECT_EQ(again.reported_at, first.reported_at);
  EXPECT_EQ(row.get("b", 60), 20);
}

TEST(Bank, gives_back_what_a_lost_draw_was_granted_when_its_shard_disclaims_it) {
  Row row;
  ASSERT_EQ(row.get("a", 30), 30);
  ASSERT_EQ(row.get("b", 60), 0);

  row.draw({.shard = "a",
            .report = {.number = 2, .slices = {}, .corrections = {}, .words = {}, .disclaimed = {1}}});

  EXPECT_EQ(row.get("b", 60), 30);
}

TEST(Bank, an_owner_disclaims_nothing_of_what_an_earlier_one_drew_under_the_same_number) {
  Row row;
  ASSERT_EQ(row.get("a", 30), 30);
  row.draw({.shard = "a",
            .epoch = 2,
            .number = 2,
            .report = {.number = 2, .slices = {}, .corrections = {}, .words = {}, .disclaimed = {1}}});

  EXPECT_EQ(row.get("b", 60), 0);
}

TEST(Bank, an_earlier_draw_that_comes_late_gets_nothing) {
  Row row;
  row.draw({.shard = "a", .number = 7});

  const Drawn late = row.draw({.shard = "a", .number = 6, .wants = {Row::want(5)}});

  EXPECT_EQ(late.outcome, Drawn::Outcome::stale);
  EXPECT_THAT(late.slices, IsEmpty());
}

TEST(Bank, a_former_owner_gets_nothing) {
  Row row;
  row.draw({.shard = "a", .epoch = 2, .number = 1});

  const Drawn former = row.draw({.shard = "a", .epoch = 1, .number = 9, .wants = {Row::want(5)}});

  EXPECT_EQ(former.outcome, Drawn::Outcome::superseded);
  EXPECT_THAT(former.slices, IsEmpty());
}

TEST(Bank, a_lower_lane_gets_nothing_while_a_higher_one_of_another_shard_waits) {
  Row row;
  ASSERT_EQ(row.get("a", 40, 0), 30);  // ten more wait

  row.now += seconds(1);
  EXPECT_EQ(row.get("b", 1, 1), 0);
  row.now += seconds(2);
  EXPECT_EQ(row.get("b", 1, 1), 1) << "the want is old";
}

TEST(Bank, a_lower_lane_leaves_the_reserve_of_those_above) {
  BudgetOptions budget = a_budget(1000);
  budget.rates[0].capacity = 100;
  Row row(budget);

  EXPECT_EQ(row.get("a", 1000, 1, 100), 90);
  EXPECT_EQ(row.get("b", 1000, 0), 10);
}

TEST(Bank, shards_of_one_lane_take_turns_by_the_clients_that_wait) {
  BudgetOptions budget = a_budget(6000);
  budget.rates[0].capacity = 100;
  Row row(budget);
  std::int64_t got[2] = {};
  for (int i = 0; i < 400; ++i) {
    LaneWant want = Row::want(10'000);
    want.clients = i % 2 == 0 ? 3 : 1;
    const Drawn drawn = row.draw({.shard = i % 2 == 0 ? "a" : "b", .wants = {want}});
    for (const Slice& slice : drawn.slices)
      got[i % 2] += slice.amounts.of(Resource::requests);
    row.now += milliseconds(250);
  }
  EXPECT_NEAR(static_cast<double>(got[0]) / static_cast<double>(got[1]), 3.0, 0.3);
}

TEST(Bank, shares_places_and_takes_them_back_as_jobs_end) {
  Row row(a_budget(60, 4));
  const auto places = [&](const std::string& shard, std::int64_t held, std::int64_t wanted) {
    return row.draw({.shard = shard, .places = {{.held = held, .running = held, .wanted = wanted}}})
        .places.at(0);
  };

  EXPECT_EQ(places("a", 0, 10).places, 4);
  EXPECT_EQ(places("b", 0, 10).places, 0);
  const PlacesGranted first = places("a", 4, 10);
  EXPECT_EQ(first.places, 4);
  EXPECT_EQ(first.allowed, 2);
  EXPECT_EQ(places("a", 2, 10).places, 2) << "two jobs have ended";
  EXPECT_EQ(places("b", 0, 10).places, 2);
}

TEST(Bank, lets_no_job_begin_in_a_place_that_was_claimed_beyond_the_limit) {
  Row row(a_budget(60, 3));
  const auto places = [&](const std::string& shard, std::int64_t held, std::int64_t running) {
    return row.draw({.shard = shard, .places = {{.held = held, .running = running, .wanted = 5}}})
        .places.at(0);
  };
  ASSERT_EQ(places("a", 0, 0).places, 3);
  // Its earlier owner has said that nothing runs; the new one finds a call.
  const PlacesGranted adopted = places("b", 1, 1);
  EXPECT_EQ(adopted.places, 1);
  EXPECT_EQ(adopted.allowed, 0) << "no other job follows it while three run at the other shard";
  EXPECT_EQ(places("a", 3, 3).allowed, 2);
  EXPECT_EQ(places("b", 0, 0).allowed, 0);
  EXPECT_EQ(places("a", 2, 2).allowed, 2);
  EXPECT_EQ(places("b", 0, 0).allowed, 1);
}

/// The places that the shard has after a draw.
std::int64_t places_of(Row& row, const std::string& shard, std::int64_t held, std::int64_t wanted,
                       const std::vector<std::string>& named, const Report& report = {}) {
  return row
      .draw({.shard = shard,
             .report = report,
             .places = {{.held = held, .running = held, .wanted = wanted}},
             .shards = named})
      .places.at(0)
      .places;
}

TEST(Bank, gives_away_the_places_of_a_shard_that_is_gone_for_good) {
  Row row(a_budget(60, 4));
  ASSERT_EQ(places_of(row, "old", 0, 4, {}), 4);

  row.now += minutes(10);
  EXPECT_EQ(places_of(row, "b", 0, 4, {"b"}), 0) << "calls may run in them still";
  row.now += minutes(1);
  EXPECT_EQ(places_of(row, "b", 0, 4, {"b", "old"}), 0) << "it may be cut off, or down, and comes back";
  EXPECT_EQ(places_of(row, "b", 0, 4, {"b"}), 4);
}

TEST(Bank, gives_away_the_places_of_a_shard_that_is_down_where_an_operator_says_so) {
  Row row(a_budget(60, 4));
  ASSERT_EQ(places_of(row, "down", 0, 4, {}), 4);
  const auto resume = [&](std::uint64_t number) {
    places_of(row, "b", 0, 0, {"b", "down"},
              {.number = number,
               .slices = {},
               .corrections = {},
               .words = {{.kind = UpstreamWord::Kind::forgotten}}});
    return places_of(row, "b", 0, 4, {"b", "down"});
  };

  row.now += minutes(9);
  EXPECT_EQ(resume(1), 0) << "calls may run in them still";
  row.now += minutes(2);
  EXPECT_EQ(resume(2), 4);
  EXPECT_EQ(places_of(row, "down", 1, 4, {"b", "down"}), 1) << "what runs there is told all the same";
}

TEST(Bank, gives_no_places_from_a_new_row_before_all_shards_have_said_what_they_use) {
  Row row(a_budget(60, 4));
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b", "c"}), 0);
  EXPECT_EQ(places_of(row, "b", 3, 3, {"a", "b", "c"}), 3);
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b", "c"}), 0);
  EXPECT_EQ(places_of(row, "c", 0, 0, {"a", "b", "c"}), 0);
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b", "c"}), 1);
}

TEST(Bank, gives_no_places_from_a_new_row_though_an_operator_has_all_forgotten) {
  Row row(a_budget(60, 4));
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b"}), 0);
  const Drawn drawn = row.draw({.shard = "a",
                                .report = {.number = 1, .words = {{.kind = UpstreamWord::Kind::forgotten}}},
                                .places = {{.wanted = 4}},
                                .shards = {"a", "b"}});
  EXPECT_EQ(drawn.places.at(0).places, 0) << "calls of b run whatever is forgotten";
  EXPECT_EQ(places_of(row, "b", 3, 0, {"a", "b"}), 3);
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b"}), 1);
}

TEST(Bank, shares_keys_with_equal_room_by_their_weights) {
  BudgetOptions budget = a_budget(6000);
  budget.keys = {{.name = "one"}, {.name = "four", .weight = 4}, {.name = "gone", .draining = true}};
  Row row(budget);
  std::vector<std::int64_t> got(3);
  for (int i = 0; i < 50; ++i) {
    for (const Slice& slice : row.draw({.shard = i % 2 == 0 ? "a" : "b", .wants = {Row::want(4)}}).slices)
      got.at(slice.key) += slice.amounts.of(Resource::requests);
    row.now += seconds(1);
  }
  EXPECT_EQ(got, (std::vector<std::int64_t>{40, 160, 0}));
}

TEST(Bank, gives_places_from_a_new_row_when_those_who_use_some_would_have_said_so) {
  Row row(a_budget(60, 4));
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b"}), 0);
  row.now += milliseconds(14'999);
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b"}), 0);
  row.now += milliseconds(1);
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b"}), 4);
}

TEST(Bank, that_has_lost_draws_gives_no_places_before_all_shards_have_said_what_they_use) {
  Row row(a_budget(60, 4));
  places_of(row, "b", 0, 0, {});
  ASSERT_EQ(places_of(row, "a", 0, 0, {"a", "b"}), 0);
  const std::string former = row.row();
  ASSERT_EQ(places_of(row, "b", 0, 4, {"a", "b"}), 4);
  row.now += seconds(4);

  row.row() = former;
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b"}), 0);
  row.now += seconds(1);
  EXPECT_EQ(places_of(row, "b", 2, 0, {"a", "b"}), 2) << "two calls have ended";
  EXPECT_EQ(places_of(row, "a", 0, 4, {"a", "b"}), 2);
}

TEST(Bank, a_job_that_waits_for_a_place_of_its_shard_keeps_no_lower_lane_of_another_one_back) {
  Row row(a_budget(600, 4));
  const auto granted = [&](const std::string& shard, std::size_t lane, const PlacesWanted& places) {
    return row.draw({.shard = shard, .wants = {Row::want(10, lane)}, .places = {places}}).slices.size();
  };
  EXPECT_EQ(granted("a", 0, {.held = 0, .wanted = 10}), 1u);
  EXPECT_EQ(granted("b", 1, {.held = 0, .wanted = 10}), 0u) << "a has all places";
  EXPECT_EQ(granted("a", 0, {.held = 2, .running = 2, .wanted = 10}), 1u);

  EXPECT_EQ(granted("b", 1, {.held = 0, .wanted = 10}), 1u) << "though jobs of the top lane wait at a";
}

TEST(Bank, who_has_had_no_place_for_longest_gets_the_one_that_is_given_back) {
  Row row(a_budget(600, 2));
  std::map<std::string, std::int64_t> held, ended;
  // A shard's job ends now and then, and its place goes back; c has most jobs waiting, and d came last.
  for (int turn = 0; turn < 60; ++turn) {
    for (const char* const shard : {"a", "b", "c", "d"}) {
      if (turn % 3 == 0 && held[shard] > 0) {
        held[shard] = 0;
        ++ended[shard];
      }
      const std::int64_t wanted = shard[0] == 'c' ? 1000 : 10;
      const Drawn drawn =
          row.draw({.shard = shard,
                    .wants = {Row::want(wanted)},
                    .places = {{.held = held[shard], .running = held[shard], .wanted = wanted}}});
      held[shard] = drawn.places.at(0).allowed > 0 || held[shard] > 0 ? drawn.places.at(0).places : 0;
      row.now += milliseconds(100);
    }
  }
  for (const char* const shard : {"a", "b", "c", "d"})
    EXPECT_NEAR(static_cast<double>(ended[shard]), 10, 2) << shard;
}

TEST(Bank, grants_what_may_begin_in_the_places_that_a_shard_has) {
  Row row(a_budget(60, 3));
  const auto granted = [&](const std::string& shard, const PlacesWanted& places) {
    std::int64_t got = 0;
    for (const Slice& slice : row.draw({.shard = shard, .wants = {Row::want(10)}, .places = {places}}).slices)
      got += slice.amounts.of(Resource::requests);
    return got;
  };
  EXPECT_EQ(granted("a", {.held = 1, .running = 1, .wanted = 10}), 2);
  EXPECT_EQ(granted("a", {.held = 3, .running = 3, .wanted = 8}), 1) << "one of them may end";
  EXPECT_EQ(granted("a", {.held = 3, .running = 3, .went = 4, .wanted = 8}), 8) << "short jobs";
  EXPECT_EQ(granted("b", {.held = 0, .running = 0, .wanted = 8}), 0) << "a has all places";
}

BudgetOptions with_places(std::vector<std::pair<std::string, std::int64_t>> keys) {
  BudgetOptions budget{.name = "shared"};
  for (const auto& [name, concurrency] : keys)
    budget.keys.push_back({.name = name,
                           .rates = {{.name = "requests_per_minute",
                                      .limit = 60,
                                      .period = minutes(1),
                                      .capacity = 60,
                                      .resource = Resource::requests}},
                           .concurrency = concurrency});
  return budget;
}

TEST(Bank, grants_a_key_in_whose_account_the_shard_has_a_free_place) {
  Row row(with_places({{"k1", 1}, {"k2", 1}}));

  const Drawn drawn = row.draw({.shard = "a",
                                .wants = {Row::want(1)},
                                .places = {{.account = 0, .held = 1, .running = 1, .went = 5, .wanted = 1},
                                           {.account = 1, .wanted = 1}}});

  ASSERT_THAT(drawn.slices, SizeIs(1));
  EXPECT_EQ(drawn.slices[0].key, 1);
}

TEST(Bank, grants_each_key_as_many_jobs_as_may_begin_in_the_places_of_its_account) {
  Row row(with_places({{"k1", 2}, {"k2", 3}}));

  const Drawn drawn = row.draw({.shard = "a",
                                .wants = {Row::want(10)},
                                .places = {{.account = 0, .wanted = 10}, {.account = 1, .wanted = 10}}});

  std::map<std::uint16_t, std::int64_t> got;
  for (const Slice& slice : drawn.slices)
    got[slice.key] += slice.amounts.of(Resource::requests);
  EXPECT_EQ(got, (std::map<std::uint16_t, std::int64_t>{{0, 2}, {1, 3}}));
  EXPECT_EQ(drawn.lanes.at(0).refusal, DrawRefusal::places);
}

TEST(Bank, a_job_that_waits_for_a_place_of_its_shards_keys_keeps_no_lower_lane_of_another_one_back) {
  Row row(with_places({{"k1", 2}, {"k2", 2}}));
  const auto draw = [&](const std::string& shard, std::size_t lane, std::int64_t held) {
    return row.draw({.shard = shard,
                     .wants = {Row::want(10, lane)},
                     .places = {{.account = 0, .held = held, .running = held, .wanted = 10},
                                {.account = 1, .held = held, .running = held, .wanted = 10}}});
  };
  draw("a", 0, 0);
  EXPECT_THAT(draw("b", 1, 0).slices, IsEmpty()) << "a has all places";
  EXPECT_EQ(draw("a", 0, 1).lanes.at(0).refusal, DrawRefusal::places);

  EXPECT_THAT(draw("b", 1, 0).slices, SizeIs(2)) << "though jobs of the top lane wait at a";
}

TEST(Bank, shares_a_concurrency_of_any_size) {
  // Of the first one nine tenths are 5 with the carry lost; of one place nothing is left that is not a limit.
  for (const auto& [concurrency, wanted, places] :
       {std::tuple{std::int64_t{20'496'382'304'121'730}, 10, 10}, std::tuple{std::int64_t{1}, 10, 1}}) {
    Row row(a_budget(60, concurrency), 100);
    EXPECT_EQ(places_of(row, "a", 0, wanted, {}), places) << concurrency;
  }
}

TEST(Bank, offline_share_is_granted_to_nobody) {
  Row row(a_budget(100), 200);
  std::int64_t got = 0;
  for (int i = 0; i < 100; ++i) {
    got += row.get("a", 100);
    row.now += milliseconds(500);
  }
  EXPECT_LE(got, 80);
  EXPECT_GE(got, 60);
}

TEST(Bank, grants_the_key_with_the_most_room) {
  BudgetOptions budget{.name = "shared"};
  for (const std::string name : {"k1", "k2"})
    budget.keys.push_back({.name = name,
                           .rates = {{.name = "requests_per_minute",
                                      .limit = 60,
                                      .period = minutes(1),
                                      .capacity = 30,
                                      .resource = Resource::requests}}});
  Row row(budget);

  const Drawn first = row.draw({.shard = "a", .wants = {Row::want(20)}});
  const Drawn second = row.draw({.shard = "b", .wants = {Row::want(20)}});

  ASSERT_THAT(first.slices, SizeIs(1));
  ASSERT_THAT(second.slices, SizeIs(1));
  EXPECT_NE(first.slices[0].key, second.slices[0].key);
}

/// Two keys of which a shard that takes part may know one, or both in another order.
BudgetOptions with_keys(const std::vector<std::string>& names) {
  BudgetOptions budget{.name = "shared"};
  for (const std::string& name : names)
    budget.keys.push_back({.name = name,
                           .rates = {{.name = "requests_per_minute",
                                      .limit = 60,
                                      .period = minutes(1),
                                      .capacity = 60,
                                      .resource = Resource::requests}}});
  return budget;
}

TEST(Bank, a_key_is_meant_by_its_name_whatever_its_place) {
  Row row(with_keys({"k1", "k2"}));
  std::map<std::string, std::int64_t> got;
  const auto draw = [&](const std::string& shard, const std::vector<std::string>& names) {
    row.configure(with_keys(names));
    for (const Slice& slice : row.draw({.shard = shard, .wants = {Row::want(200)}}).slices)
      got[names.at(slice.key)] += slice.amounts.of(Resource::requests);
  };
  for (int i = 0; i < 40; ++i) {
    draw("a", {"k1", "k2"});
    draw("b", {"k2", "k1"});
    draw("c", {"k2"});
    draw("d", {"k3", "k1"});
    row.now += seconds(1);
  }
  for (const auto& [key, amount] : got)
    EXPECT_LE(amount, 60) << key;
  EXPECT_GE(got["k1"] + got["k2"] + got["k3"], 110);
}

TEST(Bank, a_key_that_nobody_knows_any_more_is_forgotten_when_nothing_counts) {
  Row row(with_keys({"k1", "k2"}));
  row.get("a", 10);
  row.configure(with_keys({"k1"}));
  row.now += minutes(2);
  row.get("a", 1);
  EXPECT_NE(row.row().find("k2"), std::string::npos);
  row.now += seconds(10);
  row.get("a", 1);
  row.get("a", 1);
  EXPECT_EQ(row.row().find("k2"), std::string::npos);
}

TEST(Bank, knows_so_many_keys_of_others_and_no_more) {
  Row row(with_keys({"k"}));
  for (int i = 0; i < 300; ++i) {
    row.configure(with_keys({"k" + std::to_string(i)}));
    row.now += milliseconds(10);
    row.get("shard" + std::to_string(i % 8), 100);
  }
  std::size_t keys = 0;
  for (std::size_t at = 0; (at = row.row().find("=key ", at)) != std::string::npos; ++at)
    ++keys;
  EXPECT_EQ(keys, Bank::kRowKeysMax);
  EXPECT_EQ(row.row().find("k199\n"), std::string::npos);
  EXPECT_NE(row.row().find("k240\n"), std::string::npos);
}

TEST(Bank, a_refusal_that_one_shard_reports_pauses_all) {
  Row row;
  UpstreamWord word{.kind = UpstreamWord::Kind::limited, .pause = seconds(20)};
  row.draw({.shard = "a", .report = {.number = 1, .slices = {}, .corrections = {}, .words = {word}}});

  const Drawn paused = row.draw({.shard = "b", .wants = {Row::want(1)}});
  ASSERT_THAT(paused.lanes, SizeIs(1));
  EXPECT_EQ(paused.lanes[0].refusal, DrawRefusal::paused);
  row.now += seconds(21);
  EXPECT_EQ(row.get("b", 1), 1);
}

TEST(Bank, an_operator_of_one_shard_has_a_pause_forgotten_for_all) {
  Row row;
  const auto say = [&](std::uint64_t number, const UpstreamWord& word) {
    row.draw({.shard = "a", .report = {.number = number, .slices = {}, .corrections = {}, .words = {word}}});
  };
  say(1, {.kind = UpstreamWord::Kind::limited, .pause = minutes(20)});
  EXPECT_EQ(row.get("b", 1), 0);
  say(2, {.kind = UpstreamWord::Kind::forgotten});
  row.now += seconds(2);
  EXPECT_EQ(row.get("b", 1), 1);
}

TEST(Bank, a_limit_that_the_upstream_states_holds_for_all_shards) {
  Row row(a_budget(60));
  wire::UpstreamLimits limits;
  limits.limit_requests = 10;
  UpstreamWord word{.limits = limits};
  row.draw({.shard = "a", .report = {.number = 1, .slices = {}, .corrections = {}, .words = {word}}});

  EXPECT_EQ(row.get("b", 60), 10);
}

TEST(Bank, that_has_lost_draws_grants_nothing_until_they_count_no_more) {
  Row row(a_budget(60));
  ASSERT_GT(row.get("a", 5), 0);
  const std::string former = row.row();
  row.now += seconds(1);
  ASSERT_GT(row.get("a", 30), 0);

  row.row() = former;  // a former primary's
  row.now += seconds(1);
  const Drawn drawn = row.draw({.shard = "a", .wants = {Row::want(5)}});
  EXPECT_THAT(drawn.slices, IsEmpty());
  EXPECT_EQ(drawn.waits, milliseconds(61'100));
  EXPECT_EQ(drawn.lanes.at(0).refusal, DrawRefusal::lost_draws);
  row.draws_known = 0;
  EXPECT_EQ(row.get("b", 5), 0) << "nor to a shard that knows nothing of it";
  row.now += milliseconds(61'000);
  EXPECT_EQ(row.get("b", 5), 0);
  row.now += milliseconds(100);
  EXPECT_EQ(row.get("b", 5), 5);
}

TEST(Bank, that_has_lost_draws_goes_on_where_an_operator_says_so) {
  Row row(a_budget(60));
  row.get("a", 5);
  row.row().clear();  // a new table
  ASSERT_EQ(row.get("a", 5), 0);
  UpstreamWord word{.kind = UpstreamWord::Kind::forgotten};
  row.draw({.shard = "a", .report = {.number = 1, .slices = {}, .corrections = {}, .words = {word}}});
  EXPECT_EQ(row.get("a", 5), 5);
}

/// Shard a has handed a call over, drawn soon after, and is answered: so much remains.
class Remaining : public testing::Test {
 protected:
  /// The room that the bank tells of when the call is under way.
  void call() {
    row_.get("a", 10);
    row_.now += milliseconds(200);
    seen_ = row_.draw({.shard = "a"}).rooms;
  }
  Drawn answered(std::int64_t remaining, Duration age, Duration waited = {}) {
    row_.now += age - milliseconds(200);
    UpstreamWord word{.age = age, .waited = waited, .limits = wire::UpstreamLimits{}, .rooms = seen_};
    word.limits->remaining_requests = remaining;
    Draw draw{.shard = "a", .number = 10};
    draw.report = {.number = 10, .slices = {}, .corrections = {}, .words = {word}};
    return row_.draw(draw);
  }
  /// Of 100, as far as the burst goes.
  std::int64_t left() { return row_.get("b", 100); }

  Row row_{a_budget(100)};
  std::vector<LimitRooms> seen_;
};

TEST_F(Remaining, what_others_use_is_counted_for_all_shards) {
  call();
  answered(20, seconds(3));
  EXPECT_EQ(left(), 20);
}

TEST_F(Remaining, less_than_a_twentieth_accuses_nobody) {
  call();
  answered(86, seconds(3));
  EXPECT_GT(left(), 40);
}

TEST_F(Remaining, is_counted_once_though_two_shards_hear_of_it) {
  call();
  answered(20, seconds(3));
  UpstreamWord word{.age = seconds(3), .limits = wire::UpstreamLimits{}, .rooms = seen_};
  word.limits->remaining_requests = 20;
  row_.now += milliseconds(10);
  row_.draw(
      {.shard = "b", .number = 1, .report = {.number = 1, .slices = {}, .corrections = {}, .words = {word}}});
  row_.now += milliseconds(10);
  Draw draw{.shard = "b", .number = 2, .wants = {Row::want(100)}};
  const Drawn drawn = row_.draw(draw);
  ASSERT_THAT(drawn.slices, SizeIs(1));
  EXPECT_EQ(drawn.slices[0].amounts.of(Resource::requests), 20);
}

TEST_F(Remaining, tells_nothing_where_it_is_not_known_what_room_there_was) {
  call();
  seen_.clear();
  answered(50, seconds(3));
  EXPECT_GT(left(), 40);
}

TEST_F(Remaining, tells_nothing_once_the_answer_is_old) {
  call();
  answered(50, seconds(3), milliseconds(601));
  EXPECT_GT(left(), 40);
}

TEST_F(Remaining, is_of_the_account_of_the_calls_key) {
  BudgetOptions budget{.name = "shared"};
  for (const char* name : {"k1", "k2"})
    budget.keys.push_back({.name = name, .rates = a_budget(100).rates});
  row_.configure(budget);
  call();
  ASSERT_THAT(seen_, SizeIs(2));
  row_.now += seconds(2);
  UpstreamWord word{
      .key = 1, .age = milliseconds(2200), .limits = wire::UpstreamLimits{}, .rooms = {seen_[1]}};
  word.limits->remaining_requests = 30;
  row_.draw({.shard = "a",
             .number = 10,
             .report = {.number = 10, .slices = {}, .corrections = {}, .words = {word}}});

  const Drawn after = row_.draw({.shard = "a", .number = 11});
  ASSERT_THAT(after.rooms, SizeIs(2));
  const Drawn drawn = row_.draw({.shard = "b", .wants = {Row::want(100), Row::want(100, 1)}});
  std::map<int, std::int64_t> got;
  for (const Slice& slice : drawn.slices)
    got[slice.key] += slice.amounts.of(Resource::requests);
  EXPECT_LE(got[1], 30);
  EXPECT_GT(got[0] + got[1], 40);
}

TEST(Bank, a_key_that_is_refused_rests_and_is_then_tried_by_one_job) {
  BudgetOptions budget = a_budget();
  budget.keys.push_back({.name = "k1"});
  Row row(budget);
  UpstreamWord word{.kind = UpstreamWord::Kind::key_refused, .key = 0};
  row.draw({.shard = "a", .report = {.number = 1, .slices = {}, .corrections = {}, .words = {word}}});

  EXPECT_EQ(row.get("b", 5), 0);
  row.now += minutes(2);
  const Drawn trial = row.draw({.shard = "b", .wants = {Row::want(5)}});
  ASSERT_THAT(trial.slices, SizeIs(1));
  EXPECT_TRUE(trial.slices[0].tries_key);
  EXPECT_EQ(trial.slices[0].amounts.of(Resource::requests), 1);
  EXPECT_EQ(row.get("c", 5), 0) << "one shard finds out";
}

TEST(Bank, a_row_that_was_changed_or_is_of_another_version_is_not_restored) {
  Row row;
  row.get("a", 10);
  const std::string good = row.row();
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    EXPECT_FALSE(Bank(a_budget()).restore(bad)) << at;
    EXPECT_FALSE(Bank(a_budget()).restore(good.substr(0, at))) << at;
  }
}

TEST(Bank, loses_nothing_by_being_saved_and_restored_with_each_draw) {
  Bank stays(a_budget(600));
  Row row(a_budget(600));
  std::int64_t in_memory = 0, restored = 0;
  for (std::uint64_t i = 1; i < 1000; ++i) {
    row.now += milliseconds(70 + i % 90);
    const Draw draw{.shard = "a", .epoch = 1, .number = i, .saw = row.now, .wants = {Row::want(9)}};
    for (const Slice& slice : stays.draw(draw, {.now = row.now}).slices)
      in_memory += slice.amounts.of(Resource::requests);
    for (const Slice& slice : row.draw(draw).slices)
      restored += slice.amounts.of(Resource::requests);
    ASSERT_NEAR(static_cast<double>(in_memory), static_cast<double>(restored), 3) << i;
  }
  EXPECT_GT(restored, 900);
}

TEST(Bank, a_full_row_is_within_its_bound_and_can_be_read) {
  BudgetOptions budget{.name = "shared"};
  for (std::size_t i = 0; i < Bank::kKeysMax; ++i)
    budget.keys.push_back({.name = "key" + std::to_string(i),
                           .rates = {{.name = "tokens_per_minute",
                                      .limit = 1'000'000'000'000,
                                      .period = minutes(1),
                                      .resource = Resource::tokens}}});
  Row row(budget);
  for (std::size_t i = 0; i < 1000; ++i) {
    const Amounts cost{.input_tokens = 1'000'000};
    row.draw({.shard = "shard " + std::to_string(i % Bank::kShardsMax),
              .wants = {{.head = cost, .jobs = 1, .all = cost}}});
    row.now += milliseconds(50);
  }
  EXPECT_LE(row.row().size(), Bank::kRowBytesMax / 2);
  // Another shard knows other keys.
  for (KeyOptions& key : budget.keys)
    key.name += " new";
  row.configure(budget);
  for (std::size_t i = 0; i < 1000; ++i) {
    const Amounts cost{.input_tokens = 1'000'000};
    row.draw({.shard = "shard 0", .wants = {{.head = cost, .jobs = 1, .all = cost}}});
    row.now += milliseconds(50);
  }
  EXPECT_LE(row.row().size(), Bank::kRowBytesMax);
}

TEST(Bank, says_which_budgets_cannot_be_shared) {
  BudgetOptions budget = a_budget();
  EXPECT_EQ(Bank::cannot_share(budget), "");
  budget.window = WindowKind::bucket;
  budget.rates[0].period = seconds(1);
  budget.rates[0].capacity = 10;
  EXPECT_THAT(Bank::cannot_share(budget), testing::HasSubstr("burst of requests_per_minute"));
}

}  // namespace
}  // namespace lanemq::core
