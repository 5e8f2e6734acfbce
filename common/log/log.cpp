// SPDX-License-Identifier: Apache-2.0
#include "common/log/log.hpp"

#include <memory>
#include <utility>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace lanemq::log {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v";
/// The line is an object, to which time and level are added at the front.
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
  }
  return spdlog::level::info;
}

}  // namespace

bool set_level(std::string_view name) {
  static constexpr std::pair<std::string_view, spdlog::level::level_enum> kLevels[] = {
      {"debug", spdlog::level::debug}, {"info", spdlog::level::info}, {"warning", spdlog::level::warn},
      {"warn", spdlog::level::warn},   {"error", spdlog::level::err}, {"off", spdlog::level::off}};
  for (const auto& [known, level] : kLevels) {
    if (known != name) continue;
    logger().set_level(level);
    return true;
  }
  return false;
}

bool set_format(std::string_view name) {
  if (name != "text" && name != "json") return false;
  current_format = name == "json" ? Format::json : Format::text;
  logger().set_pattern(current_format == Format::json ? kJsonPattern : kTextPattern);
  return true;
}

Format format() {
  return current_format;
}

void write(Level level, std::string_view line) {
  if (current_format == Format::json) line.remove_prefix(1);  // its brace stands before the time
  logger().log(library_level(level), "{}", line);
}

void event(Level level, std::string_view name, std::initializer_list<Field> fields) {
  if (!logger().should_log(library_level(level))) return;
  Line line(current_format, name);
  for (const Field& field : fields)
    if (field.is_number)
      line.number(field.name, field.value);
    else
      line.field(field.name, field.value);
  write(level, line.take());
}

}  // namespace lanemq::log
