// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lanemq::core {

/// What the core counts besides its lanes, since the start. Nothing is dropped without a count here.
struct Stats {
  std::uint64_t jobs_requeued_worker_lost = 0;
  std::uint64_t jobs_requeued_missing = 0;     ///< two inventories did not list them
  std::uint64_t jobs_failed_retry_budget = 0;  ///< that had attempts left, but their service no retries
  std::uint64_t upstreams_opened = 0;          ///< by their circuit breakers
  std::uint64_t upstream_words_bounded = 0;    ///< usage, or a time to come again, beyond what counts
  std::uint64_t outcomes_stale = 0;            ///< of an attempt that is over
  std::uint64_t outcomes_repeated = 0;
  std::uint64_t outcomes_unknown_session = 0;
  std::uint64_t workers_lost = 0;
  std::uint64_t workers_returned = 0;  ///< whose connection was lost, and who came back by another
  std::uint64_t workers_refused = 0;
  std::uint64_t results_evicted = 0;  ///< kept results forgotten before their time, for room
  std::uint64_t results_read = 0;     ///< read back from the store for who asked
  std::uint64_t dead_evicted = 0;     ///< dead jobs forgotten before their time, for room
  std::uint64_t jobs_redriven = 0;
  std::uint64_t jobs_adopted = 0;       ///< after a restart, that their workers still ran
  std::uint64_t bodies_read = 0;        ///< that came back from the store
  std::uint64_t orphans_cancelled = 0;  ///< jobs whose clients were gone
  std::uint64_t chunks_in = 0;          ///< of streamed answers, taken from workers
  std::uint64_t chunks_out = 0;      ///< sent to clients: once for each reader, and again for who reads later
  std::uint64_t chunks_refused = 0;  ///< out of order, beyond the window, or of no stream
  std::uint64_t chunks_stale = 0;    ///< of an attempt that is over
  std::uint64_t chunks_late = 0;     ///< of a job that is over for its clients
  std::uint64_t chunks_repeated = 0;         ///< that were there already
  std::uint64_t chunks_unknown_session = 0;  ///< of a worker that is not known
  std::uint64_t slow_readers = 0;            ///< let go because they did not take what they were sent
  std::uint64_t seen_unmatched = 0;          ///< of a stream that is over, or nobody's
  std::uint64_t waiters_dropped = 0;         ///< for a newer one, at the bound of waiters for one job
  std::uint64_t refused_bad_request = 0;     ///< submits that name no lane to count them in
};

}  // namespace lanemq::core
