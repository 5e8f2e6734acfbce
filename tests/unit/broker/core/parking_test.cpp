// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/parking.hpp"

#include <deque>

#include <gtest/gtest.h>

#include "broker/core/scheduler/clients.hpp"
#include "broker/core/scheduler/lanes.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/terms.hpp"

namespace lanemq::core {
namespace {

using std::chrono::seconds;

constexpr std::size_t kBudget = 0, kOther = 1;

class ParkingTest : public testing::Test {
 protected:
  ParkingTest() {
    lane_.terms = nullptr;  // its jobs are estimated
    for (Service* service : {&first_, &second_}) {
      Worker& worker = workers_.add(service->name, service->name);
      workers_.offer(worker, {service}, 0, 1);
    }
  }
  /// A flow with a job.
  Flow& flow(Service& service, BudgetSet set = 0) {
    Flow& added = lane_.flow(service, set);
    push(added);
    return added;
  }
  Job& push(Flow& flow) {
    Job& job = jobs_.emplace_back();
    job.arrival = jobs_.size() & Job::kArrivalMax;
    job.queue = &clients_.join(clients_.named("c"), flow);
    flow.push(job);
    return job;
  }
  void park(Flow& flow, std::int64_t turn, std::size_t budget = kBudget, TimePoint until = kNever) {
    parking_.park(flow, rank(turn), {{.budget = budget}}, std::nullopt, until);
  }
  const Stall* ahead(std::size_t budget, const Rank& rank) const {
    return parking_.ahead(budget, rank, [](const Stall&) {});
  }
  /// Its group may start no job, or may again.
  void close(const Flow& flow, bool closed = true) {
    Worker& worker = *workers_.find(flow.service().name);
    worker.draining = closed;
    workers_.update(worker);
  }
  static Options options() {
    Options options;
    options.lanes = {LaneOptions{.name = "normal", .is_default = true}};
    return options;
  }
  static Rank rank(std::int64_t turn) { return {.level = 0, .turn = turn, .arrival = 0}; }
  bool asked(Flow& flow) { return flow.group().first() == &flow; }

