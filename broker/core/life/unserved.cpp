// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/unserved.hpp"

#include <utility>

#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {

void Unserved::begin_turn(TimePoint now) {
  if (!state_.workers.unserved().empty() && !timer_.is_set()) state_.timers.set(timer_, now + kLookEvery);
}

void Unserved::look(TimePoint now) {
  const Workers::UnservedList& all = state_.workers.unserved();
  std::size_t left = kWatchedMax;
  for (Service* service = all.front(); service != nullptr && left-- > 0; service = all.next(*service)) {
    if (service->unserved_looks == 0) service->unserved_since = now;
    if (service->unserved_looks++ % kLooksApart != 1) continue;
    const LaneIndex lane = service->first_unserved();
    Notice notice{.kind = Notice::Kind::service_without_worker,
                  .jobs = service->queued_unserved(),
                  .service = service->name,
                  .for_ms = to_ms(now - service->unserved_since)};
    if (service->workers > 0) {
      notice.lane = state_.lanes[lane]->options().name;
      notice.how = state_.workers.drains(*service, lane) ? "draining" : "";
    }
    state_.outbox.notices.push_back(std::move(notice));
  }
}

}  // namespace lanemq::core
