// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/upstream.hpp"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/upstream/events.hpp"

namespace lanemq::upstream {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kBeginning = TimePoint() + 1h;
constexpr std::string_view kBody =
    R"({"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hello"}]})";

class UpstreamTest : public testing::Test {
 protected:
  Upstream make(UpstreamOptions options) {
    options.started_unix = 1700s;
    return Upstream(options, kBeginning, [this](const CallRecord& record) { log_.push_back(record); });
  }

  static Request chat(std::string_view body = kBody) {
    return {.method = "POST", .target = "/v1/chat/completions", .body = body};
  }

  static Request chat_with(std::string_view authorization) {
    Request request = chat();
    request.headers = {{"Authorization", authorization}};
    return request;
  }

  static Request set_key(std::string_view target, std::string_view body) {
    return {.method = "POST", .target = target, .body = body};
  }

  static Request get(std::string_view target) { return {.method = "GET", .target = target, .body = ""}; }

  static std::map<std::string, std::string> headers(const Call& call) {
    return {call.reply.headers.begin(), call.reply.headers.end()};
  }

  std::vector<CallRecord> log_;
};

TEST_F(UpstreamTest, answers_a_chat_and_logs_it_when_it_ends) {
  Upstream upstream = make({.latency = {.shortest = 50ms, .longest = 50ms}});

  const Call call = upstream.receive(chat(), kBeginning + 3s);
  EXPECT_EQ(upstream.stats().in_flight, 1u);
  EXPECT_TRUE(log_.empty());
  upstream.finish(call, Ending::answered, 0, kBeginning + 3s + 50ms);

  EXPECT_EQ(call.delay, 50ms);
  EXPECT_EQ(call.reply.status, 200u);
  const Json body = Json::parse(call.reply.body);
  EXPECT_EQ(body["model"], "m");
  EXPECT_EQ(body["created"], 1700);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 2);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_EQ(log_[0].at, 3s);
  EXPECT_EQ(log_[0].status, 200u);
  EXPECT_EQ(log_[0].latency, 50ms);
  EXPECT_EQ(log_[0].charged, 12u);
  EXPECT_EQ(log_[0].completion_tokens, body["usage"]["completion_tokens"].get<std::uint64_t>());
  EXPECT_EQ(log_[0].body_hash, fnv1a(kBody));
  EXPECT_EQ(upstream.stats().ok, 1u);
  EXPECT_EQ(upstream.stats().in_flight, 0u);
}

TEST_F(UpstreamTest, gives_a_place_back_when_a_call_ends_however_it_ends) {
  Upstream upstream = make({.quota = {.at_once = 1}});
  for (const Ending ending : {Ending::answered, Ending::hung_up, Ending::cut}) {
    const Call first = upstream.receive(chat(), kBeginning);
    EXPECT_EQ(first.reply.status, 200u);
    const Call second = upstream.receive(chat(), kBeginning);
    EXPECT_EQ(second.reply.status, 429u);
    upstream.finish(second, Ending::answered, 0, kBeginning);
    EXPECT_EQ(upstream.receive(chat(), kBeginning).reply.status, 429u) << "a refused call had no place";
    upstream.finish(first, ending, 0, kBeginning);
  }
}

TEST_F(UpstreamTest, has_places_for_each_key) {
  Upstream upstream =
      make({.quota = {.at_once = 1}, .keys = {{.name = "a", .secret = "1"}, {.name = "b", .secret = "2"}}});

  EXPECT_EQ(upstream.receive(chat_with("Bearer 1"), kBeginning).reply.status, 200u);
  EXPECT_EQ(upstream.receive(chat_with("Bearer 2"), kBeginning).reply.status, 200u);
  EXPECT_EQ(upstream.receive(chat_with("Bearer 1"), kBeginning).reply.status, 429u);
}

TEST_F(UpstreamTest, tells_what_others_got_on_the_accounts_of_all_keys) {
  Upstream upstream = make({.quota = {.requests = 5, .period = 10s, .others = *parse_others("1/s")},
                            .keys = {{.name = "a", .secret = "1"}, {.name = "b", .secret = "2"}}});

  const Json stats = Json::parse(upstream.receive(get("/stats"), kBeginning + 9s + 1ms).reply.body);

  EXPECT_EQ(stats["others"]["granted"], 10);
  EXPECT_EQ(stats["others"]["refused"], 10);
  EXPECT_EQ(stats["limit_rpm"], 5);
  EXPECT_EQ(stats["limit_at_once"], nullptr);
  EXPECT_EQ(stats["period_s"], 10);
  EXPECT_TRUE(stats.contains("peak_calls_10s"));
}

