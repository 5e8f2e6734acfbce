// SPDX-License-Identifier: Apache-2.0
#include "worker/links/capacity_split.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "worker/session/session.hpp"

namespace lanemq::worker {
namespace {

using Counts = std::vector<std::size_t>;
using Shares = CapacitySplit::Shares;

/// Shards whose sessions follow at once, and a day of periods. A negative use: its broker is away.
class Day {
 public:
  Day(std::size_t capacity, std::size_t shards) : split_(capacity), shares_(shards) {
    for (CapacitySplit::Share& share : shares_) {
      share.serves = true;
      split_.settle(shares_);
    }
    follow();
  }

  /// A period in which so many jobs ran at once, at the most; returns the places then.
  Counts period(const std::vector<int>& used) {
    bool changed = false;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      const bool serves = used[i] >= 0;
      changed = changed || serves != shares_[i].serves;
      shares_[i].serves = serves;
      shares_[i].peak = serves ? std::min(static_cast<std::size_t>(used[i]), shares_[i].places) : 0;
    }
    if (changed) split_.settle(shares_);
    split_.shift(shares_);
    follow();
    return places();
  }
  Counts places() const {
    Counts all;
    for (const CapacitySplit::Share& share : shares_)
      all.push_back(share.places);
    return all;
  }
  Counts leave(std::size_t shard) {
    shares_[shard].leaves = true;
    split_.settle(shares_);
    follow();
    return places();
  }

 private:
  void follow() {
    for (int round = 0; round < 2; ++round) {  // what is taken away, then what is given
      split_.offer(shares_);
      for (CapacitySplit::Share& share : shares_)
        share.places = share.offer;
    }
  }

  CapacitySplit split_;
  Shares shares_;
};

constexpr int kAll = 1'000'000;

TEST(CapacitySplit, begins_with_equal_parts) {
  EXPECT_EQ(Day(4, 2).places(), (Counts{2, 2}));
  EXPECT_EQ(Day(9, 3).places(), (Counts{3, 3, 3}));
  EXPECT_EQ(Day(64, 1).places(), (Counts{64}));
}

TEST(CapacitySplit, idle_places_go_to_who_is_full_and_one_stays) {
  Day day(4, 2);

  EXPECT_EQ(day.period({0, kAll}), (Counts{1, 3}));
  EXPECT_EQ(day.period({0, kAll}), (Counts{1, 3}));
}

TEST(CapacitySplit, halves_of_what_is_idle_move) {
  Day day(64, 2);

  EXPECT_EQ(day.period({0, kAll}), (Counts{16, 48}));
  EXPECT_EQ(day.period({4, kAll}), (Counts{10, 54}));
  EXPECT_EQ(day.period({4, kAll}), (Counts{7, 57}));
}

TEST(CapacitySplit, nothing_moves_where_nobody_is_full) {
  Day day(8, 2);

  EXPECT_EQ(day.period({0, 3}), (Counts{4, 4}));
  EXPECT_EQ(day.period({3, 0}), (Counts{4, 4}));
}

TEST(CapacitySplit, what_was_used_once_in_a_period_is_not_idle) {
  Day day(8, 2);

  EXPECT_EQ(day.period({3, kAll}), (Counts{3, 5}));
  EXPECT_EQ(day.period({3, kAll}), (Counts{4, 4}));  // it may have more than that by now
}

TEST(CapacitySplit, the_poorest_of_those_that_are_full_gets_first) {
  Day day(12, 3);
  ASSERT_EQ(day.period({0, kAll, 0}), (Counts{2, 8, 2}));

  EXPECT_EQ(day.period({kAll, kAll, 0}), (Counts{3, 8, 1}));
}

TEST(CapacitySplit, full_shards_become_equal) {
  Day day(64, 2);
  for (int i = 0; i < 10; ++i)
    day.period({0, kAll});
  ASSERT_EQ(day.places(), (Counts{1, 63}));

  for (int i = 0; i < 12; ++i)
    day.period({kAll, kAll});
  EXPECT_EQ(day.places(), (Counts{32, 32}));
}

TEST(CapacitySplit, one_job_for_ever_takes_no_more_than_a_place_or_two) {
  Day day(64, 2);
  for (int i = 0; i < 10; ++i)
    day.period({1, kAll});

  for (int i = 0; i < 10; ++i) {
    day.period({1, kAll});
    EXPECT_LE(day.places()[0], 2u);
  }
}

TEST(CapacitySplit, the_places_of_who_is_away_are_lent_at_once_but_for_one) {
  Day day(64, 2);

  EXPECT_EQ(day.period({-1, kAll}), (Counts{1, 63}));
}

TEST(CapacitySplit, the_places_of_who_leaves_are_given_to_the_others) {
  Day day(9, 3);

  EXPECT_EQ(day.leave(0), (Counts{0, 5, 4}));
  EXPECT_EQ(day.leave(2), (Counts{0, 9, 0}));
}

TEST(CapacitySplit, too_few_places_go_round) {
  Day day(1, 3);
  Counts had(3);

  for (int i = 0; i < 6; ++i) {
    const Counts now = day.period({kAll, 0, kAll});
    for (std::size_t j = 0; j < 3; ++j)
      had[j] += now[j];
  }
  EXPECT_EQ(had, (Counts{2, 2, 2}));
}

TEST(CapacitySplit, too_few_places_go_round_among_those_that_are_there) {
  Day day(2, 3);

  EXPECT_EQ(day.period({kAll, -1, kAll}), (Counts{1, 0, 1}));
  EXPECT_EQ(day.period({kAll, -1, kAll}), (Counts{1, 0, 1}));
}

TEST(CapacitySplit, gives_nothing_before_it_is_free) {
  CapacitySplit split(4);
  Shares shares{{.places = 4, .serves = true, .target = 1}, {.places = 0, .serves = true, .target = 3}};

  split.offer(shares);
  EXPECT_EQ(shares[0].offer, 1u);
  EXPECT_EQ(shares[1].offer, 0u);

  shares[0].places = 3;  // it has confirmed, and two jobs more than it is to have still run
  split.offer(shares);
  EXPECT_EQ(shares[1].offer, 1u);
}

// ---- with sessions, and brokers that answer late ------------------------------------------------------

/// A broker that hands out what it has as its own count of places allows. What it says and hears is under way
/// until somebody delivers it.
struct LateBroker {
  std::size_t queued = 0, capacity = 0;
  std::uint64_t next = 1;
  std::map<std::uint64_t, bool> given{};
  std::deque<std::string> to_broker{};
  std::deque<wire::WorkerCommand> to_worker{};
};

/// A worker's sessions and their brokers, in any order of events. It counts what runs by what it was told to
/// start, and not by what sessions say of themselves.
class Cluster {
 public:
  Cluster(std::uint64_t seed, std::size_t capacity, std::size_t shards, bool loses_connections)
      : random_(seed),
        capacity_(capacity),
        loses_(loses_connections),
        split_(capacity),
        brokers_(shards),
        running_(shards),
        names_(shards),
        shares_(shards) {
    for (std::size_t i = 0; i < shards; ++i) {
      names_[i] = "shard" + std::to_string(i);
      sessions_.push_back(std::make_unique<Session>(SessionOptions{.services = {"s"},
                                                                   .lanes = {},
                                                                   .name = "w",
                                                                   .version = "0",
                                                                   .process = {},
                                                                   .capacity = capacity,
                                                                   .shard = names_[i]}));
      if (i > 0) sessions_[i]->set_capacity(0);
      sessions_[i]->connected(now_);
    }
    shares_[0].target = capacity;
    share();
  }

