// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>
#include <lanemq/job_states.hpp>

namespace lanemq {
namespace {

TEST(JobStates, are_the_ids_and_states_of_a_status) {
  Buffer out;
  DocumentWriter writer(out);
  writer.array(2);
  writer.map(3).text("id").text("a").text("state").text("running").text("attempts").integer(1);
  writer.map(2).text("state").text("unknown").text("id").text("b");

  const std::vector<JobState> states = decode_job_states(out.view());

  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].id + " " + states[0].state, "a running");
  EXPECT_EQ(states[1].id + " " + states[1].state, "b unknown");
}

TEST(JobStates, what_is_none_is_left_out) {
  Buffer out;
  DocumentWriter writer(out);
  writer.array(4).integer(5);
  writer.map(1).text("state").text("running");
  writer.map(2).text("id").integer(5).text("state").text("running");
  writer.map(2).text("id").text("a").text("state").integer(5);

  const std::vector<JobState> states = decode_job_states(out.view());

  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].id + " " + states[0].state, "a ");
  EXPECT_TRUE(decode_job_states("").empty());
  EXPECT_TRUE(decode_job_states("\xc1").empty());
  EXPECT_TRUE(decode_job_states("\x05").empty());
}

}  // namespace
}  // namespace lanemq
