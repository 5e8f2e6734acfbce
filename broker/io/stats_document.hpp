// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"

namespace lanemq::io {

/// What the adapters count, since the start.
struct TransportStats {
  std::uint64_t frames_refused = 0;       ///< messages that were none, or broke the protocol
  std::uint64_t sends_undeliverable = 0;  ///< nobody was at the address any more
  std::uint64_t sends_dropped_slow = 0;   ///< the peer did not read and its bound was reached
  std::uint64_t backlog_bytes = 0;        ///< waiting for peers that read slowly, now
  std::uint64_t send_errors = 0;
};

/// Writes the document that `stats` answers: docs/protocol.md lists what is in it. Of the budgets and keys,
/// as many as a header has room for, from the `from`-th on.
void write_stats_document(core::Broker& broker, const TransportStats& transport, core::TimePoint now,
                          core::Duration uptime, std::size_t from, Buffer& out);

}  // namespace lanemq::io
