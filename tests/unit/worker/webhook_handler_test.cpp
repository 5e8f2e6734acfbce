// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/webhook/webhook_handler.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lanemq/notify_url.hpp>

#include "common/settings/usage_error.hpp"
#include "tests/unit/worker/client_loop.hpp"
#include "tests/unit/worker/scripted_upstream.hpp"
#include "worker/session/completion.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

// Of the test of the specification's reference libraries.
constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

TEST(HookSignature, is_that_of_the_specification) {
  EXPECT_EQ(hook_signature({HookSecret(kSecret)}, {.id = "msg_p5jXN8AQM9LWM0D4loKWxJek",
                                                   .timestamp = 1614265330,
                                                   .body = R"({"test": 2432232314})"}),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST(HookSignature, is_that_of_pythons_hmac_for_each_secret) {
  // base64.b64encode(hmac.new(bytes(range(64)), b'job-1.1700000000.\x00\xff{}', 'sha256').digest())
  const HookSecret longest(
      "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==");
  const std::string body("\0\xFF{}", 4);

  EXPECT_EQ(hook_signature({longest}, {.id = "job-1", .timestamp = 1700000000, .body = body}),
            "v1,EQbpY25qrGh6gvObYIov97YAc2mfACeZHbJCFZqSYic=");
  EXPECT_EQ(hook_signature({longest, HookSecret("AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")},
                           {.id = "job 1", .timestamp = 5, .body = ""}),
            "v1," + longest.sign("job 1.5.") + " v1,/jquTDnwYjGwbX5YjkmTT8hf9oarraYtzYNdetijS4M=");
}

TEST(HookSecret, is_refused_without_a_word_of_it) {
  const auto of_bytes = [](std::size_t count) { return std::string(count / 3 * 4, 'k'); };
  EXPECT_NO_THROW(HookSecret{"whsec_" + of_bytes(24)});
  for (const std::string& bad : {std::string("whsec_"), std::string(), "whsec_" + of_bytes(21), of_bytes(66),
                                 "whsec_" + of_bytes(24) + "!", "whsec-" + of_bytes(24)}) {
    try {
      static_cast<void>(HookSecret{bad});
      ADD_FAILURE() << bad;
    } catch (const settings::UsageError& error) {
      EXPECT_EQ(std::string(error.what()).find("kkkk"), std::string::npos) << error.what();
    }
  }
}

TEST(HookHosts, an_entry_allows_this_and_nothing_else) {
  struct Row {
    const char *entry, *url;
    bool allowed;
  };
  const Row table[] = {
      {"hooks.example.com", "https://hooks.example.com/a?b=c", true},
      {"Hooks.Example.com", "https://HOOKS.example.COM", true},
      {"hooks.example.com", "https://hooks.example.com:443/", true},
      {"hooks.example.com", "https://hooks.example.com:8443/", false},
      {"hooks.example.com", "http://hooks.example.com/", false},
      {"hooks.example.com", "http://hooks.example.com:443/", false},
      {"hooks.example.com", "https://hooks.example.com.evil.example/", false},
      {"hooks.example.com", "https://evilhooks.example.com/", false},
      {"hooks.example.com", "https://a.hooks.example.com/", false},
      {"hooks.example.com", "https://evil.example/?hooks.example.com", false},
      {"hooks.example.com", "https://evil.example/#@hooks.example.com", false},
      {"hooks.example.com", "https://%65vil.example/", false},
      {"hooks.example.com", "https://%68ooks.example.com/", true},
      {"hooks.example.com:8443", "https://hooks.example.com:8443/", true},
      {"hooks.example.com:8443", "https://hooks.example.com/", false},
      {"http://hooks.example.com", "http://hooks.example.com/", true},
      {"http://hooks.example.com", "https://hooks.example.com/", false},
      {"*.corp.example", "https://a.corp.example/", true},
      {"*.corp.example", "https://a.b.corp.example/", true},
      {"*.corp.example", "https://corp.example/", false},
      {"*.corp.example", "https://.corp.example/", false},
      {"*.corp.example", "https://evilcorp.example/", false},
      {"*.0.0.example", "https://10.0.0.1/", false},
      {"10.0.0.1", "https://10.0.0.1/", true},
      {"10.0.0.1", "https://0x0a.1/", true},
      {"10.0.0.1", "https://10.0.0.2/", false},
      {"[::1]:8443", "https://[0:0::1]:8443/", true},
      {"[::1]", "https://[::2]/", false},
      {"evil.example", "https:///hooks.example.com/", false},
  };
  for (const Row& row : table) {
    const std::vector<HookHost> hosts{parse_hook_host(row.entry)};
    ASSERT_EQ(hook_url_problem(row.url), "") << row.url;
    EXPECT_EQ(find_hook_host(hosts, parts_of_url(row.url)) != nullptr, row.allowed)
        << row.entry << " and " << row.url;
  }
}

TEST(HookHosts, what_is_no_entry_is_refused) {
  for (const char* const bad :
       {"",          "*",          "*.",         "a b",         "https://",         "ftp://h",
        "h/path",    "h?x",        "u@h",        "a.*.example", "*.10.0.0.1",       "h:0x",
        "h:99999",   "*x.example", "h..example", ".example",    "h.example.",       "http://http://h",
        "010.1.2.3", "10.1",       "0x7f.0.0.1", "2130706433",  "[fe80::1%25eth0]", "h:0",
        "h:080"})
    EXPECT_THROW(static_cast<void>(parse_hook_host(bad)), settings::UsageError) << bad;
}

TEST(HookHosts, what_is_no_url_of_a_webhook_is_refused) {
  for (const std::string& bad :
       {std::string("ftp://h/"), std::string("https://u:p@h/"), std::string("https://u@h/"),
        std::string("https://h/\r\nx: y"), std::string("https://h/a b"), std::string("https://h\\@evil/"),
        std::string("https://h\xC3\xA9/"), std::string("file:///etc/passwd"), std::string("h/x"),
        std::string("https://h/\0", 11), std::string(), "https://h/" + std::string(kHookUrlBytesMax, 'a')})
    EXPECT_NE(hook_url_problem(bad), "") << bad;
}

TEST(HookHosts, reads_what_a_broker_takes_as_the_broker_does) {
  // Pieces that are put together at random; what the broker's reader takes, the worker must take as the same.
  const std::vector<std::string> schemes{"http://", "https://", "HTTP://", "ftp://", "http:/", ""};
  const std::vector<std::string> hosts{"h",          "Hooks.example.com",
                                       "10.0.0.1",   "010.0.0.1",
                                       "0x0a.1",     "10.1",
                                       "2130706433", "[::1]",
                                       "[0::1]",     "[fe80::1%25e]",
                                       "h.",         ".h",
                                       "a..b",       "",
                                       "u@h",        "u:p@h",
                                       "%68",        "xn--a.example",
                                       "h_1.9.test", "1.2.3.4.5",
                                       "h\\",        "h,",
                                       "-h-",        "[::ffff:1.2.3.4]"};
  const std::vector<std::string> ports{"",     ":",      ":0",     ":80", ":080",
                                       ":443", ":65535", ":65536", ":8x", ":80:"};
  const std::vector<std::string> tails{"",     "/",    "/a%41",   "/%",  "?x=@h", "#@h",    "/a b", "/\\",
                                       "/%0d", "/a;b", "/\"<>^`", "//x", "/../y", "/a?b#c", "?",    "/\x01"};
  int taken = 0;
  for (const std::string& scheme : schemes)
    for (const std::string& host : hosts)
      for (const std::string& port : ports)
        for (const std::string& tail : tails) {
          const std::string url = scheme + host + port + tail;
          if (!notify_problem(url).empty()) continue;
          ++taken;
          ASSERT_EQ(hook_url_problem(url), "") << url;
          const HttpUrlParts parts = parts_of_url(url);
          EXPECT_EQ(parts.host + ':' + std::to_string(parts.port), receiver_of(url)) << url;
          EXPECT_EQ(parts.scheme, url.substr(0, url.find(':')));
        }
  EXPECT_GT(taken, 500);
}

TEST(HookHosts, knows_what_is_of_the_open_internet) {
  for (const char* const open : {"8.8.8.8", "1.1.1.1", "100.63.0.1", "100.128.0.1", "172.15.0.1",
                                 "172.32.0.1", "192.167.1.1", "223.255.255.1", "2606:4700::1111",
                                 "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"})
    EXPECT_TRUE(is_public(*read_address(open))) << open;
  for (const char* const own : {"0.0.0.0",
                                "0.1.2.3",
                                "127.0.0.1",
                                "127.255.0.1",
                                "10.1.2.3",
                                "172.16.0.1",
                                "172.31.255.255",
                                "192.168.0.1",
                                "169.254.169.254",
                                "100.64.0.1",
                                "100.127.0.1",
                                "192.0.0.1",
                                "198.18.0.1",
                                "198.19.0.1",
                                "224.0.0.1",
                                "240.0.0.1",
                                "255.255.255.255",
                                "::",
                                "::1",
                                "fe80::1",
                                "fec0::1",
                                "fc00::1",
                                "fd12::1",
                                "ff02::1",
                                "::ffff:127.0.0.1",
                                "::ffff:169.254.169.254",
                                "::10.0.0.1",
                                "64:ff9b::10.0.0.1",
                                "64:ff9b:1::1",
                                "2002:7f00:1::1",
                                "2001::1",
                                "2001:db8::1",
                                "100::1"})
    EXPECT_FALSE(is_public(*read_address(own))) << own;
  EXPECT_FALSE(read_address("hooks.example.com"));
}

class WebhookHandlerTest : public testing::Test {
 protected:
  WebhookHandlerTest() { sink_->adopt_thread(); }

  static WebhookRules rules(std::vector<std::string> hosts, bool private_addresses = false) {
    WebhookRules rules{.hosts = {}, .private_addresses = private_addresses, .timeout = milliseconds(500)};
    for (const std::string& host : hosts)
      rules.hosts.push_back(parse_hook_host(host));
    return rules;
  }

  JobOutcome ask(WebhookHandler& handler, const std::string& url) {
    const nlohmann::json name = "x-webhook-url", value = url;
    std::vector<std::uint8_t> extras = nlohmann::json::to_msgpack(name);
    nlohmann::json::to_msgpack(value, extras);
    JobCall job;
    job.lease = {1, ++attempt_};
    job.service = "hooks";
    job.id = "job-1";
    job.body = Blob::copy(R"({"done":true})");
    job.extras = {.count = 1, .bytes = {reinterpret_cast<const char*>(extras.data()), extras.size()}};
    job.answer_bytes_max = 1 << 20;
    handler.start(job, Completion(sink_, job.lease));
    turn_until_answered(*client_, *sink_);
    CompletionSink::HandedIn all;
    sink_->take(all);
    return all.finished.empty() ? JobOutcome::failure({.code = "none"}) : std::move(all.finished[0].outcome);
  }

  WebhookHandler handler_for(const std::string& url, bool private_addresses = false) {
    return {client_, rules({url}, private_addresses), secrets_};
  }

  std::int64_t attempt_ = 0;
  std::shared_ptr<CompletionSink> sink_ = std::make_shared<CompletionSink>();
  std::shared_ptr<HookSecretBox> secrets_ =
      std::make_shared<HookSecretBox>(std::vector<HookSecret>{HookSecret(kSecret)});
  std::shared_ptr<HttpClient> client_ = std::make_shared<HttpClient>(HttpOptions{});
};

std::string header(const std::string& request, const std::string& name) {
  const std::size_t at = request.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 4;
  return request.substr(begin, request.find("\r\n", begin) - begin);
}

TEST_F(WebhookHandlerTest, posts_the_body_signed_and_answers_with_the_status) {
  ScriptedUpstream receiver([](const auto& connection) { connection.answer("202 Accepted", "thanks"); });
  WebhookHandler handler = handler_for(receiver.url());

  const JobOutcome outcome = ask(handler, receiver.url() + "/in?token=t#part");

  ASSERT_TRUE(outcome.succeeded());
  const auto body = nlohmann::json::parse(outcome.body.bytes());
  EXPECT_EQ(body.at("status"), 202);
  EXPECT_TRUE(body.at("ms").is_number_unsigned());
  const std::string request = receiver.requests().at(0);
  EXPECT_TRUE(request.starts_with("POST /in?token=t HTTP/1.1\r\n")) << request;
  EXPECT_TRUE(request.ends_with("\r\n\r\n{\"done\":true}")) << request;
  EXPECT_EQ(header(request, "content-type"), "application/json");
  EXPECT_EQ(header(request, "webhook-id"), "job-1");
  const std::string timestamp = header(request, "webhook-timestamp");
  EXPECT_EQ(header(request, "webhook-signature"),
            "v1," + HookSecret(kSecret).sign("job-1." + timestamp + ".{\"done\":true}"));
}

TEST_F(WebhookHandlerTest, says_what_a_status_means) {
  struct Row {
    const char* head;
    ErrorClass error_class;
    const char* code;
  };
  const Row table[] = {
      {"301 Moved\r\nLocation: http://127.0.0.1:1/", ErrorClass::permanent, "upstream_301"},
      {"400 Bad", ErrorClass::permanent, "upstream_400"},
      {"402 Pay", ErrorClass::permanent, "upstream_402"},
      {"410 Gone", ErrorClass::permanent, "upstream_410"},
      {"408 Late", ErrorClass::retry, "upstream_408"},
      {"409 Conflict", ErrorClass::retry, "upstream_409"},
      {"425 Early", ErrorClass::retry, "upstream_425"},
      {"429 Many\r\nRetry-After: 7", ErrorClass::retry, "upstream_429"},
      {"500 Bad", ErrorClass::retry, "upstream_500"},
      {"503 Busy", ErrorClass::retry, "upstream_503"},
  };
  for (const Row& row : table) {
    ScriptedUpstream receiver(
        [&](const auto& connection) { connection.answer(row.head, std::string(5000, 'x')); });
    WebhookHandler handler = handler_for(receiver.url());

    const JobOutcome outcome = ask(handler, receiver.url() + "/in?token=hidden");

    ASSERT_FALSE(outcome.succeeded()) << row.head;
    EXPECT_EQ(outcome.report->error_class, row.error_class) << row.head;
    EXPECT_EQ(outcome.report->code, row.code);
    EXPECT_EQ(outcome.body.size(), WebhookHandler::kKeptBytesMax);
    EXPECT_EQ(outcome.report->message.find("hidden"), std::string::npos) << outcome.report->message;
    EXPECT_NE(outcome.report->message.find("127.0.0.1:"), std::string::npos) << outcome.report->message;
    EXPECT_EQ(outcome.report->retry_after.has_value(), std::string(row.code) == "upstream_429");
    EXPECT_EQ(receiver.requests().size(), 1u) << row.head;
  }
}

TEST_F(WebhookHandlerTest, ends_a_call_that_gets_no_answer) {
  ScriptedUpstream receiver([](const auto& connection) { connection.wait_for_end(); });
  WebhookHandler handler = handler_for(receiver.url());

  const JobOutcome outcome = ask(handler, receiver.url() + "/in?token=hidden");

  EXPECT_EQ(outcome.report->error_class, ErrorClass::retry);
  EXPECT_EQ(outcome.report->code, "timeout");
  EXPECT_EQ((outcome.report->message + outcome.report->detail).find("hidden"), std::string::npos);
}

TEST_F(WebhookHandlerTest, a_success_whose_body_does_not_end_is_one) {
  ScriptedUpstream receiver([](const auto& connection) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    while (connection.send(std::string(4096, 'x'))) {
    }
  });
  WebhookHandler handler = handler_for(receiver.url());
  EXPECT_TRUE(ask(handler, receiver.url()).succeeded());

  ScriptedUpstream slow([](const auto& connection) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx");
    connection.wait_for_end();
  });
  WebhookHandler other = handler_for(slow.url());
  EXPECT_TRUE(ask(other, slow.url()).succeeded());
}

