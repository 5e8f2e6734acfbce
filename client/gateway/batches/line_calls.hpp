// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "client/gateway/batches/batch_engine.hpp"
#include "client/gateway/batches/batch_store.hpp"
#include "client/gateway/settings.hpp"

namespace lanemq::gateway {

/// The job of a batch's request: its model by a step of its route, without the lane behind an @; its body
/// without what is meant for the gateway alone; how it is called upstream. Equal batches and bodies give
/// equal jobs as long as the settings are the same. A step that is no more is the last.
LineJob job_of_line(const Settings& settings, const StoredBatch& batch, std::string_view model,
                    std::string_view body, std::size_t step = 0);

/// Whether the request's route has another step behind that one, and goes on to it after that error. How long
/// a step may wait (`max_wait`) does not count: nobody waits for a batch.
bool line_falls_back(const Settings& settings, const StoredBatch& batch, std::string_view model,
                     std::size_t step, const ClientError& error);

}  // namespace lanemq::gateway
