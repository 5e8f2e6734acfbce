// SPDX-License-Identifier: Apache-2.0
#include "worker/secrets.hpp"

#include <optional>
#include <string>
#include <vector>

#include <curl/curl.h>
#include <gtest/gtest.h>

#include "common/settings/secrets/secret_source.hpp"
#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq::worker {
namespace {

using settings::environment;
using settings::File;
using settings::Variables;

using Lines = std::vector<std::string>;
using Keys = std::vector<KeySettings>;

/// The lines that go out, without those that every call has.
std::string sent(const std::shared_ptr<const HttpHeaders>& headers) {
  if (!headers) return "none";
  std::string text;
  for (const curl_slist* line = headers->list(); line; line = line->next)
    if (std::string(line->data) != "Expect:" && std::string(line->data) != "Content-Type: application/json")
      text += std::string(text.empty() ? "" : "|") + line->data;
  return text;
}

std::string refusal(const Lines& lines, const Keys& keys, const Variables& variables = {}) {
  try {
    const ServiceSecrets secrets("chat", lines, keys, environment(variables));
    return {};
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(ServiceSecrets, fills_in_what_the_words_stand_for) {
  const File file("from-file\n");
  const File credential("from-credential\n");
  const std::string path = credential.path();
  const std::size_t slash = path.rfind('/');
  const Variables variables{{"KEY", "sk-1"}, {"CREDENTIALS_DIRECTORY", path.substr(0, slash)}};
  const auto resolved = [&](const std::string& line) {
    return sent(ServiceSecrets("chat", {line}, {}, environment(variables)).credentials().keyless);
  };

  EXPECT_EQ(resolved("Authorization: Bearer env:KEY"), "Authorization: Bearer sk-1");
  EXPECT_EQ(resolved("x-api-key: env:KEY"), "x-api-key: sk-1");
  EXPECT_EQ(resolved(std::string("x-api-key: file:") + file.path()), "x-api-key: from-file");
  EXPECT_EQ(resolved("x-api-key: credential:" + path.substr(slash + 1)), "x-api-key: from-credential");
  EXPECT_EQ(resolved("x-plain:  a  b"), "x-plain: a b");
  EXPECT_EQ(resolved("x-url: https://h/env:KEY"), "x-url: https://h/env:KEY");
}

TEST(ServiceSecrets, each_key_has_headers_of_its_own) {
  const Variables variables{{"A", "one"}, {"B", "two {key}"}, {"ORG", "acme"}};
  const ServiceSecrets secrets("chat", {"Authorization: Bearer {key}", "x-org: env:ORG"},
                               {{"k1", "env:A"}, {"k2", "env:B"}}, environment(variables));

  const HttpCredentials credentials = secrets.credentials();

  EXPECT_EQ(credentials.keyless, nullptr);
  ASSERT_EQ(credentials.by_key.size(), 2u);
  EXPECT_EQ(sent(credentials.by_key.at("k1")), "Authorization: Bearer one|x-org: acme");
  EXPECT_EQ(sent(credentials.by_key.at("k2")), "Authorization: Bearer two {key}|x-org: acme");
}

TEST(ServiceSecrets, names_what_is_missing_and_never_a_value) {
  const Variables variables{{"EVIL", "a\r\nx-injected: 1"}, {"EMPTY", ""}, {"K", "sk-1"}};
  const File empty("\n");
  settings::take_credentials_as_given(
      std::nullopt);  // another test may have read a command line with --check
  const auto header = [&](const std::string& line) { return refusal({line}, {}, variables); };
  const auto key = [&](const std::string& source) {
    return refusal({"A: {key}"}, {{"k1", source}}, variables);
  };

  EXPECT_EQ(header("Authorization: Bearer env:NOPE"),
            "service \"chat\": header Authorization: the environment has no NOPE");
  EXPECT_NE(header("A: env:EMPTY"), "");
  EXPECT_NE(header("A: file:/nowhere/at"), "");
  EXPECT_NE(header("A: env:EVIL").find("control characters"), std::string::npos);
  EXPECT_EQ(header("A: env:EVIL").find("injected"), std::string::npos);
  EXPECT_NE(header("A: b\x01"), "");
  EXPECT_NE(header("A: "), "");
  EXPECT_NE(header("no colon"), "");
  EXPECT_NE(header("bad name: x"), "");
  EXPECT_EQ(key("env:NOPE"), "service \"chat\": key k1: the environment has no NOPE");
  EXPECT_EQ(key("file:/nowhere/at"),
            "service \"chat\": key k1: file /nowhere/at cannot be read: No such file or directory");
  EXPECT_NE(key(std::string("file:") + empty.path()).find("is empty"), std::string::npos);
  EXPECT_NE(key("credential:c").find("CREDENTIALS_DIRECTORY"), std::string::npos);
  EXPECT_NE(key("credential:../c").find("without a path"), std::string::npos);
  EXPECT_NE(key("sk-123").find("never the secret itself"), std::string::npos);
  EXPECT_EQ(key("sk-123").find("sk-123"), std::string::npos);
}

TEST(ServiceSecrets, headers_and_keys_must_fit_together) {
  const Variables variables{{"K", "sk-1"}};

  EXPECT_NE(refusal({"A: {key}"}, {}, variables).find("there are no keys"), std::string::npos);
  EXPECT_NE(refusal({"A: b"}, {{"k1", "env:K"}}, variables).find("no header holds {key}"), std::string::npos);
  EXPECT_NE(refusal({"A: Bearer:{key}"}, {{"k1", "env:K"}}, variables).find("a word of its own"),
            std::string::npos);
  EXPECT_NE(refusal({"A: {key}"}, {{"", "env:K"}}, variables).find("name"), std::string::npos);
  EXPECT_NE(refusal({"A: {key}"}, {{std::string(129, 'k'), "env:K"}}, variables).find("1..128"),
            std::string::npos);
}

TEST(ServiceSecrets, reading_again_takes_what_is_new_and_keeps_what_cannot_be_read) {
  const File first("one\n"), second("two\n"), organisation("acme\n");
  const auto source = [](const File& file) { return std::string("file:") + file.path(); };
  const Variables variables;
  ServiceSecrets secrets("chat", {"A: {key}", "x-org: " + source(organisation)},
                         {{"k1", source(first)}, {"k2", source(second)}}, environment(variables));
  EXPECT_TRUE(secrets.read_again().empty());
  const HttpCredentials before = secrets.credentials();

  first.write("newer\n");
  second.remove();
  organisation.write("emca\n");
  const std::vector<SecretChange> changes = secrets.read_again();

  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].use, "header x-org");
  EXPECT_EQ(changes[0].problem, "");
  EXPECT_EQ(changes[1].use, "key k1");
  EXPECT_EQ(changes[1].problem, "");
  EXPECT_EQ(changes[2].use, "key k2");
  EXPECT_NE(changes[2].problem.find("cannot be read"), std::string::npos);
  EXPECT_EQ(sent(secrets.credentials().by_key.at("k1")), "A: newer|x-org: emca");
  EXPECT_EQ(sent(secrets.credentials().by_key.at("k2")), "A: two|x-org: emca");
  EXPECT_EQ(sent(before.by_key.at("k1")), "A: one|x-org: acme");
}

TEST(HttpHeaders, take_secrets_out_of_a_text) {
  const HttpHeaders headers({}, {"sk-12345678", "sk-12345678-longer", "short"});

  EXPECT_EQ(headers.redacted("no sk-12345678-longer, no sk-12345678"), "no [secret], no [secret]");
  EXPECT_EQ(headers.redacted("a short text"), "a short text");
  EXPECT_EQ(headers.redacted(R"({"m":"\u0073k-12345\u0036\u00378.\n\u00e4"})"),
            R"({"m":"[secret].\n\u00e4"})");
  EXPECT_EQ(headers.redacted(R"(\u00 \ \u007)"), R"(\u00 \ \u007)");
  EXPECT_EQ(HttpHeaders().redacted("sk-12345678"), "sk-12345678");
}

/// The headers of a service, one a line, and what it lacks.
std::string headers_of(ServiceSettings service, const Variables& variables) {
  Settings settings;
  settings.http_headers = {"X-Common: 1", "X-Own: 2"};
  std::string without_key, text;
  for (const std::string& line : service_headers(settings, service, environment(variables), without_key))
    text += line + "|";
  return text + (without_key.empty() ? "" : "without " + without_key);
}

TEST(ServiceSecrets, take_no_secret_that_stands_in_the_clear) {
  for (const char* line : {"Authorization: Bearer sk-1", "X-API-Key: sk-1", "cookie: session=1"})
    EXPECT_THROW(ServiceSecrets("chat", {line}, {}, environment({})), UsageError) << line;
  ServiceSecrets("chat", {"Authorization: Bearer env:KEY", "x-org: acme"}, {},
                 environment({{"KEY", "sk-1"}}));
}

TEST(ServiceHeaders, an_http_service_has_the_common_ones_that_it_does_not_replace) {
  EXPECT_EQ(headers_of({.name = "c", .handler = "http", .headers = {"x-own: 3"}}, {{"OPENAI_API_KEY", "k"}}),
            "X-Common: 1|x-own: 3|");
}

TEST(ServiceHeaders, a_model_api_finds_its_key_by_itself) {
  const Variables variables{{"OPENAI_API_KEY", "k"}, {"ANTHROPIC_API_KEY", "k"}};
  const ServiceSettings openai{.name = "o", .handler = "openai"},
      anthropic{.name = "a", .handler = "anthropic"};

  EXPECT_EQ(headers_of(openai, variables), "Authorization: Bearer env:OPENAI_API_KEY|");
  EXPECT_EQ(headers_of(anthropic, variables), "x-api-key: env:ANTHROPIC_API_KEY|");
  EXPECT_EQ(headers_of(openai, {}), "without OPENAI_API_KEY");
  EXPECT_EQ(headers_of(anthropic, {{"ANTHROPIC_API_KEY", ""}}), "without ANTHROPIC_API_KEY");
}

TEST(ServiceHeaders, what_is_configured_for_a_model_api_wins_over_the_variable) {
  const Variables variables{{"OPENAI_API_KEY", "k"}};
  ServiceSettings service{.name = "o", .handler = "openai", .headers = {"OpenAI-Organization: acme"}};
  EXPECT_EQ(headers_of(service, variables),
            "Authorization: Bearer env:OPENAI_API_KEY|OpenAI-Organization: acme|");

  service.keys = {{.name = "k1", .source = "env:K1"}};
  EXPECT_EQ(headers_of(service, variables), "Authorization: Bearer {key}|OpenAI-Organization: acme|");

  service.headers = {"authorization: Bearer {key}"};
  EXPECT_EQ(headers_of(service, variables), "authorization: Bearer {key}|");
}

}  // namespace
}  // namespace lanemq::worker
