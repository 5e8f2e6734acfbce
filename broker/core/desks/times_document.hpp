// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "broker/core/base/time.hpp"
#include "broker/core/base/times.hpp"
#include "broker/core/desks/document_page.hpp"

namespace lanemq::core {

/// Adds `count`, `sum`, `p50`, `p99` and `max` since the start, and `minute` and `ten_minutes` with `count`,
/// `p50` and `p99` of the last ones. Times are in ms, with three digits. Seven entries.
void add_times(DocumentMap& map, Times& times, TimePoint now);
/// Adds a map of that name with these.
void add_times(DocumentMap& map, std::string_view name, Times& times, TimePoint now);

}  // namespace lanemq::core
