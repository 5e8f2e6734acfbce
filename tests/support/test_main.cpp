// SPDX-License-Identifier: Apache-2.0
// A main() for programs of GoogleTest's: it prints what fails, and how that is run alone.
#include <cstdio>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/last_word.hpp"

namespace {

class RunAlone : public testing::EmptyTestEventListener {
 public:
  explicit RunAlone(std::string program) : program_(std::move(program)) {}

 private:
  std::string command(const testing::TestInfo& test) const {
    return program_ + " --gtest_filter=" + test.test_suite_name() + '.' + test.name();
  }
  void OnTestStart(const testing::TestInfo& test) override { lanemq::test::say_at_death(command(test)); }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed()) failed_.push_back(command(test));
  }
  void OnTestProgramEnd(const testing::UnitTest&) override {
    for (const std::string& command : failed_)
      std::printf("failed; alone: %s\n", command.c_str());
  }

  std::string program_;
  std::vector<std::string> failed_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::GTEST_FLAG(brief) = true;
  testing::InitGoogleMock(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new RunAlone(argv[0]));
  return RUN_ALL_TESTS();
}
