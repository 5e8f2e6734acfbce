// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/config.hpp"
#include "common/settings/asked.hpp"

namespace lanemq::program {

/// Runs the command that a flag asks for in place of serving, with a store that no broker serves: checks,
/// fences or copies it, or moves a part. False: no flag asks. Throws ConfigError, io::StoreError.
bool do_instead(const Config& config, const settings::Asked& asked);

}  // namespace lanemq::program
