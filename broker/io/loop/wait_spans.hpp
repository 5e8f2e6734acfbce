// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "broker/core/base/outbox.hpp"
#include "common/trace/exporter.hpp"

namespace lanemq::io {

/// Makes spans of what the core tells of waits: `queue`, below the span that the job brought, and `budget
/// wait` below it. A trace that cannot be read, or is not sampled, makes none. Belongs to the loop's thread.
class WaitSpans {
 public:
  /// `otlp`: the collector. `zero`: when the core's time began. Throws std::invalid_argument for what is no
  /// collector.
  WaitSpans(const trace::Collector& otlp, trace::Steady zero);

  void take(const std::vector<core::Wait>& waits);
  std::uint64_t sent() const { return exporter_.sent(); }
  std::uint64_t lost() const { return exporter_.lost(); }

 private:
  void take(const core::Wait& wait, const trace::Context& parent);
  trace::Steady steady(core::TimePoint time) const;

  const trace::Steady zero_;
  trace::Exporter exporter_;
};

}  // namespace lanemq::io
