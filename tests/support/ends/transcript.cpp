// SPDX-License-Identifier: Apache-2.0
#include "tests/support/ends/transcript.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace lanemq::ends {
namespace {

/// Lines that name many.
constexpr std::string_view kLists[] = {"status", "heartbeat", "states", "acked"};

std::vector<std::string> split(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> parts;
  for (std::string part; in >> part;)
    parts.push_back(part);
  return parts;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  const std::size_t end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end + 1 - begin);
}

/// `j1-j3` as j1, j2, j3; anything else as it is.
std::vector<std::string> spread(const std::string& text) {
  static const std::regex kRange("([a-z]*)([0-9]+)-([a-z]*)([0-9]+)");
  std::smatch match;
  if (!std::regex_match(text, match, kRange) || match[1] != match[3]) return {text};
  std::vector<std::string> all;
  for (long n = std::stol(match[2]); n <= std::stol(match[4]); ++n)
    all.push_back(match[1].str() + std::to_string(n));
  return all;
}

/// The lines that one line stands for: a range of names or numbers is a line for each, or many names in one.
std::vector<Line> parse(int number, const std::string& text) {
  static const std::regex kField("([a-z_0-9]+)=(.*)");
  Line line{.number = number, .words = {}, .fields = {}};
  for (const std::string& part : split(text)) {
    std::smatch match;
    if (std::regex_match(part, match, kField))
      line.fields[match[1]] = match[2];
    else
      line.words.push_back(part);
  }
  const auto names_many = [](const std::string& word) {
    return std::find(std::begin(kLists), std::end(kLists), word) != std::end(kLists);
  };
  const auto two =
      line.words.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(line.words.size(), 2));
  if (std::any_of(line.words.begin(), two, names_many)) {
    std::vector<std::string> all;
    for (const std::string& word : line.words)
      for (std::string& one : spread(word))
        all.push_back(std::move(one));
    line.words = std::move(all);
    return {line};
  }
  std::vector<Line> lines;
  for (std::string& word : line.words) {
    const std::vector<std::string> many = spread(word);
    if (many.size() < 2) continue;
    for (const std::string& one : many) {
      word = one;
      lines.push_back(line);
    }
    return lines;
  }
  for (const std::string& seq : spread(line.field("seq").value_or(""))) {
    if (!seq.empty()) line.fields["seq"] = seq;
    lines.push_back(line);
  }
  return lines;
}

/// Words in brackets may be there or not; `*` stands for any value.
bool fits(const std::string& expected, const std::string& got) {
  if (expected.find_first_of("(*") == std::string::npos) return expected == got;
  static const std::regex kSpecial(R"([.+?^${}|\[\]\\])"), kAny(R"(\*)"), kOptional(R"( ?\((.*?)\))");
  const std::string escaped =
      std::regex_replace(std::regex_replace(expected, kSpecial, R"(\$&)"), kAny, R"(\S+)");
  return std::regex_match(got, std::regex(std::regex_replace(escaped, kOptional, "(?: ?$1)?")));
}

bool is_told(const Line& line) {
  return line.words.front() == "told" || line.words.front() == "(told";
}

/// The first line that is not as expected. A whole line in brackets may be there or not.
std::optional<std::pair<const Line*, std::string>> compare(const std::vector<Line>& expected, bool told,
                                                           const std::vector<std::string>& got) {
  std::size_t at = 0;
  for (const Line& line : expected) {
    if (is_told(line) != told) continue;
    const std::string text = line.text();
    const bool optional = text.front() == '(' && text.back() == ')';
    if (at < got.size() && (optional ? text.substr(1, text.size() - 2) == got[at] : fits(text, got[at])))
      ++at;
    else if (!optional)
      return std::pair(&line, at < got.size() ? got[at] : "nothing");
  }
  if (at < got.size()) return std::pair(static_cast<const Line*>(nullptr), got[at]);
  return std::nullopt;
}

void read_line(int number, const std::string& source, const std::string& file, std::vector<Transcript>& all) {
  const std::string text = trimmed(source.substr(0, source.find(" # ")));
  if (text.empty() || text.front() == '#') return;
  const std::size_t space = text.find(' ');
  const std::string sign = text.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : trimmed(text.substr(space));
  if (sign == "==") {
    all.push_back({.file = file, .name = rest, .rule = {}, .of = {}, .except = {}, .steps = {}});
    return;
  }
  Transcript& transcript = all.back();
  if (sign == "rule")
    transcript.rule = rest;
  else if (sign == "client" || sign == "worker")
    transcript.of = parse(number, text).front();
  else if (sign == "except")
    transcript.except[rest.substr(0, rest.find(' '))] = rest.substr(rest.find(' ') + 1);
  else if (sign == ">")
    transcript.steps.push_back({.happens = parse(number, rest), .expected = {}});
  else if (sign == "<")
    for (Line& line : parse(number, rest))
      transcript.steps.back().expected.push_back(std::move(line));
  else
    throw std::runtime_error(file + ":" + std::to_string(number) + ": \"" + sign + "\" begins no line");
}

