// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/connections.hpp"

#include "broker/core/base/check.hpp"

namespace lanemq::core {

Connection& Connections::at(std::string_view address) {
  const auto place = by_address_.find(address);
  if (place != by_address_.end()) return *place->second;
  if (idle_.size() >= idle_max_ && !idle_.empty()) forget_longest_idle();
  auto connection = std::make_unique<Connection>();
  connection->address = address;
  connection->name = "connection-" + std::to_string(next_number_++);
  Connection& added = *connection;
  by_address_.emplace(added.address, std::move(connection));
  idle_.push_back(added);
  return added;
}

Connection* Connections::find(std::string_view address) const {
  const auto place = by_address_.find(address);
  return place == by_address_.end() ? nullptr : place->second.get();
}

Client& Connections::client_of(Connection& connection) {
  if (connection.client == nullptr) {
    connection.client = &clients_.named(connection.name);
    clients_.take_reference(*connection.client);
  }
  return *connection.client;
}

void Connections::take_reference(Connection& connection) {
  if (connection.references++ == 0) idle_.remove(connection);
}

void Connections::drop_reference(Connection& connection) {
  LANEMQ_CHECK(connection.references > 0);
  if (--connection.references > 0) return;
  idle_.push_back(connection);
  if (idle_.size() > idle_max_) forget_longest_idle();
}

void Connections::forget_longest_idle() {
  Connection& connection = *idle_.pop_front();
  // Everything that refers to it in these ways holds a reference, else it would be used after it is
  // destroyed.
  LANEMQ_CHECK(!connection.timer.is_set() && connection.owned.empty() && connection.readers.empty());
  if (connection.client != nullptr) clients_.drop_reference(*connection.client);
  // Destroying the connection destroys the key too: look it up first, then erase by iterator.
  by_address_.erase(by_address_.find(connection.address));
}

}  // namespace lanemq::core
