// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lanemq::gateway {

/// The events of a stream that say what an answer in one piece says, for a caller that asked for a stream of
/// an upstream that has none. `path`: of the request. Nothing: the answer is none of its API.
std::optional<std::string> events_of_whole(std::string_view path, std::string_view answer);

}  // namespace lanemq::gateway
