// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include <lanemq/notify_url.hpp>

namespace lanemq {
namespace {

TEST(NotifyUrl, is_read_as_one_receiver) {
  const struct {
    const char *url, *receiver;
  } table[] = {
      {"http://h", "h:80"},
      {"https://Example.COM/a?b=c#d", "example.com:443"},
      {"https://example.com:8443", "example.com:8443"},
      {"https://example.com?x=/@:", "example.com:443"},
      {"http://10.1.2.3:80/%41%2f", "10.1.2.3:80"},
      {"http://[::1]/", "[::1]:80"},
      {"http://[0:0::1]:8080/", "[::1]:8080"},
      {"http://[FD12::7]#x", "[fd12::7]:80"},
      {"http://my_host.1a.example/", "my_host.1a.example:80"},
      {"http://xn--bcher-kva.example/", "xn--bcher-kva.example:80"},
      {"http://h:65535/\"<>{}|^`'", "h:65535"},
  };
  for (const auto& row : table) {
    EXPECT_EQ(notify_problem(row.url), "") << row.url;
    EXPECT_EQ(receiver_of(row.url), row.receiver) << row.url;
  }
}

TEST(NotifyUrl, that_somebody_may_read_in_another_way_is_refused) {
  const std::string label(63, 'a');
  for (const std::string& bad : {
           std::string(),
           std::string("h"),
           std::string("example.com/hook"),
           std::string("ftp://h"),
           std::string("HTTP://h"),
           std::string("file:///etc/passwd"),
           std::string("javascript:alert(1)"),
           std::string("http://"),
           std::string("http:///path"),
           std::string("https://?x"),
           std::string("http://#x"),
           std::string("http://h /"),
           std::string("http://h\n"),
           std::string("http://h/\r\nx: y"),
           std::string("http://h/\0x", 11),
           std::string("http://\xc3\xa4"),
           std::string("http://h/\x7f"),
           std::string("http://h\\@evil/"),
           std::string("http://h/\\x"),
           // credentials
           std::string("http://user:word@h/"),
           std::string("http://user@h"),
           std::string("http://@h/"),
           // ports
           std::string("http://:80/"),
           std::string("http://h:"),
           std::string("http://h:/"),
           std::string("http://h:0"),
           std::string("http://h:080/"),
           std::string("http://h:65536"),
           std::string("http://h:99999999999999999999"),
           std::string("http://h:-1"),
           std::string("http://h:8x"),
           std::string("http://h:80:80/"),
           // addresses
           std::string("http://010.1.2.3/"),
           std::string("http://1.2.3/"),
           std::string("http://1.2.3.4.5/"),
           std::string("http://256.1.1.1/"),
           std::string("http://2130706433/"),
           std::string("http://0x7f.1/"),
           std::string("http://0x7f000001/"),
           std::string("http://1.2.3.4./"),
           std::string("http://h.0x/"),
           std::string("http://[fe80::1%25eth0]/"),
           std::string("http://[fe80::1%eth0]/"),
           std::string("http://[::1"),
           std::string("http://[]/"),
           std::string("http://[::1]x/"),
           std::string("http://[1.2.3.4]/"),
           std::string("http://::1/"),
           std::string("http://a[::1]/"),
           // names
           std::string("http://.h/"),
           std::string("http://h./"),
           std::string("http://a..b/"),
           std::string("http://%68/"),
           std::string("http://h,i/"),
           std::string("http://h;i/"),
           "http://" + label + "a/",
           "http://" + label + '.' + label + '.' + label + '.' + label + "/",
           // escapes
           std::string("http://h/%"),
           std::string("http://h/%4"),
           std::string("http://h/%zz"),
           std::string("http://h/?a=%g0"),
       })
    EXPECT_NE(notify_problem(bad), "") << bad;
}

}  // namespace
}  // namespace lanemq
