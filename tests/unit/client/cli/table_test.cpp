// SPDX-License-Identifier: Apache-2.0
#include "client/cli/text/table.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::cli {
namespace {

using testing::HasSubstr;

TEST(Table, crops_lines_by_characters) {
  EXPECT_EQ(cropped("abc", 5), "abc");
  EXPECT_EQ(cropped("abc", 2), "ab");
  EXPECT_EQ(cropped("äöü", 2), "äö");
  EXPECT_EQ(cropped("", 2), "");
}

TEST(Table, cuts_the_widest_text_but_no_number_and_nothing_of_the_first_column) {
  const std::string id(40, 'i'), text(70, 't');
  const std::vector<TableRow> rows{{"JOB", "count", "message"}, {id, "1,000,000,000", text}, {"b", "1", "ä"}};
  EXPECT_THAT(aligned_table(rows, false, 80),
              HasSubstr("\n" + id + "  1,000,000,000  " + std::string(20, 't') + "...\n"));
  EXPECT_THAT(aligned_table(rows, false, 127), HasSubstr(text + "\n"));
  EXPECT_THAT(aligned_table(rows, false, 126), HasSubstr("ttt...\n"));
  // The least that a column of texts keeps.
  EXPECT_THAT(aligned_table(rows, false, 10), HasSubstr("  " + std::string(7, 't') + "...\n"));
}

TEST(Table, aligns_by_characters) {
  const std::vector<TableRow> rows{{"NAME", "n"}, {"äöü", "1"}, {"abcd", "22"}};
  EXPECT_EQ(aligned_table(rows, false, 80), "NAME   n\näöü    1\nabcd  22\n");
  EXPECT_EQ(aligned_table({{"text"}, {std::string(17, 'x') + "ä"}}, false, 5),
            "text              \n" + std::string(17, 'x') + "ä\n");
  const std::vector<TableRow> wide{{"a", "text"}, {"b", std::string(30, 'x') + "äöüäöüäöü"}};
  EXPECT_THAT(aligned_table(wide, false, 39), HasSubstr("xäöü...\n"));
}

}  // namespace
}  // namespace lanemq::cli
