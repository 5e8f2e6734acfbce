// SPDX-License-Identifier: Apache-2.0
#include "common/url/climbing_path.hpp"

#include <gtest/gtest.h>

namespace lanemq {
namespace {

TEST(PathClimbs, in_any_spelling_that_somebody_on_the_way_resolves) {
  for (const char* path :
       {"/..", "/.", "/a/../b", "/v1/..%2fadmin", "/v1/..%2Fadmin", "/%2e%2e%2fadmin", "/v1/.%2e/admin",
        "/x/%2e%2e%5cadmin", "/x/..\\admin", "/v1/..;/admin", "/v1/..;a=b/admin", "/v1/%252e%252e%252fadmin",
        "/v1/%25252e%25252e/x", "/%2e", "..", "/a/%2E%2E", "/v1/%2e%2e;x/y", "/a%2f..", "/a%5c.%5cb"})
    EXPECT_TRUE(path_climbs(path)) << path;
}

TEST(PathClimbs, not_where_dots_are_part_of_a_name) {
  for (const char* path :
       {"/", "", "/v1/chat/completions", "/v1/models/gpt-4.1", "/a/...", "/a/..b", "/a/b..",
        "/v1/responses/resp_1?x=/../y", "/a/%2e%2eb", "/100%", "/%", "/%2", "/a;..", "/a%3b.."})
    EXPECT_FALSE(path_climbs(path)) << path;
}

TEST(PathClimbs, where_nobody_can_tell_how_often_it_is_decoded) {
  std::string path = "/..";
  for (int i = 0; i < 20; ++i) {
    std::string next;
    for (const char c : path)
      next += c == '%' || c == '.' ? (c == '%' ? "%25" : "%2e") : std::string(1, c);
    path = next;
  }
  EXPECT_TRUE(path_climbs(path));
}

}  // namespace
}  // namespace lanemq
