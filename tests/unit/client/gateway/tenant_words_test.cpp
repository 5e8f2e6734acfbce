// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/calls/tenant_words.hpp"

#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ClientError upstreams_error(std::string code, int status) {
  return {.code = std::move(code),
          .message = "key sk-***WXYZ of org-OPERATOR: used 29000 of 30000",
          .limiter = "budget operators-name tokens_per_minute",
          .upstream_status = status,
          .body = Blob::borrow(R"({"error":{"message":"org-OPERATOR"}})")};
}

ClientError error_of_a_request(int status) {
  return {.code = "upstream_rejected",
          .message = "max_tokens is too large: used 29000",
          .upstream_status = status,
          .body = Blob::borrow(R"({"error":{"message":"max_tokens is too large"}})")};
}

TEST(TenantWords, say_nothing_of_the_operators_account) {
  struct Case {
    const char* code;
    int status;
  };
  for (const auto& [code, status] :
       {Case{"upstream_quota", 401}, Case{"upstream_quota", 429}, Case{"limited", 429},
        Case{"upstream_failed", 429}, Case{"upstream_rejected", 401}, Case{"upstream_rejected", 402},
        Case{"upstream_rejected", 403}}) {
    SCOPED_TRACE(code);

    const ClientError told = for_tenant(upstreams_error(code, status));

    EXPECT_THAT(told.message, AllOf(Not(HasSubstr("org-")), Not(HasSubstr("29000")), HasSubstr("operator")));
    EXPECT_TRUE(told.body.empty());
    EXPECT_EQ(told.limiter, "budget");
    EXPECT_EQ(told.code, code);
    EXPECT_EQ(told.upstream_status, status);
  }
}

TEST(TenantWords, say_nothing_of_money_under_any_status) {
  for (const auto& [status, said] :
       {std::pair(400, R"({"error":{"message":"Your credit balance is too low to access the API"}})"),
        std::pair(500, R"({"error":{"code":"insufficient_quota","message":"see plan and BILLING"}})"),
        std::pair(404, R"({"error":{"message":"The model is not there for Your Organization"}})"),
        std::pair(400, R"({"error":"Incorrect API key provided: xa***xx"})"),
        std::pair(404, R"({"error":{"message":"Project `proj_1` does not have access to model"}})"),
        std::pair(402, "{\"error\":{\"code\":\"1113\",\"message\":\"\u4f59\u989d\"}}")}) {
    const ClientError told = for_tenant(ClientError{
        .code = "upstream_rejected", .message = "no", .upstream_status = status, .body = Blob::borrow(said)});
    EXPECT_TRUE(told.body.empty()) << said;
    EXPECT_THAT(told.message, HasSubstr("operator")) << said;
  }
}

TEST(TenantWords, pass_on_what_is_about_the_request) {
  for (const int status : {400, 404, 413, 422, 500, 503}) {
    const ClientError told = for_tenant(error_of_a_request(status));

    EXPECT_THAT(told.message, HasSubstr("used 29000")) << status;
    EXPECT_FALSE(told.body.empty()) << status;
  }
  EXPECT_THAT(for_tenant(ClientError{.code = "unsatisfiable", .message = "budget operators-name"}).message,
              AllOf(Not(HasSubstr("operators-name")), HasSubstr("max_tokens")));
  EXPECT_EQ(for_tenant(ClientError{.code = "lane_full", .limiter = "lane batch"}).limiter, "lane batch");
}

TEST(TenantWords, of_a_state_hide_the_names_of_budgets_and_what_the_upstream_said) {
  const JobStatus told = for_tenant(JobStatus{
      .state = "failed",
      .blocked_by = "budget operators-name tokens_per_minute",
      .error_json =
          R"({"code":"upstream_quota","message":"org-OPERATOR","upstream_status":401,"limiter":"budget x"})"});

  EXPECT_EQ(told.blocked_by, "budget");
  EXPECT_EQ(told.error_json,
            R"({"code":"upstream_quota","message":"its operator's logs say more","upstream_status":401})");
  EXPECT_EQ(for_tenant(JobStatus{.blocked_by = "worker ask"}).blocked_by, "worker ask");
  EXPECT_EQ(for_tenant(JobStatus{.error_json = "7"}).error_json, "7");
  EXPECT_THAT(
      for_tenant(JobStatus{.error_json = R"({"code":"unsatisfiable","message":"budget operators-name"})"})
          .error_json,
      AllOf(Not(HasSubstr("operators-name")), HasSubstr("max_tokens")));
}

TEST(TenantWords, are_for_callers_with_keys_alone) {
  Settings settings;
  const FetchAnswer failed(upstreams_error("limited", 429));
  const FetchAnswer waits(std::variant<JobDone, JobStatus>(JobStatus{.blocked_by = "budget a b"}));

  settings.auth = Auth::none;
  EXPECT_FALSE(retold(settings, failed));
  EXPECT_FALSE(retold(settings, waits));
  settings.auth = Auth::keys;
  EXPECT_THAT(retold(settings, failed)->error().message, HasSubstr("operator's logs"));
  EXPECT_EQ(std::get<JobStatus>(**retold(settings, waits)).blocked_by, "budget");
  EXPECT_FALSE(retold(settings, FetchAnswer(std::variant<JobDone, JobStatus>(JobDone{}))));
  EXPECT_EQ((**retold(settings, Reply<JobStatus>(JobStatus{.blocked_by = "budget a b"}))).blocked_by,
            "budget");
}

}  // namespace
}  // namespace lanemq::gateway
