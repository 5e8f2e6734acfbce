// SPDX-License-Identifier: Apache-2.0
// What the owner of a store in PostgreSQL does with its transactions.
#include "broker/io/store/postgres/commit_fence.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace lanemq {
namespace {

using namespace std::chrono_literals;
using io::CommitFence;
using io::OwnerRow;
using Refusal = CommitFence::Refusal;
using Step = CommitFence::Step;

OwnerRow row(std::int64_t epoch, std::int64_t ticket) {
  return {.epoch = epoch, .ticket = ticket, .instance = "a"};
}

/// An owner that has made four commits and has changes under way.
class CommitFenceTest : public testing::Test {
 protected:
  CommitFenceTest() {
    fence_.begin(true);
    fence_.sent(100s);
  }

  CommitFence fence_{row(3, 4), 5s, 10s, 99s};
};

TEST_F(CommitFenceTest, tells_what_was_committed_and_counts_it) {
  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_TRUE(fence_.sends_changes());
  EXPECT_EQ(fence_.next_ticket(), 5);

  fence_.committed(false);

  EXPECT_EQ(fence_.step(), Step::done);
  EXPECT_EQ(fence_.ticket(), 5);
}

TEST_F(CommitFenceTest, sends_the_same_again_where_the_row_does_not_have_it) {
  fence_.lost();
  EXPECT_EQ(fence_.step(), Step::read_row);

  fence_.row_read(row(3, 4));

  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_TRUE(fence_.sends_changes());
  EXPECT_EQ(fence_.next_ticket(), 5);
}

TEST_F(CommitFenceTest, tells_what_the_row_has_behind_a_commit_of_its_own) {
  fence_.lost();
  fence_.row_read(row(3, 5));
  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_FALSE(fence_.sends_changes());
  EXPECT_EQ(fence_.next_ticket(), 6);
  fence_.lost();
  fence_.row_read(row(3, 6));
  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_FALSE(fence_.sends_changes());

  fence_.committed(false);

  EXPECT_EQ(fence_.step(), Step::done);
  EXPECT_EQ(fence_.ticket(), 7);
}

TEST_F(CommitFenceTest, does_not_send_again_what_the_row_has_where_there_is_no_room_behind_it) {
  fence_.lost();
  fence_.row_read(row(3, 5));
  fence_.refused(Refusal::room);
  EXPECT_EQ(fence_.step(), Step::wait_for_room);

  fence_.waited(false);

  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_FALSE(fence_.sends_changes());
}

TEST_F(CommitFenceTest, does_not_believe_a_commit_with_a_warning) {
  fence_.committed(true);

  EXPECT_EQ(fence_.step(), Step::read_row);
  EXPECT_EQ(fence_.ticket(), 4);
  EXPECT_EQ(fence_.good_at(), 99s);
}

TEST_F(CommitFenceTest, looks_at_the_row_where_the_fence_refuses) {
  fence_.refused(Refusal::fence);
  EXPECT_EQ(fence_.step(), Step::read_row);

  fence_.row_read(row(4, 0));

  EXPECT_EQ(fence_.step(), Step::deposed);
}

TEST_F(CommitFenceTest, has_lost_commits_where_the_row_is_of_an_owner_before_it) {
  fence_.lost();

  fence_.row_read({.epoch = 2, .ticket = 90, .instance = "b"});

  EXPECT_EQ(fence_.step(), Step::commits_lost);
}

TEST_F(CommitFenceTest, is_deposed_where_another_one_has_its_epoch) {
  fence_.lost();

  fence_.row_read({.epoch = 3, .ticket = 4, .instance = "b"});

  EXPECT_EQ(fence_.step(), Step::deposed);
}

TEST_F(CommitFenceTest, sends_again_what_only_a_server_that_is_no_more_had) {
  fence_.committed(true);
  fence_.row_read(row(3, 5));
  fence_.lost();
  fence_.row_read(row(3, 6));
  EXPECT_FALSE(fence_.sends_changes());
  fence_.lost();

  fence_.row_read(row(3, 4));

  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_TRUE(fence_.sends_changes());
  EXPECT_EQ(fence_.next_ticket(), 5);
}

TEST_F(CommitFenceTest, does_not_send_changes_again_that_the_promoted_server_has) {
  fence_.lost();
  fence_.row_read(row(3, 5));
  fence_.lost();
  fence_.row_read(row(3, 6));
  fence_.lost();

  fence_.row_read(row(3, 5));

  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_FALSE(fence_.sends_changes());
  EXPECT_EQ(fence_.next_ticket(), 6);
}

TEST_F(CommitFenceTest, takes_nothing_for_in_that_servers_apart_may_have_under_one_ticket) {
  fence_.lost();
  fence_.row_read(row(3, 5));
  fence_.sent(101s);
  fence_.lost();
  fence_.row_read(row(3, 4));
  ASSERT_EQ(fence_.step(), Step::send);
  ASSERT_TRUE(fence_.sends_changes());
  fence_.sent(102s);
  fence_.lost();

  // The changes, or what the first server had under 5.
  fence_.row_read(row(3, 5));

  EXPECT_EQ(fence_.step(), Step::deposed);
}

TEST_F(CommitFenceTest, does_not_miss_commits_where_an_old_primary_was_read_in_between) {
  fence_.lost();
  fence_.row_read(row(3, 5));
  fence_.sent(101s);
  fence_.lost();
  fence_.row_read(row(3, 4));
  fence_.sent(102s);
  fence_.lost();

  fence_.row_read(row(3, 6));

  EXPECT_EQ(fence_.step(), Step::deposed);
}

TEST_F(CommitFenceTest, goes_on_with_its_own_commit_after_going_back) {
  fence_.lost();
  fence_.row_read(row(3, 5));
  fence_.sent(101s);
  fence_.lost();
  fence_.row_read(row(3, 4));
  fence_.sent(102s);
  fence_.committed(false);
  ASSERT_EQ(fence_.step(), Step::done);

  fence_.begin(true);
  fence_.sent(103s);
  fence_.lost();
  fence_.row_read(row(3, 6));

  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_FALSE(fence_.sends_changes());
}

TEST_F(CommitFenceTest, finds_that_commits_are_lost_which_were_told) {
  fence_.lost();
  fence_.row_read(row(3, 5));
  fence_.committed(false);
  fence_.begin(true);
  fence_.lost();

  fence_.row_read(row(3, 5));

  EXPECT_EQ(fence_.step(), Step::commits_lost);
}

TEST_F(CommitFenceTest, finds_that_commits_are_lost) {
  fence_.lost();

  fence_.row_read(row(3, 3));

  EXPECT_EQ(fence_.step(), Step::commits_lost);
}

TEST_F(CommitFenceTest, sends_again_what_was_rolled_back_for_others) {
  fence_.refused(Refusal::passing);

  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_TRUE(fence_.sends_changes());
  EXPECT_EQ(fence_.next_ticket(), 5);
}

TEST_F(CommitFenceTest, shows_while_there_is_no_room_that_it_is_alive_and_then_sends_the_changes) {
  fence_.refused(Refusal::room);
  fence_.waited(true);
  EXPECT_FALSE(fence_.sends_changes());

  fence_.committed(false);

  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_TRUE(fence_.sends_changes());
  EXPECT_EQ(fence_.next_ticket(), 6);
}

TEST_F(CommitFenceTest, does_not_take_a_lost_sign_of_life_for_the_changes) {
  fence_.refused(Refusal::room);
  fence_.waited(true);
  fence_.lost();

  fence_.row_read(row(3, 5));

  EXPECT_EQ(fence_.step(), Step::send);
  EXPECT_TRUE(fence_.sends_changes());
  EXPECT_EQ(fence_.next_ticket(), 6);
}

TEST_F(CommitFenceTest, sends_nothing_else_while_an_earlier_sending_may_be_under_way) {
  fence_.lost();
  fence_.row_read(row(3, 4));
  fence_.sent(101s);
  fence_.refused(Refusal::room);

  fence_.waited(true);

  EXPECT_TRUE(fence_.sends_changes());
}

TEST_F(CommitFenceTest, sends_a_sign_of_life_again_while_that_may_be_under_way) {
  fence_.refused(Refusal::room);
  fence_.waited(true);
  fence_.sent(101s);
  fence_.lost();
  fence_.row_read(row(3, 4));
  fence_.sent(102s);
  fence_.refused(Refusal::room);

  fence_.waited(false);

  EXPECT_FALSE(fence_.sends_changes());
}

TEST_F(CommitFenceTest, is_patient_from_when_it_sent_its_last_commit) {
  fence_.committed(false);
  EXPECT_EQ(fence_.good_at(), 100s);

  EXPECT_TRUE(fence_.is_patient(115s - 1ns));
  EXPECT_FALSE(fence_.is_patient(115s));
  EXPECT_EQ(fence_.away_after(), 4s);
}

}  // namespace
}  // namespace lanemq
