// SPDX-License-Identifier: Apache-2.0
#include "broker/io/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <lanemq/text.hpp>

namespace lanemq::io {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = spdlog::stderr_logger_mt("lanemq");
    created->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    return created;
  }();
  return *instance;
}

spdlog::level::level_enum library_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

bool set_log_level(std::string_view name) {
  static constexpr std::string_view kNames[] = {"debug", "info", "warn", "error", "off"};
  static constexpr spdlog::level::level_enum kLevels[] = {
      spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err, spdlog::level::off};
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] != name) continue;
    logger().set_level(kLevels[i]);
    return true;
  }
  return false;
}

void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!logger().should_log(library_level(level))) return;
  std::string line(event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.name;
    line += '=';
    const std::string text = printable(field.value);
    const bool quote = text.empty() || text.find_first_of(" \"=") != std::string::npos;
    line += quote ? '"' + text + '"' : text;
  }
  logger().log(library_level(level), "{}", line);
}

}  // namespace lanemq::io
