// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "client/gateway/door/gateway.hpp"
#include "common/http/server/server.hpp"

namespace lanemq::gateway {

/// The answer to what the server itself refuses.
HttpAnswer refused_by_server(Gateway& gateway, const Router& router, Refusal kind, const HttpRequest& request,
                             std::string_view detail);

/// Refuses what no route may take.
std::optional<HttpAnswer> refused_at_door(Gateway& gateway, const HttpRequest& head);

}  // namespace lanemq::gateway
