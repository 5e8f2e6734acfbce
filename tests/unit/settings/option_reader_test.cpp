// SPDX-License-Identifier: Apache-2.0
#include "settings/option_reader.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/settings/surroundings.hpp"

namespace lanemq::settings {
namespace {

struct Kitchen {
  std::int64_t plates = 4;
  std::vector<std::string> cooks;
  std::string room;
};

constexpr ProgramText kProgram{
    .name = "a-kitchen", .sentence = "Cooks.", .config_sentence = "a file", .footer = "Bye."};

constexpr Option<Kitchen> kOptions[] = {
    {"plate_count", "plates", "4", "how many",
     [](Kitchen& kitchen, const std::string& value) { kitchen.plates = number(value, 1, 9); }},
    {"cooks", "names", "", "who",
     [](Kitchen& kitchen, const Values& values) { kitchen.cooks = words(values); }},
};

struct Told {
  Kitchen kitchen{};
  std::string printed{}, complaint{};
};

Told told(std::vector<const char*> arguments, const Variables& variables = {}) {
  Told result;
  arguments.insert(arguments.begin(), "a-kitchen");
  try {
    result.printed =
        OptionReader(kProgram, kOptions, result.kitchen)
            .read(static_cast<int>(arguments.size()), arguments.data(), environment(variables), "[room]",
                  [&](const std::string& path, std::string_view key, const toml::node& node) {
                    if (key != "room") return false;
                    result.kitchen.room = scalar(place_of(path, node), node);
                    return true;
                  })
            .value_or("");
  } catch (const UsageError& error) {
    result.complaint = error.what();
  }
  return result;
}

TEST(OptionReader, a_flag_wins_over_a_variable_and_that_over_the_file) {
  const File file("plate_count = 2\ncooks = [\"a\", \"b\"]\nroom = \"cellar\"\n");

  EXPECT_EQ(told({}).kitchen.plates, 4);
  EXPECT_EQ(told({"--config", file.path()}).kitchen.plates, 2);
  EXPECT_EQ(told({"--config", file.path()}, {{"A_KITCHEN_PLATE_COUNT", "3"}}).kitchen.plates, 3);
  const Kitchen last =
      told({"--config", file.path(), "--plate-count", "5"}, {{"A_KITCHEN_PLATE_COUNT", "3"}}).kitchen;
  EXPECT_EQ(last.plates, 5);
  EXPECT_EQ(last.cooks, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(last.room, "cellar");
}

TEST(OptionReader, lists_are_repeated_or_have_commas_and_else_the_last_one_holds) {
  EXPECT_EQ(told({"--cooks", "a,b", "--cooks", "c"}).kitchen.cooks,
            (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(told({"--plate-count", "1", "--plate-count", "2"}).kitchen.plates, 2);
}

TEST(OptionReader, a_complaint_names_the_flag_the_variable_or_the_line) {
  const File high("\nplate_count = 10\n"), wrong("plates = 1\n"), list("plate_count = [1, 2]\n"),
      broken("= 1\n"), table("[plate_count]\na = 1\n");
  const auto of_file = [](const File& file) {
    const std::string text = told({"--config", file.path()}).complaint, path = file.path();
    return text.starts_with(path) ? text.substr(path.size()) : text;
  };

  EXPECT_EQ(told({"--plate-count", "10"}).complaint,
            "--plate-count: must be a whole number 1..9, not \"10\"");
  EXPECT_EQ(told({"--plate-count", ""}).complaint, "--plate-count: must not be empty");
  EXPECT_EQ(told({}, {{"A_KITCHEN_COOKS", "a,,b"}}).complaint, "A_KITCHEN_COOKS: must not be empty");
  EXPECT_EQ(of_file(high), ":2: plate_count: must be a whole number 1..9, not \"10\"");
  EXPECT_EQ(of_file(wrong), ":1: plates: no such key; there are [room], plate_count, cooks");
  EXPECT_EQ(of_file(list), ":1: plate_count: must be one value, not a list");
  EXPECT_EQ(of_file(table), ":1: plate_count: must be a string, a whole number, true or false");
  EXPECT_TRUE(of_file(broken).starts_with(":1: ")) << of_file(broken);
  EXPECT_NE(told({"--forks"}).complaint.find("see --help"), std::string::npos);
}

TEST(OptionReader, the_help_has_a_line_for_each) {
  const std::string help = told({"--help"}).printed;

  for (const char* part : {"Cooks.", "--plate-count plates", "how many [4]", "--cooks names", "who\n",
                           "A_KITCHEN_PLATE_COUNT", "Bye."})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in\n" << help;
  EXPECT_TRUE(told({"--version"}).printed.starts_with("a-kitchen "));
}

}  // namespace
}  // namespace lanemq::settings
