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

/// A connection that requests come from and answers go to. An address, not an identity.
struct Connection {
  std::string address;
  std::string name;                ///< of the client its jobs are for where they name none
  Client* client = nullptr;        ///< that one, once there was such a job; a reference of the connection's
  std::size_t references = 0;      ///< jobs and waiters that will answer it
  std::size_t waiters = 0;         ///< of these, requests that wait for jobs that were submitted before
  Grouping grouping;               ///< its max: the `batch` of its latest submit that said one
  ListHook<Connection> idle_hook;  ///< listed while nothing refers to it
  IntrusiveList<Owner, &Owner::hook> owned;  ///< jobs that are cancelled when all like it are gone
  IntrusiveList<StreamReader, &StreamReader::hook> readers;
  /// Of the readers, the latest with each ref.
  absl::flat_hash_map<std::string, StreamReader*, StringHash, StringEqual> readers_by_ref;
  bool unreachable = false;                   ///< it seems gone: nothing waits for it
  Timer timer{TimerOwner::connection, this};  ///< set while it seems gone and owns jobs: when it does no more
};

/// The connections that are owed an answer, and the lately idle ones up to a bound. ZeroMQ never says that a
/// client has gone, so that nothing else would end this table.
class Connections {
 public:
  Connections(Clients& clients, std::size_t idle_max) : clients_(clients), idle_max_(idle_max) {}

  /// The connection at an address; made when it is first seen. Lives until it has been idle for long: take a
  /// reference to keep it.
  Connection& at(std::string_view address);
  /// Null when it is not known.
  Connection* find(std::string_view address) const;
  /// The client of jobs that came by the connection and name none.
  Client& client_of(Connection& connection);
  void take_reference(Connection& connection);
  /// It may be gone afterwards.
  void drop_reference(Connection& connection);
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
