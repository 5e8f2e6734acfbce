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

/// A request that reads a streamed answer piece by piece: the job's submit, a later submit of the same id, or
/// a fetch. Lives with the job's AnswerStream, until the job ends or the reader leaves or falls behind.
struct StreamReader {
  Timer timer{TimerOwner::reader, this};  ///< the time to check whether it must be let go
  Job* job = nullptr;
  Connection* connection = nullptr;  ///< holds a reference
  std::string envelope, ref;
  ListHook<StreamReader> hook;   ///< among the readers of its connection
  std::int64_t next = 0;         ///< the next chunk to send to it
  std::int64_t seen = -1;        ///< the last chunk that the client confirmed
  std::uint64_t seen_bytes = 0;  ///< bytes of the stream up to `seen`
  TimePoint silent_since{};      ///< the time since when it has confirmed less than it was sent
  TimePoint until = kNever;      ///< of a fetch: the time to answer with a status
  bool told = false;             ///< its first chunk was sent
  bool joined = false;           ///< reads by another request than the job's first submit
  bool waits = false;            ///< its `accepted` waits for the disk, and chunks wait for that

  /// The share of a joined reader in the byte bounds; the first one counts with the job.
  std::size_t bytes() const { return sizeof(StreamReader) + envelope.size() + ref.size(); }
  std::int64_t unseen() const { return next - 1 - seen; }
};

}  // namespace lanemq::core
