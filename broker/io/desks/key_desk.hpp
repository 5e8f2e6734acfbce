// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "broker/core/broker.hpp"
#include "broker/io/peers/sockets.hpp"

namespace lanemq::io {

/// Takes back the keys of peers: those that a reload has left out, and those whose time is over. Not
/// thread-safe; belongs to the loop.
class KeyDesk {
 public:
  /// How often expire() wants to be called, where there are keys.
  static constexpr std::chrono::milliseconds kLookEvery{500};

  /// Both outlive it.
  KeyDesk(core::Broker& broker, Sockets& sockets) : broker_(broker), sockets_(sockets) {}

  bool has_keys() const { return sockets_.asks_for_keys; }
  /// Other keys count from now on.
  void replace(std::vector<PeerKey> keys, core::TimePoint now);
  /// Takes out the keys whose time is over. Cheap: it looks every kLookEvery.
  void expire(core::TimePoint now);

 private:
  enum class Why : unsigned char { left_out, expired };
  void take_back(const std::string& key, Why why, core::TimePoint now);

  core::Broker& broker_;
  Sockets& sockets_;
  core::TimePoint looked_at_{};
};

}  // namespace lanemq::io
