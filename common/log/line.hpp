// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "common/log/level.hpp"

namespace lanemq::log {

/// Appends ` name=value` to a line. A text that is more than one plain word stands in quotes; inside them a
/// quote and a backslash have a backslash before them, and what a terminal would obey is `\xNN`. So no value,
/// whoever chose it, looks like another field or another line. Long ones are cut with `...`.
void append_field(std::string& line, std::string_view name, std::string_view value);

/// A line of an event and its fields. Whatever a text holds, it stays one field.
class Line {
 public:
  Line(Format format, std::string_view event);

  /// `name` is the program's own word.
  Line& field(std::string_view name, std::string_view value);
  template <std::integral Number>
  Line& field(std::string_view name, Number value) {
    return written(name, std::to_string(value));
  }
  /// A value that is written out as the format has it: a number, or a text of JSON.
  Line& written(std::string_view name, std::string_view value);
  /// The line, without an end of it: `worker.lost name=w1`, or `{"event":"worker.lost","name":"w1"}`.
  std::string take();

 private:
  Format format_;
  std::string text_;
};

}  // namespace lanemq::log
