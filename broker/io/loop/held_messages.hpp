// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include <lanemq/blob.hpp>
#include <lanemq/messages.hpp>

#include "broker/core/base/string_hash.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/base/writes.hpp"
#include "broker/io/peers/router.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// Submits and outcomes whose bodies the store puts in ahead of their turn (Store::put_ahead()), and clients'
/// messages that name their jobs, which must not overtake them. What a worker says of other jobs may overtake
/// its outcome: until that is acknowledged the worker lists the job as one that it has. Not thread-safe;
/// belongs to the loop.
class HeldMessages {
 public:
  /// Bounds on held messages. A message beyond either is not held: it is heard at once, and its body goes
  /// with its turn.
  static constexpr std::size_t kMessagesMax = 1024;
  static constexpr std::size_t kBytesMax = std::size_t{256} << 20;
  /// Where the store has put no body in for so long, what is held for as long goes with its turn: in this
  /// time 64 MiB come through 100 Mbit/s.
  static constexpr core::Duration kStandstillMax = std::chrono::seconds(5);

  /// The facts of a client's message.
  struct About {
    std::vector<std::string> ids;  ///< of the jobs that it names, as the core knows them
    std::int64_t batch = 0;        ///< most messages in its connection's batches from then on; 0: unchanged
  };
  struct Message {
    Incoming message;
    bool sender_gone = false;  ///< its client's connection ended while it was held
  };
  /// A submit or an outcome that is to be heard now, and after a submit the messages that have waited for it.
  struct Ready {
    Blob body;  ///< that is in; empty: it goes with its turn
    std::vector<Message> messages;
    bool of_worker = false;
  };

  /// `store` outlives it.
  explicit HeldMessages(Store& store) : store_(store) {}

  bool empty() const { return held_.empty(); }
  /// Whether a client's message may have to wait.
  bool names_any() const { return !names_.empty(); }
  /// Whether what names one of these ids has to wait.
  bool names_any_of(const std::vector<std::string>& ids) const;
  /// The most maps of a batch that a held message of that address says; 0: none does.
  std::int64_t batch_of(std::string_view address) const;

  /// Whether a body is to be put ahead: the store wants it, and this has room.
  bool wants(const Blob& body) const;
  /// Puts the body ahead and holds its submit. Requires: wants(); the body was taken out of the message.
  void hold_and_put(Incoming& message, const Blob& body, About about, core::TimePoint now);
  /// The same for a worker's outcome of that lease.
  void hold_and_put(Incoming& message, const Blob& body, wire::Lease lease, core::TimePoint now);
  /// Holds a message behind those that name one of its ids. `body`: where it was taken out of the message.
  /// False: there is no room for the message.
  bool hold_behind(Incoming& message, const Blob& body, About about, core::TimePoint now);
  /// Adds the leases of the outcomes that are held of the worker at that address.
  void add_leases(std::string_view address, std::vector<wire::Lease>& leases) const;
  /// The connection of a client has ended.
  void sender_gone(std::string_view address);

  /// The messages to be heard now, in the order in which the bodies came.
  std::vector<Ready> take_ready(core::TimePoint now);
  /// When take_ready() has something whatever the store does; none: not for now.
  std::optional<core::TimePoint> next_wakeup();
  bool has_outcome_of(std::string_view address) const;
  /// The outcomes for which `goes(address, lease)` holds, to be heard at once with their bodies in their
  /// turn.
  template <class Goes>
  std::vector<Message> take_outcomes(Goes goes);
  /// The messages were heard; `writes` from `first` on are their effects. A body that is not among these is
  /// dropped.
  void heard(const Blob& body, const core::Writes& writes, std::size_t first);

 private:
  struct Held {
    Message is;
    About about;
    std::optional<wire::Lease> lease;  ///< of a worker's outcome; none: it is a client's message
    Blob body;                         ///< that is put ahead; empty: it waits for others
    std::size_t bytes = 0;             ///< in bytes_
    core::TimePoint since{};
  };
  using Place = std::list<Held>::iterator;

  bool has_room(std::size_t bytes) const {
    return held_.size() < kMessagesMax && bytes_ + bytes <= kBytesMax;
  }
  Held& hold(Incoming& message, const Blob& body, About about, core::TimePoint now);
  void put(Held& held, const Blob& body);
  Message remove(Place place);
  Message let_go(Place place);
  void take_behind(std::vector<Message>& messages);
  Place first_put();
  core::TimePoint due(const Held& held) const { return std::max(held.since, last_in_) + kStandstillMax; }

  Store& store_;
  std::list<Held> held_;  ///< in the order in which they came
  /// How many of them name each id.
  absl::flat_hash_map<std::string, std::size_t, core::StringHash, core::StringEqual> names_;
  /// Bodies that the store has still to put in, though their messages were heard: their sizes.
  absl::flat_hash_map<const char*, std::size_t> let_go_;
  std::size_t bytes_ = 0;      ///< of bodies that the store puts in, and of messages that wait for others
  core::TimePoint last_in_{};  ///< when the latest body came in
};

template <class Goes>
std::vector<HeldMessages::Message> HeldMessages::take_outcomes(Goes goes) {
  std::vector<Message> messages;
  for (Place at = held_.begin(); at != held_.end();) {
    const Place place = at++;
    if (place->lease && goes(place->is.message.address(), *place->lease)) messages.push_back(let_go(place));
  }
  return messages;
}

}  // namespace lanemq::io
