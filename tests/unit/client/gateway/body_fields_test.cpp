// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/body_fields.hpp"

#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lanemq::gateway {
namespace {

TEST(BodyFields, are_those_of_the_top_level) {
  const auto fields = read_body_fields(
      R"( {"messages":[{"model":"inner","stream":true,"content":"a \"quoted\\\" brace } ]"}],
          "metadata":{"model":"inner","x":[[],{}]} , "stream" : true,"model":"gpt-x@high","service_tier":"flex","n":1e3} )");

  ASSERT_TRUE(fields) << fields.error().message;
  EXPECT_EQ(fields->model, "gpt-x@high");
  EXPECT_EQ(fields->service_tier, "flex");
  EXPECT_TRUE(fields->stream);
}

TEST(BodyFields, name_the_container_of_a_message) {
  for (const char* body : {R"({"container":"c_1"})", R"({"container":{"skills":[],"id":"c_1"}})",
                           R"({"cont\u0061iner":{"id":"c_\u0031"}})"}) {
    const auto fields = read_body_fields(body);
    ASSERT_TRUE(fields) << body;
    ASSERT_EQ(fields->stored.size(), 1u) << body;
    EXPECT_EQ(fields->stored[0].id, "c_1");
    EXPECT_EQ(fields->stored[0].param, "container");
  }
  for (const char* body :
       {R"({"container":null})", R"({"container":{"skills":[]}})", R"({"container":{"id":null}})"})
    EXPECT_TRUE(read_body_fields(body)->stored.empty()) << body;
  for (const char* body :
       {R"({"container":7})", R"({"container":"a","container":"b"})", R"({"Container":"a"})",
        R"({"container":{"id":"a","id":"b"}})", R"({"container":{"ID":"a"}})"})
    EXPECT_EQ(read_body_fields(body).error().param, "container") << body;
}

TEST(BodyFields, name_the_message_that_a_thread_goes_on_from) {
  for (const char* body :
       {R"({"thread":{"type":"continue","previous_message_id":"msg_1"}})", R"({"thread":"msg_1"})"}) {
    const auto fields = read_body_fields(body);
    ASSERT_TRUE(fields) << body;
    ASSERT_EQ(fields->stored.size(), 1u) << body;
    EXPECT_EQ(fields->stored[0].id, "msg_1");
    EXPECT_EQ(fields->stored[0].param, "thread");
  }
  EXPECT_TRUE(read_body_fields(R"({"thread":{"type":"new"}})")->stored.empty());
  EXPECT_EQ(read_body_fields(R"({"Thread":"msg_1"})").error().param, "thread");
}

TEST(BodyFields, name_what_tools_in_items_and_in_tools_refer_to) {
  const auto ids_in = [](const std::string& body) {
    std::string ids;
    const auto fields = read_body_fields(body, Look::stored);
    if (!fields) return fields.error().message;
    for (const StoredReference& stored : fields->stored)
      ids += stored.param + "=" + stored.id + " ";
    return ids;
  };
  const std::string tools = R"("tools":[{"type":"code_interpreter","container":"c_1"}])";
  EXPECT_EQ(ids_in(R"({"input":[{"type":"additional_tools",)" + tools + "}]}"),
            "input[0].tools[0].container=c_1 ");
  EXPECT_EQ(ids_in(R"({"tools":[{"type":"namespace",)" + tools + "}]}"), "tools[0].tools[0].container=c_1 ");
  std::string deep = R"({"type":"t",)" + tools + "}";
  for (int level = 0; level < 10; ++level)
    deep = R"({"tools":[)" + deep + "]}";
  EXPECT_NE(ids_in(R"({"tools":[)" + deep + "]}").find("over 8 others"), std::string::npos);
}

TEST(BodyFields, may_be_absent_or_null) {
  for (const char* body :
       {"{}", R"({"model":null,"stream":null,"service_tier":null})", R"({"stream":false})"}) {
    const auto fields = read_body_fields(body);
    ASSERT_TRUE(fields) << body;
    EXPECT_TRUE(fields->model.empty());
    EXPECT_FALSE(fields->stream);
  }
}

TEST(BodyFields, cannot_be_hidden_behind_an_escape_or_a_second_one) {
  EXPECT_EQ(read_body_fields(R"({"mod\u0065l":"a"})")->model, "a");
  EXPECT_EQ(read_body_fields(R"({"model":"\u0061"})")->model, "a");
  EXPECT_EQ(read_body_fields(R"({"model":"a","mod\u0065l":"b"})").error().param, "model");
  EXPECT_EQ(read_body_fields(R"({"stream":true,"stream":false})").error().param, "stream");
}

