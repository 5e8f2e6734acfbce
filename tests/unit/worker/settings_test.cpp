// SPDX-License-Identifier: Apache-2.0
#include "worker/settings.hpp"

#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace lanemq::worker {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment(const Variables& variables) {
  return [&variables](const std::string& name) -> const char* {
    const auto place = variables.find(name);
    return place == variables.end() ? nullptr : place->second.c_str();
  };
}

Request parse_words(std::vector<const char*> words, const Variables& variables = {}) {
  words.insert(words.begin(), "lanemq-worker");
  return parse(static_cast<int>(words.size()), words.data(), environment(variables));
}

/// The complaint about these words; empty when there is none.
std::string complaint(const std::vector<const char*>& words, const Variables& variables = {}) {
  try {
    parse_words(words, variables);
    return {};
  } catch (const UsageError& error) {
    return error.what();
  }
}

/// A file that lives as long as the test.
class File {
 public:
  explicit File(const std::string& content) {
    const int descriptor = mkstemp(path_.data());
    EXPECT_GE(descriptor, 0);
    close(descriptor);
    std::ofstream(path_) << content;
  }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_ = testing::TempDir() + "lanemq-settings-XXXXXX";
};

TEST(Settings, reads_the_flags) {
  const Settings settings = parse_words({"--broker", "tcp://b:1", "--service", "e=echo:5", "--service",
                                         "c=http:https://h/v1", "--capacity", "64", "--lanes",
                                         "critical,high", "--name", "w", "--drain-timeout-ms", "500"})
                                .settings;

  EXPECT_EQ(settings.worker.broker, "tcp://b:1");
  EXPECT_EQ(settings.worker.capacity, 64u);
  EXPECT_EQ(settings.worker.lanes, (std::vector<std::string>{"critical", "high"}));
  EXPECT_EQ(settings.worker.drain_timeout.count(), 500);
  ASSERT_EQ(settings.services.size(), 2u);
  EXPECT_EQ(settings.services[0].handler, "echo");
  EXPECT_EQ(settings.services[0].argument, "5");
  EXPECT_EQ(settings.services[1].handler, "http");
  EXPECT_EQ(settings.services[1].argument, "https://h/v1");
}

TEST(Settings, a_url_alone_is_the_http_handler) {
  EXPECT_EQ(parse_service("c=http://h:80/x").argument, "http://h:80/x");
  EXPECT_EQ(parse_service("c=http://h:80/x").handler, "http");
  EXPECT_EQ(parse_service("c=http:http://h/x").argument, "http://h/x");
}

TEST(Settings, a_flag_wins_over_a_variable_and_that_over_the_file) {
  const File file("capacity = 1\nname = \"file\"\nbroker = \"tcp://file:1\"\nservice = \"e=echo\"\n");
  const Variables variables{{"LANEMQ_WORKER_CAPACITY", "2"}, {"LANEMQ_WORKER_NAME", "variable"}};

  const Settings settings = parse_words({"--config", file.path(), "--capacity", "3"}, variables).settings;

  EXPECT_EQ(settings.worker.capacity, 3u);
  EXPECT_EQ(settings.worker.name, "variable");
  EXPECT_EQ(settings.worker.broker, "tcp://file:1");
}

TEST(Settings, reads_services_with_headers_from_the_file) {
  const File file(
      "[[service]]\nname = \"chat\"\nhandler = \"http:https://h/v1\"\nheaders = { Authorization = \"Bearer "
      "env:K\" }\n"
      "[[service]]\nname = \"echo\"\nhandler = \"echo\"\n");

  const Settings settings = parse_words({"--config", file.path()}).settings;

  ASSERT_EQ(settings.services.size(), 2u);
  EXPECT_EQ(settings.services[0].headers, std::vector<std::string>{"Authorization: Bearer env:K"});
  EXPECT_EQ(settings.services[1].name, "echo");
}

TEST(Settings, a_service_of_the_flags_replaces_that_of_the_file) {
  const File file("[[service]]\nname = \"c\"\nhandler = \"http:https://old/\"\nheaders = { A = \"b\" }\n");

  const Settings settings =
      parse_words({"--config", file.path(), "--service", "c=http:https://new/"}).settings;

  ASSERT_EQ(settings.services.size(), 1u);
  EXPECT_EQ(settings.services[0].argument, "https://new/");
  EXPECT_EQ(settings.services[0].headers, std::vector<std::string>{"A: b"});
}

