// SPDX-License-Identifier: Apache-2.0
// How the limits are told in the header of a reply.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/upstream/limiter.hpp"
#include "tests/support/upstream/tongue.hpp"

namespace lanemq::upstream {

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

/// Adds what all answers tell of each limit that there is, refused or not. `now_unix` is `now` since 1970.
///   openai     x-ratelimit-limit-requests, -remaining-, -reset- (a duration as Go writes it), the same of
///   tokens azure      as openai without reset groq       as openai of tokens alone: there the headers of
///   requests tell of a day anthropic  anthropic-ratelimit-requests-limit, -remaining, -reset (RFC 3339), the
///   same of tokens ietf       RateLimit-Policy and RateLimit, one item each limit others     nothing
/// Requires: tongue != by_endpoint.
void add_limit_headers(HeaderFields& headers, Tongue tongue, Limiter& limiter, TimePoint now,
                       Duration now_unix);

/// A duration as Go prints it, in whole milliseconds, rounded up: "0s", "20ms", "8.64s", "6m0s", "1h0m0.5s".
std::string format_duration(Duration duration);
/// The same as protobuf has it in JSON: seconds alone, "0.02s", "8.64s", "60s".
std::string format_seconds(Duration duration);
/// A moment since 1970 as RFC 3339 has it, in whole seconds, rounded up: "2026-01-31T23:59:59Z".
std::string format_utc(Duration since_1970);

/// Rounded up.
std::string whole_seconds(Duration duration);
std::string whole_milliseconds(Duration duration);

}  // namespace lanemq::upstream