TEST_F(WebhookHandlerTest, calls_nobody_but_its_hosts) {
  ScriptedUpstream receiver([](const auto& connection) { connection.answer("200 OK", ""); });
  WebhookHandler handler = handler_for("hooks.example.com");

  const JobOutcome outcome = ask(handler, receiver.url() + "/in?token=hidden");

  EXPECT_EQ(outcome.report->error_class, ErrorClass::permanent);
  EXPECT_EQ(outcome.report->code, "host_refused");
  EXPECT_NE(outcome.report->message.find(receiver.url() + ": no entry of its hosts"), std::string::npos)
      << outcome.report->message;
  EXPECT_EQ(outcome.report->usage->requests, 0);
  EXPECT_EQ(receiver.requests().size(), 0u);
}

TEST_F(WebhookHandlerTest, a_name_that_stands_for_this_machine_is_refused_before_a_connection) {
  ScriptedUpstream receiver([](const auto& connection) { connection.answer("200 OK", ""); });
  const std::string named = "http://localhost" + receiver.url().substr(receiver.url().rfind(':'));
  WebhookHandler handler = handler_for(named);

  const JobOutcome outcome = ask(handler, named + "/in");

  EXPECT_EQ(outcome.report->error_class, ErrorClass::permanent);
  EXPECT_EQ(outcome.report->code, "address_refused");
  EXPECT_NE(outcome.report->message.find("has the address"), std::string::npos) << outcome.report->message;
  EXPECT_EQ(receiver.requests().size(), 0u);
  WebhookHandler allowed = handler_for(named, true);
  EXPECT_TRUE(ask(allowed, named + "/in").succeeded());
}

TEST_F(WebhookHandlerTest, a_kept_connection_of_another_service_is_no_way_around) {
  // One that keeps the connection, for two requests.
  ScriptedUpstream receiver([](const auto& connection) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    connection.wait_for_end();
  });
  const std::string named = "http://localhost" + receiver.url().substr(receiver.url().rfind(':'));
  WebhookHandler allowed = handler_for(named, true);
  WebhookHandler handler = handler_for(named);
  ASSERT_TRUE(ask(allowed, named).succeeded());

  const JobOutcome outcome = ask(handler, named);

  ASSERT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.report->code, "address_refused");
}

TEST_F(WebhookHandlerTest, a_job_without_a_url_says_the_field) {
  WebhookHandler handler = handler_for("hooks.example.com");
  JobCall job;
  job.lease = {9, 1};
  job.service = "hooks";
  handler.start(job, Completion(sink_, job.lease));
  CompletionSink::HandedIn all;
  sink_->take(all);

  ASSERT_EQ(all.finished.size(), 1u);
  EXPECT_EQ(all.finished[0].outcome.report->code, "bad_url");
  EXPECT_NE(all.finished[0].outcome.report->message.find("x-webhook-url"), std::string::npos);
}

}  // namespace
}  // namespace lanemq::worker
