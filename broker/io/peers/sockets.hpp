// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include <zmq.hpp>

#include "broker/core/base/options.hpp"
#include "broker/io/base/options.hpp"
#include "broker/io/peers/authorizer.hpp"
#include "broker/io/peers/connections.hpp"
#include "broker/io/peers/key_ring.hpp"
#include "broker/io/peers/processes.hpp"
#include "broker/io/peers/router.hpp"
#include "broker/io/peers/zap_handler.hpp"

namespace lanemq::io {

/// The broker's ROUTER sockets, and what reports peers that are gone. Not thread-safe; belongs to the loop.
struct Sockets {
  /// Binds the sockets. Throws BindError; for the operators' socket only where `admin_required`, else it logs
  /// that.
  Sockets(const ServerOptions& options, const core::Options& core);

  /// How long queued messages may still leave after the sockets are closed.
  void set_linger(std::chrono::milliseconds time);

  zmq::context_t context;
  KeyRing keys;
  bool asks_for_keys;
  ZapHandler door_check;  ///< before the sockets, which nobody could open without
  Authorizer authorizer;
  Router clients, workers;
  std::optional<Router> admin;
  Connections client_connections, worker_connections;
  std::optional<Connections> admin_connections;
  Processes worker_processes;
};

}  // namespace lanemq::io
