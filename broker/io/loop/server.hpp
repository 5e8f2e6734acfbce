// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "broker/core/base/options.hpp"
#include "broker/io/bank/bank_rows.hpp"
#include "broker/io/base/options.hpp"
#include "broker/io/desks/config_desk.hpp"
#include "broker/io/desks/reload_desk.hpp"
#include "broker/io/store/store.hpp"
#include "common/service/host.hpp"

namespace zmq {
class context_t;
}

namespace lanemq::io {

/// Server::run() returns this when the store has failed (sysexits(3), EX_IOERR).
inline constexpr int kExitStoreFailed = 74;
/// Its exit code after another broker has taken the store over, or is to take it (sysexits(3), EX_TEMPFAIL):
/// started again, this one waits.
inline constexpr int kExitDeposed = 75;

/// The store's content cannot be restored.
struct StoreError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Another broker took the store over while it was read, or its database went away: started again, this one
/// waits for it, or reads it anew.
struct StoreDeposed : StoreError {
  using StoreError::StoreError;
};

/// The program's knowledge of its configuration, which the loop lacks.
struct Configuration {
  Reload reload;                     ///< reads it again
  core::OptionEditor edit;           ///< changes one option, by the file's rules
  ShowConfig show;                   ///< all options
  std::unique_ptr<BankRows> bank{};  ///< where the banks of shared budgets are; null: none are
};

class Loop;

/// A broker that serves: sockets, store and the loop between them. Not thread-safe: one thread owns
/// everything here.
class Server {
 public:
  /// Binds the sockets and brings back what the store has. Throws BindError when an endpoint cannot be bound,
  /// StoreError when the store cannot be read.
  Server(const ServerOptions& options, const core::Options& core_options, std::unique_ptr<Store> store,
         service::Host host, Configuration configuration, std::uint64_t seed);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string clients_endpoint() const;
  std::string workers_endpoint() const;
  /// Empty: there is none.
  std::string admin_endpoint() const;

  /// For threads that speak to it from this process.
  zmq::context_t& context();

  /// Tells the service manager that all is ready, then runs until it is told to stop and the drain is over.
  /// Returns the program's exit code.
  int run();

 private:
  std::unique_ptr<Loop> loop_;
};

}  // namespace lanemq::io
