// SPDX-License-Identifier: Apache-2.0
#include "common/settings/environment.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/settings/secrets/secret_source.hpp"

namespace lanemq::settings {
namespace {

TEST(ProcessEnvironment, a_hidden_variable_is_known_to_the_program_alone) {
  setenv("LANEMQ_TEST_SECRET", "sk-planted", 1);
  setenv("LANEMQ_TEST_SECRET_2", "another", 1);
  const char* const bytes = std::getenv("LANEMQ_TEST_SECRET");

  hide_variable("LANEMQ_TEST_SECRET");

  EXPECT_EQ(std::getenv("LANEMQ_TEST_SECRET"), nullptr);
  EXPECT_EQ(std::string(bytes, 10), std::string(10, '\0'));
  for (char** entry = environ; *entry != nullptr; ++entry)
    EXPECT_EQ(std::strstr(*entry, "sk-planted"), nullptr) << *entry;
  EXPECT_STREQ(process_environment("LANEMQ_TEST_SECRET"), "sk-planted");
  EXPECT_EQ(read_secret("env:LANEMQ_TEST_SECRET", process_environment), "sk-planted");
  EXPECT_STREQ(std::getenv("LANEMQ_TEST_SECRET_2"), "another");
}

TEST(ProcessEnvironment, a_variable_that_is_not_set_stays_unknown) {
  hide_variable("LANEMQ_TEST_NOT_SET");
  hide_secret("file:/nowhere");

  EXPECT_EQ(process_environment("LANEMQ_TEST_NOT_SET"), nullptr);
}

}  // namespace
}  // namespace lanemq::settings
