// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/http_handler.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/worker/client_loop.hpp"
#include "tests/unit/worker/scripted_upstream.hpp"
#include "worker/session/completion.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

/// An upstream that gives every request the same bytes and then closes, or, given none, says nothing at all.
class CannedUpstream {
 public:
  explicit CannedUpstream(std::string answer)
      : upstream_([answer = std::move(answer)](const ScriptedUpstream::Connection& connection) {
          if (answer.empty()) return connection.wait_for_end();
          connection.send(answer);
        }) {}

  std::string url() const { return upstream_.url() + "/v1"; }
  /// The last one. Requires: its answer has arrived.
  std::string request() const { return upstream_.requests().back(); }

 private:
  ScriptedUpstream upstream_;
};

std::shared_ptr<const HttpHeaders> carrying(const std::vector<std::string>& lines,
                                            std::vector<std::string> secrets = {}) {
  return std::make_shared<const HttpHeaders>(lines, std::move(secrets));
}

std::shared_ptr<CredentialBox> with_keys(HttpCredentials credentials) {
  return std::make_shared<CredentialBox>(std::move(credentials));
}

class HttpHandlerTest : public testing::Test {
 protected:
  HttpHandlerTest() { sink_->adopt_thread(); }

  void start(HttpHandler& handler, wire::Lease lease, std::string_view body, std::string_view id = "job-1",
             std::string_view key = "") {
    JobCall job;
    job.lease = lease;
    job.service = "chat";
    job.key = key;
    job.id = id;
    job.body = Blob::copy(body);
    job.answer_bytes_max = 1000;
    handler.start(job, Completion(sink_, lease));
  }

  /// The next outcome, or a failure named "none" when none comes.
  FinishedJob next() {
    if (client_) turn_until_answered(*client_, *sink_);
    std::vector<FinishedJob> jobs = take();
    if (jobs.empty()) return {{}, JobOutcome::failure({.code = "none"})};
    return std::move(jobs[0]);
  }
  std::vector<FinishedJob> take() {
    CompletionSink::HandedIn all;
    sink_->take(all);
    return std::move(all.finished);
  }

  JobOutcome ask(const std::string& url, std::vector<std::string> headers = {}) {
    HttpHandler handler(client_, {url}, with_keys({.keyless = carrying(headers)}));
    start(handler, {7, 2}, "question.");
    FinishedJob job = next();
    EXPECT_EQ(job.lease, (wire::Lease{7, 2}));
    return std::move(job.outcome);
  }

  std::shared_ptr<CompletionSink> sink_ = std::make_shared<CompletionSink>();
  std::shared_ptr<HttpClient> client_ =
      std::make_shared<HttpClient>(HttpOptions{.times = {.total = milliseconds(8000)}});
};

std::string answer(const std::string& head, const std::string& body) {
  return "HTTP/1.1 " + head + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST_F(HttpHandlerTest, posts_the_body_and_hands_in_the_answer) {
  CannedUpstream upstream(answer("200 OK\r\nContent-Type: application/json\r\nx-ratelimit-limit-requests: 60",
                                 R"({"usage":{"prompt_tokens":3,"completion_tokens":4}})"));

  const JobOutcome outcome = ask(upstream.url(), {"Authorization: Bearer s", "X-Other: 1"});

  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.body.bytes(), R"({"usage":{"prompt_tokens":3,"completion_tokens":4}})");
  EXPECT_EQ(outcome.report->usage->requests, 1);
  EXPECT_EQ(outcome.report->usage->input_tokens, 3);
  EXPECT_EQ(outcome.report->usage->output_tokens, 4);
  EXPECT_EQ(outcome.report->limits->limit_requests, 60);
  const std::string request = upstream.request();
  EXPECT_TRUE(request.starts_with("POST /v1 HTTP/1.1\r\n")) << request;
  EXPECT_TRUE(request.ends_with("\r\n\r\nquestion.")) << request;
  for (const char* const line : {"x-lanemq-job: job-1", "x-lanemq-attempt: 2", "Authorization: Bearer s",
                                 "X-Other: 1", "Content-Type: application/json"})
    EXPECT_NE(request.find(std::string(line) + "\r\n"), std::string::npos) << line;
}

