// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/gateway/run/options.hpp"
#include "common/log/level.hpp"
#include "tests/unit/common/settings/agreement.hpp"
#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq::gateway {
namespace {

using settings::Asked;
using settings::environment;
using settings::File;
using settings::Variables;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

const Variables kVariables{{"SECRET", "0123456789abcdef"}, {"HOME", "/home/u"}};

Request parsed(std::vector<const char*> words, const Variables& variables = kVariables) {
  words.insert(words.begin(), "lanemq-gateway");
  return parse(static_cast<int>(words.size()), words.data(), environment(variables));
}

std::string complaint(const std::vector<const char*>& words) {
  try {
    parsed(words);
    return {};
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::string complaint_about(const std::string& text) {
  const File file(text);
  const std::string said = complaint({"--config", file.path()}), path = file.path();
  return said.starts_with(path) ? said.substr(path.size()) : said;
}

TEST(GatewaySettings, help_print_config_page_and_defaults_agree) {
  settings::expect_agreement(option_table(), parsed({"--help"}).text, parsed({"--print-config"}).text,
                             settings::content_of(LANEMQ_SOURCE "/docs/reference/gateway-options.md"));
}

TEST(GatewaySettings, the_configuration_it_prints_is_one_it_takes) {
  const File file(R"(
listen = "[::1]:0"
commit = "1500ms"
body_bytes_max = "3MiB"
proxies = ["10.0.0.0/8", "::1"]
state = "/a \"folder\"\\"
auth = "keys"
[[key]]
name = "research"
secret = "env:SECRET"
lane = "low"
lanes = ["low", "batch"]
models = ["gpt-*"]
services = ["openai"]
delay_max = "2h"
stored_responses = "any"
forward_service_tier = true
requests_per_minute = 600
[[key]]
name = "hash"
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
[[model]]
name = "smart"
model = "gpt-4.1"
on = ["rate", "5xx"]
max_wait = "5s"
[[model.fallback]]
model = "gpt-4.1-mini"
service = "other"
)");
  const std::string printed = parsed({"--config", file.path(), "--print-config"}).text;
  const File again(printed);
  const Settings settings = parsed({"--config", again.path()}).settings;

  EXPECT_EQ(parsed({"--config", again.path(), "--print-config"}).text, printed);
  EXPECT_EQ(settings.server.address, "::1");
  EXPECT_EQ(settings.commit, milliseconds(1500));
  EXPECT_EQ(settings.server.body_bytes_max, std::size_t{3} << 20);
  EXPECT_THAT(settings.server.proxies, ElementsAre("10.0.0.0/8", "::1"));
  EXPECT_EQ(settings.batches.folder, "/a \"folder\"\\");
  ASSERT_EQ(settings.keys.size(), 2u);
  const KeySettings& key = settings.keys[0];
  EXPECT_EQ(key.sha256.size(), 64u);
  EXPECT_EQ(key.lanes.fallback, "low");
  EXPECT_THAT(key.lanes.allowed, ElementsAre("low", "batch"));
  EXPECT_EQ(key.delay_max, std::chrono::hours(2));
  EXPECT_EQ(key.retain_max, kWeek);
  EXPECT_TRUE(key.any_stored_response);
  EXPECT_EQ(key.forward_service_tier, true);
  EXPECT_EQ(key.requests_per_minute, 600);
  EXPECT_EQ(settings.keys[1].sha256.substr(0, 4), "0123");
  ASSERT_EQ(settings.models.size(), 1u);
  const ModelSettings& model = settings.models[0];
  EXPECT_THAT(model.falls_back_on, ElementsAre(true, false, true, false, false));
  ASSERT_EQ(model.steps.size(), 2u);
  EXPECT_EQ(model.steps[0].max_wait, std::chrono::seconds(5));
  EXPECT_EQ(model.steps[1].service, "other");
}

TEST(GatewaySettings, a_secret_is_printed_as_the_place_where_it_stands) {
  const File file("[[key]]\nname = \"a\"\nsecret = \"env:SECRET\"\n");

  const std::string printed = parsed({"--config", file.path(), "--print-config"}).text;

  EXPECT_THAT(printed, HasSubstr("\nsecret = \"env:SECRET\"\n# sha256 = \"\"\n"));
  EXPECT_THAT(printed, Not(HasSubstr(kVariables.at("SECRET"))));
}

TEST(GatewaySettings, old_spellings_are_read_and_the_new_ones_named) {
  const File file(
      "commit_ms = 250\nbody_bytes_max = 1048576\n[[key]]\nname = \"a\"\nsecret = \"env:SECRET\"\n"
      "delay_max_ms = 5000\n[[model]]\nname = \"m\"\nmax_wait_ms = 50\n");
  Variables variables = kVariables;
  variables["LANEMQ_GATEWAY_IDLE_TIMEOUT_MS"] = "2000";

  const Request request =
      parsed({"--config", file.path(), "--retry-grace-ms", "1500", "--log-level", "warn"}, variables);

  EXPECT_EQ(request.settings.commit, milliseconds(250));
  EXPECT_EQ(request.settings.server.body_bytes_max, std::size_t{1} << 20);
  EXPECT_EQ(request.settings.keys.at(0).delay_max, milliseconds(5000));
  EXPECT_EQ(request.settings.models.at(0).steps.at(0).max_wait, milliseconds(50));
  EXPECT_EQ(request.settings.server.idle_timeout, milliseconds(2000));
  EXPECT_EQ(request.settings.retry_grace, milliseconds(1500));
  EXPECT_EQ(request.settings.log_level, log::Level::warning);
  std::vector<std::string> written;
  for (const settings::OldSpelling& old : request.old)
    written.push_back(old.write);
  EXPECT_THAT(written, testing::UnorderedElementsAre("commit = \"250ms\"", "body_bytes_max = \"1MiB\"",
                                                     "delay_max = \"5s\"", "max_wait = \"50ms\"",
                                                     "LANEMQ_GATEWAY_IDLE_TIMEOUT=2s", "--retry-grace 1500ms",
                                                     "--log-level warning"));
}

TEST(GatewaySettings, what_is_wrong_names_its_line_and_the_rule) {
  EXPECT_EQ(complaint_about("\ncommit = 5\n"),
            ":2: commit: must be a whole number with its unit, like 30s or 500ms, not \"5\"");
  EXPECT_EQ(complaint_about("commit = \"2d\"\n"), ":1: commit: must be 1ms..1d, not \"2d\"");
  EXPECT_EQ(complaint_about("comit = 5\n"), ":1: unknown key \"comit\"; did you mean \"commit\"?");
  EXPECT_EQ(complaint_about("header_bytes_max = \"1KB\"\n"),
            ":1: header_bytes_max: must be a whole number with its unit, like 64MiB or 4096B, not \"1KB\"");
  EXPECT_THAT(complaint_about("[[key]]\nname = \"a\"\nsecret = \"env:SECRET\"\nlane_max = \"b\"\n"),
              testing::StartsWith(":4: unknown key \"lane_max\"; there are name, secret"));
  EXPECT_EQ(complaint_about("\n[[key]]\nname = \"a\"\nsecret = \"env:NOWHERE\"\n"),
            ":2: [[key]]: secret of key \"a\": the environment has no NOWHERE");
  EXPECT_THAT(complaint_about("[[model]]\nname = \"a\"\non = [\"rain\"]\n"),
              testing::StartsWith(":3: on: there is no reason \"rain\""));
  EXPECT_EQ(complaint({"--comit", "5s"}), "unknown flag \"--comit\"; did you mean \"--commit\"?");
}

}  // namespace
}  // namespace lanemq::gateway
