// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <lanemq/client.hpp>

namespace lanemq::cli {

/// A job's status in plain words, safe for a terminal.
struct Explanation {
  std::string what;  ///< what the job is doing, and the one thing it waits for
  std::string help;  ///< what would help; empty: nothing needs to
};

Explanation explain_status(const JobStatus& status);

/// A job's status as JSON, in one line, by the names of the protocol; what it does not say is left out.
std::string status_json(const JobStatus& status);

/// The same with `what` and `help`.
std::string explanation_json(const JobStatus& status);

}  // namespace lanemq::cli
