// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/service_beat.hpp"

#include <utility>

namespace lanemq::gateway {
namespace {

/// What a stop takes beside the times of its drain.
constexpr std::chrono::seconds kStopMargin{30};

}  // namespace

ServiceBeat::ServiceBeat(service::Notifier& notifier, HttpServer& server, const Health& health,
                         std::string url)
    : notifier_(notifier), server_(server), health_(health), url_(std::move(url)), timer_(server.timer()) {}

void ServiceBeat::ready() {
  notifier_.ready(status());
  beat();
}

void ServiceBeat::stopping(std::chrono::milliseconds within) {
  stops_ = true;
  notifier_.stopping(within + kStopMargin, status());
}

void ServiceBeat::beat() {
  const auto every = notifier_.beat_every();
  if (!every) return;
  notifier_.beat(server_.now().time_since_epoch(), true, [this] { return status(); });
  timer_->after(*every, [this] { beat(); });
}

std::string ServiceBeat::status() const {
  std::string text = "requests: " + std::to_string(server_.busy()) + " run, by " +
                     std::to_string(server_.connections()) + " connections to " + url_;
  if (stops_) return text + "; stops";
  return text + (health_.broker_answers() ? "; the broker answers" : "; the broker does not answer");
}

}  // namespace lanemq::gateway
