// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/gateway/api_error.hpp"
#include "client/gateway/http_words.hpp"
#include "common/http/server/message.hpp"

namespace lanemq::gateway {

/// Why a request is refused where no key is needed. Any page may have its visitor's browser send requests to
/// this machine, and may make its own name lead here (DNS rebinding). So a request must name this machine or
/// one of `hosts` (with * and ?), must not come from a page of another origin, and must not send JSON with
/// the content type of a form. Other programs pass.
std::optional<ApiError> why_not_without_keys(const HttpRequest& head, const std::vector<std::string>& hosts);

}  // namespace lanemq::gateway
