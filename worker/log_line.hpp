// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include <lanemq/worker.hpp>

#include "log/line.hpp"

namespace lanemq::worker {

/// One line of the log, an event with fields: `worker.connected broker=tcp://... session=7`. Written when it
/// goes out of scope, if the log wants lines of its level. Whatever a text holds, it stays one field.
class LogLine {
 public:
  LogLine(const Log& log, LogLevel level, std::string_view event)
      : log_(log.wants(level) ? &log : nullptr), level_(level) {
    if (log_) line_ = event;
  }
  ~LogLine() {
    if (log_) log_->write(level_, line_);
  }
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;

  LogLine& field(std::string_view name, std::string_view value) {
    if (!log_) return *this;
    log::append_field(line_, name, value);
    return *this;
  }
  template <std::integral Number>
  LogLine& field(std::string_view name, Number value) {
    if (!log_) return *this;
    line_.append(" ").append(name).append("=").append(std::to_string(value));
    return *this;
  }

 private:
  const Log* log_;  ///< null: not wanted
  LogLevel level_;
  std::string line_;
};

}  // namespace lanemq::worker
