// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/config.hpp"
#include "common/settings/asked.hpp"

namespace lanemq::program {

/// Does what a flag asks for in place of serving, with a store that no broker serves: checks, fences, copies
/// it, or moves a part of it. False: no flag does. Throws ConfigError, io::StoreError.
bool do_instead(const Config& config, const settings::Asked& asked);

}  // namespace lanemq::program
