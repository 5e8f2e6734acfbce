// SPDX-License-Identifier: Apache-2.0
// How the limits are told in the header of a reply.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/upstream/api.hpp"
#include "tests/support/upstream/limiter.hpp"

namespace lanemq::upstream {

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

/// Adds x-ratelimit-* or anthropic-ratelimit-* for each limit that there is. `now_unix` is `now` since 1970.
void add_limit_headers(HeaderFields& headers, Dialect dialect, const Limiter& limiter, TimePoint now,
                       Duration now_unix);

/// A duration as Go prints it, in whole milliseconds, rounded up: "0s", "20ms", "8.64s", "6m0s", "1h0m0.5s".
std::string format_duration(Duration duration);
/// A moment since 1970 as RFC 3339 has it, in whole seconds, rounded up: "2026-01-31T23:59:59Z".
std::string format_utc(Duration since_1970);

}  // namespace lanemq::upstream
