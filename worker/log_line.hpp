// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include <lanemq/text.hpp>
#include <lanemq/worker.hpp>

namespace lanemq::worker {

/// One line of the log, an event with fields: `worker.connected broker=tcp://... session=7`. Written when it
/// goes out of scope, if the log wants lines of its level. Texts are made safe for a terminal.
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
    const std::string safe = printable(value);
    const bool plain = !safe.empty() && safe.find_first_of(" \"=") == std::string::npos;
    begin(name);
    if (plain)
      line_ += safe;
    else
      quote(safe);
    return *this;
  }
  template <std::integral Number>
  LogLine& field(std::string_view name, Number value) {
    if (!log_) return *this;
    begin(name);
    line_ += std::to_string(value);
    return *this;
  }

 private:
  void begin(std::string_view name) { line_.append(" ").append(name).append("="); }
  void quote(std::string_view text) {
    line_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') line_ += '\\';
      line_ += c;
    }
    line_ += '"';
  }

  const Log* log_;  ///< null: not wanted
  LogLevel level_;
  std::string line_;
};

}  // namespace lanemq::worker