TEST_F(HttpHandlerTest, an_own_content_type_replaces_the_usual_one) {
  CannedUpstream upstream(answer("204 No Content", ""));

  EXPECT_TRUE(ask(upstream.url(), {"content-type: text/plain"}).succeeded());

  EXPECT_NE(upstream.request().find("content-type: text/plain"), std::string::npos);
  EXPECT_EQ(upstream.request().find("application/json"), std::string::npos);
}

TEST_F(HttpHandlerTest, an_error_carries_the_upstreams_words) {
  CannedUpstream upstream(answer("429 Slow\r\nRetry-After: 2", "slow down"));

  const JobOutcome outcome = ask(upstream.url());

  EXPECT_EQ(outcome.report->error_class, ErrorClass::limited);
  EXPECT_EQ(outcome.report->retry_after, milliseconds(2000));
  EXPECT_EQ(outcome.body.bytes(), "slow down");
}

TEST_F(HttpHandlerTest, half_an_answer_is_none) {
  CannedUpstream upstream("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");

  const JobOutcome outcome = ask(upstream.url());

  EXPECT_EQ(outcome.report->error_class, ErrorClass::retry);
  EXPECT_EQ(outcome.report->code, "partial");
  EXPECT_EQ(outcome.report->usage->requests, 1);
}

TEST_F(HttpHandlerTest, an_answer_that_is_too_long_is_cut_off) {
  CannedUpstream upstream(answer("200 OK", std::string(1001, 'x')));

  const JobOutcome outcome = ask(upstream.url());

  EXPECT_EQ(outcome.report->error_class, ErrorClass::permanent);
  EXPECT_EQ(outcome.report->code, "too_large");
  EXPECT_TRUE(outcome.body.empty());
}

TEST_F(HttpHandlerTest, a_long_error_is_cut_and_stays_an_error) {
  CannedUpstream upstream(answer("503 Busy", std::string(5000, 'x')));

  const JobOutcome outcome = ask(upstream.url());

  EXPECT_EQ(outcome.report->error_class, ErrorClass::overloaded);
  EXPECT_EQ(outcome.body.size(), 1000u);
}

TEST_F(HttpHandlerTest, nobody_there_costs_nothing) {
  std::string url;
  {
    const CannedUpstream gone("x");
    url = gone.url();
  }

  const JobOutcome outcome = ask(url);

  EXPECT_EQ(outcome.report->error_class, ErrorClass::retry);
  EXPECT_EQ(outcome.report->code, "connect");
  EXPECT_EQ(outcome.report->usage->requests, 0);
}

TEST_F(HttpHandlerTest, where_the_upstream_stands_is_for_the_log_and_not_for_callers) {
  std::string refuses;
  {
    const CannedUpstream gone("x");
    refuses = gone.url();
  }
  const CannedUpstream breaks_off("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx");
  const CannedUpstream no_http("220 mail.example ready\r\n\r\n");

  for (const std::string& url : {refuses, breaks_off.url(), no_http.url()}) {
    const JobOutcome outcome = ask(url);

    EXPECT_FALSE(outcome.succeeded());
    const std::string& message = outcome.report->message;
    EXPECT_NE(message.find("upstream"), std::string::npos) << message;
    for (const std::string_view place : {"127.0.0.1", " port ", "://", "/v1"})
      EXPECT_EQ(message.find(place), std::string::npos) << message;
    EXPECT_TRUE(outcome.report->detail.starts_with(url + ": ")) << outcome.report->detail;
  }
}

