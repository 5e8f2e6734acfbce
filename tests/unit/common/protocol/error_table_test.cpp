// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <gtest/gtest.h>

#include <lanemq/error_table.hpp>

namespace lanemq {
namespace {

TEST(ErrorTable, finds_every_code_by_its_name_and_back) {
  for (const ErrorInfo& row : error_table()) {
    EXPECT_EQ(error_code(row.name), row.code);
    EXPECT_EQ(name_of(row.code), row.name);
    EXPECT_EQ(&error_info(row.code), &row);
  }
  EXPECT_EQ(error_code(""), std::nullopt);
  EXPECT_EQ(error_code("bad_requests"), std::nullopt);
}

TEST(ErrorTable, has_names_that_are_unique_and_statuses_that_are_errors) {
  std::set<std::string_view> names;
  for (const ErrorInfo& row : error_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GE(row.http_status, 400);
    EXPECT_LT(row.http_status, 600);
    EXPECT_FALSE(row.meaning.empty());
  }
}

TEST(ErrorTable, says_when_to_retry_where_waiting_helps) {
  EXPECT_TRUE(error_info(ErrorCode::lane_full).says_when_to_retry);
  EXPECT_TRUE(error_info(ErrorCode::draining).says_when_to_retry);
  EXPECT_FALSE(error_info(ErrorCode::bad_request).says_when_to_retry);
  EXPECT_FALSE(error_info(ErrorCode::conflict).says_when_to_retry);
}

TEST(ErrorClasses, are_found_by_their_names) {
  for (const ErrorClass each :
       {ErrorClass::retry, ErrorClass::limited, ErrorClass::quota, ErrorClass::overloaded,
        ErrorClass::permanent, ErrorClass::deadline, ErrorClass::released})
    EXPECT_EQ(error_class(name_of(each)), each);
  EXPECT_EQ(error_class("fatal"), std::nullopt);
}

TEST(LimitedBy, is_found_by_its_word) {
  for (const LimitedBy each : {LimitedBy::rate, LimitedBy::concurrency, LimitedBy::slope, LimitedBy::day})
    EXPECT_EQ(limited_by(name_of(each)), each);
  EXPECT_EQ(name_of(LimitedBy::concurrency), "concurrency");
  EXPECT_EQ(limited_by("fortnight"), std::nullopt);
  EXPECT_EQ(limited_by(""), std::nullopt);
}

}  // namespace
}  // namespace lanemq
