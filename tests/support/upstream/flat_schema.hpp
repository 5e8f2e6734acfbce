// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {

/// A schema without `$ref`, `allOf`, `anyOf` and `oneOf`: what they lead to is part of it, of several choices
/// the first. Of two that bound one thing the narrower bound counts. Properties and items stay as they are,
/// `root` is what references point into. Null where references lead in a circle.
Json flat_schema(const Json& schema, const Json& root);

}  // namespace lanemq::upstream
