// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/settings/environment.hpp"
#include "worker/handlers/exec/child.hpp"
#include "worker/handlers/exec/exec_options.hpp"

namespace lanemq::worker {

/// The program of these options: looked up in PATH where it is a plain name, with the variables that it may
/// have, secrets read. Throws settings::UsageError where there is no such program, it may not be run, or its
/// directory is none.
Program find_program(const ExecOptions& options, const settings::Environment& environment);

}  // namespace lanemq::worker
