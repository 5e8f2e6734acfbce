// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {

/// The simplest value that fits a JSON schema: every property, one item of a list, the first of several
/// choices, the least number, "text" for a string. References within the schema are followed; what is nested
/// deeper than kJsonDepthMax is null, and so is what the schema says nothing of.
OrderedJson sample_of(const Json& schema);

}  // namespace lanemq::upstream
