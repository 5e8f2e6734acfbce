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

/// One hand-over of a job that did not succeed.
struct Attempt {
  std::uint32_t number = 0;  ///< the `attempt` that the worker was given
  std::string worker;        ///< its name, or its session where it has none
  TimePoint began{}, ended{};
  std::string_view cause;     ///< a constant: the failure's class, or worker_lost, missing, deadline
  std::string code, message;  ///< the worker's words
};

/// The last kAttemptsMax attempts of a job.
class History {
 public:
  static constexpr std::size_t kAttemptsMax = 16;
  static constexpr std::size_t kMessageBytesMax = 4096;  ///< of one attempt; longer messages are cut

  /// Returns by how much bytes() grew; less than 0 where a longer attempt was dropped.
  std::ptrdiff_t add(Attempt attempt);
  /// Takes the last attempt back, if it has that number. Returns by how much bytes() shrank.
  std::size_t take_back(std::uint32_t number);
  const std::vector<Attempt>& attempts() const { return attempts_; }
  /// Its share of the byte bounds.
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<Attempt> attempts_;
  std::size_t bytes_ = 0;
};

/// The record of a dead job besides its result: enough to tell why it died and to run it again.
struct DeadJob {
  std::uint64_t number = 0;    ///< of the death: later deaths have higher numbers
  std::string record;          ///< the submit as the store has it; decoded when the job runs again
  Blob body;                   ///< of the request; empty where only the store has it
  std::size_t body_bytes = 0;  ///< size of a body that only the store has
  bool body_stored = false;
  Estimate estimate;  ///< of what an attempt costs
  History history;
  std::string client;  ///< the submitter, also where the submit named no client
  TimePoint ended_at{};

  /// Its share of the byte bounds.
  std::size_t bytes() const {
    return sizeof(DeadJob) + record.size() + body.size() + history.bytes() + client.size();
  }
};

}  // namespace lanemq::core
