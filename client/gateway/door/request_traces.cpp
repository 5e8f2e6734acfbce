// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/request_traces.hpp"

#include <string_view>

#include <lanemq/version.hpp>

namespace lanemq::gateway {
namespace {

constexpr int kUnauthorized = 401, kServerErrors = 500;

/// Health, metrics and pages are no work, and who shows no key that counts begins no trace.
bool makes_span(const Answered& answered) {
  return answered.status != kUnauthorized && answered.request.path.starts_with("/v1/");
}

/// Why the request failed; empty: it did not, or by its own fault.
std::string error_of(const Answered& answered) {
  if (answered.status == 0) return "caller_left";
  if (answered.status >= kServerErrors) return std::to_string(answered.status);
  return answered.whole ? "" : "cut";
}

/// A request says its state in one field, or in several that count as one.
std::string state_of(const Headers& headers) {
  std::string state;
  for (const auto& [name, value] : headers)
    if (name == "tracestate") state += (state.empty() ? "" : ",") + value;
  return state;
}

}  // namespace

std::optional<trace::Context> trace_of(const Headers& headers) {
  const std::string_view parent = headers.get("traceparent");
  return parent.empty() ? std::nullopt : trace::read_context(parent, state_of(headers));
}

RequestTraces::RequestTraces(const trace::Collector& otlp) {
  if (otlp.endpoint.empty()) return;
  exporter_ = std::make_unique<trace::Exporter>(
      trace::ExporterOptions{.collector = otlp, .service = "lanemq-gateway", .version = version()});
}

std::optional<trace::Context> RequestTraces::begin(const Headers& headers) const {
  std::optional<trace::Context> caller = trace_of(headers);
  if (!exporter_ || (caller && !caller->sampled())) return caller;
  return trace::child_of(caller ? &*caller : nullptr);
}

std::optional<trace::Context> RequestTraces::of(const Answered& answered) const {
  if (!makes_span(answered)) return trace_of(answered.request.headers);
  if (answered.facts.traceparent.empty()) return begin(answered.request.headers);
  return trace::read_context(answered.facts.traceparent, state_of(answered.request.headers));
}

void RequestTraces::note(const Answered& answered, const std::optional<trace::Context>& at,
                         Loop::TimePoint now) {
  if (!exporter_ || !at || !at->sampled() || !makes_span(answered)) return;
  const std::optional<trace::Context> caller = trace_of(answered.request.headers);
  const AnswerFacts& facts = answered.facts;
  trace::Span span{.name = "request", .kind = trace::SpanKind::server, .at = *at};
  span.parent = caller ? caller->span : 0;
  span.error = error_of(answered);
  span.add("http.request.method", answered.request.method);
  span.add("url.path", answered.request.path);
  if (answered.status > 0) span.add("http.response.status_code", answered.status);
  span.add("error.type", span.error);
  span.add("lanemq.request", answered.request_id);
  span.add("lanemq.lane", facts.lane);
  span.add("gen_ai.request.model", facts.model);
  if (facts.waited) span.add("lanemq.queue_ms", facts.waited->count());
  if (facts.ran) span.add("lanemq.ran_ms", facts.ran->count());
  if (facts.input_tokens) span.add("gen_ai.usage.input_tokens", *facts.input_tokens);
  if (facts.output_tokens) span.add("gen_ai.usage.output_tokens", *facts.output_tokens);
  span.set_times(now - answered.took, now);
  exporter_->add(std::move(span));
}

}  // namespace lanemq::gateway