TEST_F(UpstreamTest, speaks_as_it_is_told_whatever_the_endpoint) {
  Upstream upstream = make({.quota = {.requests = 1}, .speaks = Tongue::anthropic});

  EXPECT_TRUE(headers(upstream.receive(chat(), kBeginning)).contains("anthropic-ratelimit-requests-limit"));
  const Call refused = upstream.receive(chat(), kBeginning);
  EXPECT_EQ(Json::parse(refused.reply.body)["error"]["type"], "rate_limit_error");
  EXPECT_EQ(headers(refused)["retry-after"], "60");
}

TEST_F(UpstreamTest, tells_no_more_than_it_may) {
  for (const Tells tells : {Tells::retry_after, Tells::none}) {
    Upstream upstream = make({.quota = {.requests = 1}, .tells = tells});
    EXPECT_FALSE(headers(upstream.receive(chat(), kBeginning)).contains("x-ratelimit-limit-requests"));

    const auto refused = headers(upstream.receive(chat(), kBeginning));

    EXPECT_FALSE(refused.contains("x-ratelimit-limit-requests"));
    EXPECT_FALSE(refused.contains("retry-after-ms"));
    EXPECT_EQ(refused.contains("retry-after"), tells == Tells::retry_after);
  }
}

TEST_F(UpstreamTest, gives_equal_answers_for_equal_seeds) {
  Upstream first = make({.seed = 4});
  Upstream second = make({.seed = 4});
  Upstream other = make({.seed = 5});

  const Call call = first.receive(chat(), kBeginning);

  EXPECT_EQ(second.receive(chat(), kBeginning).reply.body, call.reply.body);
  EXPECT_NE(other.receive(chat(), kBeginning).reply.body, call.reply.body);
}

TEST_F(UpstreamTest, refuses_over_the_limit_as_the_real_service_does) {
  Upstream upstream = make({.quota = {.requests = 1}});
  upstream.finish(upstream.receive(chat(), kBeginning), Ending::answered, 0, kBeginning);

  const Call call = upstream.receive(chat(), kBeginning + 51s + 360ms);
  upstream.finish(call, Ending::answered, 0, kBeginning + 51s + 360ms);

  EXPECT_EQ(call.reply.status, 429u);
  EXPECT_EQ(call.delay, Duration::zero());
  const Json error = Json::parse(call.reply.body)["error"];
  EXPECT_EQ(error["type"], "requests");
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
  EXPECT_EQ(error["message"],
            "Rate limit reached for m on requests per min (RPM): Limit 1, Used 1, Requested 1. "
            "Please try again in 8.64s.");
  EXPECT_EQ(headers(call)["retry-after"], "9");
  EXPECT_EQ(headers(call)["retry-after-ms"], "8640");
  EXPECT_EQ(headers(call)["x-ratelimit-limit-requests"], "1");
  EXPECT_EQ(headers(call)["x-ratelimit-remaining-requests"], "0");
  EXPECT_EQ(headers(call)["x-ratelimit-reset-requests"], "8.64s");
  EXPECT_EQ(log_.back().charged, std::nullopt);
  EXPECT_EQ(upstream.stats().rejected_429, 1u);
  EXPECT_EQ(upstream.peak().calls(), 1u);
}

TEST_F(UpstreamTest, says_requested_over_limit_where_waiting_would_not_help) {
  Upstream upstream = make({.quota = {.tokens = 11}});

  const Call call = upstream.receive(chat(), kBeginning);

  EXPECT_EQ(call.reply.status, 429u);
  const Json error = Json::parse(call.reply.body)["error"];
  EXPECT_EQ(error["type"], "tokens");
  EXPECT_NE(error["message"].get<std::string>().find("Limit 11, Requested 12"), std::string::npos);
  EXPECT_FALSE(headers(call).contains("retry-after"));
}

