// SPDX-License-Identifier: Apache-2.0
// What a program says of its options, in four places, and what holds where nobody says anything.
#pragma once

#include <cctype>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "common/settings/option_reader.hpp"

namespace lanemq::settings {

/// The text with one space between two words: a help breaks its lines there.
inline std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n';
    if (!is_space) line += c;
    if (is_space && !line.ends_with(' ')) line += ' ';
  }
  return line;
}

inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::string content_of(const char* path) {
  std::ifstream page(path);
  EXPECT_TRUE(page) << path;
  return {std::istreambuf_iterator<char>(page), {}};
}

/// The line of the manual's table.
inline std::string line_of_page(const BoundOption& option) {
  std::string line = "| `" + std::string(option.key) + "` | ";
  if (!option.in_blocks) line += "`" + toml_value(option.kind, option.fallback) + "`";
  const bool says_nothing = joined(option.fallback).empty() && !option.empty.empty();
  if (says_nothing) line += (option.in_blocks ? "" : " ") + ("(" + std::string(option.empty) + ")");
  return line + " | " + std::string(option.sentence) + " |";
}

/// That --help, --print-config, the manual and the defaults of `Settings` say the same.
template <class Settings>
void expect_agreement(const Options<Settings>& options, const std::string& help, const std::string& printed,
                      const std::string& page) {
  Settings defaults{};
  for (const BoundOption& option : bound(options, defaults)) {
    SCOPED_TRACE(option.key);
    EXPECT_FALSE(option.unit.empty());
    ASSERT_FALSE(option.sentence.empty());
    EXPECT_FALSE(std::islower(static_cast<unsigned char>(option.sentence.front()))) << option.sentence;
    EXPECT_TRUE(option.sentence.ends_with('.')) << option.sentence;

    std::string flag = "--" + std::string(option.key);
    for (char& c : flag)
      if (c == '_') c = '-';
    EXPECT_TRUE(holds(help, flag)) << flag;
    const std::string fallback = joined(option.fallback);
    const std::string shown = fallback.empty() ? std::string(option.empty) : fallback;
    EXPECT_TRUE(
        holds(in_one_line(help), std::string(option.sentence) + (shown.empty() ? "" : " [" + shown + "]")));

    EXPECT_EQ(holds(printed,
                    "\n" + std::string(option.key) + " = " + toml_value(option.kind, option.fallback) + "\n"),
              !option.in_blocks);
    EXPECT_TRUE(holds(page, "\n" + line_of_page(option) + "\n")) << line_of_page(option);

    // What get() says, set() reads as the same.
    if (fallback.empty() && option.empty.empty()) continue;
    set(option, option.fallback);
    EXPECT_EQ(option.get(), option.fallback);
  }
}

}  // namespace lanemq::settings
