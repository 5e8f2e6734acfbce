// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "worker/handlers/sse/sse_parser.hpp"

namespace lanemq::worker {

/// What an event of a stream means to the reader of the answer.
enum class EventKind : unsigned char {
  noise,    ///< nothing to pass on
  opening,  ///< a role, an empty block, a ping: nothing a reader would see
  content,
  last,   ///< passed on, and the answer is complete
  error,  ///< the upstream failed
};

/// What is read of an event. The views are of the event.
struct EventFacts {
  EventKind kind = EventKind::content;
  std::string_view usage{};    ///< a JSON object; empty: none
  bool usage_is_whole = true;  ///< it counts all of the answer's output
  bool has_only_usage = false;
  std::size_t content_bytes = 0;  ///< of its text and tool calls, about; 0: not known
  std::string_view error{};       ///< of an error event: the JSON object with type, code and message
  /// The choices of the answer that the event is about, a bit for each; and of these the ones that end.
  std::uint64_t choices = 0, ended_choices = 0;
};

/// What a worker must know about a model API.
struct ModelApi {
  std::string_view name;  ///< of the handler
  /// The path of a call, behind the upstream's base URL: `asked`, as the job's meta names it (empty: it names
  /// none), with the upstream's name of the model where the API's paths have it.
  std::string (*path)(std::string asked, std::string_view model);
  /// Whether this path asks for a stream, whatever the body says.
  bool (*streams)(std::string_view path);
  /// The variable with the key when none is configured, the header that carries it, and the prefix of its
  /// value.
  std::string_view key_variable, key_header, key_prefix;
  /// The header and value to send where neither operator nor job sets that header; empty: none.
  std::string_view version_header, version;
  /// Whether `stream_options` can make streams of this path end with their usage.
  bool (*has_usage_option)(std::string_view path);
  /// The event that ends a stream of choices, which some upstreams leave out.
  std::string_view end_of_choices;
  /// Reads an event that has data. Unknown events count as content.
  EventFacts (*read_event)(const SseEvent& event);
};

}  // namespace lanemq::worker
