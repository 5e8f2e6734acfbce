// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/wait_spans.hpp"

#include <utility>

#include <lanemq/version.hpp>

namespace lanemq::io {

WaitSpans::WaitSpans(const trace::Collector& otlp, trace::Steady zero)
    : zero_(zero), exporter_({.collector = otlp, .service = "lanemq-broker", .version = version()}) {}

void WaitSpans::take(const std::vector<core::Wait>& waits) {
  for (const core::Wait& wait : waits) {
    const std::optional<trace::Context> parent = trace::read_field(wait.trace);
    if (parent && parent->sampled()) take(wait, *parent);
  }
}

void WaitSpans::take(const core::Wait& wait, const trace::Context& parent) {
  trace::Span queue{.name = "queue", .at = trace::child_of(&parent), .parent = parent.span};
  queue.add("lanemq.job", wait.job);
  if (wait.attempt > 0) queue.add("lanemq.attempt", wait.attempt);
  queue.add("lanemq.service", wait.service);
  queue.add("lanemq.lane", wait.lane);
  queue.add("gen_ai.request.model", wait.model);
  queue.error = wait.end;
  queue.add("error.type", wait.end);
  queue.add("lanemq.limiter", wait.limiter);
  queue.set_times(steady(wait.since), steady(wait.until));
  if (wait.budget_since) {
    trace::Span budget{.name = "budget wait", .at = trace::child_of(&queue.at), .parent = queue.at.span};
    budget.end_ns = queue.end_ns;
    budget.begin_ns = queue.begin_ns + std::chrono::nanoseconds(*wait.budget_since - wait.since).count();
    exporter_.add(std::move(budget));
  }
  exporter_.add(std::move(queue));
}

trace::Steady WaitSpans::steady(core::TimePoint time) const {
  return zero_ + std::chrono::duration_cast<trace::Steady::duration>(time.time_since_epoch());
}

}  // namespace lanemq::io
