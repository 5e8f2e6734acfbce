// SPDX-License-Identifier: Apache-2.0
#include "common/url/http_url.hpp"

#include <gtest/gtest.h>

namespace lanemq {
namespace {

TEST(HttpUrl, has_a_host_and_no_credentials) {
  for (const char* good : {"http://a", "https://a.example/v1?x=y", "http://[::1]:80"})
    EXPECT_EQ(http_url_problem(good), "") << good;
  for (const char* bad : {"", "a", "a:80", "ftp://a", "http://", "http://u@a", "http://u:p@a", "http:// a",
                          "http://0x%%7f.1/", "http://a\"b"})
    EXPECT_NE(http_url_problem(bad), "") << bad;
}

TEST(HttpUrl, has_the_parts_that_a_call_goes_by) {
  struct Row {
    const char *url, *scheme, *host;
    int port;
    const char* target;
  };
  for (const Row& row :
       {Row{"https://A.Example/v1?x=%20#part", "https", "a.example", 443, "/v1?x=%20"},
        Row{"http://a", "http", "a", 80, "/"}, Row{"HTTP://a:8080?q", "http", "a", 8080, "/?q"},
        Row{"http://[0:0::1]:80/a", "http", "[::1]", 80, "/a"},
        Row{"http://0x7f.1/", "http", "127.0.0.1", 80, "/"}}) {
    const HttpUrlParts parts = parts_of_url(row.url);
    EXPECT_EQ(parts.scheme, row.scheme);
    EXPECT_EQ(parts.host, row.host);
    EXPECT_EQ(parts.port, row.port);
    EXPECT_EQ(parts.target, row.target);
  }
}

TEST(HttpUrl, of_ones_own_network) {
  for (const char* own :
       {"http://127.0.0.1:8000/v1", "http://127.9.9.9", "http://10.0.0.1", "http://172.16.0.1",
        "http://172.31.255.255", "http://192.168.1.1", "http://169.254.1.1", "http://[::1]:8000",
        "http://[fd00::1]", "http://[fe80::1]", "http://localhost:8000", "http://vllm:8000/v1", "http://VLLM",
        "https://gpu.internal", "http://a.b.local", "http://box.lan", "http://x.home.arpa",
        "http://a.local."})
    EXPECT_TRUE(is_own_host(own)) << own;
}

TEST(HttpUrl, of_strangers) {
  for (const char* strange :
       {"https://api.openai.com/v1", "https://api.anthropic.com", "http://8.8.8.8", "http://172.32.0.1",
        "http://172.15.0.1", "http://11.0.0.1", "http://192.169.0.1", "http://[2001:db8::1]",
        "http://[::ffff:8.8.8.8]", "http://127.0.0.1.example.com", "http://10.example.com",
        "http://internal.example.com", "http://notlocal.example", "http://localhost.example"})
    EXPECT_FALSE(is_own_host(strange)) << strange;
}

TEST(GoesInClear, is_http_to_another_machine) {
  for (const char* url : {"http://192.0.2.1/v1", "http://api.example", "http://localhost.example:80/",
                          "http://[2001:db8::1]/v1", "HTTP://api.example/127.0.0.1",
                          "http://api.example?localhost", "http://127.evil.example/v1",
                          "http://127.0.0.1.evil.example", "http://collector:4318", "http://0.0.0.0"})
    EXPECT_TRUE(goes_in_clear(url)) << url;
  for (const char* url : {"https://api.example/v1", "http://127.0.0.1:8000/v1", "http://localhost/v1",
                          "http://a.localhost:1", "http://[::1]:8000/v1", "http://127.8.8.8", "http://0x7f.1",
                          "http://LOCALHOST", "http://[0:0::0:1]/"})
    EXPECT_FALSE(goes_in_clear(url)) << url;
}

}  // namespace
}  // namespace lanemq
