// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lanemq/codec.hpp>

#include "tests/costs/chat.hpp"
#include "tests/costs/paths.hpp"
#include "tests/costs/uncounted.hpp"
#include "worker/handlers/http/http_headers.hpp"
#include "worker/handlers/http/upstream_body.hpp"
#include "worker/handlers/http/upstream_headers.hpp"
#include "worker/handlers/model/call_meta.hpp"
#include "worker/handlers/model/event_answer.hpp"
#include "worker/handlers/model/request_body.hpp"
#include "worker/handlers/openai/openai_api.hpp"
#include "worker/session/completion.hpp"
#include "worker/session/session.hpp"

namespace lanemq::costs {
namespace {

using namespace worker;

constexpr int kTimes = 100, kEvents = 32, kEventsInARead = 4;

/// Headers of OpenAI's answers.
constexpr std::string_view kHeaders[] = {"HTTP/1.1 200 OK\r\n",
                                         "date: Tue, 14 Nov 2023 22:13:20 GMT\r\n",
                                         "transfer-encoding: chunked\r\n",
                                         "connection: keep-alive\r\n",
                                         "openai-organization: example\r\n",
                                         "openai-processing-ms: 412\r\n",
                                         "openai-version: 2020-10-01\r\n",
                                         "x-ratelimit-limit-requests: 10000\r\n",
                                         "x-ratelimit-limit-tokens: 2000000\r\n",
                                         "x-ratelimit-remaining-requests: 9999\r\n",
                                         "x-ratelimit-remaining-tokens: 1999443\r\n",
                                         "x-ratelimit-reset-requests: 6ms\r\n",
                                         "x-ratelimit-reset-tokens: 17ms\r\n",
                                         "x-request-id: req_0123456789abcdef\r\n"};
/// The stream as the system hands it over: several events a read.
std::vector<std::string> reads_of_stream() {
  std::vector<std::string> reads;
  for (int i = 0; i < kEvents; ++i) {
    if (i % kEventsInARead == 0) reads.emplace_back();
    reads.back() += chat_word();
  }
  reads.push_back(
      chat_event(R"("choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})") +
      chat_event(R"("choices":[],"usage":{"prompt_tokens":420,"completion_tokens":32,"total_tokens":452}})") +
      "data: [DONE]\n\n");
  return reads;
}

/// A worker without sockets: its session, and what its handler for models does beside libcurl.
class StillWorker {
 public:
  explicit StillWorker(bool stream) : body_(chat_request("a-name-for-callers", stream)), stream_(stream) {
    session_.connected(now_);
    hear(wire::Welcome{.session = "s1", .heartbeat_ms = 1000, .body_bytes_max = 1 << 26, .batch = 16});
    send();
  }

  /// From the offer's bytes to the broker's word that it has the outcome.
  void work() {
    ++job_;
    now_ += std::chrono::microseconds(100);
    wire::JobOffer offer{.job = job_,
                         .id = "01J8Z3K5Q2W7N4R6T8V0X2Y4Z6",
                         .service = "openai",
                         .lane = "high",
                         .model = "gpt-4o-mini",
                         .client = "team-a",
                         .stream = stream_,
                         .meta = {kChatMeta}};
    hear(offer, body_);
    const auto* const start = effects_.empty() ? nullptr : std::get_if<StartJob>(&effects_.front());
    if (!start) std::abort();
    call(std::get<wire::JobOffer>(command_), decoder_.body(), Completion(sink_, start->lease, start->gate));
    send();
    hear(wire::Acked{{{job_, 1}}});
    if (session_.running() != 0 || session_.outcomes() != 0) std::abort();
  }

