// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/base/event.hpp"
#include "broker/io/peers/key_ring.hpp"
#include "broker/io/peers/router.hpp"

namespace lanemq::io {

/// Finds out by a message's key who sent it, and whether that key allows what it asks for; puts ids and the
/// client into the space of its tenant. What the core can judge (services, lanes) it leaves to the core. Not
/// thread-safe; belongs to the loop.
class Authorizer {
 public:
  /// `asks`: whether peers must show keys. `keys` outlives this.
  Authorizer(const KeyRing& keys, bool asks) : keys_(keys), asks_(asks) {}

  /// Finds out who sent a message that came by `router`, the socket behind that door. Returns why the
  /// sender's key does not count there; empty: it does.
  std::string_view identify(const Incoming& message, Router& router, Door door);
  /// The sender of the last identified message; null: the broker asks for no keys.
  const core::Identity* sender() const { return sender_; }
  /// The next message is an operator's, who needs no key.
  void trust() { sender_ = nullptr; }

  /// Why the sender may not ask for that.
  struct Refusal {
    ErrorCode code = ErrorCode::forbidden;
    std::string message;
  };
  /// Judges a request of the sender, and renames what it names. Views in it are then valid until the next
  /// call.
  std::optional<Refusal> admit(wire::ClientRequest& request);

 private:
  std::optional<Refusal> admit_submit(wire::Submit& submit);
  std::optional<Refusal> admit_spend(wire::Spend& spend);
  std::optional<Refusal> admit_watch(wire::Watch& watch);
  /// Brings a name into the sender's space. `field`: of the name.
  std::optional<Refusal> rename(std::string_view& name, std::string& place, const char* field = "id") const;

  const KeyRing& keys_;
  bool asks_;
  const core::Identity* sender_ = nullptr;
  std::string id_, client_, group_, key_, session_;
  std::vector<std::string> ids_;
};

}  // namespace lanemq::io
