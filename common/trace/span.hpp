// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/trace/context.hpp"

namespace lanemq::trace {

using Steady = std::chrono::steady_clock::time_point;

/// What a span is, as OTLP numbers it.
enum class SpanKind : unsigned char { internal = 1, server = 2, client = 3 };

/// A piece of work in a trace. Holds names and numbers, never a body or a secret.
struct Span {
  /// Texts are cut there, so that a span's size is bounded by its fields.
  static constexpr std::size_t kTextBytesMax = 128;

  std::string_view name{};  ///< a word of the program
  SpanKind kind = SpanKind::internal;
  Context at{};                           ///< its trace, and its own id as `span`
  SpanId parent = 0;                      ///< 0: it begins the trace
  std::int64_t begin_ns = 0, end_ns = 0;  ///< since 1970
  std::string error{};                    ///< a code, where the work failed; empty: it did not
  /// By their names in OpenTelemetry's conventions, or `lanemq.…`. Empty texts are left out.
  std::vector<std::pair<std::string_view, std::variant<std::string, std::int64_t>>> facts{};

  void add(std::string_view fact, std::string_view text);
  void add(std::string_view fact, std::int64_t number) { facts.emplace_back(fact, number); }
  /// Sets when it began and ended. Requires: `end` is not before `begin`.
  void set_times(Steady begin, Steady end);
};

/// A new random id: unique, and no secret. Thread-safe.
SpanId new_span_id();
/// The context of the span that comes next: of that trace, or of a new one, whose spans are recorded.
Context child_of(const Context* parent);

/// The request of OTLP/HTTP in its JSON encoding for these spans of a program.
std::string otlp_json(std::string_view service, std::string_view version, const std::vector<Span>& spans);

}  // namespace lanemq::trace
