// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lanemq::trace {

/// A longer `tracestate` is dropped: this is what everybody is to pass on (W3C Trace Context, 3.3.1.5).
inline constexpr std::size_t kStateBytesMax = 512;
/// Longer `trace` fields of jobs are not read.
inline constexpr std::size_t kFieldBytesMax = 2048;

using TraceId = std::array<std::uint64_t, 2>;  ///< the higher half first; never 0
using SpanId = std::uint64_t;                  ///< never 0

/// Where something stands in a trace, by W3C Trace Context: which trace, and which span is the parent of what
/// comes next.
struct Context {
  TraceId trace{};
  SpanId span = 0;
  std::uint8_t flags = 0;
  std::string state{};  ///< `tracestate`, as it came; at most kStateBytesMax

  /// Whether whoever began the trace has its spans recorded.
  bool sampled() const { return (flags & 1) != 0; }
  /// 32 hexadecimal digits.
  std::string trace_text() const;
  /// `00-TRACE-SPAN-FLAGS`.
  std::string parent_text() const;
};

/// Reads a `traceparent`, and the `tracestate` beside it. None where the traceparent breaks the format; a
/// later version is read as far as this one goes. A tracestate that is too long, or not visible ASCII with
/// spaces, counts as absent.
std::optional<Context> read_context(std::string_view traceparent, std::string_view tracestate = {});

/// Reads a job's `trace`, msgpack: a map with `traceparent` and perhaps `tracestate`, or a traceparent alone.
/// None for anything else.
std::optional<Context> read_field(std::string_view msgpack);
/// Writes such a map.
std::string write_field(const Context& context);

}  // namespace lanemq::trace
