// SPDX-License-Identifier: Apache-2.0
#include "common/log/log.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>

#include <spdlog/details/os.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <lanemq/text.hpp>

#include "common/log/journal.hpp"
#include "common/log/line_writer.hpp"

namespace lanemq::log {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v";
/// The journal has the time of each line.
constexpr char kJournalPattern[] = "%l %v";
/// The line is a JSON object; time and level are put at its front.
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v)";

Format current_format = Format::text;

bool to_journal() {
  static const bool journal = is_journal(std::getenv("JOURNAL_STREAM"), STDERR_FILENO);
  return journal;
}

const char* pattern_of(Format format) {
  if (format == Format::json) return kJsonPattern;
  return to_journal() ? kJournalPattern : kTextPattern;
}

void tell_left_out(std::uint64_t lines);

/// Lives as long as the process: its thread may wait for its reader until then.
LineWriter& writer() {
  static LineWriter& instance = *new LineWriter(STDERR_FILENO, tell_left_out);
  return instance;
}

Level level_of(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return Level::error;
  if (level == spdlog::level::warn) return Level::warning;
  return level == spdlog::level::info ? Level::info : Level::debug;
}

/// Gives lines to the writer; on a terminal the level is coloured, and for the journal its priority stands
/// before the line.
class WriterSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    if (to_journal()) line.append(std::string_view(priority_of(level_of(message.level))));
    formatter_->format(message, line);
    if (!coloured_ || message.color_range_end <= message.color_range_start)
      return writer().write({line.data(), line.size()});
    std::string text(line.data(), line.size());
    text.insert(message.color_range_end, "\033[m");
    text.insert(message.color_range_start, colour_of(message.level));
    writer().write(text);
  }
  void flush_() override {}

  static const char* colour_of(spdlog::level::level_enum level) {
    if (level >= spdlog::level::err) return "\033[31m\033[1m";
    if (level == spdlog::level::warn) return "\033[33m\033[1m";
    return level == spdlog::level::info ? "\033[32m" : "\033[36m";
  }

  const bool coloured_ = isatty(STDERR_FILENO) != 0 && spdlog::details::os::is_color_terminal();
};

spdlog::logger& logger() {
  static spdlog::logger& instance = *new spdlog::logger("lanemq", [] {
    auto sink = std::make_shared<WriterSink>();
    sink->set_pattern(pattern_of(Format::text));
    return sink;
  }());
  return instance;
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

/// Called by the writer's thread, which cannot wait for itself.
void tell_left_out(std::uint64_t lines) {
  const bool warns = logger().should_log(spdlog::level::warn);
  log::event(warns ? Level::warning : Level::error, "log.left_out",
             {{"lines", lines},
              {"reason", std::to_string(lines) +
                             " lines were left out: whoever reads the log, or its disk, stood still"}},
             Settle::no);
}

}  // namespace

void set_level(Level level) {
  logger().set_level(library_level(level));
}

void set_format(Format format) {
  current_format = format;
  logger().set_pattern(pattern_of(format));
}

Format format() {
  return current_format;
}

void write(Level level, std::string_view line, Settle settle) {
  if (current_format == Format::json) line.remove_prefix(1);  // the pattern has the brace, before the time
  logger().log(library_level(level), "{}", line);
  if (settle == Settle::yes) writer().settle();
}

void event(Level level, std::string_view name, std::initializer_list<Field> fields, Settle settle) {
  if (!logger().should_log(library_level(level))) return;
  Line line(current_format, name);
  for (const Field& field : fields)
    if (field.is_number)
      line.written(field.name, field.value);
    else
      line.field(field.name, field.value);
  write(level, line.take(), settle);
}

Writing::Writing() {
  writer().start();
}

Writing::~Writing() {
  writer().stop();
}

void say(std::string_view line) {
  static LineWriter& standard_output = *new LineWriter(STDOUT_FILENO);
  standard_output.start();
  standard_output.write(line);
  if (standard_output.settle()) standard_output.stop();
}

void complain(std::string_view text) {
  // What peers and files say stands in it; its own line ends stay.
  std::string shown;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (to_journal()) shown += priority_of(Level::error);
    shown += printable(text.substr(at, end - at), text.size()) + "\n";
    at = end + 1;
  }
  writer().write(std::move(shown));
}

}  // namespace lanemq::log
