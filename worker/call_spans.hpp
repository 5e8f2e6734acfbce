// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <lanemq/worker.hpp>

#include "common/trace/exporter.hpp"

namespace lanemq::worker {

/// Makes the spans of the worker's calls: `call`, below the span that the job brought, and `stream` below it,
/// from the first piece to the end. A job without a trace, or with a broken one, begins a new trace; one
/// whose trace is not sampled makes no spans. Belongs to the thread of Worker::run(). Holds as much as the
/// worker has jobs.
class CallSpans final : public CallWatcher {
 public:
  /// `otlp`: the collector. Throws std::invalid_argument for what is none.
  explicit CallSpans(const trace::Collector& otlp);

  std::string began(const JobCall& job) override;
  void streams(wire::Lease lease, TimePoint now) override;
  void ended(wire::Lease lease, const CallEnd& end, TimePoint now) override;

 private:
  struct Running {
    trace::Span span;
    TimePoint began{};
    std::optional<TimePoint> first_piece{};
  };

  trace::Exporter exporter_;
  std::map<std::pair<std::uint64_t, std::int64_t>, Running> running_;  // by job and attempt
};

}  // namespace lanemq::worker
