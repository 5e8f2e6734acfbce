// SPDX-License-Identifier: Apache-2.0
#include "common/settings/secrets/secret_source.hpp"

#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lanemq/curve_keys.hpp>

#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq::settings {
namespace {

std::string complaint(const std::string& source, const Variables& variables = {}) {
  try {
    read_secret(source, environment(variables));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(SecretSource, is_a_variable_a_file_or_a_credential) {
  const File file("from-file\r\n");
  const std::string path = file.path();
  const Variables variables{{"KEY", "from-variable"},
                            {"CREDENTIALS_DIRECTORY", path.substr(0, path.rfind('/'))}};

  EXPECT_EQ(read_secret("env:KEY", environment(variables)), "from-variable");
  EXPECT_EQ(read_secret("file:" + path, environment(variables)), "from-file");
  EXPECT_EQ(read_secret("credential:" + path.substr(path.rfind('/') + 1), environment(variables)),
            "from-file");
}

TEST(SecretSource, says_what_is_missing) {
  const File empty("\n"), forged("a\nb");
  take_credentials_as_given(std::nullopt);

  EXPECT_EQ(complaint("env:OTHER"), "the environment has no OTHER");
  EXPECT_EQ(complaint("file:/nowhere/at/all"),
            "file /nowhere/at/all cannot be read: No such file or directory");
  EXPECT_NE(complaint(std::string("file:") + empty.path()).find("is empty"), std::string::npos);
  EXPECT_NE(complaint(std::string("file:") + forged.path()).find("control characters"), std::string::npos);
  EXPECT_NE(complaint("credential:../up").find("without a path"), std::string::npos);
  EXPECT_NE(complaint("credential:c").find("CREDENTIALS_DIRECTORY"), std::string::npos);
}

TEST(SecretSource, says_who_may_not_read_a_file) {
  EXPECT_EQ(why_unreadable(ENOENT), "cannot be read: No such file or directory");
  const std::string said = why_unreadable(EACCES), number = "number " + std::to_string(::geteuid());
  EXPECT_TRUE(said.starts_with("cannot be read: Permission denied for the user ")) << said;
  EXPECT_TRUE(said.ends_with(number)) << said;
}

TEST(SecretSource, a_credential_that_a_check_cannot_see_is_taken_as_given) {
  take_credentials_as_given("lanemq.no-such-unit");

  const std::string curve = read_secret("credential:curve", environment({}));
  EXPECT_TRUE(is_curve_key(curve)) << curve;
  EXPECT_NE(read_secret("credential:other", environment({})), curve);
  EXPECT_EQ(read_secret("credential:curve", environment({})), curve);
  EXPECT_EQ(credentials_as_given(), (std::vector<std::string>{"curve", "other"}));
  EXPECT_NE(complaint("credential:../up").find("without a path"), std::string::npos);
  EXPECT_NE(complaint("credential:c", {{"CREDENTIALS_DIRECTORY", "/nowhere"}}).find("/nowhere/c"),
            std::string::npos);

  take_credentials_as_given(std::nullopt);
  EXPECT_NE(complaint("credential:curve").find("CREDENTIALS_DIRECTORY"), std::string::npos);
}

TEST(SecretSource, never_repeats_a_secret_in_the_wrong_place) {
  EXPECT_FALSE(is_secret_source("sk-in-the-wrong-place"));
  EXPECT_EQ(complaint("sk-in-the-wrong-place"),
            "must be env:VARIABLE, file:PATH or credential:NAME, never the secret itself");
}

/// Whoever opened it would wait for somebody who writes.
TEST(SecretSource, is_no_pipe_folder_or_device) {
  const std::string pipe = testing::TempDir() + "secret-pipe-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(complaint("file:" + pipe).substr(0, pipe.size() + 28),
            "file " + pipe + " is a pipe or a device;");
  ::unlink(pipe.c_str());
  EXPECT_EQ(complaint("file:/dev/zero").substr(0, 36), "file /dev/zero is a pipe or a device");
  EXPECT_EQ(complaint("file:/"), "file / is a folder");
}

}  // namespace
}  // namespace lanemq::settings
