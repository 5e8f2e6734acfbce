// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lanemq::gateway {

/// The events of a stream for a whole answer: the caller asked for a stream, and the upstream has none.
/// `path`: of the request. None: the answer is not of that API.
std::optional<std::string> events_of_whole(std::string_view path, std::string_view answer);

}  // namespace lanemq::gateway
