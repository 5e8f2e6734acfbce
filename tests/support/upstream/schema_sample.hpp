// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {

/// A simple value that fits a JSON schema: every property, one item of a list, the first of several choices,
/// 7 or the number nearest to it, "text" for a string or what its format or a simple pattern asks for.
///
/// References within the schema are followed. Optional properties end where it nests deeper than
/// kOptionalDepthMax. What the schema says nothing of is null, and so is what it nests deeper than
/// kJsonDepthMax, and all behind the first kSampleValuesMax values. `not`, `if` and what is said of names
/// are not looked at.
OrderedJson sample_of(const Json& schema);

inline constexpr int kOptionalDepthMax = 4;
inline constexpr int kSampleValuesMax = 10'000;

}  // namespace lanemq::upstream
