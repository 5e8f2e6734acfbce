// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/shared/bank.hpp"
#include "broker/core/budgets/shared/slices.hpp"

namespace lanemq::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kTick = milliseconds(1);

/// Shards with jobs for one budget, whose draws take no time. Counts what runs at each moment.
class Shards {
 public:
  Shards(const BudgetOptions& budget, std::size_t shards, Duration job) : budget_(budget), job_(job) {
    for (std::size_t i = 0; i < shards; ++i) {
      names_.push_back("shard" + std::to_string(i));
      shards_.push_back({.slices = std::make_unique<Slices>(names_.back(), 1, budget)});
    }
  }

  /// From now on the shard has so many jobs; else it has jobs enough.
  void have(std::size_t shard, std::int64_t jobs) { shards_.at(shard).jobs = jobs; }
  void lose_row() { row_.clear(); }
  /// Jobs are in a lane below the top one. Returns thousandths of the places' time in which a job ran.
  std::int64_t run(Duration time, std::int64_t places) {
    std::int64_t ran = 0;
    for (const TimePoint until = now_ + time; now_ < until; now_ += kTick) {
      std::int64_t running = 0;
      std::map<std::uint16_t, std::int64_t> of_key;
      for (Shard& shard : shards_) {
        step(shard);
        running += static_cast<std::int64_t>(shard.running.size());
        for (const Running& one : shard.running)
          ++of_key[one.key];
      }
      most_ = std::max(most_, running);
      for (const auto& [key, jobs] : of_key)
        most_of_[key] = std::max(most_of_[key], jobs);
      ran += running;
    }
    return ran * 1000 / (places * (time / kTick));
  }
  std::int64_t most() const { return most_; }
  std::int64_t most_of(std::uint16_t key) const { return most_of_.at(key); }
  void configure(const BudgetOptions& budget) {
    budget_ = budget;
    for (Shard& shard : shards_)
      shard.slices->configure(budget);
    most_ = 0;
  }

 private:
  struct Running {
    Slices::UseId use = 0;
    std::uint16_t key = Claim::kNoKey;
    TimePoint ends{};
  };
  struct Shard {
    std::unique_ptr<Slices> slices;
    std::deque<Running> running{};
    std::int64_t jobs = 1'000'000'000, went = 0;
  };

  void step(Shard& shard) {
    while (!shard.running.empty() && shard.running.front().ends <= now_) {
      shard.slices->settle(shard.running.front().use, nullptr);
      shard.running.pop_front();
    }
    // As Dispatcher::say_wants() counts: by eight places of workers, and by what went.
    const std::int64_t jobs = std::min(std::max<std::int64_t>(8, 2 * shard.went), shard.jobs);
    shard.slices->want({.lane = 1, .jobs = jobs, .all = {.requests = jobs}});
    if (shard.slices->draw_due(now_) <= now_) draw(shard);
    while (shard.jobs > 0) {
      const auto taken = shard.slices->take(1, {}, now_);
      if (!taken) break;
      --shard.jobs;
      ASSERT_TRUE(shard.slices->send(taken->use, now_));
      shard.running.push_back({.use = taken->use, .key = taken->key, .ends = now_ + job_});
      ++shard.went;
    }
  }
  void draw(Shard& shard) {
    Bank bank(budget_);
    if (!row_.empty()) {
      ASSERT_TRUE(bank.restore(row_));
    }
    Draw draw = shard.slices->begin_draw(now_);
    draw.shards = names_;
    shard.slices->drawn(bank.draw(draw, {.now = now_}), now_);
    row_ = bank.save();
    shard.went = 0;
  }

