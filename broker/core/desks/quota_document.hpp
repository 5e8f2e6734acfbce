// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "broker/core/base/time.hpp"
#include "broker/core/budgets/budgets.hpp"
#include "broker/core/budgets/quota.hpp"
#include "broker/core/desks/document_page.hpp"

namespace lanemq::core {

/// Adds a map for each limit under its name: what can be taken now (`level`), at most at once (`capacity`),
/// and per period (`limit`). Up to 13 entries.
void add_limits(DocumentMap& map, Quota& quota, TimePoint now);
/// Adds a budget's own limits in the same way. For a budget shared by several shards, as its bank last
/// reported: `level` is what it had for all of them, `here` what this shard holds, `lent` what all hold.
void add_limits(DocumentMap& map, Budget& budget, TimePoint now);
/// Adds `paused_ms`, the rest of the upstream's pause, where there is one.
void add_pause(DocumentMap& map, const Quota& quota, TimePoint now);
/// Adds `paused_models_ms`, the rest of single models' pauses, where there are any: the first `shown_max`.
void add_paused_models(DocumentMap& map, const Budgets& budgets, const Budget& budget, std::size_t shown_max,
                       TimePoint now);

}  // namespace lanemq::core
