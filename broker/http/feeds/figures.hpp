// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/http/access/operator_link.hpp"

namespace lanemq::admin {

/// The number that stands there; 1 or 0 for a yes or no; 0 where there is none.
inline double number(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  return value.is_number() ? value.get<double>() : 0;
}

}  // namespace lanemq::admin
