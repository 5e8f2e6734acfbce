// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "broker/core/base/intrusive_list.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/base/timer_wheel.hpp"

namespace lanemq::core {

struct Connection;
struct Job;

/// A request that gets a streamed answer piece by piece: the submit of the job, a later one of the same id,
/// or a fetch that follows it. Lives with the job's AnswerStream, until the job ends or the reader is left
/// behind.
struct StreamReader {
  Timer timer{TimerOwner::reader, this};  ///< when it may have to be let go
  Job* job = nullptr;
  Connection* connection = nullptr;  ///< holds a reference
  std::string envelope, ref;
  ListHook<StreamReader> hook;   ///< among those of its connection
  std::int64_t next = 0;         ///< the chunk that it gets next
  std::int64_t seen = -1;        ///< the last one that it has taken
  std::uint64_t seen_bytes = 0;  ///< of the stream, up to that one
  TimePoint silent_since{};      ///< while it has taken less than it was sent
  TimePoint until = kNever;      ///< of a fetch: when it is told how far the job is
  bool told = false;             ///< it got its first chunk
  bool joined = false;           ///< not by the job's first submit, whose reader counts with the job
  bool waits = false;            ///< it was promised `accepted` before, which waits for the disk

  /// What one that joined counts for in the byte bounds.
  std::size_t bytes() const { return sizeof(StreamReader) + envelope.size() + ref.size(); }
  std::int64_t unseen() const { return next - 1 - seen; }
};

}  // namespace lanemq::core
