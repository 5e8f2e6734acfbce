// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <lanemq/client.hpp>

namespace lanemq::cli {

/// A job's state in plain words, safe for a terminal.
struct Explanation {
  std::string what;  ///< what the job does, and the one thing it waits for
  std::string help;  ///< what would help; empty: nothing is needed
};

Explanation explain_status(const JobStatus& status);

/// What helps where the upstream refused the key of the worker.
inline constexpr std::string_view kKeyHelp =
    "The key is the worker's: give lanemq-worker the right one and restart it; the upstream's message says "
    "what is wrong with this one.";

/// A job's status as one line of JSON, with the protocol's names; unset fields are left out.
std::string status_json(const JobStatus& status);

/// The outcome of a job as one line of JSON: its answer as `result` (JSON, else a string), that it was
/// accepted, or why it failed.
std::string answer_json(const JobDone& done);
std::string accepted_json(const JobAccepted& accepted);
std::string error_json(const ClientError& error);

/// A job's status as one line of JSON, with `what` and `help`.
std::string explanation_json(const JobStatus& status);

}  // namespace lanemq::cli
