// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lanemq::worker {

using WallTime = std::chrono::system_clock::time_point;

// How upstreams write numbers, durations and times. All of this is pure: callers pass the wall clock where a
// word needs it. A text that is none of these is absent, as are negative numbers; waits are
// limits::duration_ms_max at most.

/// `1000`, also with what some write behind it: `1000.0`, `100;w=60`.
std::optional<std::int64_t> count_at_front(std::string_view text);
/// The number at the front of a text for people: 1200 for `1,200.`
std::optional<std::int64_t> leading_number(std::string_view text);
/// A plain number of ms.
std::optional<std::chrono::milliseconds> parse_milliseconds(std::string_view text);
/// `1s`, `6m0s`, `20ms`, `1h2m3.5s` (Go's durations), or a plain number of seconds.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
/// The duration at the front of a text for people, which has a unit: `8.64s. Visit`, `26 seconds.`,
/// `8 hours 24 minutes`.
std::optional<std::chrono::milliseconds> wait_at_front(std::string_view text);
/// `Sun, 06 Nov 1994 08:49:37 GMT` and the two obsolete forms of RFC 9110, 5.6.7.
std::optional<WallTime> parse_http_date(std::string_view text);
/// `2024-05-01T12:00:00Z`, with fractions and offsets (RFC 3339).
std::optional<WallTime> parse_rfc3339(std::string_view text);
/// Such a date at the front of a text for people, perhaps without a zone: then of UTC.
std::optional<WallTime> date_at_front(std::string_view text);
/// When a limit is full again: a duration, a date, or (some clones) Unix time in s or ms.
std::optional<std::chrono::milliseconds> parse_reset(std::string_view value, WallTime now);
/// From `now`, rounded up; 0 where `then` is over.
std::chrono::milliseconds until(WallTime then, WallTime now);

}  // namespace lanemq::worker