  BudgetOptions budget_;
  Duration job_;
  TimePoint now_{std::chrono::hours(500'000)};
  std::string row_;
  std::vector<std::string> names_;
  std::vector<Shard> shards_;
  std::int64_t most_ = 0;
  std::map<std::uint16_t, std::int64_t> most_of_;
};

BudgetOptions a_budget(std::int64_t concurrency) {
  BudgetOptions budget{.name = "shared"};
  budget.rates.push_back({.name = "requests_per_minute", .limit = 60'000, .period = minutes(1)});
  budget.concurrency = concurrency;
  return budget;
}

TEST(SharedPlaces, are_used_by_short_jobs_and_by_long_ones) {
  for (const Duration job : {milliseconds(20), milliseconds(100), milliseconds(400), milliseconds(3000)}) {
    Shards shards(a_budget(6), 2, job);
    shards.run(seconds(5), 6);
    EXPECT_GE(shards.run(seconds(60), 6), 930) << job.count() << " us a job";
    EXPECT_LE(shards.most(), 6);
  }
}

TEST(SharedPlaces, are_used_of_all_keys) {
  for (const std::size_t count : {1, 2})
    for (const Duration job : {milliseconds(20), milliseconds(400), milliseconds(3000), milliseconds(30'000)})
      for (const std::int64_t per_minute : {0, 30'000}) {
        BudgetOptions budget{.name = "shared"};
        for (const std::string name : {"k1", "k2"}) {
          budget.keys.push_back({.name = name, .concurrency = 3});
          if (per_minute > 0)
            budget.keys.back().rates = {
                {.name = "requests_per_minute", .limit = per_minute, .period = minutes(1)}};
        }
        Shards shards(budget, count, job);
        shards.run(seconds(10), 6);
        EXPECT_GE(shards.run(seconds(120), 6), 930)
            << job.count() << " us a job, " << count << " shards, " << per_minute << " per minute";
        EXPECT_EQ(shards.most_of(0), 3);
        EXPECT_EQ(shards.most_of(1), 3);
      }
}

TEST(SharedPlaces, are_counted_by_the_accounts_that_keys_had_at_the_start) {
  BudgetOptions budget{.name = "shared", .shared = true, .shared_by = 2};
  for (const std::string name : {"k1", "k2"})
    budget.keys.push_back({.name = name, .concurrency = 2});
  Budgets budgets({budget});
  budgets.shared.begin("a", 1, true);
  const BudgetSet set = budgets.match({}, {}, {}, {});
  TimePoint now{seconds(100)};
  const auto drawn = [&] {
    now += seconds(5);
    std::vector<DrawWanted> wanted = budgets.shared.begin_draws(now);
    EXPECT_EQ(wanted.size(), 1u);
    budgets.shared.drawn(0, nullptr, now);
    return wanted.at(0);
  };
  const auto running = [](const DrawWanted& wanted) {
    std::vector<std::int64_t> all;
    for (const PlacesWanted& places : wanted.draw.places)
      all.push_back(places.running);
    return all;
  };
  std::vector<Reservation> calls;
  for (int i = 0; i < 2; ++i)
    calls.push_back(budgets.adopt(set, {}, "k2", now));
  ASSERT_EQ(running(drawn()), (std::vector<std::int64_t>{0, 2}));

  for (KeyOptions& key : budget.keys)
    key.quota_group = "org";
  budget.keys.push_back({.name = "k3", .quota_group = "k2", .concurrency = 2});
  budgets.configure({budget}, now);
  const DrawWanted regrouped = drawn();
  EXPECT_EQ(running(regrouped), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(regrouped.options.keys.at(0).account(), "k1");
  EXPECT_EQ(regrouped.options.keys.at(1).account(), "k2");
  EXPECT_EQ(regrouped.options.keys.at(2).account(), "k2") << "a new one is of the account that it names";

  for (Reservation& call : calls)
    budgets.settle(call, std::nullopt, now);
  EXPECT_EQ(running(drawn()), (std::vector<std::int64_t>{0, 0}));
}

TEST(SharedPlaces, hold_though_the_row_is_lost_while_calls_run) {
  Shards shards(a_budget(5), 2, minutes(10));
  shards.have(0, 0);
  shards.have(1, 5);
  shards.run(minutes(2), 5);
  ASSERT_EQ(shards.most(), 5);

  shards.lose_row();
  shards.have(0, 100);
  shards.run(minutes(1), 5);

  EXPECT_EQ(shards.most(), 5);
}

TEST(SharedPlaces, are_those_of_the_options_that_count_now) {
  Shards shards(a_budget(2), 2, milliseconds(100));
  shards.run(seconds(5), 2);
  EXPECT_EQ(shards.most(), 2);

  shards.configure(a_budget(6));
  shards.run(seconds(5), 6);
  EXPECT_EQ(shards.most(), 6);
  shards.configure(a_budget(0));
  shards.run(seconds(5), 6);
  EXPECT_GT(shards.most(), 6);
  shards.configure(a_budget(3));
  shards.run(seconds(2), 3);
  shards.configure(a_budget(3));
  shards.run(seconds(5), 3);
  EXPECT_EQ(shards.most(), 3);
}

}  // namespace
}  // namespace lanemq::core
