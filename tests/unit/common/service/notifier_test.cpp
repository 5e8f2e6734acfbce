// SPDX-License-Identifier: Apache-2.0
#include "common/service/notifier.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace lanemq::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

using Variables = std::map<std::string, std::string>;

settings::Environment environment(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

/// The service manager's end of the socket.
class Manager {
 public:
  enum class Name : unsigned char { path, abstract };

  explicit Manager(Name name = Name::path) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    char folder[] = "/tmp/lanemq-service-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/notify";
    sockaddr_un here{.sun_family = AF_UNIX, .sun_path = {}};
    std::memcpy(here.sun_path, path_.data(), path_.size());
    if (name == Name::abstract) here.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&here), size), 0);
    address_ = name == Name::path ? path_ : "@" + path_.substr(1);
  }
  ~Manager() {
    close(socket_);
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  const std::string& address() const { return address_; }
  settings::Environment environment(Variables more = {}) const {
    more["NOTIFY_SOCKET"] = address_;
    return service::environment(std::move(more));
  }
  std::vector<std::string> heard() const {
    std::vector<std::string> messages;
    char bytes[4096];
    for (ssize_t size = 0; (size = recv(socket_, bytes, sizeof bytes, 0)) >= 0;)
      messages.emplace_back(bytes, static_cast<std::size_t>(size));
    return messages;
  }

 private:
  int socket_;
  std::string folder_, path_, address_;
};

TEST(Notifier, says_nothing_where_nobody_listens) {
  Notifier notifier(environment({{"WATCHDOG_USEC", "1000000"}}));

  EXPECT_FALSE(notifier.is_heard());
  EXPECT_FALSE(notifier.beat_every());
  EXPECT_FALSE(notifier.watchdog());
  notifier.ready("serves");
  notifier.beat(seconds(1), true, [] { return "never asked for"; });
  notifier.stopping(seconds(1), "stops");
}

TEST(Notifier, says_the_states_in_their_order) {
  const Manager manager;
  Notifier notifier(manager.environment());

  notifier.extend(seconds(2), "restores");
  notifier.ready("serves");
  notifier.reloading();
  notifier.reloaded();
  notifier.stopping(seconds(3), "stops");

  EXPECT_THAT(
      manager.heard(),
      ElementsAre("EXTEND_TIMEOUT_USEC=2000000\nSTATUS=restores\n", "READY=1\nSTATUS=serves\n",
                  MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+\nSTATUS=.*\n"), "READY=1\nSTATUS=serves\n",
                  "STOPPING=1\nEXTEND_TIMEOUT_USEC=3000000\nSTATUS=stops\n"));
}

TEST(Notifier, says_no_state_that_is_out_of_order) {
  const Manager manager;
  Notifier notifier(manager.environment());

  notifier.reloading();  // a SIGHUP that comes before all is ready
  notifier.reloaded();
  EXPECT_THAT(manager.heard(), IsEmpty());
  notifier.ready("serves");
  notifier.ready("serves");
  notifier.extend(seconds(1), "too late");
  EXPECT_THAT(manager.heard(), SizeIs(1));
  notifier.stopping(seconds(1), "stops");
  notifier.stopping(seconds(1), "stops");
  notifier.reloading();
  notifier.ready("serves");
  EXPECT_THAT(manager.heard(), SizeIs(1));
}

TEST(Notifier, finds_an_abstract_socket) {
  const Manager manager(Manager::Name::abstract);
  Notifier notifier(manager.environment());

  notifier.ready("serves");

  EXPECT_THAT(manager.heard(), ElementsAre("READY=1\nSTATUS=serves\n"));
}

TEST(Notifier, a_status_is_one_line_and_bounded) {
  const Manager manager;
  Notifier notifier(manager.environment());

  notifier.status("lane \"a\nREADY=1\"");
  notifier.status(std::string(5000, 'x'));

  const std::vector<std::string> heard = manager.heard();
  ASSERT_THAT(heard, SizeIs(2));
  EXPECT_EQ(heard[0], "STATUS=lane \"a\\x0aREADY=1\"\n");
  EXPECT_LE(heard[1].size(), Notifier::kStatusBytesMax + 16);
}

