// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/access.hpp"

#include <gtest/gtest.h>

#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/access/secret.hpp"

namespace lanemq::gateway {
namespace {

HttpRequest request_with(std::initializer_list<std::pair<std::string, std::string>> headers,
                         std::string path = "/v1/chat/completions") {
  HttpRequest request;
  request.path = std::move(path);
  request.headers = Headers(headers);
  return request;
}

KeySettings key(std::string name, std::string_view secret) {
  KeySettings settings{.name = std::move(name)};
  settings.sha256 = sha256_hex(secret);
  return settings;
}

TEST(Apis, stand_at_their_numbers) {
  for (std::size_t i = 0; i < kApiCount; ++i)
    EXPECT_EQ(kApis[i]->number, static_cast<int>(i)) << kApis[i]->name;
}

TEST(Secrets, are_hashed_as_everybody_hashes_them) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Access, knows_a_caller_by_its_key_in_either_header) {
  KeySettings shared = key("team", "secret-1");
  shared.client = "research";
  const Access access({std::move(shared), key("other", "secret-2")});

  const auto bearer = access.caller_of(request_with({{"authorization", "bearer secret-1"}}));
  const auto plain = access.caller_of(request_with({{"x-api-key", "secret-2"}}));

  ASSERT_TRUE(bearer && plain);
  EXPECT_EQ(bearer->name, "team");
  EXPECT_EQ(bearer->client, "research");
  EXPECT_EQ(plain->client, "other");
}

TEST(Access, refuses_a_key_that_is_absent_or_unknown) {
  const Access access({key("team", "secret-1")});

  for (const auto& request : {request_with({}), request_with({{"authorization", "Bearer secret-"}}),
                              request_with({{"authorization", "secret-1"}})}) {
    const auto caller = access.caller_of(request);
    ASSERT_FALSE(caller);
    EXPECT_EQ(caller.error().name, "unauthorized");
    EXPECT_EQ(caller.error().message.find("secret-"), std::string::npos);
  }
}

TEST(Access, takes_a_key_away_from_a_request_whose_head_it_has_seen) {
  Access access({key("team", "secret-1")});
  const HttpRequest request = request_with({{"authorization", "Bearer secret-1"}});
  ASSERT_TRUE(access.caller_of(request));

  access.replace({key("team", "secret-2")});

  EXPECT_FALSE(access.caller_of(request));
}

TEST(Access, without_keys_tells_callers_apart_by_what_they_send) {
  const Access access({});

  const auto one = access.caller_of(request_with({{"authorization", "Bearer a"}}));
  const auto other = access.caller_of(request_with({{"authorization", "Bearer b"}}));
  const auto nobody = access.caller_of(request_with({}));

  EXPECT_NE(one->client, other->client);
  EXPECT_EQ(nobody->client, "anonymous");
  EXPECT_TRUE(one->may_use_model("anything"));
}

TEST(Access, bounds_models_by_patterns) {
  KeySettings settings = key("team", "s");
  settings.models = {"gpt-*", "o4"};
  const Caller caller{.key = &settings};

  EXPECT_TRUE(caller.may_use_model("gpt-4.1"));
  EXPECT_TRUE(caller.may_use_model("o4"));
  EXPECT_FALSE(caller.may_use_model("o4-mini"));
}

TEST(Access, knows_the_operation_of_the_longest_path_that_fits) {
  EXPECT_EQ(op_of("/v1/messages"), "chat");
  EXPECT_EQ(op_of("/v1/messages/count_tokens"), "chat");
  EXPECT_EQ(op_of("/v1/messages/batches"), "batches");
  EXPECT_EQ(op_of("/v1/messages/batches/b-1/results"), "batches");
  EXPECT_EQ(op_of("/v1/messages-of-others"), "");
}

TEST(Access, tells_the_api_by_what_its_sdks_send) {
  EXPECT_EQ(&api_of(request_with({{"authorization", "Bearer x"}})), &kOpenai);
  EXPECT_EQ(&api_of(request_with({{"x-api-key", "x"}})), &kAnthropic);
  EXPECT_EQ(&api_of(request_with({{"authorization", "Bearer x"}, {"anthropic-version", "1"}})), &kAnthropic);
  EXPECT_EQ(&api_of(request_with({}, "/v1/messages")), &kAnthropic);
}

}  // namespace
}  // namespace lanemq::gateway