 private:
  /// As ModelHandler makes one, and HttpClient's engine ends it.
  void call(const wire::JobOffer& job, std::string_view body, Completion done) {
    const CallMeta meta = read_call_meta(job.meta);
    const RequestBody edited = edit_request(
        body,
        {.model = job.model, .drop_service_tier = true, .ask_usage = kOpenaiApi.has_usage_option(meta.path)});
    if (!meta.problem.empty() || edited.streams != stream_) std::abort();
    UpstreamHeaders headers;
    for (const std::string_view line : kHeaders)
      headers.add_line(line, WallTime{});
    headers.add_line(
        stream_ ? "content-type: text/event-stream; charset=utf-8\r\n" : "content-type: application/json\r\n",
        WallTime{});
    if (!stream_) {
      BodyFacts facts = read_body(kChatAnswer);
      if (headers_->betrayed_by(kChatAnswer) || !facts.usage) std::abort();
      done.success(Blob::copy(kChatAnswer), facts.usage, headers.limits());
      return hand_in();
    }
    EventAnswer answer(kOpenaiApi, {.in_pieces = true,
                                    .strips_usage = edited.usage_added,
                                    .answer_bytes_max = 1 << 26,
                                    .headers = headers_});
    if (!answer.reads(headers)) std::abort();
    for (const std::string& read : reads_) {
      answer.take(read);
      if (!answer.pass_on(done)) std::abort();
      hand_in();
      send();
      if (chunks_ > 0) hear(wire::Window{job_, 1, static_cast<std::int64_t>(chunks_) - 1});
    }
    chunks_ = 0;
    AnswerOutcome outcome = answer.outcome({});
    if (outcome.failure) std::abort();
    done.success(std::move(outcome.body), outcome.usage, headers.limits());
    hand_in();
  }

  /// As the worker's loop: what handlers have handed in goes to the session.
  void hand_in() {
    sink_->take(handed_in_);
    for (StreamPiece& piece : handed_in_.pieces)
      session_.chunk(std::move(piece), now_, effects_);
    chunks_ += handed_in_.pieces.size();
    for (FinishedJob& job : handed_in_.finished)
      session_.finish(job.lease, std::move(job.outcome), now_, effects_);
    handed_in_ = {};
  }

  void send() {
    session_.advance(now_, effects_);
    for (Outbox& outbox = session_.outbox(); !outbox.empty(); outbox.pop())
      if (outbox.front().header.empty()) std::abort();
  }

  template <class Message>
  void hear(const Message& message, std::string_view body = {}) {
    {
      const Uncounted uncounted;
      frame_.clear();
      body.empty() ? encode(message, frame_) : encode(message, body, frame_);
    }
    effects_.clear();
    if (decoder_.decode(frame_.view(), command_) != nullptr) std::abort();
    session_.receive(command_, now_, effects_);
  }

  const std::string body_;
  const bool stream_;
  const std::vector<std::string> reads_ = reads_of_stream();
  const std::shared_ptr<const HttpHeaders> headers_ = std::make_shared<const HttpHeaders>(
      std::vector<std::string>{"authorization: Bearer sk-0123456789abcdef"},
      std::vector<std::string>{"sk-0123456789abcdef"});
  TimePoint now_{std::chrono::hours(1)};
  worker::Session session_{
      {.services = {"openai"}, .lanes = {}, .name = "w1", .version = "0", .capacity = 16}};
  std::shared_ptr<CompletionSink> sink_ = std::make_shared<CompletionSink>();
  CompletionSink::HandedIn handed_in_;
  Decoder decoder_;
  wire::WorkerCommand command_;
  Buffer frame_;
  Effects effects_;
  std::uint64_t job_ = 0;
  std::size_t chunks_ = 0;
};

}  // namespace

std::vector<Path> worker_paths() {
  const auto path = [](bool stream) {
    return [stream]() -> std::function<void()> {
      auto worker = std::make_shared<StillWorker>(stream);
      return [worker] { worker->work(); };
    };
  };
  return {{"worker: a chat", kTimes, path(false)},
          {"worker: a chat that is streamed in 32 events", kTimes, path(true)}};
}

}  // namespace lanemq::costs
