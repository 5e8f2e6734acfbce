// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <lanemq/error_table.hpp>
#include <lanemq/shards.hpp>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// Why a request is not taken, and when the client may ask again.
struct Refusal {
  ErrorCode code;
  std::string message;
  std::optional<Duration> retry_after;
  std::string limiter{};         ///< the bound that stood in the way, by its name in the configuration
  const Shard* shard = nullptr;  ///< not_owner: the one that takes such jobs; null: it is about the store
};

inline Refusal bad_request(std::string message) {
  return {ErrorCode::bad_request, std::move(message), {}};
}

}  // namespace lanemq::core