void write_number(std::string& out, std::uint64_t value) {
  out += '\xcf';
  for (int shift = 56; shift >= 0; shift -= 8)
    out += static_cast<char>(value >> shift);
}
void write_text(std::string& out, std::string_view text) {
  out += '\xdb';
  for (int shift = 24; shift >= 0; shift -= 8)
    out += static_cast<char>(text.size() >> shift);
  out += text;
}
void write_head(std::string& out, char kind, std::size_t size) {
  out += kind;
  out += static_cast<char>(size >> 8);
  out += static_cast<char>(size);
}
constexpr char kArray = '\xdc', kMap = '\xde';

void write_value(std::string& out, const std::string& value) {
  if (!value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return write_number(out, std::stoull(value));
  if (value == "true") {
    out += '\xc3';
    return;
  }
  write_text(out, value);
}

}  // namespace

std::string words(std::string text, const std::map<std::string, std::string>& fields) {
  for (const auto& [key, value] : fields)
    if (!value.empty()) text += " " + key + "=" + value;
  return text;
}

std::string Line::text() const {
  std::string all;
  for (const std::string& word : words)
    all += (all.empty() ? "" : " ") + word;
  return ends::words(all, fields);
}

bool Line::says(std::string_view word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<std::string> Line::field(const std::string& key) const {
  const auto at = fields.find(key);
  return at == fields.end() ? std::nullopt : std::optional(at->second);
}

std::int64_t Line::number_of(const std::string& key, std::int64_t otherwise) const {
  const std::optional<std::string> value = field(key);
  return value ? std::stoll(*value) : otherwise;
}

std::string Line::body() const {
  return field("body").value_or(std::string(static_cast<std::size_t>(number_of("body_bytes", 0)), 'x'));
}

void PrintTo(const Transcript& transcript, std::ostream* out) {
  *out << transcript.file << " " << transcript.name;
}

std::vector<Transcript> read(std::string_view which) {
  const std::filesystem::path folder = LANEMQ_SOURCE "/tests/ends";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Transcript> all;
  for (const std::filesystem::path& path : files) {
    std::ifstream in(path);
    int number = 0;
    for (std::string line; std::getline(in, line);)
      read_line(++number, line, "tests/ends/" + path.filename().string(), all);
  }
  for (const Transcript& one : all)
    if (one.rule.empty() || one.of.words.empty() || one.steps.empty())
      throw std::runtime_error(one.file + " " + one.name + ": it has no rule, no end or no step");
  std::erase_if(all, [which](const Transcript& one) { return one.of.word(0) != which; });
  return all;
}

std::chrono::milliseconds duration(const std::string& text) {
  std::size_t digits = 0;
  const std::int64_t amount = std::stoll(text, &digits);
  const std::string unit = text.substr(digits);
  return std::chrono::milliseconds(amount * (unit == "ms" ? 1 : unit == "s" ? 1'000 : 60'000));
}

std::string play(const Transcript& transcript, const End& end) {
  for (const Step& step : transcript.steps) {
    const Heard heard = end(step.happens);
    for (const bool told : {false, true}) {
      const auto wrong = compare(step.expected, told, told ? heard.told : heard.said);
      if (!wrong) continue;
      const Line* const line = wrong->first;
      return transcript.file + ":" + std::to_string((line ? *line : step.happens.front()).number) + " " +
             transcript.name + "\n  rule: " + transcript.rule + "\n  after    > " +
             step.happens.front().text() + "\n  expected < " + (line ? line->text() : "nothing more") +
             "\n  got      < " + wrong->second;
    }
  }
  return {};
}

std::string pack(const Message& message) {
  std::string out = "\x93\xa4LMQ1";
  out += static_cast<char>(0xa0 + message.op.size());
  out += message.op;
  const std::size_t entries = message.fields.size() + message.numbers.size() + message.lists.size() +
                              (message.states.empty() ? 0 : 1) + (message.leases.empty() ? 0 : 1);
  write_head(out, kMap, entries);
  for (const auto& [key, number] : message.numbers) {
    write_text(out, key);
    write_number(out, number);
  }
  for (const auto& [key, value] : message.fields) {
    write_text(out, key);
    write_value(out, value);
  }
  for (const auto& [key, texts] : message.lists) {
    write_text(out, key);
    write_head(out, kArray, texts.size());
    for (const std::string& text : texts)
      write_text(out, text);
  }
  if (!message.states.empty() || !message.leases.empty()) {
    write_text(out, "jobs");
    write_head(out, kArray, message.states.size() + message.leases.size());
  }
  for (const auto& [id, state] : message.states) {
    write_head(out, kMap, 2);
    write_text(out, "id");
    write_text(out, id);
    write_text(out, "state");
    write_text(out, state);
  }
  for (const auto& [job, attempt] : message.leases) {
    write_head(out, kArray, 2);
    write_number(out, job);
    write_number(out, attempt);
  }
  return out;
}

}  // namespace lanemq::ends
