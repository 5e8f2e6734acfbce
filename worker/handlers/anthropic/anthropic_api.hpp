// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/handlers/model/model_api.hpp"

namespace lanemq::worker {

/// Anthropic's API: messages stream, all else is answered whole.
extern const ModelApi kAnthropicApi;

}  // namespace lanemq::worker
