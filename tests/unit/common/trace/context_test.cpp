// SPDX-License-Identifier: Apache-2.0
#include "common/trace/context.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lanemq::trace {
namespace {

using json = nlohmann::json;

constexpr const char* kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

std::string packed(const json& value) {
  const std::vector<std::uint8_t> bytes = json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

TEST(Context, reads_what_the_standard_shows) {
  const auto context = read_context(kParent, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");

  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace, (TraceId{0x4bf92f3577b34da6, 0xa3ce929d0e0e4736}));
  EXPECT_EQ(context->span, 0x00f067aa0ba902b7u);
  EXPECT_TRUE(context->sampled());
  EXPECT_EQ(context->state, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
  EXPECT_EQ(context->parent_text(), kParent);
  EXPECT_EQ(context->trace_text(), "4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST(Context, reads_a_later_version_as_far_as_this_one_goes) {
  const std::string later = "cc" + std::string(kParent).substr(2);

  EXPECT_EQ(read_context(later + "-what-follows")->parent_text(), kParent);
  EXPECT_EQ(read_context(later)->parent_text(), kParent);
  EXPECT_FALSE(read_context(later + "x"));
}

TEST(Context, takes_a_trace_whose_id_has_zeros_in_one_half) {
  for (const std::string id : {"0000000000000000a3ce929d0e0e4736", "4bf92f3577b34da60000000000000000"}) {
    const auto context = read_context("00-" + id + "-00f067aa0ba902b7-01");

    ASSERT_TRUE(context) << id;
    EXPECT_EQ(context->trace_text(), id);
  }
}

TEST(Context, refuses_what_breaks_the_format) {
  const std::string good = kParent;
  const std::string trace = good.substr(3, 32), span = good.substr(36, 16);
  for (const std::string& bad :
       {std::string(), good.substr(1), good.substr(0, 54), good + "-", good + "-00", " " + good, good + " ",
        "ff" + good.substr(2), "0g" + good.substr(2), "00-" + std::string(32, '0') + "-" + span + "-01",
        "00-" + trace + "-" + std::string(16, '0') + "-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + span + "-01", "00-" + trace + "-" + span + "-0x",
        "00_" + good.substr(3), good.substr(0, 35) + "_" + good.substr(36),
        good.substr(0, 52) + "+" + good.substr(53), std::string(55, '-'), std::string(10'000, '0')})
    EXPECT_FALSE(read_context(bad)) << bad;
}

TEST(Context, drops_a_state_that_is_too_long_or_could_forge_a_header) {
  EXPECT_EQ(read_context(kParent, std::string(kStateBytesMax, 'x'))->state.size(), kStateBytesMax);
  EXPECT_EQ(read_context(kParent, std::string(kStateBytesMax + 1, 'x'))->state, "");
  for (const char* bad : {"a=b\r\nx: y", "a=b\n", "a=\x7f", "a=\xc3\xa9"})
    EXPECT_EQ(read_context(kParent, bad)->state, "") << bad;
}

TEST(Field, is_a_map_or_a_text) {
  EXPECT_EQ(read_field(packed({{"traceparent", kParent}, {"tracestate", "a=b"}, {"more", {1, 2}}}))->state,
            "a=b");
  EXPECT_EQ(read_field(packed(kParent))->parent_text(), kParent);
}

TEST(Field, that_is_anything_else_is_none) {
  for (const json& strange :
       {json(7), json(nullptr), json::array({kParent}), json::object(), json{{"traceparent", 7}},
        json{{"traceparent", {{"traceparent", kParent}}}}, json{{"tracestate", "a=b"}}, json("x"),
        json{{"traceparent", kParent}, {"pad", std::string(kFieldBytesMax, 'x')}}})
    EXPECT_FALSE(read_field(packed(strange))) << strange;
  for (const std::string& bytes :
       {std::string(), std::string("\xc1"), std::string("\x81\xa1"), std::string(64, '\x91')})
    EXPECT_FALSE(read_field(bytes));
}

TEST(Field, that_was_written_reads_as_it_was) {
  for (const char* state : {"", "a=b,c=\"d\""}) {
    const Context context = *read_context(kParent, state);
    const auto again = read_field(write_field(context));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->parent_text(), kParent);
    EXPECT_EQ(again->state, state);
  }
}

}  // namespace
}  // namespace lanemq::trace
