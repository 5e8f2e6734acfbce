// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <lanemq/worker.hpp>

#include "worker/handlers/exec/child.hpp"

namespace lanemq::worker {

/// Why the handler ends a job's program before it has ended by itself.
enum class ExecStop : unsigned char { none, cancelled, timeout, deadline, output };

/// What a run's end is to its job; none: it has succeeded. `name` is the program's, for the message.
///
/// | the program | class | code |
/// | --- | --- | --- |
/// | ended with 0 | – | |
/// | with 75 (EX_TEMPFAIL) | `retry` | `exit_75` |
/// | with 69 (EX_UNAVAILABLE) | `overloaded` | `exit_69` |
/// | with any other | `permanent` | `exit_1` |
/// | was killed by a signal | `retry` | `signal_9` |
/// | could not be started | `retry` | `not_started` |
/// | lost its guard | `retry` | `guard_lost` |
std::optional<JobFailure> failure_of(const ChildEnd& end, const std::string& name);

/// How a run ended, for people: `ended with 1`, `was killed by signal 9 (Killed)`.
std::string description_of(const ChildEnd& end);

/// The failure of a job whose run was stopped. Requires: `stop` is not none. `bound`: the time or the size.
JobFailure failure_of(ExecStop stop, const ChildEnd& end, const std::string& bound);

/// The end of a program's stderr, such that it and `room` bytes fit into a failure's message.
std::string last_words_of(const ChildEnd& end, std::size_t room);

}  // namespace lanemq::worker
