// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/open/store_wait.hpp"

#include <poll.h>

#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

/// How long the service manager waits from each look on: a candidate starts for as long as the owner lives.
constexpr std::chrono::minutes kStartMax{2};

}  // namespace

bool StoreWait::go_on(const StoreWaiting& waiting) {
  log(waiting);
  tell_(waiting);
  host_.notifier.extend(kStartMax, "waits for its store: " + waiting.why);
  const Clock::time_point end = Clock::now() + kPause;
  for (auto left = kPause; left > left.zero();
       left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now())) {
    pollfd ready{.fd = host_.commands.descriptor(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(left.count())) <= 0) continue;
    const auto command = host_.commands.next();
    if (command == service::Command::stop) return false;
    if (command) reload_();
  }
  return true;
}

void StoreWait::log(const StoreWaiting& waiting) {
  const auto now = Clock::now();
  if (waiting.why == logged_ && (waiting.reached || now - logged_at_ < kWarnEvery)) return;
  logged_ = waiting.why;
  logged_at_ = now;
  if (waiting.reached) return log::event(log::Level::info, "store.waits", {{"reason", waiting.why}});
  log::event(log::Level::warning, "store.waits",
             {{"reason", waiting.why},
              {"do", "it is tried twice a second; where the reason does not pass, mend it or `store`"}});
}

}  // namespace lanemq::io
