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
#include "broker/core/scheduler/client_queue.hpp"

namespace lanemq::core {

/// Whom jobs are for: what they name as `client`, or else the connection they came by. Clients share what is
/// scarce by their weights.
struct Client {
  std::string name;
  std::uint64_t mark = kNoMark;  ///< of the name: tells it apart where no name is kept
  ClientOptions options;         ///< those that its name matches, or the defaults
  std::size_t waiting = 0;       ///< jobs queued or delayed
  /// What it has of a lane.
  struct Held {
    std::size_t jobs = 0, bytes = 0;
  };
  std::vector<Held> held;  ///< by lane, of these jobs
  Held& held_in(std::size_t lane) {
    if (held.size() <= lane) held.resize(lane + 1);
    return held[lane];
  }
  std::size_t running = 0;     ///< jobs that hold a place
  std::size_t references = 0;  ///< queues, connections, and the operator who paused it
  bool paused = false;         ///< by an operator
  std::vector<std::unique_ptr<ClientQueue>> queues;
  ListHook<Client> hook;
  std::size_t place = 0;  ///< among Clients::at

  /// It may have no more jobs at workers: those that wait are passed over.
  bool at_limit() const { return paused || (options.in_flight_max > 0 && running >= options.in_flight_max); }
};

/// The clients that have jobs, or had some lately: of what a client was served, as much is remembered as its
/// queues say, and of those without a job only so many are kept.
class Clients {
 public:
  Clients(std::vector<ClientOptions> options, std::size_t idle_max)
      : options_(std::move(options)), idle_max_(idle_max) {}

  /// What the configuration says of a client of that name.
  ClientOptions options_of(std::string_view name) const;
  /// The client of that name; made when it is first asked for. Lives while somebody refers to it.
  Client& named(std::string_view name);
  /// Null where it is not known.
  Client* find(std::string_view name) const;
  /// The name of the client with that mark, for reports: looks at all. Empty where it is not known.
  std::string_view name_of(std::uint64_t mark) const;
  void take_reference(Client& client) { ++client.references; }
  /// The client may be gone afterwards.
  void drop_reference(Client& client);

  /// The client's queue in the flow, with one job more that refers to it.
  ClientQueue& join(Client& client, Flow& flow);
  /// A job refers to the queue no more. The queue and its client may be gone afterwards.
  void leave(ClientQueue& queue);

  /// Forgets the queues without jobs in flows of services that leave.
  void forget_leaving();

  /// Other options count from now on, for what is queued already too.
  void configure(std::vector<ClientOptions> options);

  std::size_t size() const { return by_name_.size(); }
  /// In the order in which they came.
  const IntrusiveList<Client, &Client::hook>& all() const { return all_; }
  /// Each keeps its place among so many for as long as it lives.
  std::size_t places() const { return places_.size(); }
  /// Null where nobody is. Requires: place < places().
  const Client* at(std::size_t place) const { return places_[place]; }

 private:
  void drop(ClientQueue& queue);

  std::vector<ClientOptions> options_;
  std::size_t idle_max_;
  absl::flat_hash_map<std::string, std::unique_ptr<Client>, StringHash, StringEqual> by_name_;
  IntrusiveList<Client, &Client::hook> all_;
  std::vector<Client*> places_;
  std::vector<std::size_t> free_places_;
  IntrusiveList<ClientQueue, &ClientQueue::idle_hook> idle_;  // the longest idle first
};

}  // namespace lanemq::core
