// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/not_served.hpp"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

struct Hints : testing::Test {
  Hints() {
    for (const auto& [method, pattern] : {std::pair("POST", "/v1/chat/completions"), {"GET", "/v1/models"}})
      router.add(method, pattern, [](const HttpRequest&, const ResponderPtr&) {});
  }
  std::string hint(std::string path) {
    HttpRequest request;
    request.path = std::move(path);
    return hint_for(router, request);
  }
  Router router;
};

TEST_F(Hints, tell_what_is_not_served) {
  EXPECT_NE(hint("/v1/moderations").find("moderations: not served here"), std::string::npos);
  EXPECT_NE(hint("/v1/audio/speech").find("speech"), std::string::npos);
  EXPECT_NE(hint("/v1/responses/compact").find("compaction"), std::string::npos);
  EXPECT_EQ(hint("/v1/audiobooks"), "");
  EXPECT_EQ(hint("/nothing"), "");
}

TEST_F(Hints, of_what_looks_like_an_id_no_route_is_found) {
  router.add("GET", "/v1/responses/{id}", [](const HttpRequest&, const ResponderPtr&) {});
  hide_not_served(router);
  for (const char* method : {"GET", "POST"}) {
    HttpRequest request{.method = method, .path = "/v1/responses/compact"};
    const Router::Found found = router.find(request);
    EXPECT_TRUE(found.route == nullptr && found.allowed.empty()) << method;
  }
  HttpRequest request{.method = "GET", .path = "/v1/responses/compact-1"};
  EXPECT_NE(router.find(request).route, nullptr);
}

TEST_F(Hints, tell_which_base_url_is_wrong) {
  EXPECT_NE(hint("/chat/completions").find("OpenAI's SDKs ends in /v1"), std::string::npos);
  EXPECT_NE(hint("/v1/v1/models").find("has /v1 twice"), std::string::npos);
}

TEST_F(Hints, tell_that_a_path_ends_too_late) {
  EXPECT_EQ(hint("/v1/chat/completions/"), "leave out the / at the path's end");
  EXPECT_EQ(hint("/v1/models/"), "leave out the / at the path's end");
  EXPECT_NE(hint("/v1/chat/completions/x").find("stored chat completions"), std::string::npos);
}

TEST_F(Hints, do_not_lose_the_way_with_odd_paths) {
  for (const char* path : {"", "/", "//", "/v1", "/v1/", "*"})
    hint(path);
}

TEST(NotServedPaths, stand_in_the_docs) {
  std::ifstream file(LANEMQ_SOURCE "/docs/gateway.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const NotServed& row : not_served())
    EXPECT_NE(text.str().find("`" + std::string(row.path) + "` | " + std::string(row.what)),
              std::string::npos)
        << row.path;
}

}  // namespace
}  // namespace lanemq::gateway
