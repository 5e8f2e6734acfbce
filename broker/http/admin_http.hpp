// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <zmq.hpp>

#include "broker/http/access/options.hpp"
#include "common/http/server/base/tls.hpp"

namespace lanemq::admin {

/// The settings that may change while it serves.
struct HttpChange {
  std::vector<HttpKey> keys{};
  std::shared_ptr<const http::TlsIdentity> identity{};  ///< null: no TLS
};

/// The broker's HTTP for operators, metrics and probes, on a thread of its own.
///
/// The thread is an operator like any other: it says the protocol's ops to the loop, in the loop's own
/// process, so that what verbs do, take and refuse is the loop's alone. Nothing here touches the loop's
/// state.
class AdminHttp {
 public:
  /// Listens and starts the thread. `operators`: the loop's endpoint for operators of its process; it and
  /// `context` outlive this. Throws std::runtime_error, which names the address, where it cannot listen.
  AdminHttp(const HttpOptions& options, HttpChange now, zmq::context_t& context,
            const std::string& operators);
  /// Ends the thread; who still reads is cut off.
  ~AdminHttp();
  AdminHttp(const AdminHttp&) = delete;
  AdminHttp& operator=(const AdminHttp&) = delete;

  /// `http://127.0.0.1:5573`.
  const std::string& url() const;
  /// For requests and connections to come. Thread-safe.
  void change(HttpChange change);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq::admin
