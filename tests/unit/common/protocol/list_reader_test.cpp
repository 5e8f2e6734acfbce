// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <string_view>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>
#include <lanemq/list_reader.hpp>

namespace lanemq {
namespace {

using namespace std::string_view_literals;

TEST(ListReader, reads_what_was_written) {
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  Buffer buffer;
  DocumentWriter(buffer).array(4).integer(kLeast).integer(kMost).array(1).text("inside").text("behind");
  ListReader list;

  ASSERT_TRUE(list.open(buffer.view()));
  EXPECT_EQ(list.integer(), kLeast);
  EXPECT_EQ(list.integer(), kMost);
  EXPECT_EQ(list.enter(), 1u);
  EXPECT_EQ(list.text(), "inside");
  EXPECT_FALSE(list.more());
  list.leave();
  EXPECT_EQ(list.text(), "behind");
  EXPECT_EQ(list.integer(), 0) << "a newer version writes more";
  EXPECT_TRUE(list.sound());
}

TEST(ListReader, an_integer_that_is_too_large_makes_it_unsound) {
  ListReader list;

  ASSERT_TRUE(list.open("\x91\xCF\x80\x00\x00\x00\x00\x00\x00\x00"sv));
  EXPECT_EQ(list.integer(), 0);
  EXPECT_FALSE(list.sound());
}

TEST(ListReader, a_value_of_another_type_makes_it_unsound) {
  for (const std::string_view bytes : {"\x91\xA1x"sv, "\x91\x90"sv, "\x91\xC0"sv, "\x91\xC3"sv}) {
    ListReader list;
    ASSERT_TRUE(list.open(bytes));
    EXPECT_EQ(list.integer(), 0);
    EXPECT_FALSE(list.sound());
  }
}

TEST(ListReader, opens_one_list_and_nothing_else) {
  ListReader list;
  for (const std::string_view bytes : {""sv, "\x80"sv, "\x01"sv, "\x91"sv, "\x90\x90"sv})
    EXPECT_FALSE(list.open(bytes)) << bytes.size();
  EXPECT_TRUE(list.open("\x90"sv));
}

}  // namespace
}  // namespace lanemq
