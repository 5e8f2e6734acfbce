// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/base/message.hpp"
#include "common/http/server/router.hpp"

namespace lanemq::gateway {
namespace {

struct RouterTest : testing::Test {
  Router router;
  HttpRequest request;

  RouterTest() {
    router.take_prefix("/anthropic");
    for (const auto& [method, pattern] : {std::pair("GET", "/v1/files"),
                                          {"POST", "/v1/files"},
                                          {"GET", "/v1/files/{id}"},
                                          {"GET", "/v1/files/{id}/content"},
                                          {"GET", "/v1/files/latest"},
                                          {"GET", "/v1/models/{id*}"}})
      router.add(method, pattern, [](const HttpRequest&, const ResponderPtr&) {});
  }

  std::string found(std::string method, std::string path) {
    request = {};
    request.method = std::move(method);
    request.path = std::move(path);
    const Router::Found result = router.find(request);
    return result.route ? result.route->pattern : "(" + result.allowed + ")";
  }
};

TEST_F(RouterTest, finds_the_pattern_with_more_fixed_pieces) {
  EXPECT_EQ(found("GET", "/v1/files"), "/v1/files");
  EXPECT_EQ(found("GET", "/v1/files/file-1"), "/v1/files/{id}");
  EXPECT_EQ(request.param("id"), "file-1");
  EXPECT_EQ(found("GET", "/v1/files/latest"), "/v1/files/latest");
  EXPECT_EQ(found("GET", "/v1/files/a%2Fb/content"), "/v1/files/{id}/content");
  EXPECT_EQ(request.param("id"), "a/b");
}

TEST_F(RouterTest, takes_all_that_is_left) {
  EXPECT_EQ(found("GET", "/v1/models/org/model"), "/v1/models/{id*}");
  EXPECT_EQ(request.param("id"), "org/model");
}

TEST_F(RouterTest, says_which_methods_there_are) {
  EXPECT_EQ(found("DELETE", "/v1/files"), "(GET, HEAD, POST)");
  EXPECT_EQ(found("HEAD", "/v1/files"), "/v1/files");
  for (const char* path : {"", "/", "v1/files", "/v1", "/v1/files/", "/v1/files//content", "/v2/files"})
    EXPECT_EQ(found("GET", path), "()") << path;
}

TEST_F(RouterTest, takes_prefixes_off_the_path) {
  EXPECT_EQ(found("GET", "/lane/b%61tch/v1/files"), "/v1/files");
  EXPECT_EQ(request.lane_prefix, "batch");
  EXPECT_EQ(found("GET", "/anthropic/v1/files"), "/v1/files");
  EXPECT_EQ(request.prefix, "/anthropic");
  EXPECT_EQ(found("GET", "/lane/low/anthropic/v1/files"), "/v1/files");
  EXPECT_EQ(request.path, "/v1/files");
  EXPECT_EQ(found("GET", "/lane//v1/files"), "()");
  EXPECT_EQ(found("GET", "/anthropics/v1/files"), "()");
}

TEST(Messages, decode_what_is_escaped_and_leave_the_rest) {
  EXPECT_EQ(percent_decoded("a%20b%2"), "a b%2");
  EXPECT_EQ(percent_decoded("%zz%41"), "%zzA");
  EXPECT_EQ(percent_decoded("%4"), "%4");

  HttpRequest request;
  request.query = "after=x%26y&limit=5&empty&after=z";
  EXPECT_EQ(request.query_param("after"), "x&y");
  EXPECT_EQ(request.query_param("limit"), "5");
  EXPECT_EQ(request.query_param("empty"), "");
  EXPECT_EQ(request.query_param("none"), "");
}

TEST(Messages, keep_one_field_of_a_name_that_is_set) {
  Headers headers{{"a", "1"}, {"b", "2"}, {"a", "3"}};
  EXPECT_EQ(headers.get("a"), "1");
  headers.set("a", "4");
  EXPECT_EQ(headers.size(), 2u);
  EXPECT_EQ(headers.get("a"), "4");
  EXPECT_EQ(headers.find("c"), nullptr);
}

}  // namespace
}  // namespace lanemq::gateway
