// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/log/line.hpp"

namespace lanemq::log {

/// One field of a line.
struct Field {
  Field(std::string_view field_name, std::string_view text) : name(field_name), value(text) {}
  Field(std::string_view field_name, const char* text) : name(field_name), value(text) {}
  Field(std::string_view field_name, const std::string& text) : name(field_name), value(text) {}
  template <std::integral Number>
  Field(std::string_view field_name, Number number)
      : name(field_name), value(std::to_string(number)), is_number(true) {}
  std::string_view name;
  std::string value;
  bool is_number = false;
};

/// Sets the lowest level that is written. Default: Level::info.
void set_level(Level level);

/// Sets the form of lines. Default: Format::text. Requires: no other thread writes yet.
void set_format(Format format);
Format format();

/// Writes a line from Line::take(), in format(), to stderr, with time and level. Thread-safe.
void write(Level level, std::string_view line);
/// Writes an event with its fields: `worker.lost name=w1 jobs=3`. Thread-safe.
void event(Level level, std::string_view name, std::initializer_list<Field> fields = {});

}  // namespace lanemq::log
