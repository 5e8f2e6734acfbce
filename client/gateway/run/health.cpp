// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/health.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/text.hpp>

#include "client/gateway/batches/batch_service.hpp"
#include "client/gateway/run/not_served.hpp"
#include "common/log/log.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::chrono::milliseconds kPingEvery{500};
/// How often the broker is asked until its first answer.
constexpr std::chrono::milliseconds kLookEvery{20};
constexpr std::chrono::milliseconds kUnservedEvery{2'000};

std::string listed(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  std::string text;
  for (const auto* const names : {&some, &others})
    for (const std::string& name : *names)
      text += (text.empty() ? "" : ", ") + printable(name, 64);
  return text;
}

}  // namespace

Health::Health(Gateway& gateway, const HttpServer& server)
    : gateway_(gateway),
      server_(server),
      shards_(gateway),
      timer_(gateway.loop.timer()),
      began_(gateway.loop.now()) {}

void Health::add_routes(Router& router) {
  router.add("GET", "/", [this](const HttpRequest& request, const ResponderPtr& responder) {
    responder->answer(text_answer(200, welcome(gateway_.settings, request)));
  });
  router.add("GET", "/healthz", [](const HttpRequest&, const ResponderPtr& responder) {
    responder->answer(text_answer(200, "ok\n"));
  });
  router.add("GET", "/readyz", [this](const HttpRequest& request, const ResponderPtr& responder) {
    HttpAnswer answer = ready();
    // A load balancer needs the status alone.
    if (gateway_.access.why_no_metrics(request, gateway_.settings.hosts))
      answer = text_answer(answer.status, answer.status == 200 ? "ready\n" : "not ready\n");
    responder->answer(std::move(answer));
  });
  router.add("GET", "/metrics", [this](const HttpRequest& request, const ResponderPtr& responder) {
    if (const std::optional<ApiError> error =
            gateway_.access.why_no_metrics(request, gateway_.settings.hosts))
      return responder->answer(refusal(gateway_, request, *error));
    gateway_.metrics.spans_sent = gateway_.traces.sent();
    gateway_.metrics.spans_lost = gateway_.traces.lost();
    const BatchFigures batches = batches_ ? batches_->figures() : BatchFigures{};
    HttpAnswer answer = text_answer(
        200, gateway_.metrics.text(server_.counters(), gateway_.broker.counters(), gateway_.broker.pending(),
                                   batches_ ? &batches : nullptr, connected()));
    answer.headers.set("content-type", "text/plain; version=0.0.4; charset=utf-8");
    responder->answer(std::move(answer));
  });
}

void Health::watch() {
  if (!std::exchange(asked_, true)) {
    gateway_.broker.ping([this](const Reply<BrokerPong>& pong) {
      asked_ = false;
      if (pong) {
        answered_ = gateway_.loop.now();
        shards_.told(*pong);
      }
      const bool refused = !pong && !pong.error().local;
      if (refused && !refused_)
        log::event(
            log::Level::error, "broker.refused",
            {{"broker", printable(gateway_.settings.broker)}, {"message", printable(pong.error().message)}});
      refused_ = refused;
    });
  }
  ask_for_unserved();
  shards_.ask();
  if (broker_is_away()) gateway_.on_broker_away();
  for (const auto& [shard, answers] : shards_.connected())
    if (!answers && shards_.is_away(shard)) gateway_.on_shard_away(shard);
  timer_->after(answered_ || refused_ ? kPingEvery : kLookEvery, [this] { watch(); });
}

void Health::ask_for_unserved() {
  const Loop::TimePoint now = gateway_.loop.now();
  if (asked_for_unserved_ || (unserved_asked_at_ && now - *unserved_asked_at_ < kUnservedEvery)) return;
  asked_for_unserved_ = true;
  unserved_asked_at_ = now;
  gateway_.broker.stats(0, [this](const Reply<BrokerStats>& stats) {
    asked_for_unserved_ = false;
    unserved_ = stats ? unserved_lines(stats->json) : std::string();
    if (stats) compare_lanes(lanes_of(stats->json));
  });
}

/// Each broker has lanes of its own, and the gateway says in its settings which.
void Health::compare_lanes(const std::vector<std::string>& there) {
  std::vector<LaneRules> rules;
  for (const KeySettings& key : gateway_.settings.keys)
    rules.push_back(key.lanes);
  if (rules.empty()) rules.emplace_back();
  std::vector<std::string> named = gateway_.settings.lanes;
  if (const std::string& lane = gateway_.settings.batches.lane;
      std::find(named.begin(), named.end(), lane) == named.end())
    named.push_back(lane);
  LanesMissing missing = there.empty() ? LanesMissing{} : missing_lanes(rules, named, there);
  broker_lanes_ = there;
  if (missing == lanes_missing_) return;
  lanes_missing_ = std::move(missing);
  if (lanes_missing_.any())
    log::event(log::Level::warning, "lanes.unknown",
               {{"lanes", listed(lanes_missing_.unasked, lanes_missing_.named)},
                {"broker_has", listed(broker_lanes_, {})},
                {"do", "say lanes, and the lane of keys, as the broker has them"}});
}

bool Health::home_is_silent(std::chrono::milliseconds silence_max) const {
  return gateway_.loop.now() - answered_.value_or(began_) >= silence_max;
}

bool Health::broker_is_away() const {
  return home_is_silent(gateway_.settings.broker_wait) && shards_.all_away();
}

std::string Health::away_shard(const std::string& service, const std::string& client) const {
  if (!shards_.any()) return {};
  std::string shard = gateway_.broker.shard_of(service, client);
  return shards_.is_away(shard) ? shard : std::string();
}

std::vector<std::pair<std::string, bool>> Health::connected() const {
  if (shards_.any()) return shards_.connected();
  return {{shards_.home(), broker_answers()}};
}

bool Health::broker_answers() const {
  if (answered_ && !home_is_silent(kSilenceMax)) return true;
  const auto all = shards_.connected();
  return std::any_of(all.begin(), all.end(), [](const auto& shard) { return shard.second; });
}

HttpAnswer Health::ready() const {
  if (gateway_.leaving) return text_answer(503, "draining: this gateway is stopping\n");
  // As long as requests wait for a broker: a takeover is no reason to take all gateways out of a pool.
  if (broker_is_away() || (!answered_ && !broker_answers()))
    return text_answer(503, "no answer from the broker\n" + shards_.lines());  // addresses concern no caller
  if (!lanes_missing_.unasked.empty())
    return text_answer(503, "requests that name no lane are refused: the broker has no lane " +
                                listed(lanes_missing_.unasked, {}) + "; it has " + listed(broker_lanes_, {}) +
                                ". Say lanes, and the lane of keys, as the broker has them\n");
  const std::string lanes = lanes_missing_.named.empty()
                                ? std::string()
                                : "the broker has no lane " + listed(lanes_missing_.named, {}) + "\n";
  return text_answer(200, "ready\n" + lanes + unserved_ + shards_.lines());  // other services are served
}

}  // namespace lanemq::gateway
