// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/support/upstream/api.hpp"

namespace lanemq::upstream {

/// The body of GET /v1/models: the models of that service, in its own form.
std::string models_body(Dialect dialect, std::int64_t created_s);
/// The body of GET /v1/models/{id}; empty where there is no such model.
std::string model_body(Dialect dialect, std::string_view id, std::int64_t created_s);

}  // namespace lanemq::upstream
