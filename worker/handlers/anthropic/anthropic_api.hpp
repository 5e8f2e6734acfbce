// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/handlers/model/model_api.hpp"

namespace lanemq::worker {

/// The API of Anthropic: messages stream, whatever else there is answers at once.
extern const ModelApi kAnthropicApi;

}  // namespace lanemq::worker
