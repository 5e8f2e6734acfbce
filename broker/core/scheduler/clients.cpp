// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/clients.hpp"

#include <algorithm>

#include <lanemq/text.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/base/identity.hpp"
#include "broker/core/base/mark.hpp"
#include "broker/core/scheduler/flow.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

ClientOptions Clients::options_of(std::string_view name) const {
  ClientOptions of_client = entry_for(name);
  if (const std::string_view shown = tenant_of(name); !shown.empty()) of_client.tenant = shown;
  return of_client;
}

/// The entry of that name, or with the longest pattern that matches it.
ClientOptions Clients::entry_for(std::string_view name) const {
  const ClientOptions* of_pattern = nullptr;
  for (const ClientOptions& options : options_) {
    if (options.name == name) return options;
    if (glob_match(options.name, name) &&
        (of_pattern == nullptr || options.name.size() > of_pattern->name.size()))
      of_pattern = &options;
  }
  return of_pattern != nullptr ? *of_pattern : ClientOptions{};
}

Client& Clients::named(std::string_view name) {
  const auto place = by_name_.find(name);
  if (place != by_name_.end()) return *place->second;
  auto client = std::make_unique<Client>();
  client->name = name;
  client->mark = mark_of(name);
  client->options = options_of(name);
  Client& added = *client;
  by_name_.emplace(added.name, std::move(client));
  all_.push_back(added);
  if (free_places_.empty()) {
    free_places_.push_back(places_.size());
    places_.push_back(nullptr);
  }
  added.place = free_places_.back();
  free_places_.pop_back();
  places_[added.place] = &added;
  return added;
}

std::string_view Clients::name_of(std::uint64_t mark) const {
  if (mark == kNoMark) return {};
  for (const Client* client = all_.front(); client != nullptr; client = all_.next(*client))
    if (client->mark == mark) return client->name;
  return {};
}

Client* Clients::find(std::string_view name) const {
  const auto place = by_name_.find(name);
  return place == by_name_.end() ? nullptr : place->second.get();
}

void Clients::drop_reference(Client& client) {
  LANEMQ_CHECK(client.references > 0);
  if (--client.references > 0) return;
  all_.remove(client);
  places_[client.place] = nullptr;
  free_places_.push_back(client.place);
  // Destroying the client destroys the key too: look it up first, then erase by iterator.
  by_name_.erase(by_name_.find(client.name));
}

ClientQueue& Clients::join(Client& client, Flow& flow) {
  for (const auto& queue : client.queues) {
    if (&queue->flow() != &flow) continue;
    if (queue->jobs++ == 0) idle_.remove(*queue);
    return *queue;
  }
  client.queues.push_back(std::make_unique<ClientQueue>(flow, client));
  take_reference(client);
  ClientQueue& queue = *client.queues.back();
  queue.jobs = 1;
  return queue;
}

void Clients::leave(ClientQueue& queue) {
  LANEMQ_CHECK(queue.jobs > 0);
  if (--queue.jobs > 0) return;
  idle_.push_back(queue);
  if (idle_.size() > idle_max_) drop(*idle_.pop_front());
}

void Clients::drop(ClientQueue& queue) {
  Client& client = queue.client();
  const auto place = std::find_if(client.queues.begin(), client.queues.end(),
                                  [&](const auto& other) { return other.get() == &queue; });
  LANEMQ_CHECK(place != client.queues.end() && queue.empty());
  client.queues.erase(place);
  drop_reference(client);
}

void Clients::forget_leaving() {
  for (ClientQueue* queue = idle_.front(); queue != nullptr;) {
    ClientQueue& idle = *queue;
    queue = idle_.next(idle);
    if (!idle.flow().service().leaves) continue;
    idle_.remove(idle);
    drop(idle);
  }
}

void Clients::configure(std::vector<ClientOptions> options) {
  options_ = std::move(options);
  for (Client* client = all_.front(); client != nullptr; client = all_.next(*client)) {
    client->options = options_of(client->name);
    update_turns(*client);
  }
}

}  // namespace lanemq::core
