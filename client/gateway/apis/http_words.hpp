// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lanemq::http {}

namespace lanemq::gateway {

/// Requests, answers, routes and the loop have the same names here as in the HTTP server's room.
using namespace http;

}  // namespace lanemq::gateway
