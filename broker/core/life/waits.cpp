// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/waits.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

bool is_told(const State& state, const Job& job) {
  return state.options.tells_waits && !job.text.get(JobText::trace).empty();
}

}  // namespace

void note_wait_begins(const State& state, Job& job, TimePoint now) {
  if (is_told(state, job)) job.need_extra().waits_again_since = now;
}

void tell_wait(State& state, const Job& job, std::optional<TimePoint> refused_since,
               std::optional<ErrorCode> end, TimePoint now) {
  if (!is_told(state, job)) return;
  const auto again = job.extra ? job.extra->waits_again_since : std::nullopt;
  Wait wait{.trace = std::string(job.text.get(JobText::trace)),
            .job = std::string(job.id()),
            .service = job.flow().service().name,
            .lane = state.lanes[job.lane]->options().name,
            .model = std::string(job.text.get(JobText::model)),
            .attempt = job.attempt,
            .since = std::min(again.value_or(job.accepted_at), now),
            .until = now};
  if (refused_since) wait.budget_since = std::max(*refused_since, wait.since);
  if (end) wait.end = name_of(*end);
  state.outbox.waits.push_back(std::move(wait));
}

void tell_refused(State& state, const Submitted& event, const Refusal& why, TimePoint now) {
  const wire::Submit& fields = *event.fields;
  if (!state.options.tells_waits || !fields.trace.present()) return;
  state.outbox.waits.push_back({.trace = std::string(fields.trace.bytes),
                                .job = std::string(fields.id),
                                .service = std::string(fields.service),
                                .lane = std::string(fields.lane),
                                .model = std::string(fields.model),
                                .since = now,
                                .until = now,
                                .end = name_of(why.code),
                                .limiter = why.limiter});
}

}  // namespace lanemq::core
