// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "common/log/level.hpp"

namespace lanemq::log {

/// Appends ` name=value` to a line. A value that is more than one plain word is quoted; in quotes `"` and `\`
/// have a backslash before them, and control characters become `\xNN`. So no value can look like another
/// field or line. Long ones are cut with `...`.
void append_field(std::string& line, std::string_view name, std::string_view value);

/// Builds a log line of an event and its fields; each text stays one field, whatever it holds.
class Line {
 public:
  Line(Format format, std::string_view event);

  /// `name`: a word of the program, not of a peer.
  Line& field(std::string_view name, std::string_view value);
  template <std::integral Number>
  Line& field(std::string_view name, Number value) {
    return written(name, std::to_string(value));
  }
  /// A value already in the format's form: a number, or JSON text.
  Line& written(std::string_view name, std::string_view value);
  /// The line without a line end: `worker.lost name=w1`, or `{"event":"worker.lost","name":"w1"}`.
  std::string take();

 private:
  Format format_;
  std::string text_;
};

}  // namespace lanemq::log
