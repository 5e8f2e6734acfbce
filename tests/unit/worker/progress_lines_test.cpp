// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/progress_lines.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lanemq::worker {
namespace {

std::vector<std::string> read(ProgressLines& lines, std::string_view bytes) {
  std::vector<std::string> words;
  for (const JobProgress& said : lines.read(bytes))
    words.push_back((said.pct ? std::to_string(*said.pct) : "-") + "|" + said.note);
  return words;
}
using Words = std::vector<std::string>;

TEST(ProgressLines, are_found_among_others) {
  ProgressLines lines;

  EXPECT_EQ(
      read(lines,
           "warning\nlanemq-progress 40 reads its input\nlanemq-progress 50\nlanemq-progress - waits\r\n"),
      (Words{"40|reads its input", "50|", "-|waits"}));
  EXPECT_EQ(read(lines,
                 "lanemq-progress\nlanemq-progress x\nlanemq-progress 4x\n lanemq-progress "
                 "5\n\nlanemq-progress 1 \n"),
            Words{"1|"});
}

TEST(ProgressLines, take_percentages_as_programs_print_them) {
  ProgressLines lines;
  EXPECT_EQ(read(lines,
                 "lanemq-progress 40.0 reads\nlanemq-progress 66.67%\nlanemq-progress  7\tx\n"
                 "lanemq-progress -5\nlanemq-progress 1e9\nlanemq-progress nan\nlanemq-progress inf\n"),
            (Words{"40|reads", "66|", "7|x", "0|", "100|"}));
}

TEST(ProgressLines, may_come_in_any_pieces) {
  const std::string text = "one\nlanemq-progress 7 with a note\ntwo\nlanemq-progress 8\n";
  for (std::size_t piece = 1; piece < text.size(); ++piece) {
    ProgressLines lines;
    Words words;
    for (std::size_t at = 0; at < text.size(); at += piece)
      for (std::string& word : read(lines, std::string_view(text).substr(at, piece)))
        words.push_back(std::move(word));
    EXPECT_EQ(words, (Words{"7|with a note", "8|"})) << piece;
  }
}

TEST(ProgressLines, that_are_too_long_are_none) {
  ProgressLines lines;
  const std::string begin = "lanemq-progress 7 ";
  const std::string longest = begin + std::string(ProgressLines::kLineBytesMax - begin.size(), 'n');

  EXPECT_EQ(read(lines, longest + "\n").size(), 1u);
  EXPECT_EQ(read(lines, longest + "n\nlanemq-progress 8\n"), Words{"8|"});
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(read(lines, std::string(1000, 'x')), Words{});
  EXPECT_EQ(read(lines, "\nlanemq-progress 9\n"), Words{"9|"});
}

TEST(ProgressLines, are_left_out_of_last_words) {
  EXPECT_EQ(without_progress("lanemq-progress 1\nTraceback\nlanemq-progress 2 x\n  no such file"),
            "Traceback\n  no such file");
  EXPECT_EQ(without_progress("lanemq-progress of the nation\n"), "lanemq-progress of the nation\n");
  EXPECT_EQ(without_progress("lanemq-progress 3"), "");
  EXPECT_EQ(without_progress(""), "");
}

}  // namespace
}  // namespace lanemq::worker
