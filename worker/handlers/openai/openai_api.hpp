// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/handlers/model/model_api.hpp"

namespace lanemq::worker {

/// The API of OpenAI, and of the many that speak it: chat completions, completions and responses stream,
/// whatever else there is answers at once.
extern const ModelApi kOpenaiApi;

}  // namespace lanemq::worker
