// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "worker/handlers/sse/sse_parser.hpp"

namespace lanemq::worker {

/// What an event of a stream is to whoever waits for the answer.
enum class EventKind : unsigned char {
  noise,    ///< nothing to pass on
  opening,  ///< a role, an empty block, a ping: nothing that a reader would see
  content,
  last,   ///< passed on, and all was said
  error,  ///< the upstream failed
};

/// What is read of an event. The views point into it.
struct EventFacts {
  EventKind kind = EventKind::content;
  std::string_view usage{};    ///< a JSON object; empty: it has none
  bool usage_is_whole = true;  ///< the answer's output is counted in it
  bool has_only_usage = false;
  std::size_t content_bytes = 0;  ///< about, of the text and the calls in it; 0: not known
  std::string_view error{};       ///< of an error: the JSON object with its type, code and message
};

/// How a model API speaks, as far as a worker has to know it.
struct ModelApi {
  std::string_view name;  ///< of the handler
  std::string_view path;  ///< of calls that name none, behind the upstream's base URL
  /// The variable where the key stands when none is configured, the header that carries it, and what stands
  /// in front of it there.
  std::string_view key_variable, key_header, key_prefix;
  /// Sent where neither the operator nor the job names that header; empty: nothing.
  std::string_view version_header, version;
  /// Whether streams under this path end with their usage when asked by `stream_options`.
  bool (*has_usage_option)(std::string_view path);
  /// Reads an event that has data. What it does not know counts as content.
  EventFacts (*read_event)(const SseEvent& event);
};

}  // namespace lanemq::worker
