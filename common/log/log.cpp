// SPDX-License-Identifier: Apache-2.0
#include "common/log/log.hpp"

#include <memory>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace lanemq::log {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v";
/// The line is a JSON object; time and level are put at its front.
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v)";

Format current_format = Format::text;

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = spdlog::stderr_color_mt("lanemq");
    created->set_pattern(kTextPattern);
    return created;
  }();
  return *instance;
}

spdlog::level::level_enum library_level(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

void set_level(Level level) {
  logger().set_level(library_level(level));
}

void set_format(Format format) {
  current_format = format;
  logger().set_pattern(format == Format::json ? kJsonPattern : kTextPattern);
}

Format format() {
  return current_format;
}

void write(Level level, std::string_view line) {
  if (current_format == Format::json) line.remove_prefix(1);  // the pattern has the brace, before the time
  logger().log(library_level(level), "{}", line);
}

void event(Level level, std::string_view name, std::initializer_list<Field> fields) {
  if (!logger().should_log(library_level(level))) return;
  Line line(current_format, name);
  for (const Field& field : fields)
    if (field.is_number)
      line.written(field.name, field.value);
    else
      line.field(field.name, field.value);
  write(level, line.take());
}

}  // namespace lanemq::log
