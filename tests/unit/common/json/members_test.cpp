// SPDX-License-Identifier: Apache-2.0
#include "common/json/members.hpp"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lanemq {
namespace {

std::string edited(const std::string& object, const std::vector<JsonEdit>& edits) {
  return edited_object(object, edits);
}

TEST(EditedObject, changes_members_and_leaves_the_rest_as_it_stands) {
  const std::string object = R"({ "a" : 1.50, "model":"x@low" ,"b":{"model":"y"}, "c":[ 1,2 ]})";

  EXPECT_EQ(edited(object, {{.key = "model", .value = "\"x\""}}),
            R"({ "a" : 1.50, "model":"x","b":{"model":"y"}, "c":[ 1,2 ]})");
  EXPECT_EQ(edited(object, {{.key = "a"}, {.key = "c"}}), R"({ "model":"x@low","b":{"model":"y"}})");
  EXPECT_EQ(edited(object, {{.key = "none"}}),
            R"({ "a" : 1.50, "model":"x@low","b":{"model":"y"}, "c":[ 1,2 ]})");
  EXPECT_EQ(edited("{}", {{.key = "a"}}), "{}");
  EXPECT_EQ(edited(R"({"a":1})", {{.key = "a"}}), "{}");
  EXPECT_EQ(edited(R"({"\u0061":1,"b":2})", {{.key = "a"}}), R"({"b":2})");
}

TEST(JsonElements, gives_each_value_of_an_array) {
  JsonElements elements(R"( [ {"a":[1]} , "]," ,3 ] )");

  EXPECT_EQ(elements.next(), R"({"a":[1]})");
  EXPECT_EQ(elements.next(), R"("],")");
  EXPECT_EQ(elements.next(), "3");
  EXPECT_EQ(elements.next(), "");
  EXPECT_EQ(JsonElements("[]").next(), "");
}

TEST(UnquotedJson, says_what_escapes_mean) {
  EXPECT_EQ(unquoted_json(R"("a\/\"\\\b\f\n\r\té\uD83D\ude00\u0000")"),
            std::string("a/\"\\\b\f\n\r\t\xC3\xA9\xF0\x9F\x98\x80\0", 16));
  for (const char* const broken : {"", "\"", "7", R"("\x")", R"("\u12")", R"("\ud800")", R"("\udc00x")"})
    EXPECT_EQ(unquoted_json(broken), std::nullopt) << broken;
}

TEST(JsonText, can_be_read_again) {
  const std::string text("a\"\\\n\x01\xC3\xA9", 8);
  EXPECT_EQ(unquoted_json(json_text(text)), text);
}

}  // namespace
}  // namespace lanemq
