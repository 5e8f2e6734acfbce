// SPDX-License-Identifier: Apache-2.0
#include "settings/values.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

namespace lanemq::settings {

std::int64_t number(const std::string& text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max)
    throw UsageError("must be a whole number " + std::to_string(min) + ".." + std::to_string(max) +
                     ", not \"" + printable(text, 64) + '"');
  return value;
}

std::size_t count(const std::string& text, std::int64_t min, std::int64_t max) {
  return static_cast<std::size_t>(number(text, min, max));
}

std::chrono::milliseconds duration(const std::string& text, std::int64_t min) {
  return std::chrono::milliseconds(number(text, min, kDayMs));
}

std::string name(const std::string& text) {
  if (text.empty() || text.size() > limits::name_bytes_max || !is_utf8(text))
    throw UsageError("must be a name of 1.." + std::to_string(limits::name_bytes_max) + " bytes");
  return text;
}

bool yes_or_no(const std::string& text) {
  if (text != "true" && text != "false") throw UsageError("must be true or false");
  return text == "true";
}

std::string log_level(const std::string& text) {
  for (const std::string_view known : {"debug", "info", "warning", "error"})
    if (text == known) return text;
  throw UsageError("must be debug, info, warning or error, not \"" + printable(text, 64) + '"');
}

std::vector<std::string> words(const Values& values) {
  std::vector<std::string> parts;
  for (const std::string& value : values) {
    for (std::size_t begin = 0; begin <= value.size();) {
      const std::size_t end = std::min(value.find(',', begin), value.size());
      if (end == begin) throw UsageError("must not be empty");
      parts.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

}  // namespace lanemq::settings
