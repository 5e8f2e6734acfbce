// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/transcript.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lanemq::scenario {
namespace {

/// Splits at spaces; a part between double quotes keeps its spaces.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  bool quoted = false, any = false;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (any) parts.push_back(part);
      part.clear();
      any = false;
    } else {
      part += c;
      any = true;
    }
  }
  if (quoted) throw TranscriptError("a quote is open at the end of the line");
  if (any) parts.push_back(part);
  return parts;
}

std::string quoted(const std::string& value) {
  return value.empty() || value.find(' ') != std::string::npos ? '"' + value + '"' : value;
}

}  // namespace

std::optional<std::string> Words::take(std::string_view key) {
  const auto place =
      std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == key; });
  if (place == fields.end()) return std::nullopt;
  std::string value = std::move(place->second);
  fields.erase(place);
  return value;
}

void Words::require_all_taken() const {
  if (!fields.empty()) throw TranscriptError("\"" + fields.front().first + "\" is no field of this line");
}

std::string Words::text() const {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : " ") + word;
  for (const auto& [key, value] : fields)
    text += " " + key + "=" + quoted(value);
  return text;
}

bool matches(const Words& expected, const Words& sent) {
  if (expected.words != sent.words || expected.fields.size() != sent.fields.size()) return false;
  for (const auto& [key, value] : expected.fields) {
    const auto place =
        std::find_if(sent.fields.begin(), sent.fields.end(), [&](const auto& f) { return f.first == key; });
    if (place == sent.fields.end()) return false;
    if (value == "*" || value == place->second) continue;
    if (!value.starts_with('~') || place->second.find(value.substr(1)) == std::string::npos) return false;
  }
  return true;
}

Line parse_line(const std::string& source) {
  Line line{.kind = LineKind::empty, .words = {}, .source = source};
  const std::size_t begin = source.find_first_not_of(" \t");
  if (begin == std::string::npos || source[begin] == '#') return line;
  std::string_view text = std::string_view(source).substr(begin);
  text = text.substr(0, text.find(" # "));
  line.kind = LineKind::directive;
  if (text.front() == '>' || text.front() == '<') {
    line.kind = text.front() == '>' ? LineKind::event : LineKind::expected;
    text.remove_prefix(1);
  }
  for (std::string& part : split(text)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos)
      line.words.words.push_back(std::move(part));
    else
      line.words.add(part.substr(0, equals), part.substr(equals + 1));
  }
  return line;
}

std::int64_t parse_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size())
    throw TranscriptError("\"" + text + "\" is no number");
  return number;
}

core::Duration parse_duration(const std::string& text) {
  static constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {
      {"us", 1}, {"ms", 1000}, {"s", 1'000'000}, {"m", 60'000'000}, {"h", 3'600'000'000}};
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits != 0 && digits != std::string::npos)
    for (const auto& [unit, us] : kUnits)
      if (text.substr(digits) == unit) return core::Duration(parse_number(text.substr(0, digits)) * us);
  throw TranscriptError("\"" + text + "\" is no time; write 100ms, 2s, 5m or 1h");
}

}  // namespace lanemq::scenario
