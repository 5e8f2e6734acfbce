// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/model/model_handler.hpp"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "tests/unit/worker/client_loop.hpp"
#include "tests/unit/worker/scripted_upstream.hpp"
#include "worker/handlers/anthropic/anthropic_api.hpp"
#include "worker/handlers/openai/openai_api.hpp"
#include "worker/handlers/sse/sse_parser.hpp"
#include "worker/session/completion.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kRole =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
constexpr std::string_view kHello =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n";
constexpr std::string_view kWorld = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" w\"}}]}\n\n";
constexpr std::string_view kStop =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
constexpr std::string_view kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,"
    "\"completion_tokens_details\":{\"reasoning_tokens\":1}}}\n\n";
constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

constexpr std::string_view kMessageStart =
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":"
    "{\"input_tokens\":11,\"cache_read_input_tokens\":5,\"output_tokens\":1}}}\n\n";
constexpr std::string_view kBlockStart =
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":"
    "{\"type\":\"text\",\"text\":\"\"}}\n\n";
constexpr std::string_view kPing = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
constexpr std::string_view kDelta =
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
    "{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n";
constexpr std::string_view kMessageDelta =
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},"
    "\"usage\":{\"output_tokens\":15}}\n\n";
constexpr std::string_view kMessageStop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
constexpr std::string_view kOverloaded =
    "event: error\ndata: "
    "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Busy\"}}\n\n";

std::string join(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts)
    text += part;
  return text;
}

/// The service `model`, the handler under test, and what comes back from it.
class ModelHandlerTest : public testing::Test {
 protected:
  ModelHandlerTest() { sink_->adopt_thread(); }

  struct Ask {
    std::string_view body = R"({"model":"m","stream":true})";
    std::string_view model = "";
    std::string_view lane = "normal";
    bool stream = true;
    std::string meta = {};  ///< msgpack
  };
  std::vector<std::string> secrets_;  ///< of the calls
  static constexpr wire::Lease kLease{7, 2};

  std::shared_ptr<ModelHandler> handler(const ModelApi& api, const std::string& url,
                                        std::vector<std::string> headers = {}) {
    auto credentials = std::make_shared<CredentialBox>(
        HttpCredentials{.keyless = std::make_shared<const HttpHeaders>(headers, secrets_)});
    return std::make_shared<ModelHandler>(client_, api, HttpTarget{.url = url}, credentials, times_);
  }

  void start(ModelHandler& handler, const Ask& ask) {
    JobCall job;
    job.lease = kLease;
    job.service = "model";
    job.id = "job 1";
    job.lane = ask.lane;
    job.model = ask.model;
    job.body = Blob::copy(ask.body);
    job.stream = ask.stream;
    job.meta.bytes = ask.meta;
    job.answer_bytes_max = 2000;
    gate_ = ask.stream ? std::make_shared<StreamGate>() : nullptr;
    handler.start(job, Completion(sink_, kLease, gate_));
  }

  /// Takes in what has come; false when nothing comes for long.
  bool wait() {
    if (!turn_until_answered(*client_, *sink_)) return false;
    CompletionSink::HandedIn all;
    sink_->take(all);
    for (const StreamPiece& piece : all.pieces)
      pieces_.emplace_back(piece.body.bytes());
    for (FinishedJob& job : all.finished) {
      EXPECT_EQ(job.lease, kLease);
      outcome_ = std::move(job.outcome);
    }
    return true;
  }
  const JobOutcome& outcome() {
    while (!outcome_ && wait()) {
    }
    if (!outcome_) outcome_ = JobOutcome::failure({.code = "none"});
    return *outcome_;
  }
  /// The pieces so far, once there are so many bytes of them.
  std::string received(std::size_t bytes) {
    while (streamed().size() < bytes && wait()) {
    }
    return streamed();
  }
  std::string streamed() const {
    std::string all;
    for (const std::string& piece : pieces_)
      all += piece;
    return all;
  }

  JobOutcome::Report ask(const ModelApi& api, ScriptedUpstream::Script script) {
    return ask(api, std::move(script), Ask());
  }
  /// What is said of the one call, whose upstream is gone by then.
  JobOutcome::Report ask(const ModelApi& api, ScriptedUpstream::Script script, const Ask& what) {
    ScriptedUpstream upstream(std::move(script));
    const auto served = handler(api, upstream.url());
    start(*served, what);
    const JobOutcome& result = outcome();
    requests_ = upstream.requests();
    return result.report ? *result.report : JobOutcome::Report{};
  }
  JobOutcome::Report ask_events(const ModelApi& api, std::string events) {
    return ask(api, [events](const ScriptedUpstream::Connection& caller) {
      caller.begin_events();
      caller.send(events);
    });
  }

