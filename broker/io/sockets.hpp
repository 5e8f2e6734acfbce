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

/// The broker's ROUTER sockets, and what tells that a peer has gone. Not thread-safe; belongs to the loop.
struct Sockets {
  /// Binds them. Throws BindError; the operators' only where
  /// `admin_required`, else its lack is logged.
  Sockets(const ServerOptions& options, const core::Options& core);

  /// Leaves what is queued this long to go out once they are closed.
  void set_linger(std::chrono::milliseconds time);

  zmq::context_t context;
  Router clients, workers;
  std::optional<Router> admin;
  Disconnects client_disconnects, worker_disconnects;
  Processes worker_processes;
};

}  // namespace lanemq::io
