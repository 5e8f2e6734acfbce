// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "broker/core/base/outbox.hpp"
#include "broker/core/base/time.hpp"

namespace lanemq::core {
class Broker;
}

namespace lanemq::io {

/// Writes to the log what the core notices.
void log_notices(const std::vector<core::Notice>& notices);

/// Writes to the log once a minute how much each lane has waiting, where one has. Not thread-safe; belongs to
/// the loop.
class DepthLog {
 public:
  static constexpr core::Duration kEvery = std::chrono::minutes(1);

  struct Depth {
    std::string_view lane;
    std::size_t queued = 0, delayed = 0, running = 0;
    core::Duration oldest{};  ///< of those that are queued
  };

  /// The lanes of which a line is due: a minute after the first call, and each minute from then on.
  std::vector<Depth> due(const core::Broker& broker, core::TimePoint now);
  /// Writes these lines. To be called in every turn.
  void look(const core::Broker& broker, core::TimePoint now);

 private:
  std::optional<core::TimePoint> next_;
};

}  // namespace lanemq::io
