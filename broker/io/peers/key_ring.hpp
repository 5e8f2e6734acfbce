// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "broker/core/base/string_hash.hpp"
#include "broker/io/base/options.hpp"

namespace lanemq::io {

/// Which socket a key opens; also its ZAP domain.
enum class Door : unsigned char { clients, workers };
inline constexpr std::string_view name_of(Door door) {
  return door == Door::clients ? "clients" : "workers";
}

/// As which libzmq names the third one, which asks for no keys.
inline constexpr std::string_view kOperatorsDomain = "operators";

/// Whether a key with that role is for that door.
inline bool opens(const core::Identity& identity, Door door) {
  return (identity.role == core::Identity::Role::worker) == (door == Door::workers);
}

/// The keys that peers may show. The loop replaces them and asks what they allow; the ZAP handler's thread
/// asks whether they open a door.
class KeyRing {
 public:
  using WallTime = std::chrono::system_clock::time_point;

  explicit KeyRing(std::vector<PeerKey> keys = {}) { replace(std::move(keys)); }
  KeyRing(const KeyRing&) = delete;
  KeyRing& operator=(const KeyRing&) = delete;

  /// Replaces all keys. Returns the names of those that count no more, whose role or tenant has changed, or
  /// that allow a worker something else: their connections have to go. For the loop.
  std::vector<std::string> replace(std::vector<PeerKey> keys);
  /// The names of keys whose time has run out since the last call. A key counts again where the clock was set
  /// back to before its end. For the loop.
  std::vector<std::string> take_expired(WallTime now);
  /// The owner of a public key; null: there is none, or its time is over. Valid until the next replace(). For
  /// the loop.
  const core::Identity* find(std::string_view public_key) const;
  std::size_t size() const { return table_->size(); }

  /// Why a key does not open that door; empty: it does. Thread-safe.
  std::string why_shut(std::string_view public_key, Door door, WallTime now) const;

 private:
  struct Entry {
    core::Identity identity;
    WallTime not_after;
    bool expired = false;
  };
  using Table = absl::flat_hash_map<std::string, Entry, core::StringHash, core::StringEqual>;

  mutable std::mutex mutex_;  // of the pointer, where another thread reads it; a table itself never changes
  std::shared_ptr<const Table> table_ = std::make_shared<Table>();  // by public key
};

}  // namespace lanemq::io
