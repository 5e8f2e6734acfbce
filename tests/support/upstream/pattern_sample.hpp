// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lanemq::upstream {

/// What a text beside its pattern has to be.
struct PatternWish {
  std::size_t length_min = 0;  ///< Reached by repeating, where the pattern lets it.
  std::size_t variant = 0;     ///< Another one is another text, where the pattern lets it.
};

/// A text that a simple regular expression of JavaScript matches as a whole, as short as the wish allows:
/// characters, classes, escapes, groups, the first of alternatives, repeats, anchors at its ends. Nothing for
/// others: those that look ahead or behind, refer back, or have characters beyond ASCII.
std::optional<std::string> sample_of_pattern(std::string_view pattern, const PatternWish& wish);

}  // namespace lanemq::upstream
