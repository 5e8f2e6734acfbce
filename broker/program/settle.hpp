// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/config.hpp"

namespace lanemq::program {

/// Reads the keys, and sets the default of the operators' endpoint where it is not configured. Throws
/// ConfigError for endpoints that strangers could reach as they please, or that stand for two things.
void settle_endpoints(Config& config);

/// Makes the folder of the operators' socket where no option names one. A socket that cannot be made is a
/// warning.
void make_operators_folder(const Config& config);

}  // namespace lanemq::program