TEST(Notifier, feeds_the_watchdog_only_while_the_program_lives) {
  const Manager manager;
  Notifier notifier(manager.environment({{"WATCHDOG_USEC", "2000000"}}));
  const auto beat = [&](milliseconds now, bool lives) {
    notifier.beat(now, lives, [] { return "serves"; });
    return manager.heard();
  };

  EXPECT_EQ(notifier.watchdog(), seconds(2));
  EXPECT_EQ(notifier.beat_every(), milliseconds(500));
  EXPECT_THAT(beat(milliseconds(0), true), ElementsAre("WATCHDOG=1\n", "STATUS=serves\n"));
  EXPECT_THAT(beat(milliseconds(500), true), ElementsAre("WATCHDOG=1\n"));
  EXPECT_THAT(beat(milliseconds(1000), false), IsEmpty());
}

TEST(Notifier, a_status_is_said_once_a_second_and_when_it_has_changed) {
  const Manager manager;
  Notifier notifier(manager.environment());
  const auto beat = [&](milliseconds now, const char* text) {
    notifier.beat(now, true, [&] { return text; });
    return manager.heard();
  };

  EXPECT_EQ(notifier.beat_every(), Notifier::kStatusEvery);
  EXPECT_THAT(beat(milliseconds(0), "one"), ElementsAre("STATUS=one\n"));
  EXPECT_THAT(beat(milliseconds(999), "two"), IsEmpty());
  EXPECT_THAT(beat(milliseconds(1000), "two"), ElementsAre("STATUS=two\n"));
  EXPECT_THAT(beat(milliseconds(2000), "two"), IsEmpty());
}

TEST(Notifier, a_watchdog_of_another_process_or_without_a_number_is_none) {
  const Manager manager;
  const auto watchdog = [&](const Variables& variables) {
    return Notifier(manager.environment(variables)).watchdog();
  };

  EXPECT_EQ(watchdog({{"WATCHDOG_USEC", "5000000"}, {"WATCHDOG_PID", std::to_string(getpid())}}), seconds(5));
  EXPECT_FALSE(watchdog({{"WATCHDOG_USEC", "5000000"}, {"WATCHDOG_PID", "1"}}));
  EXPECT_FALSE(watchdog({{"WATCHDOG_USEC", "5000000"}, {"WATCHDOG_PID", "me"}}));
  for (const char* time : {"0", "-1", "5s", "99999999999999999999"})
    EXPECT_FALSE(watchdog({{"WATCHDOG_USEC", time}})) << time;
}

TEST(Notifier, goes_on_without_an_address_that_can_be_used) {
  for (const std::string& address : {std::string("relative"), std::string("@"), std::string("vsock:2:1"),
                                     "/" + std::string(200, 'x'), std::string("/nowhere/at/all")}) {
    Notifier notifier(environment({{"NOTIFY_SOCKET", address}}));
    notifier.ready("serves");
    notifier.stopping(seconds(1), "stops");
  }
}

TEST(Notifier, a_manager_that_reads_nothing_holds_nobody_up) {
  const Manager manager;
  Notifier notifier(manager.environment({{"WATCHDOG_USEC", "1000000"}}));

  const auto began = std::chrono::steady_clock::now();
  for (int beat = 0; beat < 5000; ++beat)
    notifier.beat(seconds(beat), true, [&] { return std::to_string(beat); });
  notifier.ready("serves");

  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(5));
  // It is told when it reads again.
  EXPECT_THAT(manager.heard(), Not(Contains(StartsWith("READY=1"))));
  notifier.beat(seconds(5000), true, [] { return "serves"; });
  EXPECT_THAT(manager.heard(), ElementsAre("READY=1\nSTATUS=serves\n", "WATCHDOG=1\n"));
}

}  // namespace
}  // namespace lanemq::service
