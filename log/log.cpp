// SPDX-License-Identifier: Apache-2.0
#include "log/log.hpp"

#include <memory>
#include <utility>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace lanemq::log {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = spdlog::stderr_color_mt("lanemq");
    created->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
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

void write(Level level, std::string_view line) {
  logger().log(library_level(level), "{}", line);
}

void event(Level level, std::string_view name, std::initializer_list<Field> fields) {
  if (!logger().should_log(library_level(level))) return;
  std::string line(name);
  for (const Field& field : fields)
    append_field(line, field.name, field.value);
  write(level, line);
}

}  // namespace lanemq::log
