// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/clients.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/text.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/base/identity.hpp"
#include "broker/core/base/mark.hpp"
#include "broker/core/scheduler/flow.hpp"
#include "broker/core/scheduler/workers.hpp"

namespace lanemq::core {

void Client::count(const Client& other, int sign) {
  const auto count = [sign](std::size_t& sum, std::size_t what) {
    sum += static_cast<std::size_t>(sign) * what;  // of -1, too: modulo the range of the type
  };
  count(waiting, other.waiting);
  count(webhooks, other.webhooks);
  count(running, other.running);
  for (std::size_t lane = 0; lane < other.held.size(); ++lane) {
    count(held_in(lane).jobs, other.held[lane].jobs);
    count(held_in(lane).bytes, other.held[lane].bytes);
    count(held_in(lane).webhooks, other.held[lane].webhooks);
  }
}

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
  client->tenant = join_tenant(client->options.tenant);
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

Client* Clients::find(std::uint64_t mark) const {
  if (mark == kNoMark) return nullptr;
  for (Client* client = all_.front(); client != nullptr; client = all_.next(*client)) {
    if (client->mark == mark) return client;
    if (client->tenant != nullptr && client->tenant->mark == mark) return client->tenant;
  }
  return nullptr;
}

Client* Clients::find(std::string_view name) const {
  const auto place = by_name_.find(name);
  return place == by_name_.end() ? nullptr : place->second.get();
}

Client* Clients::find_party(std::string_view name) const {
  const auto place = tenants_.find(name);
  return place == tenants_.end() ? find(name) : place->second.get();
}

/// Null: the client has none.
Client* Clients::join_tenant(const std::string& tenant) {
  if (tenant.empty()) return nullptr;
  const std::string space = space_of(tenant);
  std::unique_ptr<Client>& known = tenants_[space];
  if (known == nullptr) {
    known = std::make_unique<Client>();
    known->name = space;
    known->mark = mark_of(space);
    known->options = entry_for(space);
  }
  ++known->references;
  return known.get();
}

void Clients::leave_tenant(Client& tenant) {
  LANEMQ_CHECK(tenant.references > 0);
  if (--tenant.references == 0) tenants_.erase(tenants_.find(tenant.name));
}

void Clients::drop_reference(Client& client) {
  LANEMQ_CHECK(client.references > 0);
  if (--client.references > 0) return;
  all_.remove(client);
  places_[client.place] = nullptr;
  free_places_.push_back(client.place);
  if (client.tenant != nullptr) leave_tenant(*client.tenant);
  // Destroying the client destroys the key too: look it up first, then erase by iterator.
  by_name_.erase(by_name_.find(std::string_view(client.name)));
}

ClientQueue& Clients::join(Client& client, Flow& flow) {
  for (const auto& queue : client.queues) {
    if (&queue->flow() != &flow) continue;
    if (queue->jobs++ > 0) return *queue;
    idle_.remove(*queue);
    gets_busy(*queue);
    return *queue;
  }
  client.queues.push_back(std::make_unique<ClientQueue>(flow, client));
  take_reference(client);
  ClientQueue& queue = *client.queues.back();
  queue.jobs = 1;
  if (client.tenant != nullptr) queue.tenant = &tenants_queue(*client.tenant, flow);
  gets_busy(queue);
  return queue;
}

void Clients::gets_busy(ClientQueue& queue) {
  if (queue.client().busy++ == 0) bytes_ += bytes_of(queue.client());
}

/// The tenant's queue in the flow, with one more queue of a client counted in it.
ClientQueue& Clients::tenants_queue(Client& tenant, Flow& flow) {
  auto place = std::find_if(tenant.queues.begin(), tenant.queues.end(),
                            [&](const auto& queue) { return &queue->flow() == &flow; });
  if (place == tenant.queues.end()) {
    tenant.queues.push_back(std::make_unique<ClientQueue>(flow, tenant));
    place = tenant.queues.end() - 1;
    (*place)->inside = std::make_unique<Turns>();
  }
  ++(*place)->jobs;
  return **place;
}

/// A client's queue leaves that of its tenant. Requires: it takes no turns.
void Clients::leave_tenants_queue(ClientQueue& queue) {
  ClientQueue* const left = std::exchange(queue.tenant, nullptr);
  if (left == nullptr || --left->jobs > 0) return;
  std::erase_if(left->client().queues, [&](const auto& other) { return other.get() == left; });
}

void Clients::leave(ClientQueue& queue) {
  LANEMQ_CHECK(queue.jobs > 0);
  if (--queue.jobs > 0) return;
  if (--queue.client().busy == 0) bytes_ -= bytes_of(queue.client());
  idle_.push_back(queue);
  if (idle_.size() > idle_max_) drop(*idle_.pop_front());
}

void Clients::drop(ClientQueue& queue) {
  Client& client = queue.client();
  const auto place = std::find_if(client.queues.begin(), client.queues.end(),
                                  [&](const auto& other) { return other.get() == &queue; });
  LANEMQ_CHECK(place != client.queues.end() && queue.empty());
  leave_tenants_queue(queue);
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
  for (auto& [space, tenant] : tenants_)
    tenant->options = entry_for(space);
  for (Client* client = all_.front(); client != nullptr; client = all_.next(*client)) {
    client->options = options_of(client->name);
    change_tenant(*client);
    update_turns(*client);
  }
}

/// The client is of the tenant that its options name: all that it has goes there.
void Clients::change_tenant(Client& client) {
  Client* const left = client.tenant;
  Client* const joined = join_tenant(client.options.tenant);
  client.tenant = joined;
  if (left != joined) {
    for (const auto& queue : client.queues) {
      // One that is barred takes no turns.
      const bool barred = std::exchange(queue->barred, true);
      queue->flow().update(*queue);
      leave_tenants_queue(*queue);
      if (joined != nullptr) queue->tenant = &tenants_queue(*joined, queue->flow());
      queue->barred = barred;
      queue->begin_anew();
    }
    if (left != nullptr) left->count(client, -1);
    if (joined != nullptr) joined->count(client, 1);
  }
  if (left != nullptr) leave_tenant(*left);
}

}  // namespace lanemq::core
