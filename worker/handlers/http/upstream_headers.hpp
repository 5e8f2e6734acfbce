// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/messages.hpp>

namespace lanemq::worker {

using WallTime = std::chrono::system_clock::time_point;

// All of this is pure: the wall clock is passed in where a header speaks of it.

/// `1s`, `6m0s`, `20ms`, `1h2m3.5s` (the durations of Go), or a plain number of seconds. Absent for anything
/// else, negative durations included; at most limits::duration_ms_max.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
/// `Sun, 06 Nov 1994 08:49:37 GMT` and the two obsolete forms of RFC 9110, 5.6.7.
std::optional<WallTime> parse_http_date(std::string_view text);
/// `2024-05-01T12:00:00Z`, with fractions and offsets (RFC 3339).
std::optional<WallTime> parse_rfc3339(std::string_view text);
/// The duration behind `try again in`, `retry in`, `retry after`, `reset after` or `reset in` in a text for
/// people, as in `Please try again in 8.64s.`
std::optional<std::chrono::milliseconds> find_wait_in_text(std::string_view text);

/// What an upstream's response headers say of its limits and of when to come again.
///
/// Understands `retry-after`, `retry-after-ms`, `x-ms-retry-after-ms`,
/// `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` and
/// `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`. What it cannot
/// read it takes for absent.
class UpstreamHeaders {
 public:
  /// Takes one header line, `Name: value`, with or without its line end. A status line starts anew, as the
  /// headers of an interim response (100) do not count.
  void add_line(std::string_view line, WallTime now);
  void clear() { *this = UpstreamHeaders(); }

  /// The wait that the upstream asks for: `retry-after-ms`, `x-ms-retry-after-ms`, `retry-after`, in this
  /// order.
  std::optional<std::chrono::milliseconds> retry_after() const;
  /// When the limit that is used up is there again; of several, the last.
  std::optional<std::chrono::milliseconds> exhausted_reset() const;
  /// Absent when nothing was said.
  std::optional<wire::UpstreamLimits> limits() const;
  /// Without parameters, in lower case: `application/json`.
  const std::string& content_type() const { return content_type_; }
  bool is_json() const;
  std::optional<std::size_t> content_length() const { return content_length_; }

 private:
  void add(std::string_view name, std::string_view value, WallTime now);
  void add_limit(std::string_view name, std::string_view value, WallTime now, bool dated);

  std::optional<std::chrono::milliseconds> retry_after_ms_, ms_retry_after_ms_, retry_after_;
  wire::UpstreamLimits limits_;
  bool has_limits_ = false;
  std::string content_type_;
  std::optional<std::size_t> content_length_;
};

}  // namespace lanemq::worker
