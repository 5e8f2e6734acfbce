// SPDX-License-Identifier: Apache-2.0
#include "common/service/commands.hpp"

#include <csignal>

#include <gmock/gmock.h>
#include <poll.h>

namespace lanemq::service {
namespace {

bool is_readable(const Commands& commands) {
  pollfd looked_at{.fd = commands.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&looked_at, 1, 0) > 0;
}

TEST(Commands, given_ones_come_in_their_order_while_the_descriptor_is_readable) {
  GivenCommands commands;
  EXPECT_FALSE(is_readable(commands));
  EXPECT_EQ(commands.next(), std::nullopt);
  commands.give(Command::reload);
  commands.give(Command::stop);
  EXPECT_TRUE(is_readable(commands));
  EXPECT_EQ(commands.next(), Command::reload);
  EXPECT_TRUE(is_readable(commands));
  EXPECT_EQ(commands.next(), Command::stop);
  EXPECT_FALSE(is_readable(commands));
  EXPECT_EQ(commands.next(), std::nullopt);
}

TEST(Commands, signals_are_commands_and_the_last_one_is_known) {
  SignalCommands commands;
  EXPECT_EQ(commands.last(), 0);
  for (const auto& [signal, command] :
       {std::pair{SIGHUP, Command::reload}, {SIGTERM, Command::stop}, {SIGINT, Command::stop}}) {
    ::raise(signal);
    EXPECT_TRUE(is_readable(commands));
    EXPECT_EQ(commands.next(), command);
    EXPECT_EQ(commands.last(), signal);
    EXPECT_FALSE(is_readable(commands));
  }
}

}  // namespace
}  // namespace lanemq::service