  void step() {
    const std::size_t i = pick(brokers_.size());
    switch (pick(loses_ ? 13 : 12)) {
      case 0:
        if (!calm_) brokers_[i].queued += pick(4);
        hand_out(i);
        break;
      case 1:
        now_ += std::chrono::milliseconds(500);
        break;
      case 2:
      case 3:
        finish(i);
        break;
      case 12:
        if (pick(4) == 0) lose(i);
        break;
      default:
        pick(2) == 0 ? hear_worker(i) : hear_broker(i);
    }
    share();
    say();
  }

  std::size_t running() const {
    return std::accumulate(running_.begin(), running_.end(), std::size_t{0},
                           [](std::size_t sum, const auto& leases) { return sum + leases.size(); });
  }
  std::size_t handed_back() const {
    std::size_t sum = 0;
    for (const auto& session : sessions_)
      sum += session->counters().released;
    return sum;
  }
  bool all_done() const {
    for (const LateBroker& broker : brokers_)
      if (broker.queued > 0 || !broker.given.empty()) return false;
    return true;
  }
  std::size_t capacity() const { return capacity_; }
  /// No more jobs come.
  void calm() { calm_ = true; }

 private:
  std::size_t pick(std::size_t below) { return random_() % below; }

  void hand_out(std::size_t i) {
    LateBroker& broker = brokers_[i];
    while (broker.queued > 0 && broker.given.size() < broker.capacity) {
      --broker.queued;
      wire::JobOffer offer;
      offer.job = broker.next++;
      broker.given[offer.job] = true;
      broker.to_worker.emplace_back(offer);
    }
  }

