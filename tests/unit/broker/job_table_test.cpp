// SPDX-License-Identifier: Apache-2.0
#include "broker/core/job_table.hpp"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

Job& add(JobTable& table, const std::string& id) {
  Job& job = table.create();
  JobText::Parts parts{};
  parts[JobText::id] = id;
  job.text.assign(parts);
  table.index(job);
  return job;
}

TEST(JobTable, finds_jobs_by_id_and_by_number_until_they_are_erased) {
  const bool holds = rc::check([](const std::vector<std::uint8_t>& steps) {
    JobTable table(1000);
    std::map<std::string, JobNumber> model;
    std::set<JobNumber> used;
    for (const std::uint8_t step : steps) {
      const std::string id = "job-" + std::to_string(step % 16);
      if (model.count(id) == 0) {
        Job& job = add(table, id);
        RC_ASSERT(used.insert(job.number).second);  // a number never means another job
        model[id] = job.number;
      } else {
        table.erase(*table.find(id));
        model.erase(id);
      }
      RC_ASSERT(table.size() == model.size());
      for (int i = 0; i < 16; ++i) {
        const std::string name = "job-" + std::to_string(i);
        const auto known = model.find(name);
        Job* const found = table.find(name);
        RC_ASSERT((found != nullptr) == (known != model.end()));
        if (found != nullptr) RC_ASSERT(found->number == known->second);
      }
      for (const JobNumber number : used) {
        Job* const found = table.find(number);
        if (found != nullptr) RC_ASSERT(found->number == number);
      }
    }
  });
  EXPECT_TRUE(holds);
}

TEST(JobTable, knows_no_job_by_a_number_that_it_never_gave) {
  JobTable table(10);
  EXPECT_EQ(table.find(JobNumber{0}), nullptr);
  EXPECT_EQ(table.find(JobNumber{12345}), nullptr);
  EXPECT_EQ(table.find(JobNumber{~std::uint64_t{0}}), nullptr);
  Job& job = add(table, "a");
  EXPECT_EQ(table.find(JobNumber{static_cast<std::uint64_t>(job.number) + (1u << 24)}), nullptr);
  EXPECT_EQ(table.find(JobNumber{0}), nullptr);
}

TEST(JobTable, is_full_at_its_bound_and_not_after) {
  JobTable table(3);
  add(table, "a");
  add(table, "b");
  add(table, "c");
  EXPECT_TRUE(table.full());
  table.erase(*table.find("b"));
  EXPECT_FALSE(table.full());
}

TEST(JobTable, jobs_stay_where_they_are) {
  JobTable table(10000);
  Job& first = add(table, "first");
  for (int i = 0; i < 5000; ++i)
    add(table, std::to_string(i));
  EXPECT_EQ(table.find("first"), &first);
}

TEST(JobTable, a_used_slot_is_as_new) {
  JobTable table(10);
  Job& job = add(table, "a");
  job.attempts = 7;
  job.state = JobState::failed;
  job.crashes = 1;
  table.erase(job);

  Job& again = table.create();
  EXPECT_EQ(again.attempts, 0);
  EXPECT_EQ(again.state, JobState::queued);
  EXPECT_EQ(again.crashes, 0);
}

TEST(JobTable, two_lives_of_a_broker_share_no_number) {
  JobTable first(2000, 77), second(2000, 1'000'077);
  std::set<JobNumber> numbers;
  for (int i = 0; i < 2000; ++i)
    numbers.insert(add(first, std::to_string(i)).number);
  for (int i = 0; i < 2000; ++i)
    EXPECT_TRUE(numbers.insert(add(second, std::to_string(i)).number).second);
  // Far from what a double holds exactly, which is all the integers that some languages have.
  EXPECT_LT(static_cast<std::uint64_t>(*numbers.rbegin()), std::uint64_t{1} << 53);
}

}  // namespace
}  // namespace lanemq::core
