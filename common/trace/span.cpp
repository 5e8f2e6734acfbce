// SPDX-License-Identifier: Apache-2.0
#include "common/trace/span.hpp"

#include <cstring>
#include <random>

#include <lanemq/text.hpp>

#include "common/ids/hex.hpp"
#include "common/ids/ulid.hpp"
#include "common/json/members.hpp"

namespace lanemq::trace {
namespace {

using std::chrono::nanoseconds;

constexpr int kStatusError = 2;  ///< OTLP's STATUS_CODE_ERROR

std::mt19937_64 seeded() {
  const auto entropy = system_entropy();
  std::uint64_t seed = 0;
  std::memcpy(&seed, entropy.data(), sizeof seed);
  return std::mt19937_64(seed);
}

std::int64_t since_1970(Steady time) {
  const nanoseconds before_now = std::chrono::steady_clock::now() - time;
  const nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  return (now - before_now).count();
}

/// Whole numbers of 64 bits are texts in protobuf's JSON.
std::string quoted(std::int64_t number) {
  return '"' + std::to_string(number) + '"';
}

void append_fact(std::string& json, std::string_view name, std::string_view value) {
  json.append(R"({"key":)").append(json_text(name)).append(R"(,"value":{)").append(value).append("}}");
}

void append_text(std::string& json, std::string_view name, std::string_view text) {
  append_fact(json, name, R"("stringValue":)" + json_text(text));
}

void append_facts(std::string& json, const Span& span) {
  json += R"("attributes":[)";
  for (std::size_t i = 0; i < span.facts.size(); ++i) {
    if (i > 0) json += ',';
    const auto& [name, value] = span.facts[i];
    if (const auto* text = std::get_if<std::string>(&value))
      append_text(json, name, *text);
    else
      append_fact(json, name, R"("intValue":)" + quoted(std::get<std::int64_t>(value)));
  }
  json += ']';
}

void append_span(std::string& json, const Span& span) {
  json.append(R"({"traceId":")").append(span.at.trace_text());
  json.append(R"(","spanId":")").append(hex(span.at.span)).append("\",");
  if (span.parent != 0) json.append(R"("parentSpanId":")").append(hex(span.parent)).append("\",");
  if (!span.at.state.empty()) json.append(R"("traceState":)").append(json_text(span.at.state)).append(",");
  json.append(R"("name":)").append(json_text(span.name));
  json.append(R"(,"kind":)").append(std::to_string(static_cast<int>(span.kind)));
  json.append(R"(,"flags":)").append(std::to_string(span.at.flags));
  json.append(R"(,"startTimeUnixNano":)").append(quoted(span.begin_ns));
  json.append(R"(,"endTimeUnixNano":)").append(quoted(span.end_ns)).append(",");
  append_facts(json, span);
  if (!span.error.empty())
    json.append(R"(,"status":{"code":)")
        .append(std::to_string(kStatusError))
        .append(R"(,"message":)")
        .append(json_text(span.error))
        .append("}");
  json += '}';
}

}  // namespace

void Span::add(std::string_view fact, std::string_view text) {
  if (!text.empty()) facts.emplace_back(fact, printable(text, kTextBytesMax));
}

void Span::set_times(Steady begin, Steady end) {
  begin_ns = since_1970(begin);
  end_ns = begin_ns + nanoseconds(end - begin).count();
}

SpanId new_span_id() {
  thread_local std::mt19937_64 random = seeded();
  SpanId id = 0;
  while (id == 0)
    id = random();
  return id;
}

Context child_of(const Context* parent) {
  Context child = parent != nullptr ? *parent : Context{.trace = {new_span_id(), new_span_id()}, .flags = 1};
  child.span = new_span_id();
  return child;
}

std::string otlp_json(std::string_view service, std::string_view version, const std::vector<Span>& spans) {
  std::string json = R"({"resourceSpans":[{"resource":{"attributes":[)";
  append_text(json, "service.name", service);
  json += ',';
  append_text(json, "service.version", version);
  json.append(R"(]},"scopeSpans":[{"scope":{"name":"lanemq","version":)").append(json_text(version));
  json += R"(},"spans":[)";
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i > 0) json += ',';
    append_span(json, spans[i]);
  }
  json += "]}]}]}";
  return json;
}

}  // namespace lanemq::trace
