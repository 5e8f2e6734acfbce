// SPDX-License-Identifier: Apache-2.0
#include "common/settings/folders.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/temporary_directory.hpp"
#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq::settings {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Folders, of_the_user_are_where_the_xdg_specification_has_them) {
  const Variables named{{"XDG_STATE_HOME", "/x"}, {"HOME", "/h"}};
  EXPECT_EQ(user_state_folder(environment(named)), "/x");
  const Variables relative{{"XDG_STATE_HOME", "x"}, {"HOME", "/h"}};
  EXPECT_EQ(user_state_folder(environment(relative)), "/h/.local/state");
  const Variables service{{"STATE_DIRECTORY", "/a:/b"}};
  EXPECT_EQ(service_state_folder(environment(service)), "/a");
}

TEST(OperatorSockets, of_a_service_are_in_its_folder_alone) {
  const Variables service{
      {"RUNTIME_DIRECTORY", "/run/lanemq:/run/b"}, {"XDG_RUNTIME_DIR", "/run/user/7"}, {"HOME", "/h"}};
  EXPECT_THAT(operator_sockets(environment(service)), ElementsAre("/run/lanemq/admin.sock"));
}

TEST(OperatorSockets, of_a_user_are_in_the_runtime_folder_then_the_state_folder) {
  const Variables user{{"XDG_RUNTIME_DIR", "/run/user/7"}, {"HOME", "/h"}};
  EXPECT_THAT(operator_sockets(environment(user)),
              ElementsAre("/run/user/7/lanemq/admin.sock", "/h/.local/state/lanemq/admin.sock"));
  const Variables relative{{"XDG_RUNTIME_DIR", "run"}, {"HOME", "/h"}};
  EXPECT_THAT(operator_sockets(environment(relative)), ElementsAre("/h/.local/state/lanemq/admin.sock"));
}

TEST(OperatorSockets, have_paths_that_a_socket_can_have) {
  const Variables longer{{"HOME", "/" + std::string(110, 'h')}};
  EXPECT_THAT(operator_sockets(environment(longer)), IsEmpty());
  EXPECT_EQ(own_operator_socket(environment(longer)), "");
}

TEST(OperatorSockets, a_broker_takes_the_first_whose_folder_can_be_made) {
  const test::TemporaryDirectory folder;
  std::ofstream(folder.path("file")) << "no folder";
  const Variables gone{{"XDG_RUNTIME_DIR", folder.path("file")}, {"XDG_STATE_HOME", folder.path("state")}};
  const std::string file = own_operator_socket(environment(gone));

  EXPECT_EQ(file, folder.path("state/lanemq/admin.sock"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("state"))) << "asking makes nothing";
  EXPECT_EQ(make_folder_of(file), std::nullopt);
  struct stat made {};
  ASSERT_EQ(::stat(folder.path("state/lanemq").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700U) << "for the user alone";
}

TEST(OperatorSockets, stand_in_no_folder_that_others_may_write_to) {
  const test::TemporaryDirectory folder;
  const Variables user{{"XDG_STATE_HOME", folder.path("")}};
  ASSERT_EQ(::mkdir(folder.path("lanemq").c_str(), 0700), 0);
  EXPECT_NE(own_operator_socket(environment(user)), "");
  ASSERT_EQ(::chmod(folder.path("lanemq").c_str(), 0777), 0);
  EXPECT_EQ(own_operator_socket(environment(user)), "");
}

TEST(OperatorSockets, one_at_which_nobody_listens_is_known) {
  const test::TemporaryDirectory folder;
  const std::string file = folder.path("admin.sock");
  EXPECT_FALSE(listens_at(file));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  file.copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(socket, 1), 0);
  EXPECT_TRUE(listens_at(file));
  ::close(socket);
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_FALSE(listens_at(file)) << "a broker that was killed leaves its file";
}

}  // namespace
}  // namespace lanemq::settings
