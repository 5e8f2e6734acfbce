// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/access/browsers.hpp"

#include <gtest/gtest.h>

namespace lanemq::http {
namespace {

std::string why_not(const std::string& authority, Headers headers = {},
                    const std::string& path = "/v1/jobs") {
  HttpRequest head{.method = "POST", .path = path, .headers = std::move(headers), .authority = authority};
  const std::vector<std::string> hosts{"Good.example", "*.intern"};
  const auto error = why_not_without_keys(
      head, {.name = "server", .cure = "add keys", .hosts = hosts, .uploads = "/v1/files"});
  return error ? error->param : "";
}

TEST(WithoutKeys, names_of_this_machine_addresses_and_hosts_are_answered_to) {
  for (const char* host : {"", "localhost", "LOCALHOST:8080", "a.localhost", "127.0.0.1:80", "[::1]:8080",
                           "192.168.1.5", "good.example:1", "a.intern"})
    EXPECT_EQ(why_not(host), "") << host;
  for (const char* host :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "1e100"})
    EXPECT_EQ(why_not(host), "host") << host;
}

TEST(WithoutKeys, pages_of_other_origins_are_not_served) {
  EXPECT_EQ(why_not("localhost:8080", {{"origin", "http://localhost:8080"}}), "");
  EXPECT_EQ(why_not("localhost:8080", {{"origin", "https://app.intern"}, {"sec-fetch-site", "cross-site"}}),
            "");
  for (const char* origin : {"http://evil.example", "null", "http://localhost:3000", ""})
    EXPECT_EQ(why_not("localhost:8080", {{"origin", origin}}), "origin") << origin;
  for (const char* site : {"cross-site", "same-site"})
    EXPECT_EQ(why_not("localhost", {{"sec-fetch-site", site}}), "sec-fetch-site");
  for (const char* site : {"same-origin", "none"})
    EXPECT_EQ(why_not("localhost", {{"sec-fetch-site", site}}), "");
}

TEST(WithoutKeys, what_a_form_sends_is_no_json) {
  EXPECT_EQ(why_not("localhost", {{"content-type", "text/plain;charset=UTF-8"}}), "content-type");
  EXPECT_EQ(why_not("localhost", {{"content-type", "Multipart/form-data; boundary=X"}}), "content-type");
  EXPECT_EQ(why_not("localhost", {{"content-type", "multipart/form-data; boundary=X"}}, "/v1/files"), "");
  for (const char* form : {"text/plain", "TEXT/Plain ; x", "application/x-www-form-urlencoded;charset=UTF-8",
                           "multipart/form-data"})
    EXPECT_EQ(why_not("localhost", {{"content-type", form}}), "content-type") << form;
  EXPECT_EQ(why_not("localhost", {{"content-type", "text/plain"}}, "/v1/files"), "content-type");
  for (const char* other : {"application/json", "application/json; charset=utf-8", "text/json", ""})
    EXPECT_EQ(why_not("localhost", {{"content-type", other}}), "") << other;
  EXPECT_EQ(why_not("localhost", {}), "");
}

}  // namespace
}  // namespace lanemq::http
