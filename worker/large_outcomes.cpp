// SPDX-License-Identifier: Apache-2.0
#include "worker/large_outcomes.hpp"

#include <algorithm>

namespace lanemq::worker {

bool LargeOutcomes::may_go(wire::Lease lease, std::size_t bytes, TimePoint now) {
  if (bytes < kFrom) return true;
  if (waiting_.empty() && (bytes_ == 0 || bytes_ + bytes <= kBytesAhead)) {
    set_off(lease, bytes, now);
    return true;
  }
  waiting_.push_back({lease, bytes});
  return false;
}

void LargeOutcomes::forget(wire::Lease lease) {
  if (const auto place = on_the_way_.find(lease); place != on_the_way_.end()) {
    bytes_ -= place->second;
    on_the_way_.erase(place);
  } else {
    std::erase_if(waiting_, [&](const Waiting& one) { return one.lease == lease; });
  }
}

bool LargeOutcomes::waits(wire::Lease lease) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& one) { return one.lease == lease; });
}

std::optional<wire::Lease> LargeOutcomes::next(TimePoint now) {
  if (bytes_ > 0 && bytes_ + waiting_.front().bytes > kBytesAhead && now < next_by_) return std::nullopt;
  return next_at_once(now);
}

wire::Lease LargeOutcomes::next_at_once(TimePoint now) {
  const Waiting first = waiting_.front();
  waiting_.pop_front();
  set_off(first.lease, first.bytes, now);
  return first.lease;
}

void LargeOutcomes::set_off(wire::Lease lease, std::size_t bytes, TimePoint now) {
  on_the_way_.emplace(lease, bytes);
  bytes_ += bytes;
  next_by_ = now + kPatience;
}

}  // namespace lanemq::worker
