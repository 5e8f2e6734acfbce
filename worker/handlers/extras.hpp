// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <lanemq/messages.hpp>

namespace lanemq::worker {

/// A job's `x-` fields as a JSON object; null where JSON cannot say them.
nlohmann::json extras_as_json(const wire::Extras& extras);

/// The `x-` field of this name; none: there is none, or it is no text.
std::optional<std::string> text_of_extra(const wire::Extras& extras, std::string_view name);

}  // namespace lanemq::worker
