// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/codec.hpp>
#include <lanemq/loop_client.hpp>

#include "client/gateway/door/gateway.hpp"
#include "client/gateway/routes/job_routes.hpp"
#include "common/http/request_reader.hpp"
#include "common/http/server/access/secret.hpp"
#include "common/http/server/bodies/body_buffer.hpp"
#include "common/http/server/router.hpp"
#include "tests/costs/chat.hpp"
#include "tests/costs/paths.hpp"
#include "tests/costs/still_client.hpp"
#include "tests/costs/uncounted.hpp"

namespace lanemq::costs {
namespace {

using namespace gateway;

constexpr int kTimes = 100, kPieces = 32;
constexpr std::string_view kSecret = "sk-lanemq-0123456789abcdef";

/// Runs what is asked of it at once, and has timers that are never due.
class StillLoop final : public Loop {
 public:
  void post(std::function<void()> work) override { work(); }
  std::unique_ptr<Timer> timer() override { return std::make_unique<StillTimer>(); }
  std::unique_ptr<Watch> watch(int, std::function<void()>) override { std::abort(); }
  void aside(Side, std::function<void()> work, std::function<void()> then) override {
    work();
    then();
  }
  TimePoint now() const override { return std::chrono::steady_clock::now(); }

 private:
  class StillTimer final : public Timer {
   public:
    void after(std::chrono::milliseconds, std::function<void()> then) override { then_ = std::move(then); }
    void cancel() override { then_ = {}; }

   private:
    std::function<void()> then_;
  };
};

/// A caller who reads everything at once.
class StillResponder final : public http::Responder {
 public:
  explicit StillResponder(bool& over) : over_(over) {}
  void answer(HttpAnswer answer) override { over_ = answer.status == 200; }
  void begin(int, Headers) override {}
  void write(Blob, std::function<void()> written) override {
    if (written) written();
  }
  void end() override { over_ = true; }
  void cut() override {}
  void on_gone(std::function<void()> gone) override { gone_ = std::move(gone); }
  bool gone() const override { return false; }
  bool has_hung_up() override { return false; }

