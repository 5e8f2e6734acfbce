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

// All of this is pure: callers pass the wall clock where a header needs it.

/// `1s`, `6m0s`, `20ms`, `1h2m3.5s` (Go's durations), or a plain number of seconds; at most
/// limits::duration_ms_max. None for anything else, negative durations included.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
/// `Sun, 06 Nov 1994 08:49:37 GMT` and the two obsolete forms of RFC 9110, 5.6.7.
std::optional<WallTime> parse_http_date(std::string_view text);
/// `2024-05-01T12:00:00Z`, with fractions and offsets (RFC 3339).
std::optional<WallTime> parse_rfc3339(std::string_view text);
/// The duration after `try again in`, `retry in`, `retry after`, `reset after` or `reset in` in a text for
/// people, as in `Please try again in 8.64s.`
std::optional<std::chrono::milliseconds> find_wait_in_text(std::string_view text);

/// What an upstream's response headers say about its limits and when to retry.
///
/// Understands `retry-after`, `retry-after-ms`, `x-ms-retry-after-ms`,
/// `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` and
/// `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`. A value that
/// cannot be read counts as absent.
class UpstreamHeaders {
 public:
  /// Takes one header line, `Name: value`, with or without its line end. A status line forgets all before:
  /// headers of an interim response (100) do not count.
  void add_line(std::string_view line, WallTime now);
  void clear() { *this = UpstreamHeaders(); }

  /// The wait that the upstream asks for: the first of `retry-after-ms`, `x-ms-retry-after-ms`,
  /// `retry-after`.
  std::optional<std::chrono::milliseconds> retry_after() const;
  /// When the used-up limit is back; the latest of several.
  std::optional<std::chrono::milliseconds> exhausted_reset() const;
  /// None: no header stated a limit.
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
