// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "broker/core/base/outbox.hpp"

namespace lanemq::io {

/// Writes to the log what the core notices.
void log_notices(const std::vector<core::Notice>& notices);

}  // namespace lanemq::io
