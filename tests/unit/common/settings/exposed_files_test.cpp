// SPDX-License-Identifier: Apache-2.0
#include "common/settings/secrets/exposed_files.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/settings/environment.hpp"
#include "common/settings/option_reader.hpp"
#include "common/settings/secrets/secret_source.hpp"

namespace lanemq::settings {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string file_of_mode(const std::string& name, mode_t mode) {
  const std::string path = testing::TempDir() + "/exposed_" + name;
  std::ofstream(path) << "key = 1\n";
  EXPECT_EQ(chmod(path.c_str(), mode), 0);
  return path;
}

std::string said_of(const std::string& path) {
  const std::vector<ExposedFile> all = exposed_files();
  const auto one = std::find_if(all.begin(), all.end(), [&](const auto& file) { return file.path == path; });
  return one == all.end() ? "" : one->what;
}

TEST(ExposedFiles, are_secrets_that_others_may_read_or_write) {
  const std::string read = file_of_mode("read", 0644), written = file_of_mode("written", 0602),
                    own = file_of_mode("own", 0600), groups = file_of_mode("groups", 0640);

  for (const std::string& path : {read, written, own, groups})
    EXPECT_EQ(read_secret("file:" + path, [](const std::string&) { return nullptr; }), "key = 1");

  EXPECT_THAT(said_of(read), HasSubstr("may read it"));
  EXPECT_THAT(said_of(written), HasSubstr("may write it"));
  EXPECT_THAT(said_of(own), IsEmpty());
  EXPECT_THAT(said_of(groups), IsEmpty());  // its group is this process's
  const std::vector<ExposedFile> all = exposed_files();
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [&](const auto& file) { return file.path == read; }), 1);
}

TEST(ExposedFiles, are_options_that_everybody_may_write) {
  const std::string open = file_of_mode("open.toml", 0666), shown = file_of_mode("shown.toml", 0644);

  static_cast<void>(parse_file(open));
  static_cast<void>(parse_file(shown));

  EXPECT_THAT(said_of(open), HasSubstr("chmod o-w"));
  EXPECT_THAT(said_of(shown), IsEmpty());
  EXPECT_TRUE(is_everybodys(open));
  EXPECT_FALSE(is_everybodys(shown));
  EXPECT_FALSE(is_everybodys(""));
}

TEST(ExposedFiles, are_bounded) {
  for (std::size_t i = 0; i < 2 * kExposedFilesMax; ++i)
    note_secret_file(file_of_mode("many_" + std::to_string(i), 0644));

  EXPECT_EQ(exposed_files().size(), kExposedFilesMax);
}

}  // namespace
}  // namespace lanemq::settings
