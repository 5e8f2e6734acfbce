// SPDX-License-Identifier: Apache-2.0
#include "common/settings/option_reader.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq::settings {
namespace {

struct Kitchen {
  std::int64_t plates = 4;
  std::vector<std::string> cooks;
  std::chrono::milliseconds simmer{1500};
  std::size_t pot = 4096;
  bool open = false;
  log::Level log_level = log::Level::info;
  std::string sign;
  std::string room;
};

ProgramText program() {
  return {.name = "a-kitchen",
          .variables = "A_KITCHEN_",
          .sentence = "Cooks.",
          .config_sentence = "a file",
          .footer = "Bye.",
          .blocks = {"room"},
          .flags = {{"--taste", "DISH", "tastes"}, {"--clean", "", "cleans"}}};
}

const Options<Kitchen>& options() {
  using namespace rows;
  static const Options<Kitchen> kOptions = without_units_before<Kitchen>(
      {count("plate_count", "plates", {1, 9}, "How many.", &Kitchen::plates),
       list("cooks", "names", "Who.", &Kitchen::cooks).when_empty("nobody"),
       duration("simmer", {std::chrono::milliseconds(1), kDay}, "How long.", &Kitchen::simmer),
       size("pot", {1, 1u << 20}, "How large.", &Kitchen::pot), yes_or_no("open", "Whether.", &Kitchen::open),
       rows::log_level(&Kitchen::log_level),
       text("sign_text", "text", "What it says.", &Kitchen::sign).or_brief("sign").when_empty("nothing")});
  return kOptions;
}

struct Told {
  Kitchen kitchen{};
  Asked asked{};
  std::string complaint{};
};

Told told(std::vector<const char*> arguments, const Variables& variables = {}) {
  Told result;
  arguments.insert(arguments.begin(), "a-kitchen");
  try {
    result.asked = OptionReader(program(), bound(options(), result.kitchen))
                       .read(static_cast<int>(arguments.size()), arguments.data(), environment(variables),
                             [&](const std::string&, std::string_view key, const toml::node& node, Heard&) {
                               if (key != "room") return false;
                               result.kitchen.room = scalar(node);
                               return true;
                             });
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
  const File high("\nplate_count = 10\n"), wrong("dishwasher = 1\n"), list("plate_count = [1, 2]\n"),
      broken("= 1\n"), table("[plate_count]\na = 1\n");
  const auto of_file = [](const File& file) {
    const std::string text = told({"--config", file.path()}).complaint, path = file.path();
    return text.starts_with(path) ? text.substr(path.size()) : text;
  };

  EXPECT_EQ(told({"--plate-count", "10"}).complaint,
            "--plate-count: must be a whole number 1..9, not \"10\"");
  EXPECT_EQ(told({"--cooks", "a", "--cooks", ""}).complaint, "--cooks: must not be empty");
  EXPECT_EQ(told({}, {{"A_KITCHEN_COOKS", "a,,b"}}).complaint, "A_KITCHEN_COOKS: must not be empty");
  EXPECT_EQ(of_file(high), ":2: plate_count: must be a whole number 1..9, not \"10\"");
  EXPECT_EQ(
      of_file(wrong),
      ":1: unknown key \"dishwasher\"; there are room, plate_count, cooks, simmer, pot, open, log_level, "
      "sign_text");
  EXPECT_EQ(of_file(list), ":1: plate_count: must be one value, not a list");
  EXPECT_EQ(of_file(table), ":1: plate_count: must be a string, a number, true or false");
  EXPECT_TRUE(of_file(broken).starts_with(":1: ")) << of_file(broken);
  EXPECT_NE(told({"--dishwasher"}).complaint.find("see --help"), std::string::npos);
}

TEST(OptionReader, the_help_has_a_line_for_each) {
  const std::string help = told({"--help"}).asked.text;

  for (const char* part :
       {"Cooks.", "--plate-count plates", "How many. [4]", "--cooks names", "Who. [nobody]",
        "How long. [1500ms]", "How large. [4KiB]", "Whether. [false]", "--sign-text", "--taste DISH",
        "--clean", "--print-config", "--check", "A_KITCHEN_PLATE_COUNT", "Bye."})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in\n" << help;
  EXPECT_EQ(help.find("--simmer-ms"), std::string::npos) << "it is read, but not for anybody new";
  EXPECT_TRUE(told({"--version"}).asked.text.starts_with("a-kitchen "));
}

TEST(OptionReader, says_what_is_asked_for) {
  EXPECT_EQ(told({}).asked.what, Asked::For::run);
  EXPECT_EQ(told({"--check"}).asked.what, Asked::For::check);
  EXPECT_EQ(told({"--print-config"}).asked.what, Asked::For::print_config);
  EXPECT_EQ(told({"--help"}).asked.what, Asked::For::print);
  const Asked asked = told({"--taste", "soup", "--clean", "--taste", "cake"}).asked;
  EXPECT_EQ(asked.flags.at("--taste"), (Values{"soup", "cake"}));
  EXPECT_TRUE(asked.flags.contains("--clean"));
  EXPECT_FALSE(told({}).asked.flags.contains("--clean"));
}

TEST(OptionReader, a_switch_needs_no_value_and_takes_one) {
  EXPECT_TRUE(told({"--open"}).kitchen.open);
  EXPECT_TRUE(told({"--open", "--plate-count", "3"}).kitchen.open);
  EXPECT_TRUE(told({"--open", "true"}).kitchen.open);
  EXPECT_FALSE(told({"--open", "false"}, {{"A_KITCHEN_OPEN", "true"}}).kitchen.open);
  EXPECT_EQ(told({"--open", "maybe"}).complaint, "--open: must be true or false, not \"maybe\"");
}

TEST(OptionReader, what_may_be_empty_can_be_said_to_be) {
  const File file("cooks = [\"a\"]\nsign = \"soup\"\n");

  EXPECT_EQ(told({"--config", file.path()}).kitchen.sign, "soup");
  const Kitchen kitchen = told({"--config", file.path(), "--sign", "", "--cooks", ""}).kitchen;
  EXPECT_EQ(kitchen.sign, "");
  EXPECT_TRUE(kitchen.cooks.empty());
}

TEST(OptionReader, old_spellings_are_read_and_the_new_ones_named) {
  const File file("simmer_ms = 20\npot = 8192\n");
  const auto written = [](const Told& result) {
    std::string text;
    for (const OldSpelling& old : result.asked.heard.old)
      text += old.write + ";";
    return text;
  };

  const Told of_file = told({"--config", file.path()});
  EXPECT_EQ(of_file.kitchen.simmer.count(), 20);
  EXPECT_EQ(of_file.kitchen.pot, 8192u);
  EXPECT_EQ(written(of_file), "simmer = \"20ms\";pot = \"8KiB\";");
  EXPECT_EQ(of_file.asked.heard.old.at(0).place, std::string(file.path()) + ":1: simmer_ms");

  const Told of_flags = told({"--simmer-ms", "3000", "--pot", "9", "--log-level", "warn"});
  EXPECT_EQ(of_flags.kitchen.simmer.count(), 3000);
  EXPECT_EQ(written(of_flags), "--simmer 3s;--pot 9B;--log-level warning;");
  EXPECT_EQ(of_flags.kitchen.log_level, log::Level::warning);

  EXPECT_EQ(written(told({}, {{"A_KITCHEN_SIMMER_MS", "5"}})), "A_KITCHEN_SIMMER=5ms;");
  EXPECT_EQ(told({"--simmer", "5"}).complaint,
            "--simmer: must be a whole number with its unit, like 30s or 500ms, not \"5\"");
  EXPECT_EQ(written(told({"--simmer", "5s", "--pot", "1KiB"})), "");
}

TEST(OptionReader, what_is_printed_is_read_back) {
  Kitchen kitchen{.cooks = {"a \"b\"", "c\\"}, .simmer = std::chrono::seconds(90), .sign = "x\ny"};
  const std::string printed = print_options(bound(options(), kitchen));
  const File file(printed);
  Kitchen again = told({"--config", file.path()}).kitchen;

  EXPECT_EQ(print_options(bound(options(), again)), printed);
  EXPECT_EQ(again.cooks, kitchen.cooks);
  EXPECT_EQ(again.sign, kitchen.sign);
}

TEST(OptionReader, a_flag_that_there_is_not_is_told_with_the_one_that_was_meant) {
  EXPECT_EQ(told({"--plate-cuont", "3"}).complaint,
            "unknown flag \"--plate-cuont\"; did you mean \"--plate-count\"?");
  EXPECT_EQ(told({"soup"}).complaint, "what is \"soup\"? see --help");
}

TEST(Values, durations_and_sizes_are_shown_as_they_are_read) {
  using std::chrono::microseconds;
  for (const char* text : {"0s", "1us", "1500us", "999ms", "90s", "2m", "36h", "7d"})
    EXPECT_EQ(show(parse_duration(text)), text);
  EXPECT_EQ(parse_duration("0"), Duration{});
  EXPECT_EQ(show(parse_duration("60s")), "1m");
  for (const char* text : {"0B", "1B", "1000B", "64MiB", "3GiB"})
    EXPECT_EQ(show_size(parse_size(text)), text);
  for (const char* bad :
       {"", "5", "-1s", "1.5s", "s", "1 s", "1S", "9223372036854775807d", "99999999999999999999s"})
    EXPECT_THROW(parse_duration(bad), UsageError) << bad;
  for (const char* bad : {"", "5", "-1B", "1KB", "1kib", "9223372036854775807GiB"})
    EXPECT_THROW(parse_size(bad), UsageError) << bad;
}

}  // namespace
}  // namespace lanemq::settings
