// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/gone_ids.hpp"

#include <deque>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

TEST(GoneIds, knows_the_last_that_went) {
  const bool holds = rc::check([](const std::vector<std::uint8_t>& steps) {
    const auto max = *rc::gen::element<std::size_t>(0, 1, 2, 7);
    GoneIds gone(max, 5);
    std::deque<std::string> model;
    for (const std::uint8_t step : steps) {
      model.push_back("id-" + std::to_string(step % 12));
      gone.remember(model.back());
      if (model.size() > max) model.pop_front();
      for (int i = 0; i < 12; ++i) {
        const std::string id = "id-" + std::to_string(i);
        RC_ASSERT(gone.contains(id) == (std::find(model.begin(), model.end(), id) != model.end()));
      }
    }
  });
  EXPECT_TRUE(holds);
}

TEST(GoneIds, knows_of_what_made_way_until_when_it_was_promised) {
  const auto at = [](int s) { return TimePoint(std::chrono::seconds(s)); };
  GoneIds gone(3, 5);
  gone.remember_promised("early", at(10));
  gone.remember("over");

  EXPECT_TRUE(gone.made_way("early", at(9)));
  EXPECT_FALSE(gone.made_way("early", at(10)));
  EXPECT_FALSE(gone.made_way("over", at(0)));
  EXPECT_FALSE(gone.made_way("never", at(0)));
  gone.remember("early");  // it ran again after that, for its time
  EXPECT_FALSE(gone.made_way("early", at(9)));
}

TEST(GoneIds, what_promises_nothing_pushes_no_promise_out) {
  const auto at = [](int s) { return TimePoint(std::chrono::seconds(s)); };
  GoneIds gone(2, 5);
  gone.remember_promised("first", at(10));
  gone.remember_promised("second", at(10));
  for (int i = 0; i < 100; ++i)
    gone.remember("other-" + std::to_string(i));
  EXPECT_TRUE(gone.made_way("first", at(9)));
  EXPECT_TRUE(gone.made_way("second", at(9)));
  EXPECT_TRUE(gone.contains("other-98") && gone.contains("other-99"));
  EXPECT_EQ(gone.size(), 4u);
  gone.remember_promised("third", at(10));
  EXPECT_FALSE(gone.contains("first"));
  EXPECT_TRUE(gone.made_way("third", at(9)));
}

}  // namespace
}  // namespace lanemq::core
