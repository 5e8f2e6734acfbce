// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/model_apart.hpp"

#include <algorithm>

namespace lanemq::core {

void ModelApart::Pause::lengthen(TimePoint to, TimePoint now) {
  probe.begin(to, now < until, now);
  if (probe.at != kNever) probe.at += kOthersFirst;
  until = to;
  began = now;
  held_until = TimePoint{};
  hold = kFirstHold;
}

void ModelApart::Pause::take(TimePoint now) {
  if (now < until) return probe.take(now);
  if (hold.count() == 0) return;
  held_until = now + hold;
  hold = hold / 2 < kLeastHold ? Duration(0) : hold / 2;
}

bool ModelApart::Pause::answered(TimePoint taken_at, TimePoint now) {
  if (taken_at <= began) return false;
  const bool waited = now < until || now < held_until || hold.count() > 0;
  lift(now);
  return waited;
}

bool ModelApart::Pause::lift(TimePoint now) {
  const bool was = now < until;
  until = std::min(until, now);
  held_until = TimePoint{};
  hold = Duration(0);
  return was;
}

ModelApart::Pause* ModelApart::pause_of(std::size_t budget, std::size_t account) {
  const auto pause = std::find_if(pauses.begin(), pauses.end(), [&](const Pause& one) {
    return one.budget == budget && one.account == account;
  });
  return pause == pauses.end() ? nullptr : &*pause;
}

bool ModelApart::is_over(TimePoint now) const {
  return std::all_of(pauses.begin(), pauses.end(), [&](const Pause& pause) { return pause.until <= now; });
}

}  // namespace lanemq::core
