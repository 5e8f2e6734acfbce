// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <lanemq/codec.hpp>

#include "broker/core/base/outbox.hpp"
#include "broker/io/desks/change_log.hpp"
#include "broker/io/peers/router.hpp"
#include "common/log/line_limit.hpp"

namespace lanemq::io {

/// An operator's identity, as far as the system tells: `uid 0, pid 4711` at a socket file, else the address.
/// An operator in this process names its principal, in a frame of its own.
std::string operator_of(const Incoming& message);

/// Tells the log who did what as an operator: notices of changes get their author, and requests that were
/// refused a line, kLinesPerSecond at most. Not thread-safe; belongs to the loop.
class OperatorLog {
 public:
  static constexpr std::uint64_t kLinesPerSecond = 10;

  /// An operator's request, recorded just before the core hears it. Views need to last until told().
  struct Asked {
    std::string who;
    std::string_view verb, what, name;
    std::size_t sends, notices;  ///< that the outbox had before
    bool is_change;              ///< the loop's own, of which no notice tells
  };
  /// The core has answered.
  void told(const Asked& asked, core::Outbox& outbox, core::TimePoint now);
  /// The changes so far. `cancel` is no verb: its caller adds it.
  ChangeLog& changes() { return changes_; }

 private:
  void refused(const Asked& asked, const wire::ErrorReply& why);

  ChangeLog changes_;
  Decoder decoder_{0};
  wire::ClientReply reply_;
  log::LineLimit lines_{kLinesPerSecond};
};

}  // namespace lanemq::io
