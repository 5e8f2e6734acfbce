// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "broker/io/base/transport_stats.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// The state around the core, at the time of an answer.
struct Surroundings {
  std::string_view store, store_state;  ///< Store::name(), StoreWatch::state()
  std::optional<StoreRoom> room{};
  std::optional<StoreOwnership> ownership{};
  core::TimePoint now;
  core::Duration uptime;
  std::int64_t clock_set_ms = 0;  ///< how far the system's clock has been set since the start
  /// The space of names of who asks; none: an operator, who sees those of all.
  std::optional<std::string_view> space{};
};

/// Writes the answer to `stats`; docs/protocol/operating.md lists its fields. Of budgets and keys it has as
/// many as fit a header, from the `from`-th on.
void write_stats_document(core::Broker& broker, TransportStats& transport, const Surroundings& around,
                          std::size_t from, Buffer& out);

}  // namespace lanemq::io