TEST(BodyFields, have_no_twins_in_another_case) {
  for (const char* body :
       {R"({"model":"a","Model":"b"})", R"({"MODEL":"b"})", R"({"model":"a","mod\u0045l":"b"})"})
    EXPECT_EQ(read_body_fields(body).error().param, "model") << body;
  // U+017F is an s to readers that fold cases as Unicode does.
  EXPECT_EQ(read_body_fields(R"({"model":"a","\u017Ftream":true})").error().param, "stream");
  EXPECT_EQ(read_body_fields(R"({"model":"a","Service_Tier":"flex"})").error().param, "service_tier");
  EXPECT_TRUE(read_body_fields(R"({"model":"a","Models":["b"],"metadata":{"Model":"c"}})"));
}

TEST(BodyFields, of_the_wrong_kind_are_named) {
  EXPECT_EQ(read_body_fields(R"({"model":1})").error().param, "model");
  EXPECT_EQ(read_body_fields(R"({"model":")" + std::string(200, 'x') + "\"}").error().param, "model");
  EXPECT_EQ(read_body_fields(R"({"stream":"true"})").error().param, "stream");
  EXPECT_EQ(read_body_fields(R"({"service_tier":[]})").error().param, "service_tier");
  EXPECT_EQ(read_body_fields(R"({"previous_response_id":["resp_1"]})").error().param, "previous_response_id");
  EXPECT_EQ(read_body_fields(R"({"previous_response_id":7})").error().param, "previous_response_id");
  EXPECT_EQ(read_body_fields(R"({"conversation":["conv_1"]})").error().param, "conversation");
  EXPECT_EQ(read_body_fields(R"({"prompt":7})").error().param, "prompt");
}

TEST(BodyFields, of_a_stored_response_may_be_null_or_left_out) {
  const auto going_on = read_body_fields(R"({"previous_response_id":"resp_1"})");
  ASSERT_EQ(going_on->stored.size(), 1);
  EXPECT_EQ(going_on->stored[0].param, "previous_response_id");
  EXPECT_EQ(going_on->stored[0].id, "resp_1");
  for (const char* none :
       {R"({"previous_response_id": null, "conversation":null})", R"({"previous_response_id":""})",
        R"({"input":[{"type":"item_reference","id":"msg_1"}]})"})
    EXPECT_TRUE(read_body_fields(none)->stored.empty()) << none;
  EXPECT_TRUE(
      read_body_fields(R"({"conversation":{"id":"conv_1"},"prompt":{"id":"pmpt_1"}})")->in_conversation);
  EXPECT_TRUE(read_body_fields(R"({"conversation":"conv_1","prompt":["a","b"]})")->in_conversation);
  EXPECT_FALSE(read_body_fields(R"({"conversation": null})")->in_conversation);
  EXPECT_EQ(read_body_fields(R"({"conversation":null,"conversation":"c"})").error().param, "conversation");
  EXPECT_EQ(read_body_fields(R"({"Conversation":"conv_1"})").error().param, "conversation");
}

/// What a body for /v1/responses refers to, or the parameter for which it is refused.
std::string stored(const std::string& body) {
  const auto fields = read_body_fields(body, Look::stored);
  if (!fields) return "refused " + fields.error().param;
  std::string all;
  for (const StoredReference& reference : fields->stored)
    all += (all.empty() ? "" : " ") + reference.param + "=" + reference.id;
  return all;
}

TEST(BodyFields, tell_what_a_response_refers_to) {
  const auto input = [](const std::string& items) { return stored(R"({"input":[)" + items + "]}"); };
  EXPECT_EQ(input(R"("x",{"role":"user","content":"y"},{"type":"item_reference","id":"msg_1"})"),
            "input[2].id=msg_1");
  EXPECT_EQ(input(R"({"id":"msg_1"})"), "input[0].id=msg_1");
  EXPECT_EQ(input(R"({"type":null,"id":"msg_1","content":"x"})"), "input[0].id=msg_1");
  EXPECT_EQ(input(R"({"typ\u0065":"item\u005freference","\u0069d":"msg\u005f1"})"), "input[0].id=msg_1");
  EXPECT_EQ(input(R"({"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":null})"),
            "input[0].id=rs_1");
  EXPECT_EQ(input(R"({"type":"reasoning","id":"rs_1","summary":[],"content":[]})"), "input[0].id=rs_1");
  EXPECT_EQ(input(R"({"type":"image_generation_call","id":"ig_1"})"), "input[0].id=ig_1");
  EXPECT_EQ(input(R"({"type":"code_interpreter_call","id":"ci_1","container_id":"cntr_1","code":"1"})"),
            "input[0].container_id=cntr_1");
  EXPECT_EQ(
      stored(R"({"tools":[{"type":"function","name":"f"},{"type":"code_interpreter","container":"cntr_1"}],
                      "input":"x","previous_response_id":"resp_1"})"),
      "tools[1].container=cntr_1 previous_response_id=resp_1");
  EXPECT_EQ(
      stored(
          R"({"tools":[{"type":"shell","environment":{"type":"container_reference","container_id":"cntr_1"}}]})"),
      "tools[0].environment.container_id=cntr_1");
}

