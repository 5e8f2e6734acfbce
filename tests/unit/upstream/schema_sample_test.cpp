// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/schema_sample.hpp"

#include <set>

#include <gtest/gtest.h>

namespace lanemq::upstream {
namespace {

std::string sample(std::string_view schema) {
  return sample_of(Json::parse(schema)).dump();
}

TEST(SampleOf, fits_every_kind_of_value) {
  EXPECT_EQ(sample(R"({"type": "string"})"), R"("text")");
  EXPECT_EQ(sample(R"({"type": ["integer", "null"]})"), "7");
  EXPECT_EQ(sample(R"({"type": "number"})"), "7");
  EXPECT_EQ(sample(R"({"type": "boolean"})"), "true");
  EXPECT_EQ(sample(R"({"type": "null"})"), "null");
  EXPECT_EQ(sample(R"({"type": "array", "items": {"type": "null"}})"), "[null]");
  EXPECT_EQ(sample(R"({"properties": {"a": {"type": "string"}}})"), R"({"a":"text"})");
  EXPECT_EQ(sample(R"({})"), "null");
}

TEST(SampleOf, takes_what_is_listed) {
  EXPECT_EQ(sample(R"({"enum": ["b", "a"]})"), R"("b")");
  EXPECT_EQ(sample(R"({"const": 5})"), "5");
  EXPECT_EQ(sample(R"({"type": "string", "const": null})"), "null");
}

TEST(SampleOf, keeps_to_the_bounds_of_numbers) {
  EXPECT_EQ(sample(R"({"type": "integer", "minimum": 3})"), "7");
  EXPECT_EQ(sample(R"({"type": "integer", "minimum": 30})"), "30");
  EXPECT_EQ(sample(R"({"type": "integer", "minimum": 7.5})"), "8");
  EXPECT_EQ(sample(R"({"type": "integer", "maximum": 5})"), "5");
  EXPECT_EQ(sample(R"({"type": "integer", "maximum": -4.5})"), "-5");
  EXPECT_EQ(sample(R"({"type": "integer", "exclusiveMinimum": 7})"), "8");
  EXPECT_EQ(sample(R"({"type": "integer", "exclusiveMaximum": 7})"), "6");
  EXPECT_EQ(sample(R"({"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991})"), "7");
  EXPECT_EQ(sample(R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})"), "0.5");
  EXPECT_EQ(sample(R"({"type": "number", "minimum": 0, "maximum": 0.25})"), "0.25");
  EXPECT_EQ(sample(R"({"type": "integer", "minimum": 7, "exclusiveMinimum": true})"), "8");
  EXPECT_EQ(sample(R"({"minimum": 8})"), "8");
}

TEST(SampleOf, keeps_to_multiples) {
  EXPECT_EQ(sample(R"({"type": "integer", "multipleOf": 5})"), "10");
  EXPECT_EQ(sample(R"({"type": "integer", "multipleOf": 5, "maximum": 8})"), "5");
  EXPECT_EQ(sample(R"({"type": "integer", "multipleOf": 5, "exclusiveMinimum": 20})"), "25");
  EXPECT_EQ(sample(R"({"type": "number", "multipleOf": 0.5, "exclusiveMaximum": 7})"), "6.5");
  EXPECT_EQ(sample(R"({"type": "integer", "multipleOf": 2.5})"), "10");
}

TEST(SampleOf, keeps_to_the_length_of_strings) {
  EXPECT_EQ(sample(R"({"type": "string", "minLength": 6})"), R"("tttext")");
  EXPECT_EQ(sample(R"({"type": "string", "maxLength": 2})"), R"("xt")");
  EXPECT_EQ(sample(R"({"type": "string", "maxLength": 0})"), R"("")");
  EXPECT_EQ(sample(R"({"type": "string", "minLength": 3, "maxLength": 3})"), R"("ext")");
}

TEST(SampleOf, keeps_to_a_pattern_that_it_can_read) {
  EXPECT_EQ(sample(R"({"type": "string", "pattern": "^[0-9]{3}$"})"), R"("000")");
  EXPECT_EQ(sample(R"({"type": "string", "pattern": "^[0-9]+$", "minLength": 2})"), R"("00")");
  EXPECT_EQ(sample(R"s({"type": "string", "pattern": "^(?!x)"})s"), R"("text")");
}

TEST(SampleOf, keeps_to_a_format) {
  const auto of = [](const std::string& format) {
    return sample(R"({"type": "string", "format": ")" + format + "\"}");
  };