 private:
  bool& over_;
  std::function<void()> gone_;
};

/// A chat as OpenAI's SDK for Python sends it.
std::string request_text(bool stream) {
  const std::string body = chat_request("gpt-4o-mini", stream);
  return "POST /v1/chat/completions HTTP/1.1\r\n"
         "host: gateway.example:8080\r\n"
         "accept-encoding: gzip, deflate\r\n"
         "connection: keep-alive\r\n"
         "accept: application/json\r\n"
         "content-type: application/json\r\n"
         "user-agent: OpenAI/Python 1.50.2\r\n"
         "x-stainless-lang: python\r\n"
         "x-stainless-package-version: 1.50.2\r\n"
         "x-stainless-os: Linux\r\n"
         "x-stainless-arch: x64\r\n"
         "x-stainless-runtime: CPython\r\n"
         "x-stainless-runtime-version: 3.11.2\r\n"
         "x-stainless-async: false\r\n"
         "x-stainless-retry-count: 0\r\n"
         "authorization: Bearer " +
         std::string(kSecret) + "\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// A gateway without sockets: its reader of requests, its routes and its client's session.
class StillGateway {
 public:
  StillGateway() {
    routes_.add_to(router_);
    // What the client sends is kept here until the broker answers it.
    still_wire().sent = [this](std::string_view header, const Blob*) {
      const Uncounted uncounted;
      wire::ClientRequest request;
      decoder_.decode(header, request);
      if (const auto* submit = std::get_if<wire::Submit>(&request)) {
        id_ = submit->id;
        ref_ = submit->ref.bytes;
      }
    };
  }
  ~StillGateway() { still_wire() = {}; }
  StillGateway(const StillGateway&) = delete;
  StillGateway& operator=(const StillGateway&) = delete;

  /// From the bytes of a request to the answer's last. `pieces`: of the stream that is asked for.
  void chat(std::string_view bytes, int pieces) {
    over_ = false;
    read(bytes);
    still_wire().process();
    hear(wire::Accepted{.id = id_, .lane = "normal", .ref = {ref_}});
    for (int i = 0; i < pieces; ++i)
      hear(wire::ChunkReply{.id = id_, .seq = i, .lane = "normal", .queued_ms = 3, .ref = {ref_}}, word_);
    hear(wire::JobResult{.id = id_,
                         .lane = "normal",
                         .queued_ms = 3,
                         .ran_ms = 900,
                         .usage = wire::Usage{.requests = 1, .input_tokens = 420, .output_tokens = 17},
                         .chunks = pieces,
                         .ref = {ref_}},
         pieces == 0 ? kChatAnswer : std::string_view("data: [DONE]\n\n"));
    still_wire().process();
    if (!over_) std::abort();
  }

 private:
  /// As the server's connection does.
  void read(std::string_view bytes) {
    using Event = http::RequestReader::Event;
    HttpRequest request;
    http::BodyBuffer body;
    const Route* route = nullptr;
    for (;;) {
      const http::RequestReader::Taken taken = reader_.take(bytes);
      bytes.remove_prefix(taken.bytes);
      switch (taken.event) {
        case Event::head: {
          http::RequestHead head = reader_.take_head();
          request.method = std::move(head.method);
          request.path = std::move(head.path);
          request.query = std::move(head.query);
          request.authority = std::move(head.authority);
          for (auto& [name, value] : head.fields)
            request.headers.add(std::move(name), std::move(value));
          request.peer = "192.0.2.7";
          route = router_.find(request).route;
          if (!route || !route->admit(request)) std::abort();
          break;
        }
        case Event::body:
          body.append(taken.piece, bytes.size());
          break;
        case Event::end: {
          auto held = std::make_shared<http::BodyBuffer>(std::move(body));
          const std::string_view view = held->view();
          request.body = Blob::own(std::move(held), view);
          route->handler(std::move(request), std::make_shared<StillResponder>(over_));
          return reader_.next();
        }
        case Event::more:
        case Event::refusal:
          std::abort();
      }
    }
  }

  template <class Message>
  void hear(const Message& message, std::string_view body = {}) {
    {
      const Uncounted uncounted;
      frame_.clear();
      body.empty() ? encode(message, frame_) : encode(message, body, frame_);
    }
    still_wire().hear(frame_.view());
  }

  static Settings settings_with_key() {
    Settings settings;
    settings.auth = Auth::keys;
    KeySettings key{.name = "team-a", .sha256 = http::sha256_hex(kSecret)};
    key.services = {"openai"};
    key.requests_per_minute = 1'000'000'000;
    key.tokens_per_minute = 1'000'000'000'000;
    settings.keys.push_back(std::move(key));
    return settings;
  }

  const Settings settings_ = settings_with_key();
  StillLoop loop_;
  LoopClient client_;
  const Access access_{settings_.keys};
  Metrics metrics_;
  Gateway gateway_{
      .settings = settings_, .loop = loop_, .broker = client_, .access = access_, .metrics = metrics_};
  JobRoutes routes_{gateway_};
  Router router_;
  http::RequestReader reader_{http::ReaderLimits{}};
  const std::string word_ = chat_word();
  Decoder decoder_;
  Buffer frame_;
  std::string id_, ref_;
  bool over_ = false;
};

/// A chat whose answer comes in so many pieces; 0: whole.
std::function<void()> chat(bool stream, int pieces) {
  auto gateway = std::make_shared<StillGateway>();
  return [gateway, text = request_text(stream), pieces] { gateway->chat(text, pieces); };
}

}  // namespace

std::vector<Path> gateway_paths() {
  return {{"gateway: a chat", kTimes, [] { return chat(false, 0); }},
          {"gateway: a chat that is streamed in 32 pieces", kTimes, [] { return chat(true, kPieces); }},
          {"gateway: a stream that the upstream answers whole", kTimes, [] { return chat(true, 0); }}};
}

}  // namespace lanemq::costs