TEST_F(UpstreamTest, tells_what_remains_with_every_reply_to_a_chat) {
  Upstream upstream = make({.quota = {.requests = 60, .tokens = 1000}});

  const Call good = upstream.receive(chat(), kBeginning);
  const Call bad = upstream.receive(chat("{}"), kBeginning + 20s);

  EXPECT_EQ(headers(good)["x-ratelimit-remaining-requests"], "59");
  EXPECT_EQ(headers(good)["x-ratelimit-remaining-tokens"], "988");
  EXPECT_EQ(headers(good)["x-ratelimit-reset-tokens"], "1m0s");
  EXPECT_EQ(bad.reply.status, 400u);
  EXPECT_EQ(headers(bad)["x-ratelimit-limit-tokens"], "1000");
  EXPECT_EQ(headers(bad)["x-ratelimit-remaining-requests"], "59");
  EXPECT_EQ(headers(bad)["x-ratelimit-reset-requests"], "40s");
}

TEST_F(UpstreamTest, knows_its_paths_methods_and_key) {
  Upstream upstream = make({.keys = {{"k", "secret"}}});
  const Request keyed = chat_with("Bearer secret");

  EXPECT_EQ(upstream.receive(chat(), kBeginning).reply.status, 401u);
  EXPECT_EQ(upstream.receive(keyed, kBeginning).reply.status, 200u);
  EXPECT_EQ(upstream.receive(get("/v1/models"), kBeginning).reply.status, 200u);
  EXPECT_EQ(upstream.receive(get("/healthz?deep=1"), kBeginning).reply.status, 200u);
  EXPECT_EQ(upstream.receive(get("/v2/models"), kBeginning).reply.status, 404u);
  const Call wrong = upstream.receive(get("/v1/chat/completions"), kBeginning);
  EXPECT_EQ(wrong.reply.status, 405u);
  EXPECT_EQ(headers(wrong)["allow"], "POST");
  EXPECT_EQ(upstream.receive_oversized(chat(""), 100, kBeginning).reply.status, 413u);
  EXPECT_EQ(upstream.receive_malformed(kBeginning).reply.status, 400u);
}

TEST_F(UpstreamTest, each_key_has_its_own_limits) {
  Upstream upstream = make({.quota = {.requests = 2}, .keys = {{"k1", "one"}, {"k2", "two"}}});
  const auto status_of = [&](std::string_view authorization) {
    const Call call = upstream.receive(chat_with(authorization), kBeginning);
    upstream.finish(call, Ending::answered, 0, kBeginning);
    return call.reply.status;
  };

  EXPECT_EQ(status_of("Bearer one"), 200u);
  EXPECT_EQ(status_of("Bearer one"), 200u);
  EXPECT_EQ(status_of("Bearer one"), 429u);
  const Call other = upstream.receive(chat_with("Bearer two"), kBeginning);
  const Call stranger = upstream.receive(chat_with("Bearer three"), kBeginning);

  EXPECT_EQ(other.reply.status, 200u);
  EXPECT_EQ(headers(other)["x-ratelimit-remaining-requests"], "1");
  EXPECT_EQ(stranger.reply.status, 401u);
  EXPECT_FALSE(headers(stranger).contains("x-ratelimit-remaining-requests"));
  EXPECT_EQ(log_[0].key, "k1");
  const Json stats = Json::parse(upstream.receive(get("/stats"), kBeginning).reply.body);
  EXPECT_EQ(stats["keys"]["k1"]["accepted"], 2);
  EXPECT_EQ(stats["keys"]["k1"]["rejected_429"], 1);
  EXPECT_EQ(stats["keys"]["k1"]["peak_calls_60s"], 2);
  EXPECT_EQ(stats["keys"]["k2"]["accepted"], 1);
  EXPECT_EQ(stats["peak_calls_60s"], 3);
}

