// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lanemq::core {

// The table of what the core counts besides its lanes, since the start: X(name, meaning). Whatever the broker
// drops is counted here. The counters, the document of `stats` and docs/protocol/operating.md are made from
// it.
// clang-format off
#define LANEMQ_CORE_COUNTERS(X)                                                                                    \
  X(jobs_requeued_worker_lost, "jobs that were queued again since their worker was lost")                          \
  X(jobs_requeued_missing, "jobs that were queued again since two inventories of their worker did not list them")  \
  X(jobs_stalled, "attempts that were ended since their workers had said progress, and then nothing for stall_timeout") \
  X(jobs_adopted, "jobs that their workers still ran when the broker, or they themselves, came back")               \
  X(bodies_read, "bodies that came back from the store")                                                           \
  X(jobs_failed_retry_budget, "jobs that had attempts left, but their service no retries")                         \
  X(upstreams_opened, "circuit breakers that opened")                                                              \
  X(upstream_words_bounded, "usage, or a time to come again, beyond what counts")                                  \
  X(outcomes_stale, "outcomes of an attempt that is over")                                                         \
  X(outcomes_repeated, "outcomes that were there already")                                                         \
  X(outcomes_unknown_session, "outcomes of a worker that is not known")                                            \
  X(workers_refused, "workers whose `ready` was refused")                                                          \
  X(workers_returned, "workers whose connection was lost, and who came back by another")                           \
  X(chunks_in, "chunks of streamed answers, taken from workers")                                                   \
  X(chunks_out, "chunks sent to clients: once for each reader, and again for who reads later")                     \
  X(chunks_refused, "chunks out of order, beyond the window, or of no stream")                                     \
  X(chunks_stale, "chunks of an attempt that is over")                                                             \
  X(chunks_late, "chunks of a job that is over for its clients")                                                   \
  X(chunks_repeated, "chunks that were there already")                                                             \
  X(chunks_unknown_session, "chunks of a worker that is not known")                                                \
  X(progress_in, "words of workers about how far their jobs are")                                                  \
  X(progress_late, "such words about a job or an attempt that is over")                                            \
  X(slow_reader, "readers let go because they did not take what they were sent")                                   \
  X(seen_unmatched, "`seen` of a stream that is over, or nobody's")                                                \
  X(events_out, "events sent to who watches jobs: once for each watch")                                            \
  X(events_left_out, "events that a watch has no room for: its next one says `gap`")                               \
  X(watchers_refused, "watches refused at a bound of their number")                                                \
  X(watchers_let_go, "watches ended since their followers said nothing")                                           \
  X(webhooks_made, "jobs that the broker made to tell the `notify` of others of their ends")                       \
  X(webhooks_refused, "such jobs that were refused: nobody is told")                                               \
  X(groups_over, "groups of jobs that were over")                                                                  \
  X(groups_given_up, "groups that went before they were over: their time was, they made way, or another life began")  \
  X(groups_evicted, "groups without an open job, forgotten before their time, for room")                           \
  X(results_evicted, "kept results forgotten before their time, for room")                                         \
  X(results_read, "results read back from the store for who asked")                                                \
  X(dead_evicted, "dead jobs forgotten before their time, for room")                                               \
  X(jobs_redriven, "dead jobs that an operator ran again")                                                         \
  X(orphans_cancelled, "jobs cancelled since their clients were gone")                                             \
  X(refused_bad_request, "submits refused that name no lane to count them in")
// clang-format on

struct Stats {
#define LANEMQ_COUNTER(name, meaning) std::uint64_t name = 0;
  LANEMQ_CORE_COUNTERS(LANEMQ_COUNTER)
#undef LANEMQ_COUNTER
  std::uint64_t workers_lost = 0;  ///< shown with the workers
};

}  // namespace lanemq::core
