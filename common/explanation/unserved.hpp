// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lanemq {

/// A service that has jobs which no worker may be given.
struct Unserved {
  std::string service;
  std::string lane{};     ///< whose jobs no worker takes; empty: no worker offers the service
  bool draining = false;  ///< workers take that lane, and all of them drain
};

/// What a job waits for, read from its `blocked_by`; none: that says something else.
std::optional<Unserved> unserved_of(std::string_view blocked_by);
/// What no worker serves: `embed in lane normal (all that do drain)`, with names in these quotes.
std::string name_of(const Unserved& unserved, std::string_view quote = {});
/// What helps.
std::string help_of(const Unserved& unserved);

}  // namespace lanemq