TEST_F(UpstreamTest, a_key_dies_and_lives_as_it_is_told) {
  Upstream upstream = make({.keys = {{"k1", "one"}, {"k2", "two"}}});
  const auto set = [&](std::string_view target, std::string_view body) {
    return upstream.receive(set_key(target, body), kBeginning).reply.status;
  };
  const auto reply_to = [&](std::string_view authorization) {
    return upstream.receive(chat_with(authorization), kBeginning).reply;
  };

  EXPECT_EQ(set("/admin/keys/k1", R"({"dead":true})"), 200u);
  EXPECT_EQ(reply_to("Bearer one").status, 401u);
  EXPECT_EQ(reply_to("Bearer two").status, 200u);
  EXPECT_EQ(set("/admin/keys/k1", R"({"dead":"quota"})"), 200u);
  const Reply spent = reply_to("Bearer one");
  EXPECT_EQ(spent.status, 429u);
  EXPECT_EQ(Json::parse(spent.body)["error"]["code"], "insufficient_quota");
  EXPECT_EQ(set("/admin/keys/k1", R"({"dead":false})"), 200u);
  EXPECT_EQ(reply_to("Bearer one").status, 200u);

  EXPECT_EQ(set("/admin/keys/k3", R"({"dead":true})"), 404u);
  EXPECT_EQ(set("/admin/keys/", R"({"dead":true})"), 404u);
  EXPECT_EQ(set("/admin/keys/k1", R"({"dead":1})"), 400u);
  EXPECT_EQ(set("/admin/keys/k1", "nonsense"), 400u);
  const Json stats = Json::parse(upstream.receive(get("/stats"), kBeginning).reply.body);
  EXPECT_EQ(stats["keys"]["k1"]["refused_dead"], 2);
}

TEST_F(UpstreamTest, holds_a_call_until_its_model_is_released) {
  Upstream upstream = make({});
  const auto call_for = [&](std::string_view model) {
    const std::string body =
        R"({"model":")" + std::string(model) + R"(","messages":[{"role":"user","content":"hello"}]})";
    return upstream.receive(chat(body), kBeginning);
  };
  const auto release = [&](std::string_view body) {
    return upstream.receive(set_key("/admin/release", body), kBeginning);
  };

  const Call held = call_for("m+hold");
  const Call other = call_for("n+hold");
  const Call plain = call_for("m");
  EXPECT_TRUE(held.held && other.held && !plain.held);
  EXPECT_TRUE(!upstream.released(held) && !upstream.released(other) && upstream.released(plain));

  const Call answer = release(R"({"model":"m+hold"})");
  EXPECT_EQ(answer.reply.status, 200u);
  EXPECT_TRUE(answer.releases);
  EXPECT_TRUE(upstream.released(held) && !upstream.released(other));
  EXPECT_TRUE(upstream.released(call_for("m+hold"))) << "those to come are not held either";

  EXPECT_EQ(release("nonsense").reply.status, 400u);
  EXPECT_EQ(release(R"({"model":""})").reply.status, 400u);
  EXPECT_EQ(upstream.receive(get("/admin/release"), kBeginning).reply.status, 404u);
}

TEST_F(UpstreamTest, counts_faults_and_charges_them) {
  Upstream upstream = make({.quota = {.requests = 100}, .faults = {.stall = 1}, .stall = 5s});

  const Call call = upstream.receive(chat(), kBeginning);
  upstream.finish(call, Ending::answered, 0, kBeginning + 5s);

  EXPECT_EQ(call.fault, Fault::stall);
  EXPECT_EQ(call.delay, 5s);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_EQ(log_[0].status, 0u);
  EXPECT_EQ(log_[0].fault, "stall");
  EXPECT_EQ(log_[0].charged, 12u);
  EXPECT_EQ(upstream.stats().faults.at("stall"), 1u);
  EXPECT_EQ(upstream.stats().ok, 0u);
  EXPECT_EQ(upstream.peak().calls(), 1u);
}

TEST_F(UpstreamTest, a_server_error_carries_a_json_body_and_no_usage) {
  Upstream upstream = make({.faults = {.http_5xx = 1}});

  const Call call = upstream.receive(chat(), kBeginning);
  upstream.finish(call, Ending::answered, 0, kBeginning + 1s);

  EXPECT_GE(call.reply.status, 500u);
  EXPECT_LE(call.reply.status, 503u);
  EXPECT_EQ(Json::parse(call.reply.body)["error"]["type"], "server_error");
  EXPECT_EQ(log_[0].completion_tokens, 0u);
  EXPECT_EQ(log_[0].fault, "5xx");
}

