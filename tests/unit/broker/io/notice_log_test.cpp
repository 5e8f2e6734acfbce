// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/notice_log.hpp"

#include <gtest/gtest.h>

#include "broker/core/broker.hpp"

namespace lanemq::io {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(DepthLog, tells_once_a_minute_of_each_lane_where_something_waits) {
  core::Options options;
  options.lanes = {{.name = "high"}, {.name = "normal", .is_default = true}};
  for (core::LaneOptions& lane : options.lanes)
    lane.timeout = std::chrono::hours(1);
  core::Broker broker(options, 1);
  DepthLog log;
  core::TimePoint now{};
  EXPECT_TRUE(log.due(broker, now).empty());
  now += minutes(5);
  EXPECT_TRUE(log.due(broker, now).empty()) << "nothing waits";

  wire::Submit fields;
  fields.service = "echo";
  broker.handle(core::Submitted{{.address = "c", .envelope = {}}, &fields, {}}, now);
  broker.advance(now);
  now += seconds(59);
  EXPECT_TRUE(log.due(broker, now).empty()) << "the minute is not over";
  now += seconds(1);
  const auto depths = log.due(broker, now);
  ASSERT_EQ(depths.size(), 1u);
  EXPECT_EQ(depths[0].lane, "normal");
  EXPECT_EQ(depths[0].queued, 1u);
  EXPECT_EQ(depths[0].oldest, minutes(1));
  EXPECT_TRUE(log.due(broker, now).empty()) << "it was told";
  EXPECT_EQ(log.due(broker, now + minutes(1)).size(), 1u);
}

}  // namespace
}  // namespace lanemq::io
