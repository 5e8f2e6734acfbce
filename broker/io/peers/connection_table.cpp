// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/connection_table.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace lanemq::io {

ConnectionTable::Connection* ConnectionTable::find(int descriptor) {
  const auto index = static_cast<std::size_t>(descriptor);
  return descriptor >= 0 && index < connections_.size() && connections_[index].open ? &connections_[index]
                                                                                    : nullptr;
}

std::optional<ConnectionTable::Closed> ConnectionTable::accepted(int descriptor, const AddressOwner& owner,
                                                                 Sent sent) {
  if (descriptor < 0) return std::nullopt;
  ended(descriptor);  // an end that nobody told of
  const auto index = static_cast<std::size_t>(descriptor);
  if (index >= connections_.size()) connections_.resize(index + 1);
  Owner& mates = owners_[owner];
  std::optional<Closed> closed;
  const bool of_address = mates.connections >= bounds_.per_address_max;
  if (of_address || size_ >= bounds_.connections_max) {
    const Silent& silent = of_address ? mates.silent : silent_;
    if (silent.empty()) {
      if (mates.connections == 0) owners_.erase(owner);
      return Closed{.descriptor = descriptor, .is_new = true, .of_address = of_address};
    }
    closed = Closed{.descriptor = gives_way(silent, sent), .is_new = false, .of_address = of_address};
  }
  Connection& connection = connections_[index];
  connection = {};
  connection.open = connection.silent = true;
  connection.owner = owner;
  connection.order = ++order_;
  ++mates.connections;
  ++size_;
  connection.place = silent_.size();
  silent_.push_back(descriptor);
  connection.place_of_owner = mates.silent.size();
  mates.silent.push_back(descriptor);
  if (closed) ended(closed->descriptor);
  return closed;
}

/// One of the silent, of which there are some.
int ConnectionTable::gives_way(const Silent& silent, Sent sent) {
  const auto drawn = [&](std::size_t i) {
    if (silent.size() <= kCandidates) return silent[i];
    return silent[std::uniform_int_distribution<std::size_t>(0, silent.size() - 1)(draw_)];
  };
  std::optional<std::tuple<std::uint64_t, std::uint64_t, int>> least;  // sent, order, descriptor
  for (std::size_t i = 0; i < std::min(silent.size(), kCandidates); ++i) {
    const int descriptor = drawn(i);
    const std::tuple candidate(sent(descriptor), connections_[static_cast<std::size_t>(descriptor)].order,
                               descriptor);
    if (!least || candidate < *least) least = candidate;
  }
  return std::get<int>(*least);
}

std::optional<AddressOwner> ConnectionTable::silent_owner(int descriptor) const {
  const auto index = static_cast<std::size_t>(descriptor);
  if (descriptor < 0 || index >= connections_.size()) return std::nullopt;
  const Connection& connection = connections_[index];
  return connection.open && connection.silent ? std::optional(connection.owner) : std::nullopt;
}

void ConnectionTable::ended(int descriptor) {
  Connection* const connection = find(descriptor);
  if (connection == nullptr) return;
  if (connection->silent) speaks(*connection);
  forget(*connection);
}

void ConnectionTable::forget(Connection& connection) {
  count_held(connection, 0);
  const auto mates = owners_.find(connection.owner);
  if (--mates->second.connections == 0) owners_.erase(mates);
  connection.open = false;
  --size_;
}

void ConnectionTable::speaks(Connection& connection) {
  connection.silent = false;
  leave(silent_, &Connection::place, connection.place);
  leave(owners_.find(connection.owner)->second.silent, &Connection::place_of_owner,
        connection.place_of_owner);
}

/// The last one takes the place of the one that leaves.
void ConnectionTable::leave(Silent& silent, std::size_t Connection::*place, std::size_t at) {
  connections_[static_cast<std::size_t>(silent.back())].*place = at;
  silent[at] = silent.back();
  silent.pop_back();
}

void ConnectionTable::heard(int descriptor, std::uint64_t bytes) {
  Connection* const connection = find(descriptor);
  if (connection == nullptr) return;
  if (connection->silent) speaks(*connection);
  connection->heard = true;
  connection->whole += bytes;
}

void ConnectionTable::count_held(Connection& connection, std::uint64_t held) {
  receiving_bytes_ += held - connection.held;
  connection.held = held;
}

void ConnectionTable::received(int descriptor, std::uint64_t bytes) {
  Connection* const connection = find(descriptor);
  if (connection == nullptr) return;
  const bool heard = std::exchange(connection->heard, false);
  connection->quiet = !heard;
  std::uint64_t held = bytes - std::min(bytes, connection->whole);
  if (held <= kUncounted) {
    // Bytes outside messages add up over months, so they are forgotten as long as messages come. No such
    // bytes come after a message has begun.
    if (heard) connection->whole = bytes;
    held = 0;
  }
  count_held(*connection, held);
}

std::vector<int> ConnectionTable::too_much() const {
  std::vector<int> gone;
  std::vector<std::pair<std::uint64_t, int>> quiet;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    const Connection& connection = connections_[i];
    // Whole messages of others wait to be read.
    if (!connection.open || !connection.quiet || connection.held == 0) continue;
    if (connection.held > bounds_.message_bytes_max)
      gone.push_back(static_cast<int>(i));
    else
      quiet.emplace_back(connection.held, static_cast<int>(i));
  }
  std::uint64_t left = receiving_bytes_;
  for (const int descriptor : gone)
    left -= connections_[static_cast<std::size_t>(descriptor)].held;
  if (left <= bounds_.receiving_bytes_max) return gone;
  std::sort(quiet.rbegin(), quiet.rend());
  for (auto most = quiet.begin(); most != quiet.end() && left > bounds_.receiving_bytes_max; ++most) {
    gone.push_back(most->second);
    left -= most->first;
  }
  return gone;
}

std::optional<int> ConnectionTable::next(int descriptor) const {
  for (auto index = static_cast<std::size_t>(descriptor + 1); index < connections_.size(); ++index)
    if (connections_[index].open) return static_cast<int>(index);
  return std::nullopt;
}

}  // namespace lanemq::io
