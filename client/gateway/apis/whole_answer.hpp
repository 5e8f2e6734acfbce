// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lanemq::gateway {

// Api::events_of_whole of the APIs.

std::optional<std::string> openai_events_of_whole(std::string_view path, std::string_view answer);
std::optional<std::string> anthropic_events_of_whole(std::string_view path, std::string_view answer);

}  // namespace lanemq::gateway
