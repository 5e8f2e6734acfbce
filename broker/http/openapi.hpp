// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/http/access/operator_link.hpp"

namespace lanemq::admin {

/// The description of the operators' HTTP by OpenAPI 3.1, made from the table of verbs.
Json openapi();

}  // namespace lanemq::admin