  EXPECT_EQ(of("date-time"), R"("2026-01-11T12:00:00Z")");
  EXPECT_EQ(of("date"), R"("2026-01-11")");
  EXPECT_EQ(of("time"), R"("12:00:01Z")");
  EXPECT_EQ(of("email"), R"("text1@example.com")");
  EXPECT_EQ(of("uri"), R"("https://example.com/text1")");
  EXPECT_EQ(of("uuid"), R"("123e4567-e89b-42d3-a456-426614174001")");
  EXPECT_EQ(of("ipv4"), R"("192.0.2.11")");
  EXPECT_EQ(of("ipv6"), R"("2001:db8::11")");
  EXPECT_EQ(of("hostname"), R"("text1.example.com")");
  EXPECT_EQ(of("nobody's own"), R"("text")");
}

TEST(SampleOf, keeps_to_the_length_of_lists) {
  EXPECT_EQ(sample(R"({"type": "array", "minItems": 2, "items": {"type": "null"}})"), "[null,null]");
  EXPECT_EQ(sample(R"({"type": "array", "maxItems": 0, "items": {"type": "null"}})"), "[]");
  EXPECT_EQ(sample(R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}]})"), "[1,2]");
}

TEST(SampleOf, repeats_nothing_in_lists_that_are_unique) {
  for (const std::string item :
       {R"({"type": "string"})", R"({"type": "integer", "maximum": 7})", R"({"enum": [3, 2, 1]})",
        R"({"type": "string", "maxLength": 5})", R"({"type": "string", "pattern": "^[a-z]$"})",
        R"({"type": "string", "format": "date"})",
        R"({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5})",
        R"({"type": "object", "properties": {"a": {"type": "string"}}})"}) {
    const auto list = sample_of(
        Json::parse(R"({"type": "array", "minItems": 3, "uniqueItems": true, "items": )" + item + "}"));
    std::set<std::string> different;
    for (const auto& value : list)
      different.insert(value.dump());
    EXPECT_EQ(different.size(), 3u) << list;
  }
}

TEST(SampleOf, has_every_property_and_what_is_required_beside_them) {
  EXPECT_EQ(sample(R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]})"),
            R"({"a":7,"b":"text"})");
  EXPECT_EQ(sample(R"({"type": "object", "required": ["b"], "additionalProperties": {"type": "integer"}})"),
            R"({"b":7})");
  EXPECT_EQ(sample(R"({"type": "object", "minProperties": 1})"), R"({"name1":"text"})");
  EXPECT_EQ(sample(R"({"type": "object", "properties": {"a": {"type": "object", "properties":
                        {"b": {"type": "array", "items": {"type": "boolean"}}}}}})"),
            R"({"a":{"b":[true]}})");
}

TEST(SampleOf, takes_the_first_of_several_choices_that_can_be) {
  EXPECT_EQ(sample(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})"), R"("text")");
  EXPECT_EQ(sample(R"({"type": "integer", "oneOf": [{"type": "string"}, {"minimum": 9}]})"), "9");
  EXPECT_EQ(sample(R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}},
                       "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})"),
            R"({"a":1})");
}

TEST(SampleOf, keeps_to_all_of_several) {
  EXPECT_EQ(sample(R"({"allOf": [{"type": "number", "minimum": 8}, {"type": "integer", "minimum": 9},
                                 {"maximum": 10}]})"),
            "9");
  EXPECT_EQ(sample(R"({"allOf": [{"properties": {"a": {"type": "string"}}},
                                 {"properties": {"a": {"minLength": 5}, "b": {"const": 2}}}]})"),
            R"({"a":"ttext","b":2})");
  EXPECT_EQ(sample(R"({"enum": [1, 2, 3], "allOf": [{"enum": [3, 2]}]})"), "2");
}

TEST(SampleOf, follows_references) {
  EXPECT_EQ(sample(R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}})"), R"("text")");
  EXPECT_EQ(sample(R"({"$ref": "#/$defs/a", "minLength": 5, "$defs": {"a": {"$ref": "#/$defs/b"},
                                                                      "b": {"type": "string"}}})"),
            R"("ttext")");
  EXPECT_EQ(sample(R"({"$ref": "#/$defs/missing"})"), "null");
}

TEST(SampleOf, follows_no_circle_for_ever) {
  EXPECT_EQ(sample(R"({"type": "object", "properties": {"next": {"$ref": "#"}}})"),
            R"({"next":{"next":{"next":{"next":{}}}}})");
  EXPECT_EQ(sample(R"({"$ref": "#"})"), "null");
  EXPECT_EQ(sample(R"({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "type": "string"})"), R"("text")");
  // What no value can fit, for it would have no end: only that this ends is asked for.
  sample(
      R"({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]})");
}

}  // namespace
}  // namespace lanemq::upstream
