// SPDX-License-Identifier: Apache-2.0
#include "common/settings/start_check.hpp"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lanemq/endpoints.hpp>

#include "common/settings/usage_error.hpp"
#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq::settings {
namespace {

std::string complaint_of(const std::string& endpoint, Port port = Port::named) {
  try {
    check_endpoint(endpoint, port);
    return {};
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(StartCheck, knows_lists_of_endpoints) {
  EXPECT_NO_THROW(check_endpoints("tcp://a:5570"));
  EXPECT_NO_THROW(check_endpoints("tcp://a:5570,ipc:///run/b"));
  EXPECT_THROW(check_endpoints("tcp://a:5570,"), UsageError);
  EXPECT_NO_THROW(check_endpoints("tcp://a:5570, tcp://b:5570"));
  EXPECT_THROW(check_endpoints("tcp://a:5570, "), UsageError);
  std::string many = "tcp://a:1";
  for (std::size_t i = 1; i < Endpoints::kEndpointsMax; ++i)
    many += ",tcp://a:1";
  EXPECT_NO_THROW(check_endpoints(many));
  EXPECT_THROW(check_endpoints(many + ",tcp://a:1"), UsageError);
}

TEST(StartCheck, knows_endpoints) {
  for (const char* good :
       {"tcp://127.0.0.1:5570", "tcp://[::1]:1", "tcp://broker.example:65535", "ipc:///run/a"})
    EXPECT_EQ(complaint_of(good), "") << good;
  for (const char* bad :
       {"", "nonsense", "smoke://a:1", "tcp://", "tcp://a", "tcp://:1", "tcp://a:0", "tcp://a:*",
        "tcp://a:65536", "tcp://a:80x", "tcp://a b:1", "ipc://", "ipc://@abstract"})
    EXPECT_NE(complaint_of(bad), "") << bad;
  EXPECT_EQ(complaint_of("tcp://*:*", Port::any), "");
  EXPECT_EQ(complaint_of("tcp://127.0.0.1:0", Port::any), "");
  EXPECT_NE(complaint_of("ipc:///" + std::string(107, 'a')), "");
  EXPECT_EQ(
      complaint_of("tcp://127.0.0.1:99999", Port::any),
      "endpoint tcp://127.0.0.1:99999 names no port; it ends in :PORT, 1 to 65535, or in :* for a free one");
}

TEST(StartCheck, a_port_that_is_taken_is_no_reason_and_an_address_of_others_is) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);

  EXPECT_FALSE(why_not_listen("127.0.0.1", ntohs(address.sin_port)));
  EXPECT_FALSE(why_not_listen("127.0.0.1", 0));
  EXPECT_TRUE(why_not_listen("192.0.2.1", 0)) << "of a documentation network";
  EXPECT_TRUE(why_not_listen("localhost", 0)) << "no number";
  close(fd);
}

TEST(StartCheck, a_folder_that_can_be_made_is_fine_and_is_not_made) {
  const File file("x");
  const std::string folder = testing::TempDir() + "lanemq-none/of/these";

  EXPECT_FALSE(why_not_folder(folder));
  EXPECT_FALSE(std::filesystem::exists(testing::TempDir() + "lanemq-none"));
  EXPECT_TRUE(why_not_folder(file.path()));
  EXPECT_TRUE(why_not_folder(std::string(file.path()) + "/below"));
}

}  // namespace
}  // namespace lanemq::settings
