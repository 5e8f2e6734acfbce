// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/schema_sample.hpp"

#include <gtest/gtest.h>

namespace lanemq::upstream {
namespace {

std::string sample(std::string_view schema) {
  return sample_of(Json::parse(schema)).dump();
}

TEST(SampleOf, fits_every_kind_of_value) {
  EXPECT_EQ(sample(R"({"type": "string"})"), R"("text")");
  EXPECT_EQ(sample(R"({"type": ["integer", "null"], "minimum": 3})"), "3");
  EXPECT_EQ(sample(R"({"type": "number", "exclusiveMinimum": 3})"), "4");
  EXPECT_EQ(sample(R"({"type": "boolean"})"), "true");
  EXPECT_EQ(sample(R"({"type": "array", "minItems": 2, "items": {"type": "null"}})"), "[null,null]");
  EXPECT_EQ(sample(R"({"enum": ["b", "a"]})"), R"("b")");
  EXPECT_EQ(sample(R"({"const": 5})"), "5");
  EXPECT_EQ(sample(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})"), R"("text")");
  EXPECT_EQ(sample(R"({"properties": {"a": {"type": "string"}}})"), R"({"a":"text"})");
}

TEST(SampleOf, follows_references_and_no_circle_for_ever) {
  EXPECT_EQ(sample(R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}})"), R"("text")");
  EXPECT_EQ(sample(R"({"$ref": "#/$defs/missing"})"), "null");
  const std::string circle = sample(R"({"type": "object", "properties": {"next": {"$ref": "#"}}})");
  EXPECT_TRUE(circle.starts_with(R"({"next":{"next":)"));
  EXPECT_LE(circle.size(), 20u * kJsonDepthMax);
}

}  // namespace
}  // namespace lanemq::upstream
