// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/codec.hpp>
#include <lanemq/list_reader.hpp>
#include <lanemq/result.hpp>

#include "broker/core/base/mark.hpp"
#include "broker/core/base/stored_entry.hpp"
#include "broker/core/jobs/dead_job.hpp"
#include "broker/core/jobs/job.hpp"

namespace lanemq::core {

// The bytes that a store is given of jobs, results and budgets, and does not look into: msgpack arrays, to
// which later versions may append. Any other change needs a new version of the store's schema. A job's record
// is its submit, as in the protocol. Times are Unix time in microseconds, so that they outlive the process.

/// The part of a job's submit that another run needs, without what concerned its connection alone. The store
/// and DeadJob have the same.
struct RecordNames {
  std::string_view service;
  std::string_view lane;  ///< the one that it was submitted to
  std::optional<std::int64_t> group_size{};
};
void write_record(const Job& job, const RecordNames& names, Buffer& out);

/// The hash of a submitted body that is not known, since the job or the result came from another store, whose
/// hashes have another seed. Any body is taken for the same. 0 is that of a job whose id the broker made.
inline constexpr std::uint64_t kHashNotKnown = 1;

/// The stored state of a job that changes while it waits and runs.
struct StoredState {
  enum class Kind : std::uint8_t { queued, delayed, running, dead };

  Kind kind = Kind::queued;
  std::uint64_t arrival = 0;
  std::int64_t accepted_us = 0, deadline_us = 0;
  std::int64_t due_us = 0;  ///< of a running job: the time of its hand-over
  Duration delay{};         ///< as Job::Extra::delay
  std::uint32_t attempt = 0;
  std::uint16_t attempts = 0, attempts_max = 0;
  std::uint8_t crashes = 0;
  std::uint32_t input_tokens = 0, output_tokens = 0, raw_input = 0;
  std::int64_t retain_ms = 0;
  std::uint64_t body_hash = 0;
  std::string_view lane;    ///< where it differs from the record's lane
  std::string_view key;     ///< running: the name of its key
  std::int64_t chunks = 0;  ///< chunks of its stream that clients got by then
  /// As Job::ends_limited; a job that is run again waits, whatever its record says. None: earlier versions
  /// did not write it.
  std::optional<bool> ends_limited{};
  std::uint8_t shared_deaths = 0;
  bool suspected = false;  ///< its worker was lost with others, and any of them may be why
};
void write(const StoredState& state, const History& history, std::int64_t epoch_us, Buffer& out);

/// The stored form of an ended job.
struct StoredResult {
  std::string_view id, model, service, lane, submitted_lane;
  JobState state = JobState::succeeded;
  std::uint32_t attempt = 0;
  std::uint16_t attempts = 0;
  std::uint32_t queued_ms = 0, ran_ms = 0;
  std::uint64_t body_hash = 0;
  bool client_named_it = false, id_told = false, dead = false;
  std::int64_t due_us = 0, ended_us = 0;
  std::uint64_t client = kNoMark;  ///< of the client that its submit named
};
/// Appends a result's record to `out`; `ending` may be null.
void write(const StoredResult& result, const Ending* ending, Buffer& out);

/// Decodes all of these. A returned value is valid until the next call. Not thread-safe.
class StoredDecoder {
 public:
  StoredDecoder();

  /// `history` gets the attempts; `epoch_us`: the Unix time of the broker's time zero.
  Result<StoredState> state(std::string_view bytes, std::int64_t epoch_us, History& history);
  Result<StoredResult> result(std::string_view bytes, std::unique_ptr<Ending>& ending);
  Result<std::vector<StoredEntry>> entries(std::string_view bytes);
  /// Decodes a job's record, which is a submit.
  Result<wire::Submit> submit(std::string_view record);

 private:
  ListReader list_;
  Decoder decoder_;
};

}  // namespace lanemq::core
