// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>

#include "broker/core/base/writes.hpp"
#include "broker/io/router.hpp"
#include "broker/io/store.hpp"

namespace lanemq::io {

/// Submits and outcomes whose bodies the store puts in ahead of their turn (Store::put_ahead()), and clients'
/// messages about jobs that are held, which must not overtake them. What a worker says of other jobs may
/// overtake its outcome: until that is acknowledged the worker lists the job as one that it has. Not
/// thread-safe; belongs to the loop.
class HeldMessages {
 public:
  /// What it holds at most. What is beyond either is not held: it is heard at once, and goes with its turn.
  static constexpr std::size_t kMessagesMax = 1024;
  static constexpr std::size_t kBytesMax = std::size_t{256} << 20;

  /// A body that is in, its submit or outcome, and behind a submit what has waited for it.
  struct Released {
    Blob body;
    std::vector<Incoming> messages;
    bool of_worker = false;
  };

  /// `store` outlives it.
  explicit HeldMessages(Store& store) : store_(store) {}

  bool empty() const { return held_.empty(); }
  /// Whether what names this id has to wait.
  bool holds(std::string_view id) const;
  /// Whether a body is to be put ahead: the store wants it, and this has room.
  bool wants(const Blob& body) const;
  /// Puts the body ahead and holds its submit. `id`: as the core knows it; empty: nobody can name it yet.
  /// Requires: wants(); the body was taken out of the message.
  void put(Incoming& message, const Blob& body, std::string_view id);
  /// The same for a worker's outcome.
  void put_outcome(Incoming& message, const Blob& body);
  /// Holds a message that names the id of one that is held. `body`: where it was taken out of the message.
  /// False: there is no room for it.
  bool wait(Incoming& message, const Blob& body, std::string_view id);

  /// What is to be heard now, in the order in which the bodies came.
  std::vector<Released> release();
  bool has_outcome_of(std::string_view address) const;
  /// The outcomes of the worker at that address, which leaves, to be heard at once with their bodies in their
  /// turn: of a worker that is gone they would count no more.
  std::vector<Incoming> let_go(std::string_view address);
  /// The messages were heard; `writes` from `first` on came of it. A body that is not among them is not kept.
  void heard(const Blob& body, const core::Writes& writes, std::size_t first);

 private:
  struct Held {
    Incoming message;
    std::string id;
    const char* body = nullptr;  ///< that is put ahead
    bool of_worker = false;
    std::size_t bytes = 0;
  };

  bool has_room(std::size_t bytes) const {
    return held_.size() < kMessagesMax && bytes <= kBytesMax - bytes_;
  }
  void hold(Incoming& message, const Blob& body, std::string_view id, bool puts);
  void take(std::size_t at, std::vector<Incoming>& messages);

  Store& store_;
  std::deque<Held> held_;  ///< in the order in which they came
  std::size_t bytes_ = 0;
};

}  // namespace lanemq::io
