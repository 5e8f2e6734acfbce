// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <absl/container/flat_hash_map.h>

#include "broker/core/base/grouping.hpp"
#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/string_hash.hpp"
#include "broker/core/base/timer_wheel.hpp"
#include "broker/core/jobs/owner.hpp"
#include "broker/core/jobs/stream_reader.hpp"
#include "broker/core/scheduler/clients.hpp"

namespace lanemq::core {

/// A connection of a client: where requests come from and answers go to. Not an identity.
struct Connection {
  std::string address;
  std::string name;            ///< of the client of jobs that name none
  std::string key;             ///< the name of the key that it has shown; empty: none was asked for
  Client* client = nullptr;    ///< that client, once there was such a job; the connection holds a reference
  std::size_t references = 0;  ///< jobs and requests that it will get an answer to
  std::size_t waiters = 0;     ///< of these, requests that wait for known jobs
  Grouping grouping;           ///< as its latest submit with a `batch` said
  ListHook<Connection> idle_hook;            ///< listed while references is 0
  IntrusiveList<Owner, &Owner::hook> owned;  ///< jobs that are cancelled when all their owners are gone
  IntrusiveList<StreamReader, &StreamReader::hook> readers;
  /// The latest reader with each ref.
  absl::flat_hash_map<std::string, StreamReader*, StringHash, StringEqual> readers_by_ref;
  bool unreachable = false;                   ///< it seems gone: no job waits for it
  Timer timer{TimerOwner::connection, this};  ///< set while it seems gone and owns jobs: then they lose it
};

/// The connections that will get an answer, and idle ones up to a bound. ZeroMQ never reports that a client
/// is gone, so without a bound the table would grow for ever.
class Connections {
 public:
  Connections(Clients& clients, std::size_t idle_max) : clients_(clients), idle_max_(idle_max) {}

  /// The connection at an address, which is added if it is unknown. It lives while it has references, and
  /// then until it has been idle for long.
  Connection& at(std::string_view address);
  /// Null: unknown.
  Connection* find(std::string_view address) const;
  /// The client of jobs that came by this connection and name none.
  Client& client_of(Connection& connection);
  void take_reference(Connection& connection);
  /// May destroy the connection.
  void drop_reference(Connection& connection);
  /// Calls `what` with each connection that has shown that key; it may not add or forget connections.
  template <class What>
  void each_of_key(std::string_view key, What what) const {
    for (const auto& [address, connection] : by_address_)
      if (connection->key == key) what(*connection);
  }
  std::size_t size() const { return by_address_.size(); }

 private:
  void forget_longest_idle();

  Clients& clients_;
  std::size_t idle_max_;
  absl::flat_hash_map<std::string, std::unique_ptr<Connection>, StringHash, StringEqual> by_address_;
  IntrusiveList<Connection, &Connection::idle_hook> idle_;  // the longest idle first
  std::uint64_t next_number_ = 1;
};

}  // namespace lanemq::core
