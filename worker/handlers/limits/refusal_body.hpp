// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "worker/handlers/limits/limit_headers.hpp"
#include "worker/handlers/limits/refusal_texts.hpp"

namespace lanemq::worker {

/// What the JSON of a refusal says beside code, type and message.
struct RefusalBody {
  LimitHeaders headers{};  ///< that the body repeats: `error.metadata.headers` of OpenRouter
  std::string text{};      ///< what the upstream's own upstream said, for words_of_text()
  /// `retryDelay` of google.rpc.RetryInfo.
  std::optional<std::chrono::milliseconds> retry_delay{};
  std::optional<LimitedBy> limited_by{};  ///< of google.rpc.QuotaFailure
};

/// Of longer refusals the beginning is read.
inline constexpr std::size_t kRefusalBytesMax = std::size_t{64} * 1024;

/// Reads a body that is an object with `error`, or a list with such an object.
RefusalBody read_refusal(std::string_view json, WallTime now);

}  // namespace lanemq::worker
