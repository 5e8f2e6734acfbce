// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace lanemq::io {

/// One field of a log line. Text from a peer is made printable by the log.
struct LogField {
  LogField(std::string_view field_name, std::string_view text) : name(field_name), value(text) {}
  LogField(std::string_view field_name, long long number) : name(field_name), value(std::to_string(number)) {}
  LogField(std::string_view field_name, std::size_t number)
      : name(field_name), value(std::to_string(number)) {}
  std::string_view name;
  std::string value;
};

enum class LogLevel : unsigned char { debug, info, warning, error };

/// Sets the lowest level that is written (`debug`, `info`, `warn`, `error`, `off`); false for an unknown
/// name.
bool set_log_level(std::string_view name);

/// Writes one event with its fields to stderr: `worker.lost name=w1 jobs=3`. Thread-safe.
void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

}  // namespace lanemq::io
