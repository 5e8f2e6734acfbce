// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "broker/core/broker.hpp"

namespace lanemq::io {

/// A change that an operator has made.
struct Change {
  std::string verb, what, name, how, by;
};

/// The last changes by operators, and the answer to who asks for them. Belongs to the loop.
class ChangeLog {
 public:
  static constexpr std::size_t kChangesMax = 200;
  /// Bound on each text of a change; the log has them whole.
  static constexpr std::size_t kTextBytesMax = 200;

  void add(const Change& change, core::TimePoint now);
  /// Answers the verb `changes`: the newest first.
  void asked(const core::Origin& from, const wire::AdminQuery& query, core::Outbox& outbox,
             core::TimePoint now) const;

 private:
  struct Entry {
    Change change;
    std::uint64_t number;
    core::TimePoint at;
  };
  std::deque<Entry> entries_;  ///< the newest first
  std::uint64_t added_ = 0;
};

}  // namespace lanemq::io
