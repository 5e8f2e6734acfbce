// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/base/message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::http {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<std::pair<std::string, std::string>> fields_of(const Headers& headers) {
  return {headers.begin(), headers.end()};
}

TEST(Headers, of_one_name_are_one_list) {
  Headers headers = {{"anthropic-beta", "a"}, {"host", "h"},  {"anthropic-beta", "b, c"}, {"cookie", "x=1"},
                     {"cookie", "y=2"},       {"accept", ""}, {"anthropic-beta", "d"}};
  headers.join();
  EXPECT_THAT(fields_of(headers), ElementsAre(Pair("anthropic-beta", "a, b, c, d"), Pair("host", "h"),
                                              Pair("cookie", "x=1; y=2"), Pair("accept", "")));
  EXPECT_EQ(headers.get("anthropic-beta"), "a, b, c, d");
}

TEST(Headers, of_different_names_stay_as_they_are) {
  Headers headers = {{"b", "1"}, {"a", "2"}, {"c", "3"}};
  headers.join();
  EXPECT_THAT(fields_of(headers), ElementsAre(Pair("b", "1"), Pair("a", "2"), Pair("c", "3")));
  Headers none;
  none.join();
  EXPECT_EQ(none.size(), 0u);
}

TEST(Headers, may_be_many) {
  Headers headers;
  for (int i = 0; i < 10'000; ++i)
    headers.add("x-" + std::to_string(i % 5'000), std::to_string(i));
  headers.join();
  EXPECT_EQ(headers.size(), 5'000u);
  EXPECT_EQ(headers.get("x-4999"), "4999, 9999");
  EXPECT_EQ(headers.begin()->first, "x-0");
}

}  // namespace
}  // namespace lanemq::http
