// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/support/upstream/call_log.hpp"
#include "tests/support/upstream/upstream.hpp"

namespace lanemq::upstream {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  ///< ADDRESS:PORT or [ADDRESS]:PORT, numeric; port 0 picks one.
  std::size_t connections_max = 4096;  ///< Further connections are closed at once, and counted.
  std::uint64_t body_bytes_max = 4 << 20;
};

/// The double cannot listen: the address is taken or wrong, or the system grants too few open files.
struct ListenError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Carries an Upstream over HTTP/1.1 with keep-alive and pipelining. One thread, the caller of run(), does
/// all the work; every wait is a timer, so hundreds of calls in flight cost one thread.
///
/// A connection that says nothing for kIdleTime is closed, and so is one that takes longer than that to send
/// a request or to accept an answer. A request header is at most kHeaderBytesMax.
class Server {
 public:
  static constexpr Duration kIdleTime = std::chrono::seconds(120);
  static constexpr std::uint32_t kHeaderBytesMax = 16 << 10;

  /// Listens. `upstream` and `log` (null: no log) must outlive the server. Throws ListenError.
  Server(Upstream& upstream, CallLog* log, const ServerOptions& options);
  ~Server();

  /// "http://ADDRESS:PORT", with the port that was picked.
  std::string url() const;
  /// Serves until SIGTERM or SIGINT; then the calls in flight end as cut, and the log is flushed.
  /// Throws std::runtime_error when the log cannot be written.
  void run();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lanemq::upstream
