// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/core/base/time.hpp"

namespace lanemq::scenario {

/// A line that cannot be understood; what() says why.
struct TranscriptError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Words and `key=value` fields, in order: `client c1 submit service=echo body="two words"`.
///
/// The same shape serves for what is said to the broker, for what it is expected to send and for what it
/// sent.
struct Words {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> fields;

  /// The word at a place; empty when there are fewer.
  std::string word(std::size_t at) const { return at < words.size() ? words[at] : std::string(); }
  /// Appends a field.
  void add(std::string key, std::string value) { fields.emplace_back(std::move(key), std::move(value)); }
  /// Takes a field out; empty when it is not there.
  std::optional<std::string> take(std::string_view key);
  /// Throws TranscriptError naming the fields that nobody took.
  void require_all_taken() const;

  std::string text() const;
};

/// Whether what was sent is what was expected: the same words and fields. An expected value `*` matches any
/// value, one that starts with `~` any that contains the rest.
bool matches(const Words& expected, const Words& sent);

enum class LineKind { empty, event, expected, directive };

/// One line of a transcript.
struct Line {
  LineKind kind = LineKind::empty;
  Words words;
  std::string source;  ///< as written
};

/// Throws TranscriptError.
Line parse_line(const std::string& source);

/// `100ms`, `2s`, `5m`, `1h`, `250us`. Throws TranscriptError.
core::Duration parse_duration(const std::string& text);
std::int64_t parse_number(const std::string& text);

}  // namespace lanemq::scenario
