// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/isolation.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace lanemq::core {
namespace {

TEST(IsolationTest, remembers_so_many_companies_and_frees_the_oldest) {
  Workers workers({LaneOptions{.name = "normal"}});
  Isolation isolation(workers);
  std::vector<Company> companies;
  for (std::size_t i = 0; i < Isolation::kCompaniesMax + 10; ++i)
    companies.push_back(isolation.lost_together(TimePoint{}));
  const auto is_suspected = [&](Company company) {
    Job job;
    job.need_extra().company = company;
    return isolation.suspects(job);
  };

  EXPECT_FALSE(is_suspected(companies[9]));
  for (std::size_t i = 10; i < companies.size(); ++i) {
    EXPECT_TRUE(is_suspected(companies[i])) << i;
    Job job;
    job.need_extra().company = companies[i];
    isolation.clear(job);
    EXPECT_FALSE(isolation.suspects(job)) << i;
    EXPECT_TRUE(is_suspected(companies[i])) << "the others of " << i;
  }
  const Company next = isolation.lost_of(companies.back(), TimePoint{});
  EXPECT_FALSE(is_suspected(companies.back()));
  EXPECT_TRUE(is_suspected(next));
}

}  // namespace
}  // namespace lanemq::core
