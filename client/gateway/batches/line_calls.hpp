// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "client/gateway/batches/batch_engine.hpp"
#include "client/gateway/batches/batch_store.hpp"
#include "client/gateway/door/settings.hpp"

namespace lanemq::gateway {

/// The job of a batch's request: the service and model of a step of its route, without @LANE; its body
/// without members for the gateway; and the upstream call. Equal batches and bodies give equal jobs while the
/// settings are the same. A step beyond the route's end is its last.
LineJob job_of_line(const Settings& settings, const StoredBatch& batch, std::string_view model,
                    std::string_view body, std::size_t step = 0);

/// Why the key of now that has the batch may not send its request: it was taken away (then the line waits, in
/// case it comes back), or bound to other models, services or lanes since. None: it may.
std::optional<ClientError> why_not_line(const Settings& settings, const StoredBatch& batch,
                                        std::string_view model, std::string_view body);

/// Whether the request's route has a step behind that one, and takes it after that error. `max_wait` of steps
/// does not count: no caller waits for a batch.
bool line_falls_back(const Settings& settings, const StoredBatch& batch, std::string_view model,
                     std::size_t step, const ClientError& error);

}  // namespace lanemq::gateway