  /// The body of the only request.
  std::string sent_body() const {
    EXPECT_EQ(requests_.size(), 1u);
    return requests_.empty() ? "" : requests_[0].substr(requests_[0].find("\r\n\r\n") + 4);
  }

  LaneTimes times_;
  std::shared_ptr<CompletionSink> sink_ = std::make_shared<CompletionSink>();
  std::shared_ptr<HttpClient> client_ = std::make_shared<HttpClient>(HttpOptions{});
  std::shared_ptr<StreamGate> gate_;
  std::vector<std::string> pieces_;
  std::optional<JobOutcome> outcome_;
  std::vector<std::string> requests_;
};

/// `{"http": {...}}` with these texts, and headers.
std::string meta_of(const std::vector<std::pair<std::string, std::string>>& texts,
                    const std::vector<std::pair<std::string, std::string>>& headers = {}) {
  Buffer buffer;
  DocumentWriter writer(buffer);
  writer.map(1).text("http").map(texts.size() + 1);
  for (const auto& [name, value] : texts)
    writer.text(name).text(value);
  writer.text("headers").map(headers.size());
  for (const auto& [name, value] : headers)
    writer.text(name).text(value);
  return std::string(buffer.view());
}

TEST_F(ModelHandlerTest, an_answer_goes_back_whole) {
  const std::string answer = R"({"id":"c","usage":{"prompt_tokens":3,"completion_tokens":4}})";

  const JobOutcome::Report report = ask(
      kOpenaiApi,
      [&](const ScriptedUpstream::Connection& caller) {
        caller.answer("200 OK\r\nContent-Type: application/json\r\nx-ratelimit-limit-requests: 60", answer);
      },
      {.body = R"({"model":"m"})", .stream = false});

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(outcome_->body.bytes(), answer);
  EXPECT_EQ(report.usage->input_tokens, 3);
  EXPECT_EQ(report.limits->limit_requests, 60);
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_TRUE(requests_[0].starts_with("POST /chat/completions HTTP/1.1\r\n")) << requests_[0];
  EXPECT_NE(requests_[0].find("x-client-request-id: job%201\r\n"), std::string::npos);
  EXPECT_EQ(requests_[0].find("x-lanemq"), std::string::npos);
  EXPECT_EQ(requests_[0].find("anthropic-version"), std::string::npos);
  EXPECT_EQ(sent_body(), R"({"model":"m"})");
}

TEST_F(ModelHandlerTest, a_stream_goes_back_in_pieces_and_the_usage_stays_here) {
  const JobOutcome::Report report =
      ask_events(kOpenaiApi, join({": wait\n\n", kRole, kHello, kWorld, kStop, kUsage, kDoneEvent}));

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(outcome_->body.bytes(), "");
  EXPECT_EQ(streamed(), join({kRole, kHello, kWorld, kStop, kDoneEvent}));
  EXPECT_EQ(report.usage->requests, 1);
  EXPECT_EQ(report.usage->input_tokens, 9);
  EXPECT_EQ(report.usage->output_tokens, 4);
  EXPECT_EQ(report.usage->reasoning_tokens, 1);
  EXPECT_EQ(sent_body(), R"({"stream_options":{"include_usage":true},"model":"m","stream":true})");
}

TEST_F(ModelHandlerTest, an_answer_that_repeats_the_secret_does_not_give_it_away) {
  secrets_ = {"sk-12345678"};
  ask(kOpenaiApi,
      [&](const ScriptedUpstream::Connection& caller) {
        caller.answer("200 OK\r\nContent-Type: application/json", R"({"you":"Bearer sk-12345678","n":1.0})");
      },
      {.body = R"({"model":"m"})", .stream = false});
  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(outcome_->body.bytes(), R"({"you":"Bearer [secret]","n":1.0})");
}

TEST_F(ModelHandlerTest, nor_does_an_event) {
  secrets_ = {"\"content\":\"Hello"};
  ask_events(kOpenaiApi, join({kRole, kHello, kWorld, kStop, kDoneEvent}));
  std::string told(kHello);
  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(streamed(), join({kRole, told.replace(told.find("\"content\":\"Hello"), 16, "[secret]"), kWorld,
                              kStop, kDoneEvent}));
}

TEST_F(ModelHandlerTest, a_caller_that_asked_for_the_usage_gets_it) {
  const std::string body = R"({"model":"m","stream":true,"stream_options":{"include_usage":true}})";
  ask(kOpenaiApi,
      [](const ScriptedUpstream::Connection& caller) {
        caller.begin_events();
        caller.send(join({kHello, kUsage, kDoneEvent}));
      },
      {.body = body});

  EXPECT_EQ(streamed(), join({kHello, kUsage, kDoneEvent}));
  EXPECT_EQ(sent_body(), body);
}

