// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/estimates.hpp"

namespace lanemq::core {

/// One hand-over of a job that came to no good end.
struct Attempt {
  std::uint32_t number = 0;  ///< as the worker was told
  std::string worker;        ///< its name, or its session where it has none
  TimePoint began{}, ended{};
  std::string_view cause;     ///< the class of the failure, or worker_lost, missing, deadline; a constant
  std::string code, message;  ///< as the worker said
};

/// What is remembered of a job's attempts: the last kAttemptsMax of them.
class History {
 public:
  static constexpr std::size_t kAttemptsMax = 16;
  static constexpr std::size_t kMessageBytesMax = 4096;  ///< of one attempt; the rest of a message is cut off

  /// Returns by how much bytes() grew; negative where a longer attempt was forgotten.
  std::ptrdiff_t add(Attempt attempt);
  const std::vector<Attempt>& attempts() const { return attempts_; }
  /// What it counts for in the byte bounds.
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<Attempt> attempts_;
  std::size_t bytes_ = 0;
};

/// What is kept of a job that failed or ran out of time, besides its result: enough to say why, and to run it
/// again.
struct DeadJob {
  std::uint64_t number = 0;    ///< of its death; later ones have higher numbers
  std::string record;          ///< the submit that it came by, as a store has it: read where it runs again
  Blob body;                   ///< of the request; empty where it is in the store alone
  std::size_t body_bytes = 0;  ///< of one that is in the store alone
  bool body_stored = false;
  Estimate estimate;  ///< of what an attempt costs
  History history;
  std::string client;  ///< whom it was for, also where it named nobody
  TimePoint ended_at{};

  /// What it counts for in the byte bounds.
  std::size_t bytes() const {
    return sizeof(DeadJob) + record.size() + body.size() + history.bytes() + client.size();
  }
};

}  // namespace lanemq::core
