// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <zmq.hpp>

#include "broker/core/base/options.hpp"
#include "broker/io/disconnects.hpp"
#include "broker/io/options.hpp"
#include "broker/io/processes.hpp"
#include "broker/io/router.hpp"

namespace lanemq::io {

/// The broker's ROUTER sockets, and what reports peers that are gone. Not thread-safe; belongs to the loop.
struct Sockets {
  /// Binds the sockets. Throws BindError; for the operators' socket only where `admin_required`, else it logs
  /// that.
  Sockets(const ServerOptions& options, const core::Options& core);

  /// How long queued messages may still leave after the sockets are closed.
  void set_linger(std::chrono::milliseconds time);

  zmq::context_t context;
  Router clients, workers;
  std::optional<Router> admin;
  Disconnects client_disconnects, worker_disconnects;
  Processes worker_processes;
};

}  // namespace lanemq::io