TEST_F(ModelHandlerTest, what_the_upstream_is_told_is_the_jobs_model_and_no_tier) {
  ask(kOpenaiApi, [](const ScriptedUpstream::Connection& caller) { caller.answer("200 OK", "{}"); },
      {.body = R"({"model": "m@batch", "service_tier": "flex", "n":1.0})", .model = "m", .stream = false});

  EXPECT_EQ(sent_body(), R"({"model": "m", "n":1.0})");
}

TEST_F(ModelHandlerTest, a_stream_of_anthropic_goes_back_with_its_pings) {
  const JobOutcome::Report report = ask_events(
      kAnthropicApi,
      join({kMessageStart, kBlockStart, kPing, kDelta, kPing, kDelta, kMessageDelta, kMessageStop}));

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(streamed(),
            join({kMessageStart, kBlockStart, kPing, kDelta, kPing, kDelta, kMessageDelta, kMessageStop}));
  EXPECT_EQ(report.usage->input_tokens, 11);
  EXPECT_EQ(report.usage->cached_tokens, 5);
  EXPECT_EQ(report.usage->output_tokens, 15);
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_TRUE(requests_[0].starts_with("POST /v1/messages HTTP/1.1\r\n")) << requests_[0];
  EXPECT_NE(requests_[0].find("anthropic-version: 2023-06-01\r\n"), std::string::npos);
  EXPECT_EQ(sent_body(), R"({"model":"m","stream":true})");
}

TEST_F(ModelHandlerTest, what_is_read_again_streams_where_the_job_says_so) {
  const std::string events = join({"event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n"});
  const auto get = [&](ScriptedUpstream::Script script) {
    return ask(kOpenaiApi, std::move(script),
               {.body = "", .meta = meta_of({{"method", "GET"}, {"path", "/responses/r?stream=true"}})});
  };
  get([&](const ScriptedUpstream::Connection& caller) {
    caller.begin_events();
    caller.send(events);
  });
  EXPECT_EQ(streamed(), events);

  outcome_.reset();
  get([](const ScriptedUpstream::Connection& caller) { caller.answer("200 OK", "{}"); });
  EXPECT_EQ(outcome_->body.bytes(), "{}");
}

TEST_F(ModelHandlerTest, a_success_without_a_body_is_a_failure) {
  const auto answered = [&](std::string head) {
    outcome_.reset();
    ask(kOpenaiApi, [&](const ScriptedUpstream::Connection& caller) { caller.answer(head, ""); },
        {.body = R"({"model":"m"})", .stream = false});
  };
  answered("200 OK");
  ASSERT_FALSE(outcome_->succeeded());
  EXPECT_EQ(outcome_->report->code, "bad_reply");
  EXPECT_EQ(*outcome_->report->error_class, ErrorClass::retry);
}

TEST_F(ModelHandlerTest, what_is_compressed_unasked_is_read) {
  // gzip of "{}"
  const std::string gzip(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00", 22);
  ask(kOpenaiApi,
      [&](const ScriptedUpstream::Connection& caller) {
        caller.answer("200 OK\r\nContent-Encoding: gzip\r\nContent-Type: application/json", gzip);
      },
      {.body = R"({"model":"m"})", .stream = false});

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(outcome_->body.bytes(), "{}");
}

TEST_F(ModelHandlerTest, an_error_that_is_too_long_becomes_json_that_is_whole) {
  const std::string error = R"({"error":{"message":")" + std::string(3'000, 'x') + "\"}}";
  ask(kOpenaiApi,
      [&](const ScriptedUpstream::Connection& caller) {
        caller.answer("400 Bad Request\r\nContent-Type: application/json", error);
      },
      {.body = R"({"model":"m"})", .stream = false});

  ASSERT_FALSE(outcome_->succeeded());
  const std::string_view body = outcome_->body.bytes();
  EXPECT_TRUE(body.starts_with(R"({"type":"error","error":{)")) << body;
  EXPECT_TRUE(body.ends_with("}}")) << body;
  EXPECT_NE(body.find("left out"), std::string_view::npos);
}