  /// The broker hears one message.
  void hear_worker(std::size_t i) {
    LateBroker& broker = brokers_[i];
    if (broker.to_broker.empty()) return;
    const std::string header = std::move(broker.to_broker.front());
    broker.to_broker.pop_front();
    Items<wire::WorkerReport> reports;
    ASSERT_EQ(decoder_.decode(header, {}, reports), nullptr);
    if (const auto* ready = std::get_if<wire::Ready>(&reports[0])) {
      broker.capacity = static_cast<std::size_t>(ready->capacity);
      wire::Welcome welcome;
      welcome.session = "s";
      welcome.heartbeat_ms = 3'600'000;
      welcome.shard = names_[i];
      broker.to_worker.emplace_back(welcome);
    }
    if (const auto* outcome = std::get_if<wire::Outcome>(&reports[0])) broker.given.erase(outcome->job);
    if (const auto* failure = std::get_if<wire::Failure>(&reports[0]);
        failure && broker.given.erase(failure->job))
      ++broker.queued;
    hand_out(i);
  }

  void hear_broker(std::size_t i) {
    LateBroker& broker = brokers_[i];
    if (broker.to_worker.empty()) return;
    sessions_[i]->receive(broker.to_worker.front(), now_, effects_);
    broker.to_worker.pop_front();
    carry_out(i);
  }

  void carry_out(std::size_t i) {
    for (const Effect& effect : effects_)
      if (const auto* start = std::get_if<StartJob>(&effect)) running_[i].push_back(start->lease);
    effects_.clear();
  }

  void finish(std::size_t i) {
    if (running_[i].empty()) return;
    const wire::Lease lease = running_[i].front();
    running_[i].pop_front();
    sessions_[i]->finish(lease, JobOutcome::success({}, {}, {}), now_, effects_);
    carry_out(i);
  }

  /// The connection breaks, and with it what was under way. The broker's jobs go back, as after worker_grace.
  void lose(std::size_t i) {
    LateBroker& broker = brokers_[i];
    broker.to_worker.clear();
    broker.to_broker.clear();
    broker.queued += static_cast<decltype(broker.queued)>(std::exchange(broker.given, {}).size());
    broker.capacity = 0;
    sessions_[i]->connected(now_);
  }

  /// As the worker's loop does each turn.
  void share() {
    bool changed = false;
    const bool over = now_ >= shift_at_;
    if (over) shift_at_ = now_ + CapacitySplit::kPeriod;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      changed = changed || shares_[i].serves != sessions_[i]->serves();
      shares_[i].serves = sessions_[i]->serves();
      shares_[i].places = sessions_[i]->places();
      if (over) shares_[i].peak = sessions_[i]->take_peak();
    }
    if (changed) split_.settle(shares_);
    if (over) split_.shift(shares_);
    split_.offer(shares_);
    for (std::size_t i = 0; i < shares_.size(); ++i)
      sessions_[i]->set_capacity(shares_[i].offer);
  }

  void say() {
    for (std::size_t i = 0; i < sessions_.size(); ++i)
      for (Outbox& outbox = sessions_[i]->outbox(); !outbox.empty(); outbox.pop())
        brokers_[i].to_broker.emplace_back(outbox.front().header);
  }

  std::mt19937_64 random_;
  std::size_t capacity_;
  bool loses_, calm_ = false;
  CapacitySplit split_;
  std::vector<LateBroker> brokers_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<std::deque<wire::Lease>> running_;
  std::vector<std::string> names_;
  Shares shares_;
  TimePoint now_{std::chrono::hours(1)}, shift_at_{};
  Decoder decoder_;
  Effects effects_;
};

constexpr std::uint64_t kSeeds = 200;
constexpr int kSteps = 2'000;

TEST(CapacitySplit, never_runs_more_jobs_than_the_worker_takes_and_hands_none_back_and_does_all) {
  std::uint64_t saturated = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Cluster cluster(seed, 1 + seed % 7, 2 + seed % 4, false);
    std::size_t most = 0;
    for (int step = 0; step < kSteps; ++step) {
      cluster.step();
      most = std::max(most, cluster.running());
      ASSERT_LE(most, cluster.capacity()) << "at step " << step;
    }
    if (most == cluster.capacity()) ++saturated;
    EXPECT_EQ(cluster.handed_back(), 0u);
    cluster.calm();
    for (int step = 0; step < 20 * kSteps && !cluster.all_done(); ++step)
      cluster.step();
    EXPECT_TRUE(cluster.all_done());
  }
  EXPECT_GT(saturated, kSeeds / 2);  // else this shows little
}

TEST(CapacitySplit, never_runs_more_jobs_than_the_worker_takes_when_connections_break) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Cluster cluster(seed, 1 + seed % 7, 2 + seed % 4, true);
    for (int step = 0; step < kSteps; ++step) {
      cluster.step();
      ASSERT_LE(cluster.running(), cluster.capacity()) << "at step " << step;
    }
  }
}

}  // namespace
}  // namespace lanemq::worker
