// SPDX-License-Identifier: Apache-2.0
#include "worker/session/large_outcomes.hpp"

#include <algorithm>

namespace lanemq::worker {

bool LargeOutcomes::may_go(wire::Lease lease, std::size_t bytes, TimePoint now) {
  if (bytes < kFrom) return true;
  if (waiting_.empty() && now >= free_at_) {
    set_off(bytes, now);
    return true;
  }
  waiting_.push_back({lease, bytes});
  return false;
}

void LargeOutcomes::forget(wire::Lease lease) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.lease == lease; });
}

bool LargeOutcomes::waits(wire::Lease lease) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& one) { return one.lease == lease; });
}

std::optional<wire::Lease> LargeOutcomes::next(TimePoint now) {
  if (now < free_at_) return std::nullopt;
  return next_at_once(now);
}

wire::Lease LargeOutcomes::next_at_once(TimePoint now) {
  const Waiting first = waiting_.front();
  waiting_.pop_front();
  set_off(first.bytes, now);
  return first.lease;
}

void LargeOutcomes::set_off(std::size_t bytes, TimePoint now) {
  free_at_ = now + std::chrono::milliseconds((bytes + kBytesPerMillisecond - 1) / kBytesPerMillisecond);
}

}  // namespace lanemq::worker
