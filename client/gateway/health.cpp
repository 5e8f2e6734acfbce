// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/health.hpp"

#include <utility>

namespace lanemq::gateway {
namespace {

constexpr std::chrono::milliseconds kPingEvery{500};
/// Until the broker has answered for the first time.
constexpr std::chrono::milliseconds kLookEvery{20};
/// A broker that has not answered for so long is away.
constexpr std::chrono::milliseconds kSilenceMax{5'000};

HttpAnswer text_answer(int status, std::string text) {
  return {.status = status,
          .headers = {{"content-type", "text/plain; charset=utf-8"}},
          .body = blob_of(std::move(text))};
}

}  // namespace

Health::Health(Gateway& gateway, const HttpServer& server)
    : gateway_(gateway), server_(server), timer_(gateway.loop.timer()) {}

void Health::add_routes(Router& router) {
  router.add("GET", "/healthz", [](const HttpRequest&, const ResponderPtr& responder) {
    responder->answer(text_answer(200, "ok\n"));
  });
  router.add("GET", "/readyz",
             [this](const HttpRequest&, const ResponderPtr& responder) { responder->answer(ready()); });
  router.add("GET", "/metrics", [this](const HttpRequest&, const ResponderPtr& responder) {
    HttpAnswer answer = text_answer(200, gateway_.metrics.text(server_.counters(), gateway_.broker.counters(),
                                                               gateway_.broker.pending()));
    answer.headers.set("content-type", "text/plain; version=0.0.4; charset=utf-8");
    responder->answer(std::move(answer));
  });
}

void Health::watch() {
  if (!std::exchange(asked_, true)) {
    gateway_.broker.ping([this](const Reply<BrokerPong>& pong) {
      asked_ = false;
      if (pong) answered_ = gateway_.loop.now();
    });
  }
  timer_->after(answered_ ? kPingEvery : kLookEvery, [this] { watch(); });
}

bool Health::broker_answers() const {
  return answered_ && gateway_.loop.now() - *answered_ < kSilenceMax;
}

HttpAnswer Health::ready() const {
  if (gateway_.draining) return text_answer(503, "draining: this gateway is stopping\n");
  if (!broker_answers())
    return text_answer(503, "no answer from the broker at " + gateway_.settings.broker + "\n");
  return text_answer(200, "ready\n");
}

}  // namespace lanemq::gateway
