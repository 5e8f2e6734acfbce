// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/broker_drive.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lanemq::gateway {

BrokerDrive::BrokerDrive(Loop& loop, ClientOptions options)
    : loop_(loop),
      client_(std::move(options),
              [this] {
                loop_.post([weak = std::weak_ptr<BrokerDrive*>(alive_)] {
                  if (const std::shared_ptr<BrokerDrive*> self = weak.lock()) (*self)->turn();
                });
              }),
      timer_(loop.timer()),
      watch_(loop.watch(client_.fd(), [this] { turn(); })) {}

void BrokerDrive::turn() {
  client_.process();
  wait();
}

/// Sets the timer only to an earlier time; one that fires early finds nothing to do and is set again. So it
/// is not moved for each message, although each puts the next wake-up off.
void BrokerDrive::wait() {
  const std::optional<Loop::TimePoint> wakeup = client_.next_wakeup();
  if (!wakeup || (set_for_ && *set_for_ <= *wakeup)) return;
  const auto pause = std::max(std::chrono::ceil<std::chrono::milliseconds>(*wakeup - loop_.now()),
                              std::chrono::milliseconds(0));
  set_for_ = wakeup;
  timer_->after(pause, [this] {
    set_for_.reset();
    turn();
  });
}

}  // namespace lanemq::gateway
