// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "broker/whatif/simulate.hpp"

namespace lanemq::figures {

/// Chat requests like those of the conversation trace of the Azure Public Dataset
/// (AzureLLMInferenceTrace_conv, 2023, CC-BY 4.0): as many in each of its 58 minutes, with gaps as random
/// arrivals have them, and prompts and answers drawn from its distributions. Nothing of the trace itself is
/// in here. In the order of their times; `critical_percent` in a hundred are critical, the others are batch;
/// of 20 clients.
std::vector<whatif::Request> conversation_trace(std::uint64_t seed, unsigned critical_percent);

}  // namespace lanemq::figures
