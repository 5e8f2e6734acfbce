// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/model/request_body.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

namespace lanemq::worker {
namespace {

std::string edited(std::string_view body, const BodyEdits& edits) {
  return edit_request(body, edits).text.value_or("unchanged");
}

TEST(RequestBody, replaces_the_model_and_nothing_else) {
  EXPECT_EQ(edited(R"( { "a":[{"model":"x"}],"model" : "m@batch" , "n":1e2 } )", {.model = "m"}),
            R"( { "a":[{"model":"x"}],"model" : "m" , "n":1e2 } )");
  EXPECT_EQ(edited(R"({"model":"m"})", {.model = "m"}), "unchanged");
  EXPECT_EQ(edited(R"({"model":"\u006d"})", {.model = "m"}), "unchanged") << "it says the same";
  EXPECT_EQ(edited(R"({"model":"x","\u006dodel":"y"})", {.model = "m"}), R"({"model":"m","\u006dodel":"m"})");
  EXPECT_EQ(edited(R"({"model":"x"})", {.model = "a\"\\\n"}), R"({"model":"a\"\\\n"})");
  EXPECT_EQ(edited(R"({"model":7})", {.model = "m"}), "unchanged");
  EXPECT_EQ(edited(R"({"model":"x"})", {}), "unchanged");
}

TEST(RequestBody, takes_the_tier_out_wherever_it_stands) {
  EXPECT_EQ(edited(R"({"service_tier":"auto","a":1})", {}), R"({"a":1})");
  EXPECT_EQ(edited(R"({"a":1, "service_tier":"auto" })", {}), R"({"a":1 })");
  EXPECT_EQ(edited(R"({"a":1,"service_tier":"auto","b":2})", {}), R"({"a":1,"b":2})");
  EXPECT_EQ(edited(R"({"service_tier":"auto"})", {}), "{}");
  EXPECT_EQ(edited(R"({"a":1,"service_tier":"x","service_\u0074ier":{"y":[]}})", {}), R"({"a":1})");
  EXPECT_EQ(edited(R"({"service_tier":1,"service_tier":2,"b":{"service_tier":3}})", {}),
            R"({"b":{"service_tier":3}})");
  EXPECT_EQ(edited(R"({"service_tier":"auto"})", {.drop_service_tier = false}), "unchanged");
}

TEST(RequestBody, asks_for_the_usage_of_a_stream) {
  const BodyEdits edits{.ask_usage = true};
  EXPECT_EQ(edited(R"({"stream":true})", edits),
            R"({"stream_options":{"include_usage":true},"stream":true})");
  EXPECT_EQ(edited(R"({"stream":true,"stream_options":{}})", edits),
            R"({"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(edited(R"({"stream":true,"stream_options":{"x":1}})", edits),
            R"({"stream":true,"stream_options":{"include_usage":true,"x":1}})");
  EXPECT_EQ(edited(R"({"stream":true,"stream_options": null})", edits),
            R"({"stream":true,"stream_options": {"include_usage":true}})");
  EXPECT_TRUE(edit_request(R"({"stream":true})", edits).usage_added);
}

TEST(RequestBody, leaves_a_caller_that_speaks_of_the_usage_alone) {
  const BodyEdits edits{.ask_usage = true};
  for (const char* const body : {R"({"stream":true,"stream_options":{"include_usage":true}})",
                                 R"({"stream":true,"stream_options":{"include_usage":false}})",
                                 R"({"stream":true,"stream_options":7})", R"({"stream":false})",
                                 R"({"stream":true,"stream":false})", "{}"}) {
    EXPECT_EQ(edited(body, edits), "unchanged") << body;
    EXPECT_FALSE(edit_request(body, edits).usage_added) << body;
  }
  EXPECT_TRUE(edit_request(R"({"stream":true,"stream_options":{"include_usage":false}})", edits).streams);
}

TEST(RequestBody, what_is_no_object_stays_as_it_is) {
  for (const char* const body : {"", "[]", "7", "{", R"({"model")", R"({"model":"x")", R"({"model":"x",})",
                                 "{model:1}", R"({"stream":true,"model":"x" "b":1})", "\xFF"}) {
    const RequestBody result = edit_request(body, {.model = "m", .ask_usage = true});
    EXPECT_FALSE(result.text) << body;
    EXPECT_FALSE(result.streams) << body;
  }
}

using Json = nlohmann::ordered_json;

Json any_value(int depth) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 7 : 5);
  switch (kind) {
    case 0:
      return nullptr;
    case 1:
      return *rc::gen::arbitrary<bool>();
    case 2:
      return *rc::gen::arbitrary<int>();
    case 3:
      return *rc::gen::element<std::string>("", "a\"b", "\\", "{[", "]}", "x\\\"", "\xC3\xA9\n", "\"");
    case 4:
      return *rc::gen::element<double>(0.5, -1e30);
    case 5: {
      Json list = Json::array();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
        list.push_back(any_value(depth - 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
        object[*rc::gen::element<std::string>("a", "model", "service_tier", "stream", "k\"", "\\")] =
            any_value(depth - 1);
      return object;
    }
  }
}

RC_GTEST_PROP(RequestBody, is_what_a_reader_of_the_whole_body_would_make_of_it, ()) {
  Json body = Json::object();
  for (int i = *rc::gen::inRange(0, 7); i > 0; --i) {
    const auto key = *rc::gen::element<std::string>("model", "stream", "stream_options", "service_tier",
                                                    "messages", "a", "b");
    if (key == "stream")
      body[key] = *rc::gen::arbitrary<bool>();
    else if (key == "stream_options" && *rc::gen::arbitrary<bool>())
      body[key] = {{"include_usage", true}};
    else
      body[key] = any_value(3);
  }
  const int indent = *rc::gen::element(-1, 0, 3);
  const std::string text = body.dump(indent);

  const RequestBody result = edit_request(text, {.model = "new \"m\"", .ask_usage = true});

  Json expected = body;
  expected.erase("service_tier");
  if (expected.contains("model") && expected["model"].is_string()) expected["model"] = "new \"m\"";
  const bool streams = body.contains("stream") && body["stream"] == true;
  Json& options = streams ? expected["stream_options"] : expected["unused"];
  const bool asks =
      streams && (options.is_null() || (options.is_object() && !options.contains("include_usage")));
  if (asks) options["include_usage"] = true;
  if (streams && !body.contains("stream_options") && !asks) expected.erase("stream_options");
  expected.erase("unused");
  RC_ASSERT(result.streams == streams);
  RC_ASSERT(result.usage_added == asks);
  // Order counts for nobody but the reader of a test.
  RC_ASSERT(nlohmann::json::parse(result.text.value_or(text)) == nlohmann::json::parse(expected.dump()));
}

RC_GTEST_PROP(RequestBody, never_reads_beyond_broken_text, ()) {
  const std::vector<std::string> words{"{",
                                       "}",
                                       "[",
                                       "]",
                                       "\"",
                                       "\\",
                                       ",",
                                       ":",
                                       "model",
                                       "\"model\":",
                                       "\"stream\":true",
                                       "1",
                                       "null",
                                       " ",
                                       "\"service_tier\":",
                                       "\"a\""};
  std::string text = "{";
  for (const std::string& word : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(words)))
    text += word;

  const std::string own(text);  // exactly as long as it is, for the sanitizers
  const RequestBody result = edit_request(std::string_view(own), {.model = "m", .ask_usage = true});

  if (result.text && nlohmann::json::accept(own)) RC_ASSERT(nlohmann::json::accept(*result.text));
}

}  // namespace
}  // namespace lanemq::worker
