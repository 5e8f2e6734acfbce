// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include <zmq.hpp>

#include "common/log/line_limit.hpp"

namespace lanemq::io {

class KeyRing;

/// Answers libzmq's question whether a peer may connect (ZAP, ZeroMQ RFC 27), on a thread of its own. With
/// keys, each message of a peer carries the name of its key, and a peer whose key does not open the door is
/// refused. Without keys, every peer that speaks ZMTP 3 may come in: libzmq opens a socket with a handler to
/// no peer of ZMTP 1 or 2, such as a browser, whose POST is a peer of ZMTP 1 to it.
class ZapHandler {
 public:
  static constexpr std::uint64_t kLinesPerSecond = 5;  ///< in the log, about refused keys

  /// To be made before a socket of the context binds that has a domain. `asks`: whether clients and workers
  /// must show keys. `keys` and `context` outlive it. Throws zmq::error_t where the context has such a
  /// handler.
  ZapHandler(zmq::context_t& context, const KeyRing& keys, bool asks);
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

  /// Connections that were refused for their keys, since the start. Thread-safe.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  void serve();
  void answer();
  void log_refusal(std::string_view door, std::string_view address, const std::string& key,
                   const std::string& why);

  const KeyRing& keys_;
  const bool asks_;
  zmq::socket_t requests_;
  int stop_;  // an eventfd
  log::LineLimit lines_{kLinesPerSecond};
  std::atomic<std::uint64_t> refused_{0};
  std::thread thread_;
};

}  // namespace lanemq::io
