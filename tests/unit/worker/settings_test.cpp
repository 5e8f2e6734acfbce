// SPDX-License-Identifier: Apache-2.0
#include "worker/settings.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/common/settings/agreement.hpp"
#include "tests/unit/common/settings/surroundings.hpp"

namespace lanemq::worker {
namespace {

using settings::Asked;
using settings::environment;
using settings::File;
using settings::Variables;

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

TEST(Settings, reads_the_flags) {
  const Settings settings =
      parse_words({"--broker", "tcp://b:1", "--service", "e=echo:5ms", "--service", "c=http:https://h/v1",
                   "--capacity", "64", "--lanes", "critical,high", "--name", "w", "--drain-timeout", "500ms"})
          .settings;

  EXPECT_EQ(settings.worker.broker, "tcp://b:1");
  EXPECT_EQ(settings.worker.capacity, 64u);
  EXPECT_EQ(settings.worker.lanes, (std::vector<std::string>{"critical", "high"}));
  EXPECT_EQ(settings.worker.drain_timeout.count(), 500);
  ASSERT_EQ(settings.services.size(), 2u);
  EXPECT_EQ(settings.services[0].handler, "echo");
  EXPECT_EQ(settings.services[0].argument, "5ms");
  EXPECT_EQ(settings.services[1].handler, "http");
  EXPECT_EQ(settings.services[1].argument, "https://h/v1");
}

/// Whoever writes that means an API of models more often than not.
TEST(Settings, a_url_alone_names_no_handler) {
  const auto complaint = [](const std::string& service) -> std::string {
    try {
      parse_service(service);
    } catch (const UsageError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(
      complaint("c=http://h:80/v1"),
      "service \"c\": name a handler before the URL, such as c=openai:http://h:80/v1, or =anthropic: or "
      "=http: and it");
  EXPECT_NE(complaint("c=https://h/v1"), "");
  EXPECT_EQ(parse_service("c=http:http://h/x").argument, "http://h/x");

  EXPECT_EQ(complaint("c=openai:api.openai.com/v1"),
            "service \"c\": bad URL: its scheme is missing: https:// or http:// stands before the host");
  EXPECT_EQ(complaint("c=openai:https://h/v1/chat/completions/"),
            "service \"c\": bad URL: the calls' paths are put behind it, so it must not have "
            "/chat/completions; write "
            "https://h/v1");
  EXPECT_NE(complaint("c=anthropic:https://h/v1/messages"), "");
  EXPECT_EQ(parse_service("c=http:https://h/v1/chat/completions").argument, "https://h/v1/chat/completions");
}

TEST(Settings, a_flag_wins_over_a_variable_and_that_over_the_file) {
  const File file("capacity = 1\nname = \"file\"\nbroker = \"tcp://file:1\"\nservice = \"e=echo\"\n");
  const Variables variables{{"LANEMQ_WORKER_CAPACITY", "2"}, {"LANEMQ_WORKER_NAME", "variable"}};

  const Settings settings = parse_words({"--config", file.path(), "--capacity", "3"}, variables).settings;

  EXPECT_EQ(settings.worker.capacity, 3u);
  EXPECT_EQ(settings.worker.name, "variable");
  EXPECT_EQ(settings.worker.broker, "tcp://file:1");
}

TEST(Settings, reads_a_proxy_with_a_password_from_where_it_stands) {
  const Variables variables{{"PROXY", "http://user:secret@proxy:3128"}};
  EXPECT_EQ(parse_words({"--http-proxy", "env:PROXY", "--service", "e=echo"}, variables).settings.http.proxy,
            "http://user:secret@proxy:3128");
  EXPECT_EQ(parse_words({"--http-proxy", "http://proxy:3128", "--service", "e=echo"}).settings.http.proxy,
            "http://proxy:3128");
  EXPECT_THROW(parse_words({"--http-proxy", "env:NOWHERE", "--service", "e=echo"}), UsageError);
  EXPECT_THROW(parse_words({"--http-proxy", "http://user:secret@proxy:3128", "--service", "e=echo"}),
               UsageError);
  EXPECT_THROW(
      parse_words({"--http-proxy", "user:secret@proxy:3128", "--service", "e=echo", "--print-config"}),
      UsageError);
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

/// `k1=env:A k2=file:B`
std::string keys_of(const ServiceSettings& service) {
  std::string text;
  for (const KeySettings& key : service.keys)
    text += (text.empty() ? "" : " ") + key.name + "=" + key.source;
  return text;
}

TEST(Settings, gathers_the_keys_of_a_service) {
  const File file(
      "[[service]]\nname = \"chat\"\nhandler = \"http:https://h/\"\nkeys = { k1 = \"env:A\", k2 = "
      "\"file:/b\" }\n"
      "[[service]]\nname = \"a/b\"\nhandler = \"http:https://h/\"\n");
  const Variables variables{{"LANEMQ_WORKER_KEY", "a/b/k9=env:Z"}};

  const Settings settings =
      parse_words({"--config", file.path(), "--service", "chat=http:https://new/", "--key",
                   "chat/k2=credential:c", "--key", "chat/k3=env:X=Y", "--key", "chat/k3=env:D"},
                  variables)
          .settings;

  ASSERT_EQ(settings.services.size(), 2u);
  EXPECT_EQ(keys_of(settings.services[0]), "k1=env:A k2=credential:c k3=env:D");
  EXPECT_EQ(keys_of(settings.services[1]), "k9=env:Z");
}

TEST(Settings, says_what_is_wrong_with_a_key_and_not_what_it_was) {
  for (const char* const bad : {"sk-secret", "chat=sk-secret", "sk-secret/x==", "chat/k1=sk-secret"}) {
    const std::string text = complaint({"--service", "chat=http:https://h/", "--key", bad});
    EXPECT_NE(text.find("--key: must be SERVICE/NAME=env:VARIABLE"), std::string::npos) << text;
    EXPECT_EQ(text.find("sk-secret"), std::string::npos) << text;
  }
  EXPECT_NE(complaint({"--service", "chat=http:https://h/", "--key", "other/k1=env:A"})
                .find("service \"other\", which is not served"),
            std::string::npos);
  EXPECT_NE(
      complaint({"--service", "e=echo", "--key", "e/k1=env:A"}).find("has keys, but its handler is echo"),
      std::string::npos);
  const File file("[[service]]\nname = \"c\"\nhandler = \"http:https://h/\"\nkeys = \"env:A\"\n");
  EXPECT_NE(complaint({"--config", file.path()}).find(":4: keys: must be a table"), std::string::npos);
}

TEST(Settings, bounds_the_keys_of_a_service) {
  std::string lines = "[[service]]\nname = \"c\"\nhandler = \"http:https://h/\"\n[service.keys]\n";
  for (std::size_t i = 0; i <= ServiceSettings::kKeysMax; ++i)
    lines += "k" + std::to_string(i) + " = \"env:A\"\n";
  const File file(lines);

  EXPECT_NE(complaint({"--config", file.path()}).find("has 257 keys, and there may be 256"),
            std::string::npos);
}

TEST(Settings, names_the_line_of_an_unknown_key) {
  const File file("capacity = 4\n\ncapicity = 5\n");

  const std::string text = complaint({"--config", file.path(), "--service", "e=echo"});

  EXPECT_NE(text.find(":3: unknown key \"capicity\"; did you mean \"capacity\"?"), std::string::npos) << text;
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
                                "c=openai", "c=openai:", "c=anthropic:h", "c=openai:https://h/v1?a=b",
                                "c=http:", "c=http:h/x", "c=http:ftp://h/x", "c=http:http://", "c=https:"})
    EXPECT_NE(complaint({"--service", bad}), "") << bad;
}

TEST(Settings, reads_a_program_from_a_flag) {
  const Settings settings = parse_words({"--service", "t=exec:/bin/tr", "--exec", "t.timeout=5s", "--exec",
                                         "t.environment=A", "--exec", "t.environment=B=x,y", "--exec",
                                         "t.argv=tr", "--exec", "t.argv=a-z", "--exec", "t.output-max=1KiB"})
                                .settings;

  const ExecOptions& exec = settings.services.at(0).exec;
  EXPECT_EQ(settings.services[0].handler, "exec");
  EXPECT_EQ(exec.argv, (settings::Values{"tr", "a-z"}));
  EXPECT_EQ(exec.environment, (settings::Values{"A", "B=x,y"}));
  EXPECT_EQ(exec.timeout.count(), 5000);
  EXPECT_EQ(exec.output_max, 1024u);
  EXPECT_EQ(parse_service("t=exec:/opt/a b:c").exec.argv, settings::Values{"/opt/a b:c"});
}

TEST(Settings, reads_a_program_from_the_file_and_prints_it_again) {
  const File file(
      "timeout = [\"batch.total=1m\"]\n[[service]]\nname = \"t\"\nhandler = \"exec\"\nargv = [\"tr\", \"a "
      "b\"]\n"
      "environment = [\"HF_HOME\"]\ntimeout = \"5s\"\nfiles_max = 64\n");

  const ServiceSettings service = parse_words({"--config", file.path()}).settings.services.at(0);
  const std::string printed = parse_words({"--config", file.path(), "--print-config"}).text;
  const File again(printed);
  const ServiceSettings same = parse_words({"--config", again.path()}).settings.services.at(0);

  for (const ServiceSettings* said : {&service, &same}) {
    EXPECT_EQ(said->exec.argv, (settings::Values{"tr", "a b"}));
    EXPECT_EQ(said->exec.environment, settings::Values{"HF_HOME"});
    EXPECT_EQ(said->exec.timeout.count(), 5000);
    EXPECT_EQ(said->exec.files_max, 64u);
  }
  const Settings other =
      parse_words({"--config", file.path(), "--service", "t=exec:cat", "--exec", "t.files_max=65"}).settings;
  EXPECT_EQ(other.services.at(0).exec.argv, settings::Values{"cat"});
  EXPECT_EQ(other.services.at(0).exec.files_max, 65u);
  EXPECT_EQ(other.services.at(0).exec.timeout.count(), 5000);
}

TEST(Settings, the_page_has_the_keys_of_handlers_as_they_are) {
  const std::string page = settings::content_of(LANEMQ_SOURCE "/docs/reference/worker-options.md");
  ExecOptions programs;
  WebhookOptions webhooks;
  std::vector<settings::BoundOption> rows = bound(exec_options(), programs);
  for (settings::BoundOption& option : bound(webhook_options(), webhooks))
    rows.push_back(std::move(option));
  for (const settings::BoundOption& option : rows)
    EXPECT_TRUE(settings::holds(page, "\n" + settings::line_of_page(option) + "\n"))
        << settings::line_of_page(option);
}

TEST(Settings, reads_a_webhook_service_from_flags_and_file_and_prints_it_again) {
  const File file(
      "[[service]]\nname = \"h\"\nhandler = \"webhook\"\nhosts = [\"h.example\", \"*.x.example\"]\n"
      "secrets = [\"file:/s\"]\nprivate = true\ntimeout = \"5s\"\n");
  const ServiceSettings service = parse_words({"--config", file.path()}).settings.services.at(0);
  const File again(parse_words({"--config", file.path(), "--print-config"}).text);
  const ServiceSettings same = parse_words({"--config", again.path()}).settings.services.at(0);
  const ServiceSettings flags =
      parse_words({"--service", "h=webhook", "--webhook", "h.hosts=h.example", "--webhook",
                   "h.hosts=*.x.example", "--webhook", "h.secrets=file:/s", "--webhook", "h.private=true",
                   "--webhook", "h.timeout=5s"})
          .settings.services.at(0);

  for (const ServiceSettings* said : {&service, &same, &flags}) {
    EXPECT_EQ(said->handler, "webhook");
    EXPECT_EQ(said->webhook.hosts, (settings::Values{"h.example", "*.x.example"}));
    EXPECT_EQ(said->webhook.secrets, settings::Values{"file:/s"});
    EXPECT_TRUE(said->webhook.private_addresses);
    EXPECT_EQ(said->webhook.timeout.count(), 5000);
  }
}

TEST(Settings, says_what_is_wrong_with_a_webhook_service) {
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const auto with = [](const std::string& lines) {
    const File file("[[service]]\nname = \"h\"\nhandler = \"webhook\"\n" + lines);
    return complaint({"--config", file.path()});
  };
  says(with("secrets = [\"file:/s\"]\n"), "0 hosts");
  says(with("hosts = [\"h\"]\n"), "0 secrets");
  says(with("hosts = [\"h\"]\nsecrets = [\"env:A\", \"env:B\", \"env:C\"]\n"), "3 secrets");
  says(with("hosts = [\"h/x\"]\nsecrets = [\"env:A\"]\n"), "is no host");
  says(with("hosts = [\"h\"]\nsecrets = [\"env:A\"]\nargv = [\"x\"]\n"),
       "argv is for the handler exec, and this is webhook");
  says(with("hosts = [\"h\"]\nsecrets = [\"env:A\"]\nheaders = { a = \"b\" }\n"), "its handler is webhook");
  says(with("hots = [\"h\"]\n"), "did you mean \"hosts\"?");
  says(complaint({"--service", "h=webhook:x"}), "has no argument");
  says(complaint({"--service", "e=echo", "--webhook", "e.private=true"}),
       "there is no webhook service \"e\"");
  const File file("[[service]]\nname = \"h\"\nhandler = \"echo\"\nhosts = [\"h\"]\n");
  says(complaint({"--config", file.path()}), "hosts is for the handler webhook, and this is echo");
  const File timed("[[service]]\nname = \"h\"\nhandler = \"echo\"\ntimeout = \"1s\"\n");
  says(complaint({"--config", timed.path()}),
       "timeout is for the handlers exec and webhook, and this is echo");
}

TEST(Settings, says_what_is_wrong_with_a_program) {
  const auto with = [](const std::string& lines) {
    const File file("[[service]]\nname = \"t\"\n" + lines);
    return complaint({"--config", file.path()});
  };
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(with("handler = \"echo\"\nargv = [\"x\"]\n"), "argv is for the handler exec, and this is echo");
  says(with("handler = \"exec:x\"\nargv = [\"x\"]\n"), "the program stands there twice");
  says(with("handler = \"exec:x\"\nargw = [\"x\"]\n"), "unknown key \"argw\"; did you mean \"argv\"?");
  says(with("handler = \"exec:x\"\nkeys = { k = \"env:A\" }\n"), "has keys, but its handler is exec");
  says(complaint({"--service", "t=exec:x", "--exec", "u.timeout=5s"}),
       "--exec: there is no exec service \"u\"");
  says(complaint({"--service", "t=exec:x", "--exec", "t.timout=5s"}), "did you mean \"timeout\"?");
  says(complaint({"--service", "t=exec:x", "--exec", "t.timeout=5"}), "--exec: t.timeout: ");
  says(complaint({"--service", "t=exec:x", "--exec", "timeout=5s"}), "must be SERVICE.KEY=VALUE");
}

TEST(Settings, knows_the_handlers_of_model_apis) {
  const ServiceSettings service = parse_service("chat=openai:https://h/v1");
  EXPECT_EQ(service.handler, "openai");
  EXPECT_EQ(service.argument, "https://h/v1");
  EXPECT_EQ(parse_service("a=anthropic:http://127.0.0.1:1").handler, "anthropic");
  ASSERT_NE(find_model_api("anthropic"), nullptr);
  EXPECT_EQ(find_model_api("anthropic")->path({}, "m"), "/v1/messages");
  EXPECT_EQ(find_model_api("http"), nullptr);
}

TEST(Settings, times_are_the_lanes) {
  const File file(
      "service = \"e=echo\"\n[timeout.batch]\nfirst_token = \"7ms\"\n[timeout.mine]\ntotal = \"8ms\"\n");

  const LaneTimes times = parse_words({"--config", file.path(), "--timeout", "batch.connect=9ms", "--timeout",
                                       "high.between-tokens=10ms"})
                              .settings.lane_times;

  EXPECT_EQ(times.of("batch").first_token.count(), 7);
  EXPECT_EQ(times.of("batch").connect.count(), 9);
  EXPECT_EQ(times.of("batch").between_tokens.count(), 120'000);
  EXPECT_EQ(times.of("high").between_tokens.count(), 10);
  EXPECT_EQ(times.of("critical").first_token.count(), 20'000);
  EXPECT_EQ(times.of("mine").total.count(), 8);
  EXPECT_EQ(times.of("mine").first_token.count(), 60'000) << "the rest is that of normal";
  EXPECT_EQ(times.of("unheard").total.count(), 600'000);
}

TEST(Settings, says_what_is_wrong_with_a_time) {
  for (const char* const bad : {"batch", "batch.first-token", "batch=5", ".total=5s"})
    EXPECT_NE(complaint({"--service", "e=echo", "--timeout", bad}).find("--timeout: must be LANE.NAME"),
              std::string::npos)
        << bad;
  for (const char* const bad : {"batch.total=x", "batch.total=0", "batch.total=5"})
    EXPECT_NE(complaint({"--service", "e=echo", "--timeout", bad}).find("--timeout: batch.total: must be"),
              std::string::npos)
        << bad;
  EXPECT_NE(complaint({"--service", "e=echo", "--timeout", "batch.whole=5s"}).find("there are connect"),
            std::string::npos);
  const File file("service = \"e=echo\"\n[timeout.batch]\nwhole = 7\n");
  EXPECT_NE(complaint({"--config", file.path()}).find(":3: unknown key of timeout.batch \"whole\""),
            std::string::npos);
}

TEST(Settings, old_spellings_are_read_and_the_new_ones_named) {
  const File file(
      "drain_timeout_ms = 500\n[[service]]\nname = \"slow\"\nhandler = \"echo:50\"\n"
      "[timeout.batch]\nfirst_token_ms = 7\n");

  const Request request =
      parse_words({"--config", file.path(), "--body-bytes-max", "1048576", "--timeout", "high.total-ms=10",
                   "--http-timeout-ms", "2000", "--http-timeout", "3s"},
                  {{"LANEMQ_WORKER_CONNECT_TIMEOUT_MS", "9"}});

  const Settings& settings = request.settings;
  EXPECT_EQ(settings.worker.drain_timeout.count(), 500);
  EXPECT_EQ(settings.services.at(0).argument, "50ms");
  EXPECT_EQ(settings.lane_times.of("batch").first_token.count(), 7);
  EXPECT_EQ(settings.worker.body_bytes_max, std::size_t{1} << 20);
  EXPECT_EQ(settings.lane_times.of("high").total.count(), 10);
  EXPECT_EQ(settings.http.times.total.count(), 3000) << "the new name wins";
  EXPECT_EQ(settings.worker.connect_timeout.count(), 9);
  std::string written;
  for (const settings::OldSpelling& old : request.old)
    written += old.write + "\n";
  for (const char* const part :
       {"drain_timeout = \"500ms\"", "slow=echo:50ms", "--body-bytes-max 1MiB", "high.total=10ms",
        "timeout.batch.first_token = \"7ms\"", "LANEMQ_WORKER_CONNECT_TIMEOUT=9ms", "--http-timeout 2s"})
    EXPECT_NE(written.find(part), std::string::npos) << part << " in\n" << written;
  EXPECT_EQ(request.old.size(), 7u);
}

TEST(Settings, help_print_config_page_and_defaults_agree) {
  settings::expect_agreement(option_table(), parse_words({"--help"}).text,
                             parse_words({"--print-config"}).text,
                             settings::content_of(LANEMQ_SOURCE "/docs/reference/worker-options.md"));
}

TEST(Settings, the_configuration_it_prints_is_one_it_takes) {
  const File file(
      "drain_timeout = \"1500ms\"\nlanes = [\"high\", \"low\"]\nhttp_header = [\"A: b, c\", \"D: "
      "\\\"e\\\"\"]\n"
      "http_proxy = \"env:PROXY\"\n[timeout.\"my lane\"]\ntotal = \"8s\"\n[[service]]\nname = \"chat\"\n"
      "handler = \"openai:https://h/v1\"\nheaders = { X-Org = \"env:ORG\" }\nkeys = { k1 = \"env:K1\" }\n"
      "[[service]]\nname = \"e\"\nhandler = \"echo:5ms\"\n");
  const std::string printed = parse_words({"--config", file.path(), "--print-config"}).text;
  const File again(printed);
  const Settings settings =
      parse_words({"--config", again.path()}, {{"PROXY", "http://user:secret@p:1"}}).settings;

  EXPECT_EQ(parse_words({"--config", again.path(), "--print-config"}).text, printed);
  EXPECT_NE(printed.find("http_proxy = \"env:PROXY\""), std::string::npos);
  EXPECT_EQ(settings.worker.drain_timeout.count(), 1500);
  EXPECT_EQ(settings.worker.lanes, (std::vector<std::string>{"high", "low"}));
  EXPECT_EQ(settings.http_headers, (std::vector<std::string>{"A: b, c", "D: \"e\""}));
  EXPECT_EQ(settings.http.proxy, "http://user:secret@p:1");
  EXPECT_EQ(settings.lane_times.of("my lane").total.count(), 8000);
  ASSERT_EQ(settings.services.size(), 2u);
  EXPECT_EQ(settings.services[0].headers, std::vector<std::string>{"X-Org: env:ORG"});
  EXPECT_EQ(keys_of(settings.services[0]), "k1=env:K1");
  EXPECT_EQ(settings.services[1].argument, "5ms");
}

TEST(Settings, refuses_credentials_in_a_url) {
  EXPECT_NE(complaint({"--service", "c=http:https://me:secret@h/x"}).find("credentials"), std::string::npos);
  EXPECT_EQ(complaint({"--service", "c=http:https://me:secret@h/x"}).find("secret"), std::string::npos);
}

TEST(Settings, help_and_version_are_for_printing) {
  EXPECT_EQ(parse_words({"--version"}).what, Asked::For::print);
  EXPECT_EQ(parse_words({"--help"}).what, Asked::For::print);
}

}  // namespace
}  // namespace lanemq::worker
