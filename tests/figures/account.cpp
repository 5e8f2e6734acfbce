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
  return low ? std::max<std::int64_t>(rules_.limit / rules_.falls_to, 1) : rules_.limit;
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
    case Bound::slope:
      for (; !taken_.empty() && taken_.front().at + rules_.period <= now; taken_.pop_front())
        used_ -= taken_.front().amount;
      while (!last_seconds_.empty() && last_seconds_.front() + seconds(2) <= now)
        last_seconds_.pop_front();
      break;
    case Bound::places:
      for (; !taken_.empty() && taken_.front().at <= now; taken_.pop_front())
        used_ -= taken_.front().amount;
      break;
  }
}

std::int64_t Account::remaining(TimePoint now) {
  refill(now);
  switch (rules_.bound) {
    case Bound::bucket:
      return static_cast<std::int64_t>(level_);
    case Bound::fixed:
    case Bound::sliding:
    case Bound::places:
    case Bound::slope:
      break;
  }
  return std::max<std::int64_t>(limit_at(now) - used_, 0);
}

/// More than 1.5 times the calls of the second before, more than half the pace, and more than 5.
bool Account::is_too_steep(TimePoint now) const {
  const auto last =
      last_seconds_.end() - std::upper_bound(last_seconds_.begin(), last_seconds_.end(), now - seconds(1));
  const auto before = static_cast<std::ptrdiff_t>(last_seconds_.size()) - last;
  const double floor = std::max(pace(now) / 2 / static_cast<double>(rules_.call), 5.0);
  return static_cast<double>(last + 1) > std::max(1.5 * static_cast<double>(before), floor);
}

Duration Account::draw_takes() {
  return Duration(
      static_cast<std::int64_t>(static_cast<double>(rules_.takes.count()) * (0.6 + 0.8 * drawn())));
}

bool Account::take(TimePoint now, std::int64_t amount, Duration takes) {
  if (remaining(now) < amount || (rules_.bound == Bound::slope && is_too_steep(now))) return false;
  level_ -= static_cast<double>(amount);
  used_ += amount;
  if (rules_.bound == Bound::slope) last_seconds_.push_back(now);
  if (rules_.bound == Bound::sliding || rules_.bound == Bound::slope) taken_.push_back({now, amount});
  if (rules_.bound == Bound::places)
    taken_.insert(std::upper_bound(taken_.begin(), taken_.end(), now + takes,
                                   [](TimePoint at, const Taken& one) { return at < one.at; }),
                  {now + takes, amount});
  return true;
}

Duration Account::free_in(TimePoint now, std::int64_t amount) {
  switch (rules_.bound) {
    case Bound::bucket:
      return of_seconds((static_cast<double>(amount) - level_) / pace(now)) + Duration(1);
    case Bound::fixed:
      return reset_in(now);
    case Bound::sliding:
    case Bound::slope: {
      std::int64_t free = remaining(now);
      for (const Taken& one : taken_) {
        if (free >= amount) break;
        free += one.amount;
        if (free >= amount) return one.at + rules_.period - now;
      }
      break;  // it came too fast
    }
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
    case Bound::slope:
      break;
  }
  return taken_.empty() ? Duration(0) : taken_.front().at + rules_.period - now;
}

void Account::others_ask(TimePoint now) {
  if (rules_.others == Others::limit_falls || rules_.others == Others::nobody) return;
  const auto draw_amount = [&] {
    if (rules_.call > 1)
      return static_cast<std::int64_t>(static_cast<double>(rules_.call) * (0.2 + 1.6 * drawn()));
    return rules_.call;
  };
  if (next_other_ == TimePoint{}) {
    next_other_ = now;
    next_amount_ = draw_amount();
  }
  while (next_other_ <= now) {
    const bool gone = rules_.others == Others::stop && next_other_ >= rules_.begins;
    const double part = rules_.others == Others::half ? 0.5 : 1.2;
    if (!gone && take(next_other_, next_amount_, draw_takes()))
      granted_to_others_.push_back({next_other_, next_amount_});
    const double jitter = 0.7 + 0.6 * drawn();
    next_other_ += std::max(
        of_seconds(jitter * static_cast<double>(rules_.call) / (part * pace(next_other_))), Duration(1));
    next_amount_ = draw_amount();
  }
}

Account::Word Account::call(TimePoint now, std::int64_t amount) {
  others_ask(now);
  const Duration takes = draw_takes();
  Word word{.granted = take(now, amount, takes), .takes = takes};
  if (rules_.words == Words::none) return word;
  if (!word.granted) {
    Duration wait = free_in(now, amount);
    // Retry-After alone comes in whole seconds.
    if (rules_.words == Words::retry_after) wait = std::chrono::ceil<seconds>(wait);
    word.retry_after = wait;
    word.too_steep = rules_.words == Words::all && rules_.bound == Bound::slope && remaining(now) >= amount;
  }
  if (rules_.words == Words::all && rules_.bound != Bound::places) {
    word.limits.emplace();
    const bool tokens = rules_.resource == core::Resource::tokens;
    (tokens ? word.limits->limit_tokens : word.limits->limit_requests) = limit_at(now);
    (tokens ? word.limits->remaining_tokens : word.limits->remaining_requests) = remaining(now);
    (tokens ? word.limits->reset_tokens_ms : word.limits->reset_requests_ms) = core::to_ms(reset_in(now));
  }
  return word;
}

double Account::left_by_others(TimePoint from, TimePoint now) {
  others_ask(now);
  double could = 0;
  for (TimePoint at = from; at < now; at += milliseconds(100))
    could += pace(at) / 10;
  for (const Taken& one : granted_to_others_)
    if (one.at >= from) could -= static_cast<double>(one.amount);
  return could;
}

Witness witness(const Account::Rules& rules, int callers, TimePoint start, TimePoint from, TimePoint end,
                const std::function<std::int64_t()>& amounts) {
  constexpr Duration kFirst = milliseconds(500), kMost = seconds(8), kRefusedIn = milliseconds(30);
  Account account(rules);
  Witness sum;
  struct Call {
    TimePoint wanted;
    std::int64_t amount;
    Duration backoff = kFirst;
  };
  std::multimap<TimePoint, Call> calls;
  for (int i = 0; i < callers; ++i)
    calls.emplace(start + milliseconds(i), Call{start + milliseconds(i), amounts()});
  if (callers == 0)
    for (TimePoint at = start; at < end; at += seconds(2))
      calls.emplace(at, Call{at, amounts()});
  while (!calls.empty() && calls.begin()->first < end) {
    const TimePoint now = calls.begin()->first;
    Call call = calls.begin()->second;
    calls.erase(calls.begin());
    const Account::Word word = account.call(now, call.amount);
    if (now >= from) ++(word.granted ? sum.granted : sum.refused);
    if (now >= from && word.granted) sum.amount += call.amount;
    if (!word.granted) {
      calls.emplace(now + kRefusedIn + word.retry_after.value_or(call.backoff), call)->second.backoff =
          std::min(2 * call.backoff, kMost);
      continue;
    }
    if (call.wanted >= from) sum.waits.push_back(now - call.wanted);
    if (callers > 0) calls.emplace(now + word.takes, Call{now + word.takes, amounts()});
  }
  return sum;
}

}  // namespace lanemq::figures
