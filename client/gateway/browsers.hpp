// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/gateway/api_error.hpp"
#include "client/gateway/http/message.hpp"

namespace lanemq::gateway {

/// Why a request is refused where no key is needed: any page that somebody looks at may have the browser send
/// requests to this machine, and a name of its own lead here (DNS rebinding). So a request must name this
/// machine, or one of `hosts` (with * and ?), and come from no page of another origin; and what is JSON must
/// not be called something that a form sends. Programs send none of that.
std::optional<ApiError> why_not_without_keys(const HttpRequest& head, const std::vector<std::string>& hosts);

}  // namespace lanemq::gateway
