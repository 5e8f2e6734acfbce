// SPDX-License-Identifier: Apache-2.0
#include "common/log/line.hpp"

#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

namespace lanemq::log {
namespace {

std::string field(std::string_view value) {
  std::string line = "worker.ready";
  append_field(line, "name", value);
  return line.substr(line.find('=') + 1);
}

TEST(LogLine, shows_plain_words_as_they_are) {
  EXPECT_EQ(field("w1"), "w1");
  EXPECT_EQ(field("tcp://127.0.0.1:5570"), "tcp://127.0.0.1:5570");
  EXPECT_EQ(field("größer"), "größer");
}

TEST(LogLine, quotes_what_is_more_than_a_word) {
  EXPECT_EQ(field(""), "\"\"");
  EXPECT_EQ(field("two words"), "\"two words\"");
  EXPECT_EQ(field("a=b"), "\"a=b\"");
}

TEST(LogLine, escapes_what_would_end_a_field_or_a_line) {
  EXPECT_EQ(field(R"(w1" session="forged" jobs="9)"), R"("w1\" session=\"forged\" jobs=\"9")");
  EXPECT_EQ(field(R"(C:\)"), R"("C:\\")");
  EXPECT_EQ(field("one\nworker.lost name=two"), R"("one\x0aworker.lost name=two")");
  EXPECT_EQ(field("\x1B[2J"), R"("\x1b[2J")");
  EXPECT_EQ(field(R"(\x0a)"), R"("\\x0a")") << "not a line's end, and not shown as one";
}

TEST(LogLine, cuts_what_is_long) {
  const std::string cut = field(std::string(1000, 'a'));

  EXPECT_LT(cut.size(), 300u);
  EXPECT_TRUE(cut.ends_with("...\""));
}

TEST(LogLine, is_an_object_for_programs) {
  Line line(Format::json, "worker.lost");
  line.field("name", "w1\" \n").field("jobs", 3).field("odd", "\xFF");

  EXPECT_EQ(line.take(), R"({"event":"worker.lost","name":"w1\" \n","jobs":3,"odd":"�"})");
}

TEST(LogLine, has_its_numbers_as_they_are_for_people) {
  Line line(Format::text, "worker.lost");
  line.field("name", "w1").field("jobs", 3);

  EXPECT_EQ(line.take(), "worker.lost name=w1 jobs=3");
}

/// The fields of a line as a program reads them that goes by quotes and backslashes; none: it cannot be read.
std::optional<std::multimap<std::string, std::string>> read(std::string_view line) {
  std::multimap<std::string, std::string> fields;
  std::size_t at = line.find(' ');
  while (at < line.size()) {
    const std::size_t equals = line.find('=', at);
    if (line[at] != ' ' || equals == std::string_view::npos) return std::nullopt;
    const std::string name(line.substr(at + 1, equals - at - 1));
    std::string value;
    at = equals + 1;
    if (at < line.size() && line[at] == '"') {
      for (++at; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\' && at + 1 < line.size()) value += line[at++];
        value += line[at];
      }
      if (at++ >= line.size()) return std::nullopt;
    } else {
      for (; at < line.size() && line[at] != ' '; ++at)
        value += line[at];
    }
    fields.emplace(name, value);
  }
  return fields;
}

TEST(LogLine, keeps_each_value_one_field_whatever_it_holds) {
  std::mt19937 random(1);
  static constexpr std::string_view kParts[] = {"\"",   "\\", " ",       "=",        "\n",
                                                "\x1B", "a",  "session", "\xC2\x9B", "\xFF"};
  for (int round = 0; round < 20000; ++round) {
    std::string values[2];
    for (std::string& value : values)
      for (std::size_t parts = random() % 80; parts > 0; --parts)
        value += kParts[random() % std::size(kParts)];
    std::string line = "event";
    append_field(line, "one", values[0]);
    append_field(line, "two", values[1]);

    const auto fields = read(line);

    ASSERT_TRUE(fields) << line;
    EXPECT_EQ(fields->size(), 2u) << line;
    EXPECT_EQ(fields->count("one"), 1u) << line;
    EXPECT_EQ(fields->count("two"), 1u) << line;
    EXPECT_EQ(line.find_first_of("\n\x1B"), std::string::npos);
  }
}

}  // namespace
}  // namespace lanemq::log