TEST(BodyFields, of_what_comes_whole_refer_to_nothing) {
  for (const char* item :
       {R"({"type":"message","id":"msg_1","role":"assistant","content":[]})",
        R"({"id":"m","role":"user","content":"x"})",
        R"({"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAAA"})",
        R"({"type":"reasoning","id":"rs_1","content":[{"type":"reasoning_text","text":"x"}]})",
        R"({"type":"image_generation_call","id":"ig_1","result":"AAAA"})",
        R"({"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{\"id\":\"x\"}"})",
        R"({"type":"item_reference","id":null})", R"([{"id":"msg_1"}])"})
    EXPECT_EQ(stored(R"({"input":[)" + std::string(item) + "]}"), "") << item;
  EXPECT_EQ(stored(R"({"input":null,"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]})"),
            "");
}

TEST(BodyFields, hide_no_reference_in_what_could_be_read_in_two_ways) {
  for (const char* item :
       {R"({"type":"message","type":"item_reference","id":"msg_1"})",
        R"({"type":"item_reference","Id":"msg_1"})", R"({"type":"message","TYPE":"x","id":"msg_1"})",
        R"({"id":"a","\u0069d":"b"})", R"({"id":"a" "type":"message"})"})
    EXPECT_EQ(stored(R"({"input":[)" + std::string(item) + "]}"), "refused input[0]") << item;
  EXPECT_EQ(stored(R"({"input":[{"type":"item_reference","id":["msg_1"]}]})"), "refused input[0].id");
  EXPECT_EQ(stored(R"({"input":[],"input":[{"id":"msg_1"}]})"), "refused input");
  EXPECT_EQ(stored(R"({"Input":[{"id":"msg_1"}]})"), "refused input");
  EXPECT_EQ(stored(R"({"input":{"id":"msg_1"}})"), "refused input");
  EXPECT_EQ(stored(R"({"input":["x" {"id":"msg_1"}]})"), "refused input");
  EXPECT_EQ(stored(R"({"tools":{}})"), "refused tools");
}

TEST(BodyFields, refer_to_no_more_than_the_bound) {
  std::string items = R"({"id":"i"})";
  for (std::size_t i = 1; i < kReferencesMax; ++i)
    items += R"(,{"id":"i"})";
  EXPECT_EQ(read_body_fields(R"({"input":[)" + items + "]}", Look::stored)->stored.size(), kReferencesMax);
  EXPECT_EQ(stored(R"({"input":[)" + items + R"(,{"id":"i"}]})"), "refused input[10000].id");
}

TEST(BodyFields, broken_bodies_are_refused) {
  for (const char* body :
       {"", " ", "[]", "null", "\"model\"", "{", R"({"model")", R"({"model":)", R"({"model":})",
        R"({"model":"a)", R"({"model":"a\)",
        R"({"model":"a"})"
        "x",
        R"({"model":"a",})", R"({,"model":"a"})", R"({"a":[1,2})", R"({"a":{"b":"})", R"({a:1})"})
    EXPECT_FALSE(read_body_fields(body)) << body;
}

TEST(BodyFields, deep_nesting_costs_no_stack) {
  const std::size_t depth = 1'000'000;
  const std::string body =
      R"({"a":)" + std::string(depth, '[') + std::string(depth, ']') + R"(,"model":"m"})";

  EXPECT_EQ(read_body_fields(body)->model, "m");
}

/// What a real parser takes for an object, is read; and nothing makes it read outside.
TEST(BodyFields, agree_with_a_parser_on_bodies_cut_and_changed_anywhere) {
  const std::string whole =
      R"({"model":"gpt-x","messages":[{"role":"user","content":"caf\u00e9 \"x\" \\"}],"stream":true,"n":[1,{"a":null}]})";
  std::mt19937 chance(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string body = whole.substr(0, chance() % (whole.size() + 1));
    for (auto changes = chance() % 3; changes > 0 && !body.empty(); --changes)
      body[chance() % body.size()] = "{}[]\",:\\ atr0\x01\xFF"[chance() % 15];

    const auto fields = read_body_fields(body);
    const auto parsed = nlohmann::json::parse(body, nullptr, false);

    if (!parsed.is_object()) continue;
    if (fields)
      EXPECT_EQ(fields->model, parsed.value("model", nlohmann::json()).is_string() ? parsed["model"] : "")
          << body;
    else
      EXPECT_FALSE(fields.error().param.empty()) << body;  // it is JSON: a field is to blame
  }
}

}  // namespace
}  // namespace lanemq::gateway
