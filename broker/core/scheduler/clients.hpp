// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/mark.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/string_hash.hpp"
#include "broker/core/base/times.hpp"
#include "broker/core/scheduler/client_queue.hpp"

namespace lanemq::core {

/// The party for whom jobs run: the `client` that they name, else their connection. Or a tenant, which stands
/// for all its clients: what is scarce is shared by tenants first, and inside each by its clients, by their
/// weights. A client without a tenant is its own tenant, so that its state is kept once.
struct Client {
  std::string name;              ///< of a tenant: the space of its names, `@TENANT/`
  std::uint64_t mark = kNoMark;  ///< of the name: tells clients apart where no name is kept
  ClientOptions options;         ///< of the entry that matches the name, or the defaults
  Client* tenant = nullptr;      ///< null: it has none, or is one
  std::size_t waiting = 0;       ///< jobs queued or delayed,
  std::size_t webhooks = 0;      ///< and those of them that tell of ends
  /// A client's waiting jobs in one lane.
  struct Held {
    std::size_t jobs = 0, bytes = 0, webhooks = 0;
  };
  std::vector<Held> held;  ///< by lane
  Held& held_in(std::size_t lane) {
    if (held.size() <= lane) held.resize(lane + 1);
    return held[lane];
  }
  std::size_t running = 0;     ///< jobs that hold a place at a worker
  std::size_t references = 0;  ///< by queues, connections, and an operator's pause; of a tenant: by clients
  bool paused = false;         ///< by an operator
  NamedTimes::Place times;
  std::vector<std::unique_ptr<ClientQueue>> queues;
  std::size_t busy = 0;  ///< its queues that have jobs
  ListHook<Client> hook;
  std::size_t place = 0;  ///< the index for Clients::at()

  /// Its tenant; itself, where it has none.
  Client& party() { return tenant != nullptr ? *tenant : *this; }
  const Client& party() const { return tenant != nullptr ? *tenant : *this; }
  /// The same where marks are counted.
  Caller caller() const { return {.client = mark, .tenant = tenant != nullptr ? tenant->mark : kNoMark}; }
  /// Whether no more of its jobs may go to workers; its waiting jobs are passed over. Of its tenant, ask
  /// that.
  bool at_limit() const { return paused || (options.in_flight_max > 0 && running >= options.in_flight_max); }
  /// Counts what another has as its own, too; `sign`: 1, or -1 to take that back.
  void count(const Client& other, int sign);
};

/// The clients that have jobs, or had some lately, and their tenants. A client without jobs is forgotten when
/// there are too many of them, with what its queues remember of its share; a tenant with its last client.
class Clients {
 public:
  Clients(std::vector<ClientOptions> options, std::size_t idle_max)
      : options_(std::move(options)), idle_max_(idle_max) {}

  /// The configured options for a client of that name; in a tenant's space that is its tenant.
  ClientOptions options_of(std::string_view name) const;
  /// The client of that name, which is added if it is unknown. It lives while it has references.
  Client& named(std::string_view name);
  /// Null: unknown.
  Client* find(std::string_view name) const;
  /// The client or tenant with that mark; null: unknown. Looks through all.
  Client* find(std::uint64_t mark) const;
  /// The client or tenant of that name; null: unknown.
  Client* find_party(std::string_view name) const;
  void take_reference(Client& client) { ++client.references; }
  /// May destroy the client.
  void drop_reference(Client& client);

  /// The client's queue in the flow, with one more job counted in it.
  ClientQueue& join(Client& client, Flow& flow);
  /// Takes one job from the queue's count. May destroy the queue and its client.
  void leave(ClientQueue& queue);

  /// Destroys empty queues in the flows of services that are about to be forgotten.
  void forget_leaving();

  /// The share of the byte bounds of all clients that have jobs, each with a queue: further ones are few, and
  /// come while a job waits, too. Idle ones are bounded by their number alone.
  std::size_t bytes() const { return bytes_; }
  /// By how much one more job of the client makes that grow.
  static std::size_t bytes_of_more(const Client& client) { return client.busy == 0 ? bytes_of(client) : 0; }

  /// Applies other options, also to queued jobs.
  void configure(std::vector<ClientOptions> options);

  std::size_t size() const { return by_name_.size(); }
  /// In the order in which they came.
  const IntrusiveList<Client, &Client::hook>& all() const { return all_; }
  /// Places for at(). A client keeps its place as long as it lives.
  std::size_t places() const { return places_.size(); }
  /// Null: the place is free. Requires: place < places().
  const Client* at(std::size_t place) const { return places_[place]; }

 private:
  /// The memory of a client and a queue beside their records: places in tables, lists of theirs, and the
  /// allocator's rounding.
  static constexpr std::size_t kBesideBytes = 320;

  static std::size_t bytes_of(const Client& client) {
    return sizeof(Client) + sizeof(ClientQueue) + kBesideBytes + client.name.size();
  }
  void gets_busy(ClientQueue& queue);
  ClientOptions entry_for(std::string_view name) const;
  void drop(ClientQueue& queue);
  ClientQueue& tenants_queue(Client& tenant, Flow& flow);
  static void leave_tenants_queue(ClientQueue& queue);
  Client* join_tenant(const std::string& tenant);
  void leave_tenant(Client& tenant);
  void change_tenant(Client& client);

  std::vector<ClientOptions> options_;
  std::size_t idle_max_;
  // By the names that stand in what they lead to.
  absl::flat_hash_map<std::string_view, std::unique_ptr<Client>, StringHash, StringEqual> by_name_;
  absl::flat_hash_map<std::string, std::unique_ptr<Client>, StringHash, StringEqual>
      tenants_;  // by their spaces
  IntrusiveList<Client, &Client::hook> all_;
  std::vector<Client*> places_;
  std::vector<std::size_t> free_places_;
  IntrusiveList<ClientQueue, &ClientQueue::idle_hook> idle_;  // the longest idle first
  std::size_t bytes_ = 0;
};

}  // namespace lanemq::core
