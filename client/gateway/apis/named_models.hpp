// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lanemq::gateway {

/// A model that a request's body names beside its `model`.
struct NamedModel {
  std::string param{};  ///< where: `fallbacks[1]`, `tools[0].model`
  std::string model{};  ///< empty: what is stored upstream may name one
};

/// What a body names in members that upstreams are known to take models from: `fallbacks` (Anthropic,
/// OpenRouter, LiteLLM), `models` (OpenRouter), `fallback_models`, each of `tools` (Anthropic's advisor,
/// OpenAI's images), and a stored `prompt` where there is no `model`. Members count in any case, and each
/// time. Requires: the body is a valid JSON object.
std::vector<NamedModel> named_models_of(std::string_view body);

}  // namespace lanemq::gateway