TEST(Settings, names_the_line_of_an_unknown_key) {
  const File file("capacity = 4\n\ncapicity = 5\n");

  const std::string text = complaint({"--config", file.path(), "--service", "e=echo"});

  EXPECT_NE(text.find(":3: capicity: no such key"), std::string::npos) << text;
  EXPECT_NE(text.find("capacity"), std::string::npos);
}

TEST(Settings, names_the_line_of_broken_toml) {
  const File file("capacity = 4\nname = \n");

  EXPECT_NE(complaint({"--config", file.path()}).find(":2: "), std::string::npos);
}

TEST(Settings, says_what_is_wrong_with_a_value) {
  EXPECT_NE(complaint({"--service", "e=echo", "--capacity", "0"})
                .find("--capacity: must be a whole number 1..1024"),
            std::string::npos);
  EXPECT_NE(
      complaint({"--service", "e=echo"}, {{"LANEMQ_WORKER_CAPACITY", "x"}}).find("LANEMQ_WORKER_CAPACITY"),
      std::string::npos);
  EXPECT_NE(complaint({"--service", "e=echo", "--log-level", "loud"}).find("must be debug"),
            std::string::npos);
  EXPECT_NE(complaint({"--service", "e=echo", "--lanes", "a,,b"}).find("must not be empty"),
            std::string::npos);
  EXPECT_NE(complaint({"--service", "e=echo", "--flag"}).find("--flag"), std::string::npos);
  EXPECT_NE(complaint({"--config", "/nowhere/at.toml", "--service", "e=echo"}), "");
}

TEST(Settings, says_what_is_wrong_with_a_service) {
  EXPECT_NE(complaint({}).find("nothing to serve"), std::string::npos);
  for (const char* const bad : {"echo", "=echo", "e=", "e=paint", "e=echo:", "e=echo:x", "e=echo:-1",
                                "c=http:", "c=http:h/x", "c=http:ftp://h/x", "c=http:http://", "c=https:"})
    EXPECT_NE(complaint({"--service", bad}), "") << bad;
}

TEST(Settings, refuses_credentials_in_a_url) {
  EXPECT_NE(complaint({"--service", "c=http:https://me:secret@h/x"}).find("credentials"), std::string::npos);
  EXPECT_EQ(complaint({"--service", "c=http:https://me:secret@h/x"}).find("secret"), std::string::npos);
}

TEST(Settings, help_and_version_are_for_printing) {
  EXPECT_EQ(parse_words({"--version"}).kind, Request::Kind::print);
  const std::string help = parse_words({"--help"}).text;
  for (const char* const flag :
       {"--broker", "--service", "--capacity", "--lanes", "--name", "--config", "--drain-timeout-ms",
        "--connect-timeout-ms", "--http-header", "--http-timeout-ms"})
    EXPECT_NE(help.find(flag), std::string::npos) << flag;
}

TEST(ResolveHeader, fills_in_secrets) {
  const File file("from-file\n");
  const Variables variables{{"KEY", "sk-1"}};
  const auto resolved = [&](const std::string& line) { return resolve_header(line, environment(variables)); };

  EXPECT_EQ(resolved("Authorization: Bearer env:KEY"), "Authorization: Bearer sk-1");
  EXPECT_EQ(resolved("x-api-key: env:KEY"), "x-api-key: sk-1");
  EXPECT_EQ(resolved(std::string("x-api-key: file:") + file.path()), "x-api-key: from-file");
  EXPECT_EQ(resolved("x-plain:  a  b"), "x-plain: a b");
  EXPECT_EQ(resolved("x-url: https://h/env:KEY"), "x-url: https://h/env:KEY");
}

TEST(ResolveHeader, names_what_is_missing_and_never_a_value) {
  const Variables variables{{"EVIL", "a\r\nx-injected: 1"}, {"EMPTY", ""}};
  const auto refusal = [&](const std::string& line) -> std::string {
    try {
      resolve_header(line, environment(variables));
      return {};
    } catch (const UsageError& error) {
      return error.what();
    }
  };

  EXPECT_EQ(refusal("Authorization: Bearer env:NOPE"), "header Authorization: the environment has no NOPE");
  EXPECT_NE(refusal("A: env:EMPTY"), "");
  EXPECT_NE(refusal("A: file:/nowhere/at"), "");
  EXPECT_NE(refusal("A: env:EVIL").find("control characters"), std::string::npos);
  EXPECT_EQ(refusal("A: env:EVIL").find("injected"), std::string::npos);
  EXPECT_NE(refusal("no colon"), "");
  EXPECT_NE(refusal("bad name: x"), "");
}

}  // namespace
}  // namespace lanemq::worker
