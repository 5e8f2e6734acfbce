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

constexpr std::chrono::seconds kAheadKept{1};
constexpr int kReadings = 3;
constexpr int kStatusError = 2;  ///< OTLP's STATUS_CODE_ERROR

std::mt19937_64 seeded() {
  const auto entropy = system_entropy();
  std::uint64_t seed = 0;
  std::memcpy(&seed, entropy.data(), sizeof seed);
  return std::mt19937_64(seed);
}

/// How far the wall clock is ahead of the steady one. Kept for a moment, so that spans of one job fit
/// together although each pair of readings is a little apart, and no longer, since the wall clock is set.
nanoseconds wall_ahead() {
  struct Reading {
    Steady at{};
    nanoseconds ahead{};
    nanoseconds apart = nanoseconds::max();
  };
  thread_local Reading kept;
  if (kept.apart != nanoseconds::max() && std::chrono::steady_clock::now() - kept.at < kAheadKept)
    return kept.ahead;
  kept.apart = nanoseconds::max();
  for (int i = 0; i < kReadings; ++i) {
    const Steady before = std::chrono::steady_clock::now();
    const nanoseconds wall = std::chrono::system_clock::now().time_since_epoch();
    const nanoseconds apart = std::chrono::steady_clock::now() - before;
    if (apart < kept.apart) kept = {before, wall - before.time_since_epoch(), apart};
  }
  return kept.ahead;
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
  begin_ns = (begin.time_since_epoch() + wall_ahead()).count();
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
