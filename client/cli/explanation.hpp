// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <lanemq/client.hpp>

namespace lanemq::cli {

/// A job's status in plain words, safe for a terminal.
struct Explanation {
  std::string what;  ///< what the job is doing, and the one thing it waits for
  std::string help;  ///< what would help; empty: nothing needs to
};

Explanation explain_status(const JobStatus& status);

/// What helps where the upstream refused the key of the worker.
inline constexpr std::string_view kKeyHelp =
    "The key is the worker's: give lanemq-worker the right one and restart it; the upstream's message says "
    "what is wrong with this one.";

/// A job's status as JSON, in one line, by the names of the protocol; what it does not say is left out.
std::string status_json(const JobStatus& status);

/// The same of what became of a job: its answer as `result`, JSON where it is that, else as a text; that it
/// was taken; why there is no answer.
std::string answer_json(const JobDone& done);
std::string accepted_json(const JobAccepted& accepted);
std::string error_json(const ClientError& error);

/// A job's status with `what` and `help`.
std::string explanation_json(const JobStatus& status);

}  // namespace lanemq::cli
