// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/core/base/identity.hpp"
#include "common/trace/collector.hpp"

namespace lanemq::io {

class Disk;

/// A key that a peer may show, and what it allows.
struct PeerKey {
  std::string public_key;  ///< 40 characters of Z85
  core::Identity identity;
  std::chrono::system_clock::time_point not_after = std::chrono::system_clock::time_point::max();
};

/// Where a thread of the broker's own process connects as an operator, in the loop's context.
inline constexpr const char* kOwnOperators = "inproc://operators";

/// A plugin, and what it is told.
struct PluginOptions {
  static constexpr std::size_t kPluginsMax = 16;

  std::string name, file;
  bool refuse_when_off = false;  ///< submits, while it is switched off; else they go on without it
  std::vector<std::pair<std::string, std::string>> settings{};  ///< of its own table, in their order

  bool operator==(const PluginOptions&) const = default;
};

/// Options of the adapters; the core has its own.
struct ServerOptions {
  std::string clients = "tcp://127.0.0.1:5570";
  std::string workers = "tcp://127.0.0.1:5571";
  std::string admin;            ///< where operators connect; empty: no place is known
  bool admin_required = false;  ///< the broker does not start without it; else its lack is a warning
  bool has_http = false;        ///< operators come from this process, too (kOwnOperators)
  /// The broker's own secret key, 40 characters of Z85: clients and workers must show one of `keys`, and all
  /// that they say is encrypted. Empty: neither.
  std::string secret_key;
  std::vector<PeerKey> keys;
  int client_receive_hwm = 256, client_send_hwm = 1000;
  std::size_t store_backlog_max = std::size_t{64} << 20;       ///< bytes that wait for the store's disk
  std::size_t client_large_bytes_max = std::size_t{32} << 20;  ///< large bodies on their way to one client
  std::size_t client_backlog_bytes_max = std::size_t{16}
                                         << 20;            ///< answers held for one client that reads slowly
  std::size_t backlog_bytes_max = std::size_t{256} << 20;  ///< the same over all clients
  std::size_t connections_max = 16384;                     ///< of clients, and as many of workers
  std::size_t connections_per_address_max = 0;  ///< of one AddressOwner; 0: a quarter of connections_max
  std::size_t receiving_bytes_max = std::size_t{512} << 20;  ///< messages that are not whole, of all clients
  int io_threads = 1;
  trace::Collector otlp{};               ///< where spans go; empty: nowhere, and none are made
  std::vector<PluginOptions> plugins{};  ///< at most kPluginsMax
};

/// The effect of a reload on one option, or on one lane, budget, key or client.
struct OptionChange {
  enum class How : unsigned char { changed, added, removed };

  std::string what;  ///< `log_level`, `lane.NAME.KEY`, `budget.NAME`, `budget.NAME.keys.NAME`, ...
  How how = How::changed;
  std::string before{}, after{};  ///< of one that is changed: its values; empty: it is not set
  bool needs_restart = false;     ///< it counts from the next start on, and not yet
};

/// What keeps a copy of each commit to a store in PostgreSQL beside its own machine.
enum class Replication : unsigned char {
  standby,   ///< a synchronous standby: without one no new durable job is taken
  provider,  ///< the storage below the database, which the broker cannot see
  none,      ///< nothing: what that machine loses is lost
};
constexpr std::string_view name_of(Replication replication) {
  switch (replication) {
    case Replication::standby:
      return "standby";
    case Replication::provider:
      return "provider";
    case Replication::none:
      break;
  }
  return "none";
}

/// Why a broker waits for its store.
struct StoreWaiting {
  std::string why{};       ///< for people
  bool reached = true;     ///< false: the database cannot be used now, so the owner is unknown
  std::string owner{};     ///< its instance, as the store says; empty: it has none, or was not reached
  std::int64_t epoch = 0;  ///< counts owners; 0: none yet, or not reached
  std::chrono::milliseconds stands{0};  ///< for how long this process has seen the owner commit nothing
};

/// Options of a store.
struct StoreOptions {
  std::string specification;              ///< `memory`, `sqlite:PATH` or `postgres:CONNINFO`
  std::size_t reserve_bytes = 64u << 20;  ///< of disk, kept back so that running work can finish
  int checkpoint_pages = 1000;            ///< pages in the log, after which it is written to the file
  std::string vfs{};     ///< tests: the name of SQLite's file system layer; empty: the system's
  Disk* disk = nullptr;  ///< tests: free room instead of the system's; outlives the store

  std::string
      shard{};  ///< a store that was another shard's is refused before it is loaded; empty: any will do

  // For PostgreSQL, where one of several brokers owns the store.
  std::string schema = "lanemq";  ///< of the tables
  std::string instance{};         ///< this broker's name; no two that are alive have one name
  bool alone = false;             ///< no other process has the instance: an owner of that name is dead
  Replication replication = Replication::standby;
  std::chrono::milliseconds lease{5000};  ///< an owner that commits nothing for so long is taken for dead
  /// An owner that has committed nothing for the lease and so much more ends: another one may serve
  /// meanwhile.
  std::chrono::milliseconds away_max{10'000};
  /// Called while another broker owns the store or the database is not reached. It pauses, and returns
  /// whether to go on waiting. Empty: waits for as long as it takes.
  std::function<bool(const StoreWaiting& waiting)> waiting{};
};

}  // namespace lanemq::io
