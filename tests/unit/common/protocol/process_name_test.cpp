// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <lanemq/process_name.hpp>

namespace lanemq {
namespace {

TEST(ProcessName, is_this_process_to_itself) {
  const std::string own = process_name();
  ASSERT_FALSE(own.empty());
  EXPECT_LE(own.size(), 128u) << "as long as the field may be";
  EXPECT_EQ(process_beside(own, own), ::getpid());
}

TEST(ProcessName, says_nothing_of_another_machine_or_namespace) {
  const std::string own = "boot/pid:[1]/7";
  EXPECT_EQ(process_beside(own, "boot/pid:[1]/42"), 42);
  EXPECT_EQ(process_beside(own, "other/pid:[1]/42"), std::nullopt);
  EXPECT_EQ(process_beside(own, "boot/pid:[2]/42"), std::nullopt);
  EXPECT_EQ(process_beside("", "boot/pid:[1]/42"), std::nullopt);
}

TEST(ProcessName, takes_numbers_of_processes_alone) {
  const std::string own = "boot/pid:[1]/7";
  for (const char* name : {"", "boot/pid:[1]/", "boot/pid:[1]/0", "boot/pid:[1]/-1", "boot/pid:[1]/1x",
                           "boot/pid:[1]/99999999999", "boot/pid:[1]"})
    EXPECT_EQ(process_beside(own, name), std::nullopt) << name;
}

}  // namespace
}  // namespace lanemq
