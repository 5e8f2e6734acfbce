// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace CLI {
class FormatterBase;
}

namespace lanemq::settings {

/// The text with its lines cut at spaces, so that each has `columns` at most, but for words that are longer.
/// What goes on stands below what it belongs to: behind the gap of a line with two columns, below a flag a
/// little to its right, else below the line's beginning.
std::string wrapped(std::string_view text, std::size_t columns);

/// The text with sentences whole: a line that goes on with the sentence before it is part of that line. Lines
/// of two columns, and those that begin with a space, stay.
std::string in_sentences(std::string_view text);

/// What CLI11 prints a program's help with: as wide as the terminal at the standard output; 80 columns where
/// there is none.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace lanemq::settings
