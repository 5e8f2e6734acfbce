// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace lanemq::worker {

/// What a service of the handler webhook may call, and how it signs.
struct WebhookOptions {
  std::vector<std::string> hosts{};           ///< as written; at least one
  std::vector<std::string> secrets{};         ///< their sources: one, or two while they are rotated
  bool private_addresses = false;             ///< names may stand for addresses that are not public
  std::chrono::milliseconds timeout{15'000};  ///< of a call; or less, where the job has less left

  static constexpr std::size_t kHostsMax = 1024;
  static constexpr std::size_t kSecretsMax = 2;
};

}  // namespace lanemq::worker
