// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lanemq::settings {

/// The text with its lines cut at spaces, so that each has `columns` at most, but for words that are longer.
/// What goes on stands below what it belongs to: behind the gap of a line with two columns, below a flag a
/// little to its right, else below the line's beginning.
std::string wrapped(std::string_view text, std::size_t columns);

/// The text with sentences whole: a line that goes on with the sentence before it is part of that line. Lines
/// of two columns, and those that begin with a space, stay.
std::string in_sentences(std::string_view text);

}  // namespace lanemq::settings
