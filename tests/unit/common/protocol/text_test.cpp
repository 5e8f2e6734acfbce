// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <lanemq/text.hpp>
#include <lanemq/unprintable.hpp>

namespace lanemq {
namespace {

TEST(Utf8, takes_the_ends_of_every_range) {
  for (const char* text : {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_utf8(text)) << printable(text);
  EXPECT_TRUE(is_utf8(std::string_view("\0", 1)));
}

TEST(Utf8, refuses_what_rfc_3629_refuses) {
  for (const char* text : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF",
                           "\xE2\x82", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF0\x9F\x98",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF"})
    for (const char* before : {"", "a", "1234567", "12345678", "123456789012345"})
      for (const char* behind : {"", "z", "1234567", "12345678"})
        EXPECT_FALSE(is_utf8(std::string(before) + text + behind))
            << printable(std::string(before) + text + behind);
}

// AddressSanitizer watches what lies on both sides.
TEST(Utf8, reads_nothing_but_the_text) {
  for (std::size_t size = 0; size < 20; ++size) {
    const std::vector<char> text(size, 'a');
    EXPECT_TRUE(is_utf8({text.data(), text.size()})) << size;
  }
}

RC_GTEST_PROP(Utf8, takes_every_code_point_and_refuses_it_cut_short, ()) {
  const auto point = *rc::gen::oneOf(rc::gen::inRange(0x80, 0x800), rc::gen::inRange(0x800, 0xD800),
                                     rc::gen::inRange(0xE000, 0x110000));
  std::string text;
  if (point < 0x800)
    text += static_cast<char>(0xC0 | point >> 6);
  else if (point < 0x10000)
    text += static_cast<char>(0xE0 | point >> 12);
  else
    (text += static_cast<char>(0xF0 | point >> 18)) += static_cast<char>(0x80 | (point >> 12 & 0x3F));
  if (point >= 0x800) text += static_cast<char>(0x80 | (point >> 6 & 0x3F));
  text += static_cast<char>(0x80 | (point & 0x3F));
  const std::string before(*rc::gen::inRange<std::size_t>(0, 20), 'a');

  RC_ASSERT(is_utf8(before + text));
  RC_ASSERT(!is_utf8(before + text.substr(0, text.size() - 1)));
  RC_ASSERT(!is_utf8(before + text.substr(1)));
}

TEST(Rfc3339, has_a_moment_to_the_millisecond) {
  EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(rfc3339(951'782'399'999), "2000-02-28T23:59:59.999Z");
  EXPECT_EQ(rfc3339(1'764'111'900'123), "2025-11-25T23:05:00.123Z");
}

TEST(Printable, shows_what_would_move_a_terminal) {
  EXPECT_EQ(printable("plain ü"), "plain ü");
  EXPECT_EQ(printable("a\nb\x1B[0m\x7F"), "a\\x0ab\\x1b[0m\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"), "\\xc2\\x9b") << "a control character beyond ASCII";
  EXPECT_EQ(printable("\xFF"), "\\xff");
}

TEST(Printable, shows_what_turns_the_direction_of_reading) {
  EXPECT_EQ(printable("a\u202Eb"), "a\\xe2\\x80\\xaeb");
  EXPECT_EQ(printable("\u061C"), "\\xd8\\x9c");
  for (const char* text : {"\u200E", "\u200F", "\u202A", "\u202E", "\u2066", "\u2069"})
    EXPECT_EQ(printable(text).substr(0, 4), "\\xe2") << text;
  for (const char* text :
       {"\u00A0", "\u061B", "\u061D", "\u200D", "\u2010", "\u2027", "\u202F", "\u205F", "\u2070"})
    EXPECT_EQ(printable(text), text);
  for (const char* text :
       {"\u200B", "\u2028", "\u2029", "\u2060", "\u206F", "\uFEFF", "\uFFF9", "\U000E0041"})
    EXPECT_EQ(printable(text).substr(0, 2), "\\x") << text << ": ends a line for some, or is not seen";
}

TEST(EscapeUnprintable, leaves_json_the_same_value) {
  EXPECT_EQ(escape_unprintable("[\"a\\n\u00FC\", 1]"), "[\"a\\n\u00FC\", 1]");
  EXPECT_EQ(escape_unprintable("\"\x7F \xC2\x80 \xC2\x9F \u061C \u200E \u202E \u2069\""),
            "\"\\u007f \\u0080 \\u009f \\u061c \\u200e \\u202e \\u2069\"");
  EXPECT_EQ(escape_unprintable("\"\u2028 \uFEFF \U000E0041 \U0001F600\""),
            "\"\\u2028 \\ufeff \\udb40\\udc41 \U0001F600\"");
  EXPECT_EQ(escape_unprintable("\xE2\x80"), "\xE2\x80") << "cut short";
}

TEST(Printable, cuts_what_is_long) {
  const std::string cut = printable(std::string(1000, 'a'), 10);

  EXPECT_EQ(cut, "aaaaaaaaaa...");
}

RC_GTEST_PROP(Printable, is_always_short_utf8_without_controls, ()) {
  const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());

  const std::string shown = printable(bytes, 64);

  RC_ASSERT(is_utf8(shown));
  RC_ASSERT(shown.size() <= 64 + 3 + 3);
  for (const char c : shown)
    RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
}

TEST(Glob, matches_stars_and_question_marks) {
  EXPECT_TRUE(glob_match("gpt-4.1*", "gpt-4.1-mini"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("a*b*c", "a-b-b-c"));
  EXPECT_TRUE(glob_match("a?c", "abc"));
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_TRUE(glob_match("**", "x"));

  EXPECT_FALSE(glob_match("a?c", "ac"));
  EXPECT_FALSE(glob_match("gpt-4.1", "gpt-4.1-mini"));
  EXPECT_FALSE(glob_match("a*b", "a-c"));
  EXPECT_FALSE(glob_match("?", ""));
}

TEST(Glob, takes_little_time_for_a_pattern_full_of_stars) {
  std::string pattern;
  for (int i = 0; i < 30; ++i)
    pattern += "*a";

  EXPECT_FALSE(glob_match(pattern + "b", std::string(2000, 'a')));
}

/// All texts of up to `length` letters a and b.
std::vector<std::string> all_texts(std::size_t length) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (texts[i].size() < length)
      for (const char letter : {'a', 'b'})
        texts.push_back(texts[i] + letter);
  return texts;
}

/// All patterns of up to three signs.
std::vector<std::string> all_patterns() {
  std::vector<std::string> patterns{""};
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (patterns[i].size() < 3)
      for (const char sign : {'a', 'b', '?', '*'})
        patterns.push_back(patterns[i] + sign);
  return patterns;
}

TEST(Globs, meet_where_some_text_matches_both_and_cover_only_what_they_match) {
  const std::vector<std::string> texts = all_texts(6), patterns = all_patterns();
  for (const std::string& one : patterns) {
    for (const std::string& other : patterns) {
      bool some = false, all = true;
      for (const std::string& text : texts) {
        const bool here = glob_match(one, text), there = glob_match(other, text);
        some = some || (here && there);
        all = all && (here || !there);
      }
      EXPECT_EQ(globs_meet(one, other), some) << one << " and " << other;
      if (glob_covers(one, other)) {
        EXPECT_TRUE(all) << one << " covers " << other;
      }
    }
  }
  EXPECT_TRUE(glob_covers("acme*", "acme-?u*"));
  EXPECT_TRUE(glob_covers("*", "a*b"));
  EXPECT_TRUE(glob_covers("a?", "ab"));
  EXPECT_FALSE(glob_covers("acme-*", "acme*"));
}

}  // namespace
}  // namespace lanemq