TEST_F(ModelHandlerTest, an_opening_waits_for_the_first_content_and_goes_with_it) {
  std::promise<void> go_on;
  ScriptedUpstream upstream([&](const ScriptedUpstream::Connection& caller) {
    caller.begin_events();
    caller.send(join({kMessageStart, kBlockStart, kPing}));
    go_on.get_future().wait();
    caller.send(kDelta);
    caller.wait_for_end();
  });
  const auto served = handler(kAnthropicApi, upstream.url());
  start(*served, {});

  EXPECT_FALSE(turn_until_answered(*client_, *sink_, milliseconds(50)))
      << "nothing is to come before there is content";
  go_on.set_value();

  EXPECT_EQ(received(1), join({kMessageStart, kBlockStart, kPing, kDelta}));
  EXPECT_EQ(pieces_.size(), 1u);
  served->cancel(kLease);
  EXPECT_EQ(outcome().report->code, "cancelled");
  EXPECT_EQ(outcome().report->usage->input_tokens, 11);
  EXPECT_GE(outcome().report->usage->output_tokens.value_or(0), 1) << "by what came of it";
  EXPECT_LE(outcome().report->usage->output_tokens.value_or(100), 10);
}

TEST_F(ModelHandlerTest, a_tools_name_is_content) {
  const std::string tool =
      "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":"
      "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"look\",\"input\":{}}}\n\n";

  EXPECT_EQ(ask_events(kAnthropicApi, join({kMessageStart, tool})).code, "stream_broken");

  EXPECT_EQ(streamed(), join({kMessageStart, tool}));
}

TEST_F(ModelHandlerTest, a_stream_without_its_end_is_broken) {
  const JobOutcome::Report report = ask_events(kOpenaiApi, join({kRole, kHello, "data: {\"choi"}));

  EXPECT_EQ(report.error_class, ErrorClass::retry);
  EXPECT_EQ(report.code, "stream_broken");
  EXPECT_EQ(report.upstream_status, std::nullopt);
  EXPECT_EQ(streamed(), join({kRole, kHello})) << "whole events only";
}

TEST_F(ModelHandlerTest, a_stream_whose_choices_have_all_ended_is_whole_without_its_last_event) {
  const auto sent_whole = [&](std::string body) {
    outcome_.reset();
    pieces_.clear();
    ask(kOpenaiApi, [body](const ScriptedUpstream::Connection& caller) {
      caller.answer("200 OK\r\nContent-Type: text/event-stream", body);
    });
    return outcome_->succeeded();
  };
  EXPECT_TRUE(sent_whole(join({kRole, kHello, kStop})));
  EXPECT_EQ(streamed(), join({kRole, kHello, kStop, kDoneEvent}));
  EXPECT_TRUE(sent_whole(join({kHello, kStop.substr(0, kStop.size() - 2)}))) << "without its blank line";
  EXPECT_EQ(streamed(), join({kHello, kStop, kDoneEvent}));

  const std::string_view second = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"}}]}\n\n";
  EXPECT_FALSE(sent_whole(join({kHello, second, kStop}))) << "a choice is open";
  EXPECT_EQ(outcome_->report->code, "stream_broken");
  EXPECT_FALSE(sent_whole(join({kHello, kUsage}))) << "no choice ended";
}

TEST_F(ModelHandlerTest, a_stream_that_may_have_been_cut_needs_its_last_event) {
  // The connection's end is the stream's end: nobody knows whether a part is missing.
  EXPECT_EQ(ask_events(kOpenaiApi, join({kHello, kStop})).code, "stream_broken");
}

TEST_F(ModelHandlerTest, a_success_that_is_an_error_is_the_failure_that_it_says) {
  const auto answered = [&](const ModelApi& api, std::string body, bool stream) {
    outcome_.reset();
    ask(api,
        [body](const ScriptedUpstream::Connection& caller) {
          caller.answer("200 OK\r\nContent-Type: application/json", body);
        },
        {.body = stream ? R"({"model":"m","stream":true})" : R"({"model":"m"})", .stream = stream});
    return outcome_->succeeded() ? std::string("done")
                                 : std::string(name_of(*outcome_->report->error_class)) + " " +
                                       std::to_string(outcome_->report->upstream_status.value_or(0));
  };
  for (const bool stream : {false, true}) {
    EXPECT_EQ(answered(kOpenaiApi, R"({"error":{"message":"Provider returned error","code":503}})", stream),
              "overloaded 503");
    EXPECT_EQ(outcome_->body.bytes(), R"({"error":{"message":"Provider returned error","code":503}})");
    EXPECT_EQ(answered(kAnthropicApi, R"({"type":"error","error":{"type":"overloaded_error"}})", stream),
              "overloaded 529");
    EXPECT_EQ(answered(kOpenaiApi, R"({"error":{"code":"rate_limit_exceeded"},"user_id":"u"})", stream),
              "limited 429");
    EXPECT_EQ(answered(kOpenaiApi, R"({"error":"the model crashed"})", stream), "retry 500");
  }
  EXPECT_EQ(answered(kOpenaiApi, R"([{"error":{"code":400,"status":"INVALID_ARGUMENT"}}])", false),
            "permanent 400");

  EXPECT_EQ(answered(kOpenaiApi, R"({"object":"response","error":null,"output":[]})", false), "done");
  EXPECT_EQ(answered(kOpenaiApi, R"({"error":{"code":"server_error"},"output":[]})", false), "done");
  EXPECT_EQ(answered(kOpenaiApi, R"({"choices":[{"text":"x"}],"error":{"code":"x"}})", false), "done");
  EXPECT_EQ(answered(kOpenaiApi, R"({"data":[],"error":{}})", false), "done");
  EXPECT_EQ(answered(kOpenaiApi, R"({"error":{}})", false), "done");
  EXPECT_EQ(answered(kOpenaiApi, R"({"x":{"error":{"code":503}}})", false), "done");
}

