// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/progress_keeper.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "broker/core/life/job_life.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/life/watchers.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {

void ProgressKeeper::take(Job& job, const wire::Progress& said, TimePoint now) {
  auto& place = job.need_extra().progress;
  if (place == nullptr) place = std::make_unique<Progress>(job);
  Progress& progress = *place;
  progress.pct = said.pct;
  progress.heard_at = now;
  set_note(progress, said.note, now);
  ++state_.stats.progress_in;
  if (!progress.told_at || now >= *progress.told_at + kToldEvery)
    tell(progress, now);
  else
    progress.untold = watchers_.size() > 0;
  set_timer(progress, now);
}

/// Results make way for a note; where memory is short all the same there is none.
void ProgressKeeper::set_note(Progress& progress, std::string_view note, TimePoint now) {
  state_.bytes -= progress.bytes();
  progress.note = note;
  state_.bytes += progress.bytes();
  if (results_.make_room(0, false, now)) return;
  state_.bytes -= progress.bytes();
  progress.note = {};
}

void ProgressKeeper::look(Progress& progress, TimePoint now) {
  Job& job = progress.job;
  // A reader that makes its worker pause is no silence of the worker's.
  if (job.answer() != nullptr && job.answer()->holds_worker()) progress.heard_at = now;
  const Duration patience = patience_with(job);
  const TimePoint silent_from = state_.silent_from(progress.heard_at, now);
  if (patience.count() > 0 && now >= silent_from + patience) return end_attempt(job, now);
  if (progress.untold && now >= *progress.told_at + kToldEvery) tell(progress, now);
  set_timer(progress, now);
}

/// How long its worker may be silent; 0: for ever.
Duration ProgressKeeper::patience_with(const Job& job) const {
  return state_.lanes[job.lane]->options().stall_timeout;
}

void ProgressKeeper::tell(Progress& progress, TimePoint now) {
  progress.untold = false;
  progress.told_at = now;
  watchers_.tell(progress.job,
                 {.what = "progress",
                  .state = JobState::running,
                  .worker = progress.job.worker()->name,
                  .pct = progress.pct,
                  .note = progress.note},
                 now);
}

void ProgressKeeper::set_timer(Progress& progress, TimePoint now) {
  const Duration patience = patience_with(progress.job);
  TimePoint due = patience.count() > 0 ? state_.silent_from(progress.heard_at, now) + patience : kNever;
  if (progress.untold) due = std::min(due, *progress.told_at + kToldEvery);
  if (due != kNever)
    state_.timers.set(progress.timer, due);
  else
    state_.timers.clear(progress.timer);
}

/// Requeues as if the worker were lost, but keeps the worker: it may still be busy with the job, so the lease
/// takes one of its places until its outcome comes or an inventory lacks it.
void ProgressKeeper::end_attempt(Job& job, TimePoint now) {
  Worker& worker = *job.worker();
  const Away& away = job.at_away();
  const wire::Lease lease{static_cast<std::uint64_t>(job.number), job.attempt};
  const std::int64_t silent_ms = to_ms(now - job.progress()->heard_at);
  ++state_.stats.jobs_stalled;
  state_.outbox.notices.push_back({.kind = Notice::Kind::job_stalled,
                                   .worker = worker.name,
                                   .session = worker.session,
                                   .service = job.flow().service().name,
                                   .name = std::string(job.id()),
                                   .number = lease.job,
                                   .attempt = lease.attempt,
                                   .for_ms = silent_ms});
  {
    const Outbox::Waiting behind_offer(state_.outbox, job.durable || away.offer_waited);
    state_.tell(worker, wire::CancelJob{lease.job, lease.attempt, name_of(ErrorCode::stalled)});
  }
  state_.budgets.settle(job.at_away().reservation, std::nullopt, now);
  results_.remember_attempt(job, name_of(ErrorCode::stalled), {}, {}, now);
  life_.leave_place(job, Verdict::unknown, now);
  std::vector<wire::Lease> strays = worker.strays;
  strays.push_back(lease);
  state_.workers.set_strays(worker, std::move(strays));

  const std::string silence = "its worker had said how far it was, and then nothing for " +
                              std::to_string(silent_ms) + " ms (stall_timeout of lane \"" +
                              state_.lanes[job.lane]->options().name + "\")";
  if (job.has_content())
    return life_.end_with(job, JobState::failed, ErrorCode::stalled,
                          silence + ", when its answer had been sent up to chunk " +
                              std::to_string(job.answer()->next() - 1) + ": it is not run again",
                          now);
  if (job.attempts_spent())
    return life_.end_with(
        job, JobState::failed, ErrorCode::stalled,
        silence + ", in the last of its attempts (attempts_max " + std::to_string(job.attempts_max) + ")",
        now);
  life_.requeue(job, JobLife::Requeue::costs_attempt, name_of(ErrorCode::stalled), now, now);
}

}  // namespace lanemq::core
