// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <lanemq/client.hpp>

#include "common/explanation/explanation.hpp"

namespace lanemq::cli {

Explanation explain_status(const JobStatus& status);

/// A job's status as one line of JSON, with the protocol's names; unset fields are left out.
std::string status_json(const JobStatus& status);

/// The outcome of a job as one line of JSON: its answer as `result` (JSON, else a string), that it was
/// accepted, or why it failed.
std::string answer_json(const JobDone& done);
std::string accepted_json(const JobAccepted& accepted);
std::string error_json(const ClientError& error);

/// How the jobs of a group ended, with the protocol's names.
std::vector<std::pair<const char*, std::int64_t>> ended_of(const JobChange& change);

/// What has become of a job as one line of JSON, with the protocol's names.
std::string change_json(const JobChange& change);

/// A job's status as one line of JSON, with `what` and `help`.
std::string explanation_json(const JobStatus& status);

}  // namespace lanemq::cli