TEST_F(ModelHandlerTest, a_stream_that_breaks_before_content_leaves_nothing_behind) {
  EXPECT_EQ(ask_events(kOpenaiApi, std::string(kRole)).code, "stream_broken");
  EXPECT_TRUE(pieces_.empty());
}

TEST_F(ModelHandlerTest, a_last_event_without_its_blank_line_is_one) {
  ask_events(kOpenaiApi, join({kHello, "data: [DONE]"}));

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(streamed(), join({kHello, "data: [DONE]"}));
}

TEST_F(ModelHandlerTest, an_error_event_before_content_is_an_ordinary_failure) {
  const JobOutcome::Report report = ask_events(kAnthropicApi, join({kMessageStart, kPing, kOverloaded}));

  EXPECT_EQ(report.error_class, ErrorClass::overloaded);
  EXPECT_EQ(report.upstream_status, 529);
  EXPECT_EQ(outcome_->body.bytes(),
            R"({"type":"error","error":{"type":"overloaded_error","message":"Busy"}})");
  EXPECT_TRUE(pieces_.empty());
}

TEST_F(ModelHandlerTest, an_error_event_after_content_ends_the_stream) {
  const JobOutcome::Report report =
      ask_events(kAnthropicApi, join({kMessageStart, kDelta, kOverloaded, kMessageStop}));

  EXPECT_EQ(report.error_class, ErrorClass::overloaded);
  EXPECT_EQ(streamed(), join({kMessageStart, kDelta}));
  EXPECT_EQ(report.usage->input_tokens, 11);
}

TEST_F(ModelHandlerTest, an_error_of_openai_inside_a_stream_is_classed_by_its_code) {
  const JobOutcome::Report report =
      ask_events(kOpenaiApi,
                 "data: {\"error\":{\"message\":\"Please try again in 2s.\",\"type\":\"requests\",\"code\":"
                 "\"rate_limit_exceeded\"}}\n\n");

  EXPECT_EQ(report.error_class, ErrorClass::limited);
  EXPECT_EQ(report.upstream_status, 429);
  EXPECT_EQ(report.retry_after, milliseconds(2000));
}

TEST_F(ModelHandlerTest, responses_have_events_with_types) {
  const std::string created =
      "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{}}\n\n";
  const std::string delta =
      "event: response.output_text.delta\ndata: "
      "{\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n";
  const std::string completed =
      "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":"
      "{\"input_tokens\":2,\"input_tokens_details\":{\"cached_tokens\":1},\"output_tokens\":3}}}\n\n";

  const JobOutcome::Report report = ask_events(kOpenaiApi, created + delta + completed);

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(streamed(), created + delta + completed);
  EXPECT_EQ(report.usage->input_tokens, 2);
  EXPECT_EQ(report.usage->cached_tokens, 1);
  EXPECT_EQ(report.usage->output_tokens, 3);
}

TEST_F(ModelHandlerTest, a_failed_response_says_why) {
  const JobOutcome::Report report = ask_events(
      kOpenaiApi,
      "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":"
      "\"Oh\"}}}\n\n");

  EXPECT_EQ(report.error_class, ErrorClass::retry);
  EXPECT_EQ(report.upstream_status, 500);
}

TEST_F(ModelHandlerTest, what_is_no_json_goes_on_as_it_is) {
  ask_events(kOpenaiApi, join({"data: {\"choices\":[{\n\n", kDoneEvent}));

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(streamed(), join({"data: {\"choices\":[{\n\n", kDoneEvent}));
}

TEST_F(ModelHandlerTest, an_event_may_not_be_endless) {
  const JobOutcome::Report report =
      ask_events(kOpenaiApi, "data: " + std::string(SseParser::kEventBytesMax, 'x'));

  EXPECT_EQ(report.error_class, ErrorClass::permanent);
  EXPECT_EQ(report.code, "event_too_large");
}

