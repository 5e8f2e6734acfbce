// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/named_models.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

std::vector<std::string> found_in(std::string_view body) {
  std::vector<std::string> found;
  for (const NamedModel& named : named_models_of(body))
    found.push_back(named.param + "=" + named.model);
  return found;
}

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NamedModels, are_found_wherever_an_upstream_takes_models_from) {
  EXPECT_THAT(found_in(R"({"model": "m", "fallbacks": ["a", {"model": "b", "stop": ["x"]}]})"),
              ElementsAre("fallbacks[0]=a", "fallbacks[1].model=b"));
  EXPECT_THAT(found_in(R"({"fallbacks": [{"m": ["c", "d"]}, {"n": "e"}]})"),
              ElementsAre("fallbacks[0].m[0]=c", "fallbacks[0].m[1]=d", "fallbacks[1].n=e"));
  EXPECT_THAT(found_in(R"({"models": ["a"], "fallback_models": "b"})"),
              ElementsAre("models[0]=a", "fallback_models=b"));
  EXPECT_THAT(found_in(R"({"context_window_fallbacks": [{"m": ["a"]}], "engine": "b", "deployment": "c"})"),
              ElementsAre("context_window_fallbacks[0].m[0]=a", "engine=b", "deployment=c"));
  EXPECT_THAT(
      found_in(
          R"({"tools": [{"type": "advisor", "model": "a"}, {"type": "image_generation", "model": "b"}]})"),
      ElementsAre("tools[0].model=a", "tools[1].model=b"));
  EXPECT_THAT(
      found_in(R"({"input": [{"type": "tool_search_output", "tools": [{"tools": [{"model": "a"}]}]}, "x"],
                           "moderation": {"model": "b"}})"),
      ElementsAre("input[0].tools[0].tools[0].model=a", "moderation.model=b"));
}

TEST(NamedModels, are_found_in_any_case_escaped_and_each_time) {
  EXPECT_THAT(found_in(R"({"Fallbacks": ["a"], "fallbacks": ["b"], "f\u0061llbacks": ["c"]})"),
              ElementsAre("fallbacks[0]=a", "fallbacks[0]=b", "fallbacks[0]=c"));
  EXPECT_THAT(found_in(R"({"tools": [{"model": "a", "MODEL": "b", "mod\u0065l": "\u0063"}]})"),
              ElementsAre("tools[0].model=a", "tools[0].model=b", "tools[0].model=c"));
}

TEST(NamedModels, are_not_seen_where_a_word_means_something_else) {
  EXPECT_THAT(
      found_in(R"({"model": "m", "messages": [{"role": "user", "content": "{\"fallbacks\": [\"a\"]}"}]})"),
      IsEmpty());
  EXPECT_THAT(
      found_in(R"({"tools": [{"function": {"parameters": {"properties": {"model": {"default": "T"}}}}}]})"),
      IsEmpty());
  EXPECT_THAT(
      found_in(R"({"metadata": {"models": ["a"]}, "fallbacks": null, "models": [], "tools": [3, null]})"),
      IsEmpty());
  EXPECT_THAT(found_in(""), IsEmpty());
  EXPECT_THAT(found_in("[]"), IsEmpty());
}

TEST(NamedModels, are_what_a_stored_prompt_may_name_where_the_body_names_none) {
  EXPECT_THAT(found_in(R"({"prompt": {"id": "pmpt_1"}})"), ElementsAre("prompt="));
  EXPECT_THAT(found_in(R"({"model": null, "prompt": {"id": "pmpt_1"}})"), ElementsAre("prompt="));
  EXPECT_THAT(found_in(R"({"prompt": {"id": "pmpt_1"}, "model": "m"})"), IsEmpty());
  EXPECT_THAT(found_in(R"({"prompt": "once upon"})"), IsEmpty());
}

}  // namespace
}  // namespace lanemq::gateway
