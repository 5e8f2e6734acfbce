// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "broker/io/loop/stats_document.hpp"
#include "tests/support/protocol_pages.hpp"

namespace lanemq::io {
namespace {

/// The rows of the page's table of counters.
std::vector<std::string> rows_of_page() {
  std::istringstream page(test::protocol_pages(LANEMQ_PAGES));
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) inside = line == "### Counters";
    if (inside && line.starts_with("| `")) rows.push_back(line);
  }
  return rows;
}

TEST(StatsPage, lists_the_counters_as_the_code_has_them) {
  const std::vector<std::string> expected{
#define LANEMQ_COUNTER(name, meaning) "| `" #name "` | " meaning " |",
      LANEMQ_CORE_COUNTERS(LANEMQ_COUNTER) LANEMQ_TRANSPORT_COUNTERS(LANEMQ_COUNTER)
#undef LANEMQ_COUNTER
  };

  EXPECT_EQ(rows_of_page(), expected);
}

}  // namespace
}  // namespace lanemq::io