TEST_F(ModelHandlerTest, a_stream_that_nobody_reads_in_pieces_is_the_answer) {
  ask(kOpenaiApi,
      [](const ScriptedUpstream::Connection& caller) {
        caller.begin_events();
        caller.send(join({kRole, kHello, kUsage, kDoneEvent}));
      },
      {.stream = false});

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(outcome_->body.bytes(), join({kRole, kHello, kDoneEvent}));
  EXPECT_EQ(outcome_->report->usage->output_tokens, 4);
}

TEST_F(ModelHandlerTest, an_answer_in_one_piece_is_none_in_pieces) {
  ask(kOpenaiApi, [](const ScriptedUpstream::Connection& caller) {
    caller.answer("200 OK\r\nContent-Type: application/json", R"({"usage":{"prompt_tokens":3}})");
  });

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(outcome_->body.bytes(), R"({"usage":{"prompt_tokens":3}})");
  EXPECT_TRUE(pieces_.empty());
}

TEST_F(ModelHandlerTest, a_refusal_carries_status_body_and_limits) {
  const JobOutcome::Report report = ask(kAnthropicApi, [](const ScriptedUpstream::Connection& caller) {
    caller.answer(
        "429 No\r\nContent-Type: application/json\r\nretry-after: 3\r\n"
        "anthropic-ratelimit-requests-limit: 50",
        R"({"type":"error","error":{"type":"rate_limit_error","message":"slow"}})");
  });

  EXPECT_EQ(report.error_class, ErrorClass::limited);
  EXPECT_EQ(report.upstream_status, 429);
  EXPECT_EQ(report.retry_after, milliseconds(3000));
  EXPECT_EQ(report.limits->limit_requests, 50);
  EXPECT_EQ(outcome_->body.bytes(),
            R"({"type":"error","error":{"type":"rate_limit_error","message":"slow"}})");
}

TEST_F(ModelHandlerTest, the_first_token_has_its_time) {
  times_.at("critical").first_token = milliseconds(40);
  const JobOutcome::Report report = ask(kAnthropicApi,
                                        [](const ScriptedUpstream::Connection& caller) {
                                          caller.begin_events();
                                          caller.send(join({kMessageStart, kPing}));
                                          caller.wait_for_end();
                                        },
                                        {.lane = "critical"});

  EXPECT_EQ(report.code, "timeout_first_token");
  EXPECT_EQ(report.error_class, ErrorClass::retry);
  EXPECT_TRUE(pieces_.empty());
}

TEST_F(ModelHandlerTest, so_has_the_next_one) {
  times_.at("normal").between_tokens = milliseconds(40);
  const JobOutcome::Report report = ask(kOpenaiApi, [](const ScriptedUpstream::Connection& caller) {
    caller.begin_events();
    caller.send(kHello);
    caller.wait_for_end();
  });

  EXPECT_EQ(report.code, "timeout_between_tokens");
  EXPECT_EQ(streamed(), kHello);
}

