// SPDX-License-Identifier: Apache-2.0
#include "broker/core/clients.hpp"

#include "broker/core/check.hpp"

namespace lanemq::core {

Client& Clients::at(std::string_view address) {
  const auto place = by_address_.find(address);
  if (place != by_address_.end()) return *place->second;
  if (idle_.size() >= idle_max_ && !idle_.empty()) forget_longest_idle();
  auto client = std::make_unique<Client>();
  client->address = address;
  client->name = "connection-" + std::to_string(next_number_++);
  Client& added = *client;
  by_address_.emplace(added.address, std::move(client));
  idle_.push_back(added);
  return added;
}

void Clients::take_reference(Client& client) {
  if (client.references++ == 0) idle_.remove(client);
}

void Clients::drop_reference(Client& client) {
  LANEMQ_CHECK(client.references > 0);
  if (--client.references > 0) return;
  idle_.push_back(client);
  if (idle_.size() > idle_max_) forget_longest_idle();
}

void Clients::forget_longest_idle() {
  // Destroying the client destroys the key too: look it up first, then erase by iterator.
  by_address_.erase(by_address_.find(idle_.pop_front()->address));
}

}  // namespace lanemq::core