TEST_F(UpstreamTest, logs_calls_whose_client_left_and_calls_that_the_stop_cut) {
  Upstream upstream = make({});
  const Call left = upstream.receive(chat(), kBeginning);
  const Call cut = upstream.receive(chat(), kBeginning);

  upstream.finish(left, Ending::hung_up, 0, kBeginning + 1s);
  upstream.finish(cut, Ending::cut, 0, kBeginning + 2s);

  ASSERT_EQ(log_.size(), 2u);
  EXPECT_EQ(log_[0].status, 499u);
  EXPECT_EQ(log_[1].status, 0u);
  EXPECT_EQ(log_[1].fault, "cut");
  EXPECT_EQ(upstream.stats().hung_up, 1u);
  EXPECT_EQ(upstream.stats().in_flight, 0u);
  EXPECT_EQ(upstream.stats().in_flight_peak, 2u);
}

TEST_F(UpstreamTest, notices_a_job_that_is_called_for_twice) {
  Upstream upstream = make({});
  Request job = chat();
  job.headers = {{"x-lanemq-job", "a-1"}};

  upstream.receive(job, kBeginning);
  upstream.receive(job, kBeginning);
  upstream.receive(chat(), kBeginning);

  EXPECT_EQ(upstream.stats().duplicate_jobs, 1u);
}

TEST_F(UpstreamTest, gives_equal_answers_to_equal_prompts_whatever_came_between) {
  Upstream upstream = make({});

  const std::string first = upstream.receive(chat(), kBeginning).reply.body;
  upstream.receive(chat(R"({"messages":[{"content":"another"}]})"), kBeginning + 1s);

  EXPECT_EQ(upstream.receive(chat(), kBeginning + 2s).reply.body, first);
}

TEST_F(UpstreamTest, a_stream_spells_the_same_answer_and_counts_what_was_sent) {
  Upstream upstream = make({.token_gap = 20ms});
  const Json whole = Json::parse(upstream.receive(chat(), kBeginning).reply.body);
  const Call call = upstream.receive(
      chat(R"({"model":"m","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"hello"}]})"),
      kBeginning);

  ASSERT_TRUE(call.script);
  std::string text;
  while (const auto due = call.script->due()) {
    for (const Event& event : parse_events(call.script->next(*due)->bytes))
      if (event.data.is_object()) text += event.data["choices"][0]["delta"].value("content", "");
    if (call.script->deltas() == 3) break;
  }
  upstream.finish(call, Ending::hung_up, 77, kBeginning + 1s);

  EXPECT_TRUE(whole["choices"][0]["message"]["content"].get<std::string>().starts_with(text));
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(log_.back().end, "hung_up");
  EXPECT_EQ(log_.back().status, 499u);
  EXPECT_EQ(log_.back().completion_tokens, 3u);
  EXPECT_EQ(log_.back().sent, 77u);
  EXPECT_EQ(log_.back().ended_unix, 1701s);
  EXPECT_TRUE(log_.back().stream);
}

TEST_F(UpstreamTest, refuses_and_logs_what_a_gateway_must_not_pass_on) {
  Upstream upstream = make({.quota = {.requests = 1}});
  Request request = chat(R"({"model":"gpt@high","lane":"x","messages":[{}]})");
  request.headers = {{"X-LaneMQ-Lane", "high"},
                     {"x-priority", "1"},
                     {"X-Stainless-OS", "Linux"},
                     {"x-lanemq-job", "a-1"},
                     {"x-lanemq-attempt", "1"}};

  const Call call = upstream.receive(request, kBeginning);
  upstream.finish(call, Ending::answered, 0, kBeginning);

  EXPECT_EQ(call.reply.status, 400u);
  EXPECT_EQ(log_.back().leaks, (std::vector<std::string>{"x-lanemq-lane", "x-priority", "x-stainless-os",
                                                         "lane", "model gpt@high"}));
  EXPECT_EQ(upstream.stats().violations, 1u);
  EXPECT_EQ(upstream.peak().calls(), 0u);
}

TEST_F(UpstreamTest, lets_sdks_call_it_themselves_when_it_is_told_to) {
  Upstream strict = make({});
  Upstream lenient = make({.sdk_headers = SdkHeaders::allowed});
  Request request = chat();
  request.headers = {{"x-stainless-os", "Linux"}};

  EXPECT_EQ(strict.receive(request, kBeginning).reply.status, 400u);
  EXPECT_EQ(lenient.receive(request, kBeginning).reply.status, 200u);
}

