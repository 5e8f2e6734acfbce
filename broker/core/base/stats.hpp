// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lanemq::core {

// The table of what the core counts besides its lanes, since the start: X(name, meaning). Whatever the broker
// drops is counted here. The counters, the document of `stats` and docs/protocol/operating.md are made from
// it.
// clang-format off
#define LANEMQ_CORE_COUNTERS(X)                                                                      \
  X(jobs_requeued_worker_lost, "jobs requeued after their worker was lost")                          \
  X(jobs_requeued_missing, "jobs requeued after two inventories did not list them")                  \
  X(jobs_stalled, "attempts ended by stall_timeout")                                                 \
  X(jobs_adopted, "jobs that their workers still ran when the broker or they came back")             \
  X(bodies_read, "bodies read back from the store")                                                  \
  X(jobs_failed_retry_budget, "jobs that had attempts left, but their service no retries")           \
  X(upstreams_opened, "circuit breakers that opened")                                                \
  X(upstream_words_bounded, "usage, or a time to come again, beyond what counts")                    \
  X(outcomes_stale, "outcomes of an attempt that is over")                                           \
  X(outcomes_repeated, "repeated outcomes")                                                          \
  X(outcomes_unknown_session, "outcomes of an unknown worker")                                       \
  X(workers_refused, "workers whose `ready` was refused")                                            \
  X(workers_returned, "workers that came back by another connection")                                \
  X(chunks_in, "chunks taken from workers")                                                          \
  X(chunks_out, "chunks sent to readers, once for each")                                             \
  X(chunks_refused, "chunks out of order, beyond the window, or of no stream")                       \
  X(chunks_stale, "chunks of an attempt that is over")                                               \
  X(chunks_late, "chunks of a job that is over for its clients")                                     \
  X(chunks_repeated, "repeated chunks")                                                              \
  X(chunks_unknown_session, "chunks of an unknown worker")                                           \
  X(progress_in, "progress messages of workers")                                                     \
  X(progress_late, "such messages about a job or an attempt that is over")                           \
  X(slow_reader, "readers let go for being slow")                                                    \
  X(seen_unmatched, "`seen` of a stream that is over, or nobody's")                                  \
  X(events_out, "events sent to watches, once for each")                                             \
  X(events_left_out, "events left out of a full watch, whose next one says `gap`")                   \
  X(watchers_refused, "watches refused for their number")                                            \
  X(watchers_let_go, "watches ended for the silence of their followers")                             \
  X(webhooks_made, "webhook jobs that the broker made")                                              \
  X(webhooks_refused, "webhook jobs that were refused: nobody is told")                              \
  X(groups_over, "groups that were over")                                                            \
  X(groups_given_up, "groups given up before they were over")                                        \
  X(groups_evicted, "groups without an open job, evicted for room")                                  \
  X(results_evicted, "kept results evicted for room")                                                \
  X(results_read, "results read back from the store")                                                \
  X(dead_evicted, "dead jobs evicted for room")                                                      \
  X(jobs_redriven, "dead jobs that an operator ran again")                                           \
  X(orphans_cancelled, "jobs cancelled after their clients were gone")                               \
  X(refused_bad_request, "refused submits that name no lane to count them in")
// clang-format on

struct Stats {
#define LANEMQ_COUNTER(name, meaning) std::uint64_t name = 0;
  LANEMQ_CORE_COUNTERS(LANEMQ_COUNTER)
#undef LANEMQ_COUNTER
  std::uint64_t workers_lost = 0;  ///< shown with the workers
};

}  // namespace lanemq::core
