// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/json.hpp"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/upstream/errors.hpp"

namespace lanemq::upstream {
namespace {

TEST(ErrorBody, writes_what_is_missing_as_null) {
  const Json body = Json::parse(
      error_body(Dialect::openai, 429, {.message = "no", .type = "tokens", .param = "", .code = "c"}, "r"));

  EXPECT_EQ(body,
            Json::parse(R"({"error": {"message": "no", "type": "tokens", "param": null, "code": "c"}})"));
}

TEST(ErrorBody, has_the_type_that_the_status_has_at_anthropic) {
  const Json body = Json::parse(error_body(Dialect::anthropic, 529, {.message = "no"}, "req_1"));

  EXPECT_EQ(body, Json::parse(R"({"type": "error", "error": {"type": "overloaded_error", "message": "no"},
                                  "request_id": "req_1"})"));
}

TEST(Fnv1a, gives_the_published_values) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace lanemq::upstream
