// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/health.hpp"

#include <utility>

#include "client/gateway/batches/batch_service.hpp"
#include "client/gateway/not_served.hpp"

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
    : gateway_(gateway), server_(server), timer_(gateway.loop.timer()), began_(gateway.loop.now()) {}

void Health::add_routes(Router& router) {
  router.add("GET", "/", [](const HttpRequest& request, const ResponderPtr& responder) {
    responder->answer(text_answer(200, welcome(request)));
  });
  router.add("GET", "/healthz", [](const HttpRequest&, const ResponderPtr& responder) {
    responder->answer(text_answer(200, "ok\n"));
  });
  router.add("GET", "/readyz",
             [this](const HttpRequest&, const ResponderPtr& responder) { responder->answer(ready()); });
  router.add("GET", "/metrics", [this](const HttpRequest&, const ResponderPtr& responder) {
    const BatchFigures batches = batches_ ? batches_->figures() : BatchFigures{};
    HttpAnswer answer =
        text_answer(200, gateway_.metrics.text(server_.counters(), gateway_.broker.counters(),
                                               gateway_.broker.pending(), batches_ ? &batches : nullptr));
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
  if (broker_is_away()) gateway_.on_broker_away();
  timer_->after(answered_ ? kPingEvery : kLookEvery, [this] { watch(); });
}

bool Health::broker_is_away() const {
  return gateway_.loop.now() - answered_.value_or(began_) >= kSilenceMax;
}

bool Health::broker_answers() const {
  return answered_ && gateway_.loop.now() - *answered_ < kSilenceMax;
}

HttpAnswer Health::ready() const {
  if (gateway_.leaving) return text_answer(503, "draining: this gateway is stopping\n");
  if (!broker_answers())
    return text_answer(503, "no answer from the broker\n");  // whose address is nobody's business here
  return text_answer(200, "ready\n");
}

}  // namespace lanemq::gateway