TEST_F(ModelHandlerTest, an_answer_in_one_piece_has_the_whole_time) {
  times_.at("normal").first_token = milliseconds(40);
  std::promise<void> go_on;
  ScriptedUpstream upstream([&](const ScriptedUpstream::Connection& caller) {
    caller.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{");
    go_on.get_future().wait();
    caller.send("}");
  });
  const auto served = handler(kOpenaiApi, upstream.url());
  start(*served, {});

  EXPECT_FALSE(turn_until_answered(*client_, *sink_, milliseconds(80)));
  go_on.set_value();

  EXPECT_TRUE(outcome().succeeded());
}

TEST_F(ModelHandlerTest, a_stream_ends_with_its_total_time) {
  times_.at("normal").total = milliseconds(500);
  const JobOutcome::Report report = ask(kOpenaiApi, [](const ScriptedUpstream::Connection& caller) {
    caller.begin_events();
    caller.send(kHello);
    caller.wait_for_end();
  });

  EXPECT_EQ(report.code, "timeout");
}

TEST_F(ModelHandlerTest, an_upstream_that_has_said_all_need_not_hang_up) {
  ask(kOpenaiApi, [](const ScriptedUpstream::Connection& caller) {
    caller.begin_events();
    caller.send(join({kHello, kDoneEvent}));
    caller.wait_for_end();
  });

  EXPECT_TRUE(outcome_->succeeded());
}

TEST_F(ModelHandlerTest, a_reader_that_is_behind_holds_up_the_upstream) {
  const std::string event =
      "data: {\"choices\":[{\"delta\":{\"content\":\"" + std::string(8000, 'x') + "\"}}]}\n\n";
  constexpr int kEvents = 4000;  // 32 MB: more than all buffers on the way can take
  std::promise<void> all_sent;
  std::future<void> sent = all_sent.get_future();
  ScriptedUpstream upstream([&](const ScriptedUpstream::Connection& caller) {
    caller.begin_events();
    for (int i = 0; i < kEvents; ++i)
      caller.send(event);
    caller.send(kDoneEvent);
    all_sent.set_value();
  });
  const auto served = handler(kOpenaiApi, upstream.url());
  start(*served, {});
  while (gate_->verdict() != StreamGate::Verdict::wait) {
    ASSERT_TRUE(wait());
  }
  EXPECT_FALSE(turn_until_answered(*client_, *sink_, milliseconds(100)));
  EXPECT_EQ(sent.wait_for(milliseconds(0)), std::future_status::timeout) << "it waits for its reader";

  std::size_t taken_bytes = 0, taken = 0, most_waiting = 0;
  while (!outcome_) {
    std::size_t bytes = 0;
    const std::size_t chunks = pieces_.size() - taken;
    for (; taken < pieces_.size(); ++taken)
      bytes += pieces_[taken].size();
    taken_bytes += bytes;
    most_waiting = std::max(most_waiting, bytes);
    if (gate_->taken(chunks, bytes)) served->resume(kLease);
    ASSERT_TRUE(wait());
  }

  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(streamed().size(), kEvents * event.size() + kDoneEvent.size());
  EXPECT_LT(most_waiting, 2 * limits::stream_bytes_max);
}

TEST_F(ModelHandlerTest, time_in_which_the_reader_is_behind_does_not_count) {
  // More than a busy machine may hold up what is on its way.
  times_.at("normal").between_tokens = milliseconds(3000);
  const std::string event = "data: {\"choices\":[{\"delta\":{\"content\":\"" +
                            std::string(limits::stream_bytes_max, 'x') + "\"}}]}\n\n";
  std::promise<void> go_on;
  ScriptedUpstream upstream([&](const ScriptedUpstream::Connection& caller) {
    caller.begin_events();
    caller.send(event);
    go_on.get_future().wait();
    caller.send(join({kHello, kDoneEvent}));
  });
  const auto served = handler(kOpenaiApi, upstream.url());
  start(*served, {});
  EXPECT_EQ(received(event.size()).size(), event.size());
  go_on.set_value();

  EXPECT_FALSE(turn_until_answered(*client_, *sink_, milliseconds(3500)));
  EXPECT_TRUE(gate_->taken(1, event.size()));
  served->resume(kLease);

  EXPECT_TRUE(outcome().succeeded());
  EXPECT_EQ(streamed(), join({event, kHello, kDoneEvent}));
}

TEST_F(ModelHandlerTest, a_cancelled_stream_hangs_up_at_once) {
  // No timeout ends it.
  times_.at("normal").between_tokens = std::chrono::hours(1);
  times_.at("normal").total = std::chrono::hours(1);
  std::promise<void> hung_up;
  ScriptedUpstream upstream([&](const ScriptedUpstream::Connection& caller) {
    caller.begin_events();
    caller.send(kHello);
    caller.wait_for_end();
    hung_up.set_value();
  });
  const auto served = handler(kOpenaiApi, upstream.url());
  start(*served, {});
  ASSERT_EQ(received(1), kHello);

  served->cancel(kLease);

  hung_up.get_future().wait();
  EXPECT_EQ(outcome().report->code, "cancelled");
  ASSERT_TRUE(outcome().report->usage);
  EXPECT_EQ(outcome().report->usage->requests, 1);
  const std::int64_t written = outcome().report->usage->output_tokens.value_or(-1);
  EXPECT_GE(written, 1) << "what came of it is reckoned";
  EXPECT_LE(written, 10);
}

TEST_F(ModelHandlerTest, the_meta_says_which_call_it_is) {
  ask(kOpenaiApi, [](const ScriptedUpstream::Connection& caller) { caller.answer("200 OK", "{}"); },
      {.body = "",
       .stream = false,
       .meta = meta_of({{"method", "GET"}, {"path", "/models?limit=2"}},
                       {{"openai-beta", "a=1"}, {"x-stainless-lang", "js"}, {"authorization", "Bearer x"}})});

  EXPECT_TRUE(outcome_->succeeded());
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_TRUE(requests_[0].starts_with("GET /models?limit=2 HTTP/1.1\r\n")) << requests_[0];
  EXPECT_NE(requests_[0].find("openai-beta: a=1\r\n"), std::string::npos);
  EXPECT_EQ(requests_[0].find("x-stainless"), std::string::npos);
  EXPECT_EQ(requests_[0].find("Bearer"), std::string::npos);
}

TEST_F(ModelHandlerTest, an_api_may_have_the_model_and_the_stream_in_its_path) {
  ModelApi api = kOpenaiApi;
  api.path = [](std::string asked, std::string_view model) {
    return "/models/" + std::string(model) + asked.substr(asked.find(':'));
  };
  api.streams = [](std::string_view path) { return path.ends_with(":stream"); };
  const std::string events = join({kHello, kStop, kDoneEvent});

  ask(api,
      [&](const ScriptedUpstream::Connection& caller) {
        caller.answer("200 OK\r\nContent-Type: text/event-stream", events);
      },
      {.body = "{}", .model = "m2", .meta = meta_of({{"path", "/models/m1:stream"}}, {})});

  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_TRUE(requests_[0].starts_with("POST /models/m2:stream HTTP/1.1\r\n")) << requests_[0];
  EXPECT_EQ(streamed(), events);
}

TEST_F(ModelHandlerTest, what_no_model_reads_or_writes_takes_no_tokens) {
  const std::string answer = R"({"usage":{"input_tokens":900,"output_tokens":1000}})";
  const auto say = [&](const ScriptedUpstream::Connection& caller) { caller.answer("200 OK", answer); };
  for (const auto& [method, path] : {std::pair{"GET", "/responses/r1"}, std::pair{"DELETE", "/responses/r1"},
                                     std::pair{"POST", "/messages/count_tokens?beta=true"}}) {
    outcome_.reset();
    ask(kOpenaiApi, say, {.stream = false, .meta = meta_of({{"method", method}, {"path", path}}, {})});
    ASSERT_TRUE(outcome_->succeeded()) << path;
    EXPECT_EQ(outcome_->report->usage->requests, 1);
    EXPECT_EQ(outcome_->report->usage->input_tokens, 0) << path;
    EXPECT_EQ(outcome_->report->usage->output_tokens, 0) << path;
  }
}

TEST_F(ModelHandlerTest, the_meta_may_say_another_version) {
  ask(kAnthropicApi, [](const ScriptedUpstream::Connection& caller) { caller.answer("200 OK", "{}"); },
      {.stream = false, .meta = meta_of({}, {{"anthropic-version", "2024-10-22"}, {"anthropic-beta", "b"}})});

  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_NE(requests_[0].find("anthropic-version: 2024-10-22\r\n"), std::string::npos);
  EXPECT_NE(requests_[0].find("anthropic-beta: b\r\n"), std::string::npos);
  EXPECT_EQ(requests_[0].find("2023-06-01"), std::string::npos);
}

TEST_F(ModelHandlerTest, the_operators_headers_win) {
  ScriptedUpstream upstream(
      [](const ScriptedUpstream::Connection& caller) { caller.answer("200 OK", "{}"); });
  const auto served = handler(kAnthropicApi, upstream.url() + "/", {"Anthropic-Version: 1", "x-api-key: k"});

  start(*served, {.stream = false, .meta = meta_of({}, {{"anthropic-version", "2"}})});

  EXPECT_TRUE(outcome().succeeded());
  const std::string request = upstream.requests().at(0);
  EXPECT_TRUE(request.starts_with("POST /v1/messages HTTP/1.1\r\n")) << request;
  EXPECT_NE(request.find("Anthropic-Version: 1\r\n"), std::string::npos);
  EXPECT_NE(request.find("x-api-key: k\r\n"), std::string::npos);
  EXPECT_EQ(request.find("anthropic-version"), std::string::npos);
}

TEST_F(ModelHandlerTest, a_tier_may_be_forwarded) {
  const std::string body = R"({"model":"m","service_tier":"flex"})";
  ask(kOpenaiApi, [](const ScriptedUpstream::Connection& caller) { caller.answer("200 OK", "{}"); },
      {.body = body, .stream = false, .meta = meta_of({{"service_tier", "forward"}})});

  EXPECT_EQ(sent_body(), body);
}

TEST_F(ModelHandlerTest, a_meta_that_leads_elsewhere_is_refused) {
  const auto served = handler(kOpenaiApi, "http://127.0.0.1:9");
  for (const char* const path : {"models", "/../admin", "/a/%2E./b", "/a b", "/a#b", "/a\r\nX: y", "/a/."}) {
    outcome_.reset();
    start(*served, {.stream = false, .meta = meta_of({{"path", path}})});
    EXPECT_EQ(outcome().report->code, "bad_meta") << path;
    EXPECT_EQ(outcome().report->error_class, ErrorClass::permanent);
    EXPECT_EQ(outcome().report->usage->requests, 0);
  }
  outcome_.reset();
  start(*served, {.stream = false, .meta = meta_of({{"method", "PUT"}})});
  EXPECT_EQ(outcome().report->code, "bad_meta");
  outcome_.reset();
  start(*served, {.stream = false, .meta = meta_of({}, {{"anthropic-beta", "a\r\nb: c"}})});
  EXPECT_EQ(outcome().report->code, "bad_meta");
}

}  // namespace
}  // namespace lanemq::worker
