// SPDX-License-Identifier: Apache-2.0
#include "broker/whatif/fairness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::whatif {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(Fairness, nobody_gets_more_than_it_asked_for_and_the_rest_share_evenly) {
  EXPECT_THAT(max_min_shares(std::vector<double>{8, 1, 2.5}, 6.5), ElementsAre(3, 1, 2.5));
  EXPECT_THAT(max_min_shares(std::vector<double>{4, 4}, 2), ElementsAre(1, 1));
  EXPECT_THAT(max_min_shares(std::vector<double>{1, 2}, 10), ElementsAre(1, 2));
  EXPECT_THAT(max_min_shares({}, 10), ElementsAre());
}

TEST(Fairness, index_is_one_when_all_have_the_same_and_one_in_n_when_one_has_everything) {
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{0.7, 0.7, 0.7}), 1);
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{5, 0, 0, 0}), 0.25);
  EXPECT_THAT(jain_index(std::vector<double>{1, 3}), DoubleNear(0.8, 1e-12));
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{42}), 1);
  EXPECT_DOUBLE_EQ(jain_index({}), 1);
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{0, 0}), 1);
}

}  // namespace
}  // namespace lanemq::whatif
