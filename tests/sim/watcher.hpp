// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <lanemq/messages.hpp>

#include "broker/core/base/event.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/outbox.hpp"
#include "broker/core/base/time.hpp"

namespace lanemq::sim {

/// Is told everything that goes into a broker and comes out of it, and throws Violation at the first broken
/// promise. What it has no use for it leaves as it is here.
class Watcher {
 public:
  virtual ~Watcher() = default;

  /// `envelope`: its bytes; 0 where the client is no REQ.
  virtual void client_says(const std::string& /*address*/, const wire::ClientRequest&,
                           std::string_view /*body*/, std::size_t /*envelope*/, core::TimePoint) {}
  virtual void worker_says(const std::string& /*address*/, const wire::WorkerReport&,
                           std::string_view /*body*/, core::TimePoint) {}
  virtual void worker_disconnected(const std::string& /*address*/, core::WorkerDisconnected::Process,
                                   core::TimePoint) {}
  virtual void client_unreachable(const std::string& /*address*/, core::TimePoint) {}
  virtual void drain_asked(core::TimePoint) {}
  virtual void operator_asks(const wire::AdminQuery&, core::TimePoint) {}
  /// The configuration was read again.
  virtual void reloaded(const core::Options&, core::TimePoint) {}
  /// The broker is stopped until then at most.
  virtual void stands_still(core::TimePoint /*until*/) {}
  /// It was, and knows it.
  virtual void stood_still(core::Duration /*how_long*/, core::TimePoint) {}
  virtual void running_given_up(core::TimePoint) {}
  virtual void advancing(core::TimePoint) {}

  virtual void noticed(const core::Notice&) {}
  virtual void sent_to_client(const std::string& /*address*/, const wire::ClientReply&,
                              std::string_view /*body*/) {}
  virtual void sent_to_worker(const std::string& /*address*/, const wire::WorkerCommand&,
                              std::string_view /*body*/) {}
  virtual void sent_to_operator(const wire::ClientReply&) {}
  virtual void step_over() {}

  /// What was seen of them so far.
  virtual std::size_t jobs() const = 0;
  virtual std::size_t dispatches() const = 0;
};

}  // namespace lanemq::sim