TEST_F(HttpHandlerTest, where_nothing_is_the_log_has_the_url_that_was_asked_without_its_secrets) {
  for (const char* status : {"404 Not Found", "405 Method Not Allowed"}) {
    const CannedUpstream upstream(std::string("HTTP/1.1 ") + status + "\r\nContent-Length: 0\r\n\r\n");

    const JobOutcome outcome = ask(upstream.url() + "?key=hidden");

    EXPECT_EQ(outcome.report->detail, upstream.url());
    EXPECT_EQ(outcome.report->message.find("://"), std::string::npos) << outcome.report->message;
  }
  const CannedUpstream refuses("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(ask(refuses.url()).report->detail, "");
}

TEST_F(HttpHandlerTest, a_job_whose_own_time_is_over_blames_no_upstream) {
  CannedUpstream upstream("");
  HttpHandler handler(client_, {upstream.url()}, with_keys({.keyless = carrying({})}));
  JobCall job;
  job.body = Blob::copy("question.");
  job.deadline = std::chrono::steady_clock::now() + milliseconds(30);

  handler.start(job, Completion(sink_, {1, 1}));

  const JobOutcome outcome = next().outcome;
  EXPECT_EQ(outcome.report->error_class, ErrorClass::deadline);
  EXPECT_EQ(outcome.report->code, "deadline");
}

TEST_F(HttpHandlerTest, a_burst_of_calls_is_begun_in_several_turns) {
  constexpr std::uint64_t kCalls = 200;
  client_ = std::make_shared<HttpClient>(HttpOptions{.calls_max = kCalls});
  CannedUpstream upstream(answer("200 OK\r\nConnection: close", "yes"));
  HttpHandler handler(client_, {upstream.url()}, with_keys({.keyless = carrying({})}));
  std::set<std::uint64_t> answered;

  for (std::uint64_t job = 1; job <= kCalls; ++job)
    start(handler, {job, 1}, "question.");
  while (answered.size() < kCalls) {
    ASSERT_TRUE(turn_until_answered(*client_, *sink_));
    for (const FinishedJob& job : take()) {
      EXPECT_TRUE(job.outcome.succeeded());
      EXPECT_TRUE(answered.insert(job.lease.job).second);
    }
  }

  EXPECT_EQ(client_->next_wakeup(), std::nullopt);
}

TEST_F(HttpHandlerTest, a_cancelled_call_ends_now) {
  CannedUpstream upstream("");
  HttpHandler handler(client_, {upstream.url()}, with_keys({.keyless = carrying({})}));
  start(handler, {1, 1}, "question.");

  handler.cancel({1, 1});
  handler.cancel({9, 9});

  EXPECT_EQ(next().outcome.report->code, "cancelled");
}

TEST_F(HttpHandlerTest, calls_under_way_do_not_keep_it_from_ending) {
  CannedUpstream upstream("");
  {
    HttpHandler handler(client_, {upstream.url()}, with_keys({.keyless = carrying({})}));
    start(handler, {1, 1}, "question.");
  }
  client_.reset();

  EXPECT_EQ(next().outcome.report->code, "abandoned");
}

TEST_F(HttpHandlerTest, a_job_carries_the_secret_of_its_key) {
  CannedUpstream upstream(answer("200 OK", "yes"));
  HttpHandler handler(client_, {upstream.url()},
                      with_keys({.keyless = nullptr,
                                 .by_key = {{"k1", carrying({"Authorization: Bearer one"})},
                                            {"k2", carrying({"Authorization: Bearer two"})}}}));

  start(handler, {1, 1}, "question.", "job-1", "k2");

  EXPECT_TRUE(next().outcome.succeeded());
  EXPECT_NE(upstream.request().find("Authorization: Bearer two\r\n"), std::string::npos);
  EXPECT_EQ(upstream.request().find("Bearer one"), std::string::npos);
}

TEST_F(HttpHandlerTest, a_key_that_is_not_known_may_be_known_to_another_worker) {
  HttpHandler keyed(client_, {"http://127.0.0.1:9/"},
                    with_keys({.keyless = nullptr, .by_key = {{"k1", carrying({})}}}));
  HttpHandler keyless(client_, {"http://127.0.0.1:9/"}, with_keys({.keyless = carrying({})}));
  for (HttpHandler* const handler : {&keyed, &keyless}) {
    start(*handler, {1, 1}, "question.", "job-1", "k\n3");

    const JobOutcome outcome = next().outcome;
    EXPECT_EQ(outcome.report->error_class, ErrorClass::retry);
    EXPECT_EQ(outcome.report->code, "unknown_key");
    EXPECT_NE(outcome.report->message.find(R"(key "k\x0a3" of service "chat")"), std::string::npos)
        << outcome.report->message;
    EXPECT_NE(outcome.report->message.find("--key chat/"), std::string::npos);
    EXPECT_EQ(outcome.report->usage->requests, 0);
  }
}

TEST_F(HttpHandlerTest, a_job_without_a_key_gets_the_only_one) {
  CannedUpstream upstream(answer("200 OK", "yes"));
  HttpHandler handler(
      client_, {upstream.url()},
      with_keys({.keyless = nullptr, .by_key = {{"k1", carrying({"Authorization: Bearer one"})}}}));

  start(handler, {1, 1}, "question.");

  EXPECT_TRUE(next().outcome.succeeded());
  EXPECT_NE(upstream.request().find("Authorization: Bearer one\r\n"), std::string::npos);
}

TEST_F(HttpHandlerTest, a_job_without_a_key_where_there_are_several_is_the_brokers_to_mend) {
  HttpHandler handler(
      client_, {"http://127.0.0.1:9/"},
      with_keys({.keyless = nullptr, .by_key = {{"k1", carrying({})}, {"k2", carrying({})}}}));

  start(handler, {1, 1}, "question.");

  const JobOutcome outcome = next().outcome;
  EXPECT_EQ(outcome.report->error_class, ErrorClass::permanent);
  EXPECT_EQ(outcome.report->code, "no_key");
  EXPECT_NE(outcome.report->message.find("budget"), std::string::npos);
}

TEST_F(HttpHandlerTest, newer_secrets_are_for_the_jobs_that_start_from_now_on) {
  CannedUpstream silent(""), upstream(answer("200 OK", "yes"));
  const auto with = [](const char* secret) {
    return HttpCredentials{.keyless = nullptr,
                           .by_key = {{"k1", carrying({std::string("Authorization: Bearer ") + secret})}}};
  };
  const auto box = with_keys(with("old"));
  HttpHandler slow(client_, {silent.url()}, box);
  HttpHandler handler(client_, {upstream.url()}, box);
  start(slow, {1, 1}, "question.", "job-1", "k1");

  box->use(with("new"));
  start(handler, {2, 1}, "question.", "job-2", "k1");

  EXPECT_EQ(next().lease, (wire::Lease{2, 1}));
  EXPECT_NE(upstream.request().find("Authorization: Bearer new\r\n"), std::string::npos);
  slow.cancel({1, 1});
  EXPECT_EQ(next().outcome.report->code, "cancelled");
}

TEST_F(HttpHandlerTest, secrets_may_change_while_jobs_start) {
  CannedUpstream upstream(answer("200 OK\r\nConnection: close", "yes"));
  const auto credentials = [] {
    return HttpCredentials{.keyless = nullptr, .by_key = {{"k1", carrying({"Authorization: Bearer one"})}}};
  };
  const auto box = with_keys(credentials());
  HttpHandler handler(client_, {upstream.url()}, box);
  std::thread other([&] {
    for (int i = 0; i < 200; ++i)
      box->use(credentials());
  });

  for (std::uint64_t job = 1; job <= 20; ++job) {
    start(handler, {job, 1}, "question.", "job-1", "k1");
    EXPECT_TRUE(next().outcome.succeeded());
  }

  other.join();
}

TEST_F(HttpHandlerTest, an_upstream_that_repeats_the_secret_does_not_give_it_away) {
  const std::string body = R"({"error":{"message":"no such key sk-12345678","code":"sk\u002d12345678"}})";
  CannedUpstream upstream(answer("401 No\r\nContent-Type: application/json", body));
  HttpHandler handler(
      client_, {upstream.url()},
      with_keys({.keyless = nullptr,
                 .by_key = {{"k1", carrying({"Authorization: Bearer sk-12345678"}, {"sk-12345678"})}}}));

  start(handler, {1, 1}, "question.", "job-1", "k1");

  const JobOutcome outcome = next().outcome;
  EXPECT_EQ(outcome.report->error_class, ErrorClass::permanent);
  EXPECT_EQ(outcome.report->message, "the upstream answered 401 [secret]: no such key [secret]");
  EXPECT_EQ(outcome.body.bytes(), R"({"error":{"message":"no such key [secret]","code":"[secret]"}})");
}

TEST(HeaderSafe, lets_no_line_end_through) {
  EXPECT_EQ(header_safe("job-1_a.b:c"), "job-1_a.b:c");
  EXPECT_EQ(header_safe("a b\r\n%\xC3\xA9"), "a%20b%0D%0A%25%C3%A9");
}

}  // namespace
}  // namespace lanemq::worker
