// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "broker/core/base/event.hpp"
#include "broker/core/base/refusal.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/jobs/job.hpp"

namespace lanemq::core {

struct State;

// Reports through the outbox what jobs with a `trace` waited for. With Options::tells_waits off, or for a job
// without a trace, these do nothing.

/// A job goes back to its queue: it waits again from now on. Requires: its share of the byte bounds is
/// counted.
void note_wait_begins(const State& state, Job& job, TimePoint now);
/// A job's wait is over, by its hand-over or, where `end` is set, by its own end. `refused_since`: since when
/// budgets have refused its flow; none: they did not.
void tell_wait(State& state, const Job& job, std::optional<TimePoint> refused_since,
               std::optional<ErrorCode> end, TimePoint now);
/// A submit was refused.
void tell_refused(State& state, const Submitted& event, const Refusal& why, TimePoint now);

}  // namespace lanemq::core
