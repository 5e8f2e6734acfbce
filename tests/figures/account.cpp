// SPDX-License-Identifier: Apache-2.0
#include "tests/figures/account.hpp"

#include <algorithm>
#include <map>

namespace lanemq::figures {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
Duration of_seconds(double value) {
  return Duration(static_cast<std::int64_t>(value * 1e6));
}

}  // namespace

Account::Account(const Rules& rules) : rules_(rules), random_(rules.seed) {
  level_ = static_cast<double>(rules.limit) / 10;
}

std::int64_t Account::limit_at(TimePoint now) const {
  const bool low = rules_.others == Others::limit_falls && now >= rules_.begins && now < rules_.ends;
  return low ? std::max<std::int64_t>(rules_.limit / 2, 1) : rules_.limit;
}

double Account::pace(TimePoint now) const {
  return static_cast<double>(limit_at(now)) /
         in_seconds(rules_.bound == Bound::places ? rules_.takes : rules_.period);
}

void Account::refill(TimePoint now) {
  switch (rules_.bound) {
    case Bound::bucket:
      level_ = std::min(level_ + in_seconds(now - level_at_) * pace(now), static_cast<double>(limit_at(now)));
      level_at_ = now;
      break;
    case Bound::fixed:
      if (const std::int64_t window = now.time_since_epoch() / rules_.period; window != window_) {
        window_ = window;
        used_ = 0;
      }
      break;
    case Bound::sliding:
      while (!taken_.empty() && taken_.front() + rules_.period <= now)
        taken_.pop_front();
      break;
    case Bound::places:
      while (!taken_.empty() && taken_.front() <= now)
        taken_.pop_front();
      break;
  }
}

std::int64_t Account::remaining(TimePoint now) {
  refill(now);
  switch (rules_.bound) {
    case Bound::bucket:
      return static_cast<std::int64_t>(level_);
    case Bound::fixed:
      return std::max<std::int64_t>(limit_at(now) - used_, 0);
    case Bound::sliding:
    case Bound::places:
      break;
  }
  return std::max<std::int64_t>(limit_at(now) - static_cast<std::int64_t>(taken_.size()), 0);
}

bool Account::take(TimePoint now) {
  if (remaining(now) < 1) return false;
  level_ -= 1;
  ++used_;
  if (rules_.bound == Bound::sliding) taken_.push_back(now);
  if (rules_.bound == Bound::places) taken_.push_back(now + rules_.takes);
  return true;
}

Duration Account::free_in(TimePoint now) {
  switch (rules_.bound) {
    case Bound::bucket:
      return of_seconds((1 - level_) / pace(now)) + Duration(1);
    case Bound::fixed:
      return reset_in(now);
    case Bound::sliding:
      return taken_.front() + rules_.period - now;
    case Bound::places:
      break;
  }
  return seconds(1);
}

Duration Account::reset_in(TimePoint now) {
  switch (rules_.bound) {
    case Bound::bucket:
      return of_seconds((static_cast<double>(limit_at(now)) - level_) / pace(now));
    case Bound::fixed:
      return TimePoint((window_ + 1) * rules_.period) - now;
    case Bound::sliding:
    case Bound::places:
      break;
  }
  return taken_.empty() ? Duration(0) : taken_.front() + rules_.period - now;
}

void Account::others_ask(TimePoint now) {
  if (rules_.others == Others::limit_falls || rules_.others == Others::nobody) return;
  if (next_other_ == TimePoint{}) next_other_ = now;
  for (; next_other_ <= now;) {
    const bool gone = rules_.others == Others::stop && next_other_ >= rules_.begins;
    const double part = rules_.others == Others::half ? 0.5 : 1.2;
    if (!gone && take(next_other_)) granted_to_others_.push_back(next_other_);
    const double jitter = 0.7 + 0.6 * static_cast<double>(random_() >> 11) * 0x1.0p-53;
    next_other_ += std::max(of_seconds(jitter / (part * pace(next_other_))), Duration(1));
  }
}

Account::Word Account::call(TimePoint now) {
  others_ask(now);
  Word word{.granted = take(now)};
  if (rules_.words == Words::none) return word;
  if (!word.granted) {
    Duration wait = free_in(now);
    // Retry-After alone comes in whole seconds.
    if (rules_.words == Words::retry_after) wait = std::chrono::ceil<seconds>(wait);
    word.retry_after = wait;
  }
  if (rules_.words == Words::all && rules_.bound != Bound::places) {
    word.limits.emplace();
    word.limits->limit_requests = limit_at(now);
    word.limits->remaining_requests = remaining(now);
    word.limits->reset_requests_ms = core::to_ms(reset_in(now));
  }
  return word;
}

double Account::left_by_others(TimePoint from, TimePoint now) {
  others_ask(now);
  double could = 0;
  for (TimePoint at = from; at < now; at += milliseconds(100))
    could += pace(at) / 10;
  const auto theirs =
      granted_to_others_.end() - std::lower_bound(granted_to_others_.begin(), granted_to_others_.end(), from);
  return could - static_cast<double>(theirs);
}

Witness witness(const Account::Rules& rules, int callers, TimePoint start, TimePoint from, TimePoint end) {
  constexpr Duration kFirst = milliseconds(500), kMost = seconds(8), kRefusedIn = milliseconds(30);
  Account account(rules);
  Witness sum;
  struct Call {
    TimePoint wanted;
    Duration backoff = kFirst;
  };
  std::multimap<TimePoint, Call> calls;
  for (int i = 0; i < callers; ++i)
    calls.emplace(start + milliseconds(i), Call{.wanted = start + milliseconds(i)});
  if (callers == 0)
    for (TimePoint at = start; at < end; at += seconds(2))
      calls.emplace(at, Call{.wanted = at});
  while (!calls.empty() && calls.begin()->first < end) {
    const TimePoint now = calls.begin()->first;
    Call call = calls.begin()->second;
    calls.erase(calls.begin());
    const Account::Word word = account.call(now);
    if (now >= from) ++(word.granted ? sum.granted : sum.refused);
    if (!word.granted) {
      calls.emplace(now + kRefusedIn + word.retry_after.value_or(call.backoff), call)->second.backoff =
          std::min(2 * call.backoff, kMost);
      continue;
    }
    if (call.wanted >= from) sum.waits.push_back(now - call.wanted);
    if (callers > 0) calls.emplace(now + rules.takes, Call{.wanted = now + rules.takes});
  }
  return sum;
}

}  // namespace lanemq::figures