  State state_{options(), 1};
  Lane& lane_ = *state_.lanes.front();
  Workers& workers_ = state_.workers;
  Service &first_ = workers_.service("first"), &second_ = workers_.service("second");
  Clients& clients_ = state_.clients;
  std::deque<Job> jobs_;
  Terms terms_{state_};
  Parking parking_{2, 0, terms_};
};

TEST_F(ParkingTest, only_the_first_in_line_is_asked_when_its_budget_may_have_room) {
  Flow &a = flow(first_), &b = flow(second_);
  park(a, 2);
  park(b, 1);
  EXPECT_FALSE(asked(a) || asked(b));

  parking_.ease(kBudget);
  EXPECT_TRUE(asked(b));
  EXPECT_FALSE(asked(a));
  parking_.ease(kOther);
  EXPECT_FALSE(asked(a));

  park(b, 1);  // it was not enough
  EXPECT_FALSE(asked(a) || asked(b));
  parking_.ease(kBudget);
  parking_.leave(b);  // it was
  EXPECT_TRUE(asked(a));
}

TEST_F(ParkingTest, whoever_is_behind_somebody_in_line_waits_too) {
  Flow& a = flow(first_);
  park(a, 5);

  EXPECT_FALSE(ahead(kBudget, rank(4)));
  EXPECT_FALSE(ahead(kBudget, rank(5))) << "nobody is behind itself";
  EXPECT_TRUE(ahead(kBudget, rank(6)));
  EXPECT_FALSE(ahead(kOther, rank(6)));
}

TEST_F(ParkingTest, a_stream_without_a_place_keeps_nobody_waiting) {
  Flow &a = flow(first_), &b = flow(second_);
  park(a, 1);
  park(b, 2);
  close(a);

  EXPECT_FALSE(ahead(kBudget, rank(2)));
  parking_.ease(kBudget);
  EXPECT_TRUE(asked(b));
  EXPECT_FALSE(a.in_line()) << "it is asked when it has a place";
}

TEST_F(ParkingTest, one_that_was_to_be_asked_and_lost_its_place_makes_way) {
  Flow &a = flow(first_), &b = flow(second_);
  park(a, 1);
  park(b, 2);
  parking_.ease(kBudget);
  ASSERT_TRUE(asked(a));
  close(a);

  EXPECT_TRUE(parking_.pass_on());
  EXPECT_TRUE(asked(b));
  park(b, 2);
  EXPECT_FALSE(parking_.pass_on());
}

TEST_F(ParkingTest, those_behind_a_group_that_closes_are_asked_and_once) {
  Flow &a = flow(first_), &b = flow(second_), &c = flow(second_, 1);
  park(a, 1);
  parking_.park(b, rank(2), {{.budget = kBudget, .behind = true}}, std::nullopt, kNever);
  parking_.park(c, rank(3), {{.budget = kBudget, .behind = true}}, std::nullopt, kNever);
  parking_.make_way();
  EXPECT_FALSE(asked(b));

  close(a);
  parking_.make_way();
  EXPECT_TRUE(asked(b)) << "what it waits behind may not start";
  EXPECT_TRUE(a.in_line());
  park(b, 2);  // it is short itself
  parking_.make_way();
  EXPECT_FALSE(asked(b));

  close(a, false);
  parking_.make_way();
  close(a);
  parking_.make_way();
  EXPECT_FALSE(asked(b)) << "it was asked, and nothing has changed for it";
}

TEST_F(ParkingTest, of_a_budget_with_accounts_as_many_are_asked_and_who_waits_for_one_is_no_bar_to_another) {
  parking_.set_width(kBudget, 2);
  Flow &a = flow(first_), &b = flow(first_, 1), &c = flow(first_, 2);
  parking_.park(a, rank(1), {{.budget = kBudget, .account = 4}}, std::nullopt, kNever);
  std::vector<std::size_t> saved;
  const auto note = [&](const Stall& stall) { saved.push_back(stall.account); };
  EXPECT_EQ(parking_.ahead(kBudget, rank(2), note), nullptr);
  EXPECT_EQ(saved, std::vector<std::size_t>{4});

  parking_.park(b, rank(2), {{.budget = kBudget}}, std::nullopt, kNever);
  EXPECT_NE(parking_.ahead(kBudget, rank(3), note), nullptr);
  parking_.park(c, rank(3), {{.budget = kBudget, .behind = true}}, std::nullopt, kNever);
  parking_.ease(kBudget);
  EXPECT_EQ(a.group().first(), &a);
  parking_.leave(a);
  a.remove(*a.head());
  EXPECT_EQ(a.group().first(), &b);
  parking_.leave(b);
  b.remove(*b.head());
  EXPECT_EQ(a.group().first(), &c);
}

TEST_F(ParkingTest, who_is_short_even_if_owed_may_be_able_once_its_budget_has_room) {
  Flow &a = flow(first_), &b = flow(second_), &c = flow(second_, 1);
  park(a, 1);
  parking_.park(b, rank(2), {{.budget = kBudget}, {.budget = kOther}}, kOther, kNever);
  parking_.park(c, rank(3), {{.budget = kBudget, .behind = true}}, kBudget, kNever);
  FlowGroup& group = b.group();
  EXPECT_EQ(group.first_able(1), nullptr);
  EXPECT_NE(group.first_short(1), nullptr);
  EXPECT_EQ(group.first_short(0), nullptr) << "its head costs more";

  parking_.ease(kBudget);
  EXPECT_TRUE(asked(a));
  EXPECT_FALSE(asked(b) || asked(c));
  EXPECT_EQ(group.first_able(1), &c) << "though it is not first in line";
  EXPECT_EQ(group.first_short(1), &b) << "it was short of another";
}

TEST_F(ParkingTest, is_asked_again_at_its_time_or_when_its_head_is_another) {
  Flow& a = flow(first_);
  Job& second = push(a);
  park(a, 1, kBudget, TimePoint(seconds(10)));
  EXPECT_EQ(parking_.next_wakeup(), TimePoint(seconds(10)));
  parking_.wake(TimePoint(seconds(9)));
  EXPECT_FALSE(asked(a));
  parking_.wake(TimePoint(seconds(10)));
  EXPECT_TRUE(asked(a));
  EXPECT_EQ(parking_.next_wakeup(), kNever);

  park(a, 1);
  a.remove(second);
  EXPECT_FALSE(asked(a)) << "its head is the same";
  push(a);
  a.remove(*a.head());
  EXPECT_TRUE(asked(a));
  EXPECT_FALSE(a.in_line());
}

TEST_F(ParkingTest, keeps_its_rank_while_it_waits_for_the_same_reason) {
  Flow& a = flow(first_);
  park(a, 1);
  EXPECT_EQ(parking_.rank_of(a, rank(7)), rank(1));
  EXPECT_EQ(parking_.rank_of(a, Rank::owed(2, 1)), Rank::owed(2, 1));
  const Rank boosted{.level = 1, .turn = 7, .arrival = 0};
  EXPECT_EQ(parking_.rank_of(a, boosted), boosted);
}

}  // namespace
}  // namespace lanemq::core
