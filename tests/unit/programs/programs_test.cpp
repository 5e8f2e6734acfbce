// SPDX-License-Identifier: Apache-2.0
// Broker and worker as parts of one process, which lends them what it has once.
#include <chrono>
#include <exception>
#include <future>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include <lanemq/client.hpp>

#include "broker/program/program.hpp"
#include "broker/program/refused.hpp"
#include "client/gateway/program/program.hpp"
#include "common/service/host.hpp"
#include "worker/program/program.hpp"

namespace lanemq {
namespace {

using program::BrokerProgram;
using service::Command;
using service::GivenCommands;
using testing::HasSubstr;
using testing::StartsWith;
using worker::WorkerProgram;

Config small_broker() {
  Config config;
  config.store = "memory";
  config.server.clients = config.server.workers = "tcp://127.0.0.1:*";
  config.server.admin = "tcp://127.0.0.1:*";  // not the one of this user
  config.core.drain_timeout = std::chrono::seconds(5);
  return config;
}

worker::Settings small_worker(const std::string& broker) {
  worker::Settings settings;
  settings.worker.broker = broker;
  settings.services = {{.name = "echo", .handler = "echo"}};
  return settings;
}

/// A program that runs on a thread of its own until it is told to stop.
template <class Program>
class Running {
 public:
  Running(Program& program, GivenCommands& commands)
      : commands_(commands),
        exit_code_(std::async(std::launch::async, [&program] { return program.run(); })) {}

  int stop() {
    commands_.give(Command::stop);
    return exit_code_.get();
  }

 private:
  GivenCommands& commands_;
  std::future<int> exit_code_;
};

TEST(Programs, a_broker_and_a_worker_serve_in_one_process) {
  service::Notifier notifier;
  GivenCommands broker_commands, worker_commands;
  BrokerProgram broker(small_broker(), [] { return small_broker(); });
  broker.prepare();
  const auto at = broker.start({broker_commands, notifier});
  ASSERT_TRUE(at);
  EXPECT_THAT(at->clients, StartsWith("tcp://127.0.0.1:"));
  Running broker_runs(broker, broker_commands);

  std::promise<std::string> welcomed;
  WorkerProgram worker(small_worker(at->workers));
  worker.prepare();
  worker.start({worker_commands, notifier},
               {.ready = [&welcomed](const WorkerProgram::Ready& ready) { welcomed.set_value(ready.name); },
                .stop_without_worker = [] { FAIL() << "there is a worker"; }});
  Running worker_runs(worker, worker_commands);
  EXPECT_FALSE(welcomed.get_future().get().empty());
  {
    Client client(ClientOptions{.endpoint = at->clients});
    const Answer answer = client.submit({.service = "echo"}, std::string("hello")).get();
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body.bytes(), "hello");
  }
  EXPECT_EQ(worker_runs.stop(), 0);
  EXPECT_EQ(broker_runs.stop(), 0);
}

TEST(Programs, a_gateway_serves_beside_its_broker_until_it_is_told_to_stop) {
  service::Notifier notifier;
  GivenCommands broker_commands, gateway_commands;
  BrokerProgram broker(small_broker(), [] { return small_broker(); });
  broker.prepare();
  const auto at = broker.start({broker_commands, notifier});
  ASSERT_TRUE(at);
  Running broker_runs(broker, broker_commands);

  gateway::Settings settings;
  settings.broker = at->clients;
  settings.server.address = "127.0.0.1";
  settings.server.port = 0;
  settings.drain_delay = std::chrono::milliseconds(0);
  gateway::GatewayProgram gateway(settings, [&settings] { return settings; });
  EXPECT_THAT(gateway.start({gateway_commands, notifier}), StartsWith("http://127.0.0.1:"));
  gateway_commands.give(Command::reload);
  gateway_commands.give(Command::stop);
  gateway.run();
  EXPECT_EQ(broker_runs.stop(), 0);
}

TEST(Programs, a_broker_that_is_told_to_reload_reads_its_configuration_again) {
  service::Notifier notifier;
  GivenCommands commands;
  std::promise<void> read;
  BrokerProgram broker(small_broker(), [&read] {
    read.set_value();
    return small_broker();
  });
  broker.prepare();
  ASSERT_TRUE(broker.start({commands, notifier}));
  Running runs(broker, commands);
  commands.give(Command::reload);
  read.get_future().get();
  EXPECT_EQ(runs.stop(), 0);
}

TEST(Programs, a_broker_whose_configuration_is_wrong_says_so_before_it_starts) {
  Config config = small_broker();
  config.server.workers = config.server.clients = "tcp://127.0.0.1:5999";
  BrokerProgram broker(config, [] { return small_broker(); });
  testing::internal::CaptureStderr();
  int exit_code = 0;
  try {
    broker.prepare();
  } catch (...) {
    exit_code = program::refused(std::current_exception());
  }
  EXPECT_EQ(exit_code, 2);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("each needs one of its own"));
}

TEST(Programs, a_worker_that_is_told_to_stop_before_it_serves_says_that_nobody_obeys) {
  service::Notifier notifier;
  GivenCommands commands;
  std::promise<void> told;
  WorkerProgram worker(small_worker("tcp://127.0.0.1:1"));
  worker.prepare();
  worker.start({commands, notifier}, {.ready = [](const WorkerProgram::Ready&) {},
                                      .stop_without_worker = [&told] { told.set_value(); }});
  commands.give(Command::stop);
  told.get_future().get();
}

}  // namespace
}  // namespace lanemq
