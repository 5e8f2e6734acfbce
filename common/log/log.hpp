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

/// Whether a line is to be with its reader before the call returns, as far as that takes no time
/// (LineWriter::settle). Lines that come by the thousand are not waited for.
enum class Settle : unsigned char { no, yes };

/// Writes a line from Line::take(), in format(), to stderr, with time and level. Where stderr leads to
/// systemd's journal its priority stands before the line, and a text has no time, which the journal has.
/// Thread-safe.
void write(Level level, std::string_view line, Settle settle = Settle::yes);
/// Writes an event with its fields: `worker.lost name=w1 jobs=3`. Thread-safe.
void event(Level level, std::string_view name, std::initializer_list<Field> fields = {},
           Settle settle = Settle::yes);

/// While it lives a thread writes the log, and nobody who logs waits for long, whoever reads (LineWriter).
/// Before and after the process has no thread of the log.
class Writing {
 public:
  Writing();
  ~Writing();
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
};

/// Writes a line with its end to stdout, for whoever waits for it: none is left out, and none is waited for.
/// Requires: nothing else writes there. To be called once.
void say(std::string_view line);
/// Writes why the program ends to stderr, as it stands, after the log; for the journal as errors.
void complain(std::string_view text);

}  // namespace lanemq::log
