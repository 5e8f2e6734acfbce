// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lanemq::worker {

/// What must be known of a provider of model APIs, since its answers do not say it: a row made of
/// packaging/providers.toml.
struct Provider {
  std::string_view name;
  std::string_view host;                ///< of its base URL, in lower case
  std::int64_t requests_period_ms = 0;  ///< that its headers count requests in; 0: a minute, or they say it
  std::int64_t tokens_period_ms = 0;    ///< the same of tokens
};

std::span<const Provider> providers();
/// The one that a base URL leads to; null: none of them.
const Provider* provider_of(std::string_view url);

}  // namespace lanemq::worker
