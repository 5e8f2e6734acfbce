// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/base/loop.hpp"
#include "common/http/server/server.hpp"
#include "common/trace/exporter.hpp"

namespace lanemq::gateway {

/// The traces of requests: reads what callers say of theirs, and makes a span `request` of each request for
/// work, below the caller's span or at the head of a new trace. Belongs to the loop's thread.
class RequestTraces {
 public:
  /// `otlp`: the collector; empty: no spans are made, and callers' traces go on as they came. Throws
  /// std::invalid_argument for what is no collector.
  explicit RequestTraces(const trace::Collector& otlp);

  /// Where what a request causes stands; none: it has no trace. With a span of its own for each call.
  std::optional<trace::Context> begin(const Headers& headers) const;
  /// Where a request stood that is over: as its handler told, else as its header says.
  std::optional<trace::Context> of(const Answered& answered) const;
  /// Makes the span of a request that is over. `at`: as of() says.
  void note(const Answered& answered, const std::optional<trace::Context>& at, Loop::TimePoint now);

  std::uint64_t sent() const { return exporter_ ? exporter_->sent() : 0; }
  std::uint64_t lost() const { return exporter_ ? exporter_->lost() : 0; }

 private:
  std::unique_ptr<trace::Exporter> exporter_;  ///< null: no spans
};

/// The trace that a caller names; none: none, or one that breaks the format.
std::optional<trace::Context> trace_of(const Headers& headers);

}  // namespace lanemq::gateway
