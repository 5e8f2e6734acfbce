// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <optional>
#include <string_view>

#include <lanemq/worker.hpp>

#include "common/log/line.hpp"

namespace lanemq::worker {

/// One log line, an event with fields: `worker.connected broker=tcp://... session=7`. Its destructor writes
/// it, if the log wants its level. Each text stays one field, whatever it holds.
class LogLine {
 public:
  LogLine(const Log& log, LogLevel level, std::string_view event) : log_(log), level_(level) {
    if (log.wants(level)) line_.emplace(log.json ? log::Format::json : log::Format::text, event);
  }
  ~LogLine() {
    if (line_) log_.write(level_, line_->take());
  }
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;

  LogLine& field(std::string_view name, std::string_view value) {
    if (line_) line_->field(name, value);
    return *this;
  }
  template <std::integral Number>
  LogLine& field(std::string_view name, Number value) {
    if (line_) line_->field(name, value);
    return *this;
  }

 private:
  const Log& log_;
  LogLevel level_;
  std::optional<log::Line> line_;  ///< none: below the log's level
};

}  // namespace lanemq::worker
