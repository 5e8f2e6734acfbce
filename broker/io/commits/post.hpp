// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "broker/core/base/outbox.hpp"
#include "broker/io/base/options.hpp"
#include "broker/io/base/transport_stats.hpp"
#include "broker/io/commits/handover_gate.hpp"
#include "broker/io/peers/sockets.hpp"

namespace lanemq::io {

/// Sends the core's messages without blocking. Holds answers for clients that read slowly, up to their
/// bounds, and names peers that are gone. Not thread-safe; belongs to the loop.
class Post {
 public:
  /// All outlive it.
  Post(Sockets& sockets, const ServerOptions& options, TransportStats& stats, HandoverGate& gate)
      : sockets_(sockets), options_(options), stats_(stats), gate_(gate) {}

  /// Which messages of an outbox to send: those that wait for the disk, or those that do not; and to whom.
  struct Part {
    bool waiting;
    bool to_workers = true, to_others = true;
  };
  void send(const core::Outbox& outbox, Part part);

  /// Tries again to send to clients that read slowly.
  void flush_backlogs();
  bool holds_answers() const { return !backlogs_.empty(); }

  /// Workers that were found not to read; for the caller to handle and clear. Workers that are gone are
  /// reported by their socket's connections.
  std::vector<std::string>& unreachable_workers() { return unreachable_workers_; }
  std::vector<std::string>& gone_clients() { return gone_clients_; }

 private:
  /// Answers that wait for a client to read.
  struct Held {
    std::string envelope, header;
    Blob body;
    std::size_t bytes() const { return sizeof(Held) + envelope.size() + header.size() + body.size(); }
  };
  struct Backlog {
    std::deque<Held> messages;
    std::size_t bytes = 0;
  };

  void send_to_client(const core::Outbox& outbox, const core::Send& send);
  void send_to_admin(const core::Outbox& outbox, const core::Send& send);
  void send_to_worker(const core::Outbox& outbox, const core::Send& send);
  void hold_back(std::string_view address, const core::Outbox& outbox, const core::Send& send);

  Sockets& sockets_;
  const ServerOptions& options_;
  TransportStats& stats_;
  HandoverGate& gate_;
  std::map<std::string, Backlog, std::less<>> backlogs_;
  std::vector<std::string> unreachable_workers_, gone_clients_;
};

}  // namespace lanemq::io
