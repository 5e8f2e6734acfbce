// SPDX-License-Identifier: Apache-2.0
#include "worker/call_spans.hpp"

#include <lanemq/version.hpp>

namespace lanemq::worker {

CallSpans::CallSpans(const trace::Collector& otlp)
    : exporter_({.collector = otlp, .service = "lanemq-worker", .version = version()}) {}

std::string CallSpans::began(const JobCall& job) {
  const std::optional<trace::Context> parent = trace::read_field(job.trace.bytes);
  if (parent && !parent->sampled()) return parent->parent_text();
  Running running{.began = job.now};
  trace::Span& span = running.span;
  span.name = "call";
  span.kind = trace::SpanKind::client;
  span.at = trace::child_of(parent ? &*parent : nullptr);
  span.parent = parent ? parent->span : 0;
  span.add("lanemq.job", job.id);
  span.add("lanemq.attempt", job.lease.attempt);
  span.add("lanemq.service", job.service);
  span.add("lanemq.lane", job.lane);
  span.add("lanemq.key", job.key);
  span.add("gen_ai.request.model", job.model);
  std::string traceparent = span.at.parent_text();
  running_.insert_or_assign({job.lease.job, job.lease.attempt}, std::move(running));
  return traceparent;
}

void CallSpans::streams(wire::Lease lease, TimePoint now) {
  const auto running = running_.find({lease.job, lease.attempt});
  if (running != running_.end() && !running->second.first_piece) running->second.first_piece = now;
}

void CallSpans::ended(wire::Lease lease, const CallEnd& end, TimePoint now) {
  auto found = running_.extract({lease.job, lease.attempt});
  if (found.empty()) return;
  auto& [span, began, first_piece] = found.mapped();
  span.error = end.failure;
  span.add("error.type", end.failure);
  if (end.upstream_status) span.add("http.response.status_code", *end.upstream_status);
  if (end.usage) {
    if (end.usage->input_tokens) span.add("gen_ai.usage.input_tokens", *end.usage->input_tokens);
    if (end.usage->output_tokens) span.add("gen_ai.usage.output_tokens", *end.usage->output_tokens);
  }
  span.set_times(began, now);
  if (first_piece) {
    trace::Span stream{.name = "stream", .at = trace::child_of(&span.at), .parent = span.at.span};
    stream.error = end.failure;
    stream.set_times(*first_piece, now);
    exporter_.add(std::move(stream));
  }
  exporter_.add(std::move(span));
}

}  // namespace lanemq::worker
