// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::worker {

/// What must be known of a provider of model APIs, since its answers do not say it: a row of
/// packaging/providers.toml, which is compiled in.
struct Provider {
  std::string name;
  std::string host;                     ///< of its base URL
  std::int64_t requests_period_ms = 0;  ///< that its headers count requests in; 0: a minute, or they say it
};

/// All of them. The table is read at the first call, not at the start.
const std::vector<Provider>& providers();
/// The one that a base URL leads to; null: none of them.
const Provider* provider_of(std::string_view url);

}  // namespace lanemq::worker
