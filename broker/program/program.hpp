// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "broker/config.hpp"
#include "broker/io/loop/server.hpp"
#include "broker/io/store/open/instance_lock.hpp"
#include "broker/program/broker_http.hpp"
#include "common/service/host.hpp"

namespace lanemq::program {

/// A broker within a process, which lends it what a process has once. It is told to stop by the host's
/// commands. Its calls are made in the order of their declarations, from one thread; each throws ConfigError,
/// io::BindError, io::StoreError or another std::exception, after which nothing but the destructor is called.
class BrokerProgram {
 public:
  /// Where it serves; empty: not at all.
  struct Endpoints {
    std::string clients, workers, admin, http;
  };

  /// `read_again`: the configuration as it is now.
  BrokerProgram(Config config, std::function<Config()> read_again)
      : config_(std::move(config)), read_again_(std::move(read_again)) {}
  ~BrokerProgram() { http_.end(); }
  BrokerProgram(const BrokerProgram&) = delete;
  BrokerProgram& operator=(const BrokerProgram&) = delete;

  /// Tries what can be tried, reads secrets and takes them out of the environment. Requires: the process has
  /// one thread.
  void prepare();
  /// Waits for the store where another broker owns it, loads it, and serves from then on, in run(). None: it
  /// was told to stop before.
  std::optional<Endpoints> start(service::Host host);
  /// Serves until it is told to stop. Returns the exit code.
  int run() { return server_->run(); }

 private:
  Result<io::Reloaded> reload(const core::Options& now, const io::Objection& objection, io::ReloadMode mode);
  std::unique_ptr<io::Store> open_store(service::Host host);

  Config config_;
  const std::function<Config()> read_again_;
  io::StoreOptions store_;
  std::optional<io::InstanceLock> lock_;  ///< none: the store has no owners
  BrokerHttp http_;
  std::unique_ptr<io::Server> server_;
};

}  // namespace lanemq::program
