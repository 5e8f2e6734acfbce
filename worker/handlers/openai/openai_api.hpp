// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/handlers/model/model_api.hpp"

namespace lanemq::worker {

/// OpenAI's API, which many upstreams speak: chat completions, completions and responses stream, all else is
/// answered whole.
extern const ModelApi kOpenaiApi;

}  // namespace lanemq::worker