TEST_F(UpstreamTest, speaks_anthropic_to_those_who_speak_it) {
  Upstream upstream = make({.quota = {.requests = 1}, .keys = {{"k", "secret"}}});
  Request message{.method = "POST",
                  .target = "/v1/messages?beta=true",
                  .body = R"({"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hello"}]})"};
  const auto status_with = [&](std::vector<std::pair<std::string_view, std::string_view>> headers) {
    message.headers = std::move(headers);
    return upstream.receive(message, kBeginning);
  };

  const Call stranger = status_with({{"anthropic-version", "2023-06-01"}});
  EXPECT_EQ(stranger.reply.status, 401u);
  EXPECT_EQ(Json::parse(stranger.reply.body)["error"]["type"], "authentication_error");
  EXPECT_EQ(status_with({{"x-api-key", "secret"}}).reply.status, 400u);
  const Call good = status_with({{"x-api-key", "secret"}, {"anthropic-version", "2023-06-01"}});
  EXPECT_EQ(good.reply.status, 200u);
  EXPECT_EQ(headers(good)["anthropic-ratelimit-requests-remaining"], "0");
  EXPECT_TRUE(headers(good).contains("request-id"));
  const Call over = status_with({{"x-api-key", "secret"}, {"anthropic-version", "2023-06-01"}});
  EXPECT_EQ(over.reply.status, 429u);
  EXPECT_EQ(Json::parse(over.reply.body)["error"]["type"], "rate_limit_error");
  EXPECT_EQ(headers(over)["retry-after"], "60");
  EXPECT_FALSE(headers(over).contains("retry-after-ms"));
}

TEST_F(UpstreamTest, gives_the_fault_that_the_model_asks_for_to_the_first_calls_alone) {
  Upstream upstream = make({});
  const auto ask = [&] {
    const Call call =
        upstream.receive(chat(R"({"model":"m+status=529+retry=2+first=2","messages":[{}]})"), kBeginning);
    upstream.finish(call, Ending::answered, 0, kBeginning);
    return call.reply.status;
  };

  EXPECT_EQ(ask(), 529u);
  EXPECT_EQ(ask(), 529u);
  EXPECT_EQ(ask(), 200u);
  EXPECT_EQ(log_[0].fault, "status");
  EXPECT_EQ(log_[2].fault, "");
  EXPECT_EQ(upstream.stats().faults.at("status"), 2u);
}

TEST_F(UpstreamTest, refuses_faults_that_do_not_exist_here) {
  Upstream upstream = make({});

  for (const char* model :
       {"m+nonsense", "m+eof=3", "m+error-event=1", "m+stamps", "m+comments", "m+pings"}) {
    const std::string body = std::string(R"({"messages":[{}],"model":")") + model + "\"}";
    EXPECT_EQ(upstream.receive(chat(body), kBeginning).reply.status, 400u) << model;
  }
}

TEST_F(UpstreamTest, chance_breaks_streams_off_in_their_middle) {
  Upstream upstream = make({.faults = {.reset = 1}});

  const Call call =
      upstream.receive(chat(R"({"model":"m+tokens=10","stream":true,"messages":[{}]})"), kBeginning);
  while (call.script->next(0ms)) {
  }

  EXPECT_EQ(call.script->deltas(), 5u);
  EXPECT_EQ(call.script->finish(), Finish::reset);
}

TEST_F(UpstreamTest, stats_tell_limits_peaks_and_counts) {
  Upstream upstream = make({.quota = {.requests = 100}});
  upstream.connection_opened();
  upstream.finish(upstream.receive(chat(), kBeginning), Ending::answered, 0, kBeginning + 1s);

  const Json stats = Json::parse(upstream.receive(get("/stats"), kBeginning + 2s).reply.body);

  EXPECT_EQ(stats["calls"], 1);
  EXPECT_EQ(stats["ended"], 1);
  EXPECT_EQ(stats["ok"], 1);
  EXPECT_EQ(stats["peak_calls_60s"], 1);
  EXPECT_EQ(stats["peak_tokens_60s"], 12);
  EXPECT_EQ(stats["limit_rpm"], 100);
  EXPECT_TRUE(stats["limit_tpm"].is_null());
  EXPECT_EQ(stats["connections"], 1);
  EXPECT_EQ(stats["faults"]["5xx"], 0);
  EXPECT_EQ(stats["uptime_ms"], 2000);
}

}  // namespace
}  // namespace lanemq::upstream
