// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/model_rate.hpp"

#include <algorithm>

#include "tests/sim/model.hpp"

namespace lanemq::sim {
namespace {

using std::chrono::seconds;

/// What is sent may count for somewhat longer than a period, and an empty window may refill somewhat slower
/// than its limit: a broker allows for clocks and links.
constexpr std::int64_t kPeriodPercent = 103, kPacePercent = 98;
/// What a broker gives back at the least of what a bucket still owes: so much of it, without such a part of
/// the burst.
constexpr std::int64_t kGivesPercent = 85, kForgottenPart = 32;
/// The part of a strict window that a reserve keeps free at most.
constexpr std::int64_t kHeldInWindow = 100;

/// After a pause: seconds, each at twice the pace of the one before, until all of it is back.
constexpr std::int64_t kRampSteps = 4, kRampFirst = 100, kWhole = 1000;
/// But no slower than a call each so long.
constexpr Duration kAskedEvery = std::chrono::milliseconds(500);
/// What may pile up during a pause.
constexpr std::int64_t kPausedLevelMax = 1;

std::int64_t burst_of(const core::RateOptions& options, core::WindowKind window) {
  const std::int64_t burst =
      options.capacity > 0 ? options.capacity : std::max<std::int64_t>(options.limit / 10, 1);
  return window == core::WindowKind::sliding ? std::min(burst, std::max<std::int64_t>(options.limit / 2, 1))
                                             : burst;
}

}  // namespace

void ModelShare::cut(std::int64_t least, TimePoint now) {
  if (at(now) < kAll && now - cut_at_ < seconds(2)) return;
  if (share_ == kAll || answered_) share_ = std::max({share_ * 4 / 5, kAll / 100, least});
  answered_ = false;
  cut_at_ = now;
  rises_at_ = now + seconds(10);
}

/// A hundredth for the first twenty seconds, and then twice as much after each five, up to sixteen.
std::int64_t ModelShare::percent_at(TimePoint time) const {
  const std::int64_t fives = (time - cut_at_) / seconds(5);
  return fives < 4 ? 1 : fives >= 7 ? 16 : std::int64_t{1} << (fives - 3);
}

std::int64_t ModelShare::at(TimePoint now) {
  for (; share_ < kAll && rises_at_ <= now; rises_at_ += seconds(1))
    share_ = std::min(share_ + share_ * percent_at(rises_at_) / 100, kAll);
  return share_;
}

ModelRate::ModelRate(const core::RateOptions& options, core::WindowKind window)
    : options_(options), window_(window), ceiling_(options.limit), burst_(burst_of(options, window)) {
  high_ = low_ = full_ = static_cast<core::Int128>(burst_) * options_.period.count();
}

void ModelRate::advance(TimePoint now) {
  if (window_ == core::WindowKind::bucket) {
    high_ = risen(high_, ceiling_, refilled_at_, now);
    low_ = risen(low_, left(), refilled_at_, now);
    refilled_at_ = now;
    forget();
  } else {
    // A window that ends now and includes its own beginning: the strictest reading.
    for (; !sent_.empty() && sent_.front().at < now - options_.period; sent_.pop_front())
      sum_ -= sent_.front().amount;
    const TimePoint ramped_at = paused_until_ ? *paused_until_ + seconds(kRampSteps) : TimePoint{};
    if (const TimePoint from = std::max({refilled_at_, empty_at_, ramped_at}); from < now) {
      if (share_then_ == ModelShare::kAll)
        low_ = std::min({low_ + core::Int128{(now - from).count()} * ceiling_ * kPacePercent / 100, full_,
                         core::Int128{ceiling_} * options_.period.count()});
      refilled_at_ = now;
    }
  }
  share_then_ = share_.at(now);
}

void ModelRate::forget() {
  for (Owed& owed : owed_) {
    owed.most = std::min(owed.most, full_ - low_);
    owed.least = std::min(owed.least, full_ - high_);
  }
}

ModelRate::Pace ModelRate::pace_at(TimePoint time) const {
  if (!paused_until_) return {kWhole, core::kNever, false};
  if (time < *paused_until_) return {kWhole, *paused_until_, true};
  const std::int64_t step = (time - *paused_until_) / seconds(1);
  if (step >= kRampSteps) return {kWhole, core::kNever, false};
  return {kRampFirst << step, *paused_until_ + seconds(step + 1), false};
}

std::int64_t ModelRate::paced(std::int64_t pace, const Pace& now) const {
  const std::int64_t asked =
      resource() == core::Resource::requests ? std::min(options_.period / kAskedEvery, pace) : 1;
  return std::max<std::int64_t>(pace * now.share / kWhole, asked);
}

core::Int128 ModelRate::risen(core::Int128 level, std::int64_t pace, TimePoint from, TimePoint to) const {
  const core::Int128 paused_max = core::Int128{kPausedLevelMax} * options_.period.count();
  while (true) {
    const Pace now = pace_at(from);
    const TimePoint end = std::min(to, now.until);
    const std::int64_t rate = paced(pace, now);
    level = std::min(level + core::Int128{(end - from).count()} * rate, full_);
    if (now.paused) level = std::min(level, paused_max);
    if (end == to) return level;
    from = end;
  }
}

std::int64_t ModelRate::held(int hold) const {
  const std::int64_t held = burst_ * hold / 1000;
  return window_ == core::WindowKind::sliding
             ? std::min(held, std::max<std::int64_t>(left() / kHeldInWindow, 1))
             : held;
}

/// What refusals have left of the limit.
std::int64_t ModelRate::left() const {
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(core::Int128{ceiling_} * share_then_ / ModelShare::kAll), 1);
}

std::int64_t ModelRate::left_most(TimePoint now) {
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(core::Int128{ceiling_} * share_most_.at(now) / ModelShare::kAll), 1);
}

std::int64_t ModelRate::whole_for(std::int64_t amount) const {
  return amount <= ceiling_ ? ceiling_ : left();
}

core::Int128 ModelRate::level_for(std::int64_t amount, int hold) const {
  if (amount <= 0) return 0;
  std::int64_t level = std::min(amount + held(hold), burst_);
  if (window_ == core::WindowKind::sliding) level = std::min(level, whole_for(amount));
  return static_cast<core::Int128>(level) * options_.period.count();
}

bool ModelRate::leaves(std::int64_t amount, int hold) const {
  return amount + held(hold) <= (window_ == core::WindowKind::sliding ? whole_for(amount) : burst_);
}

bool ModelRate::may_try(std::int64_t amount, core::Int128 level, TimePoint now) const {
  return trial_ && paused_until_ && now >= *paused_until_ && now < *paused_until_ + seconds(kRampSteps) &&
         level >= 0 && amount <= burst_;
}

void ModelRate::take(std::uint64_t job, std::int64_t amount, int hold, const std::string& budget,
                     TimePoint now) {
  advance(now);
  if (amount <= 0) {
    if (window_ == core::WindowKind::bucket ? high_ < 0 : sum_ > left())
      violated("budget " + budget + ": " + options_.name + " is in debt, and what costs nothing went out");
    return;
  }
  const core::Int128 taken = static_cast<core::Int128>(amount) * options_.period.count();
  if (window_ == core::WindowKind::bucket) {
    if (amount > options_.limit || (high_ < level_for(amount, hold) && !may_try(amount, high_, now)))
      violated("budget " + budget + ": " + std::to_string(amount) + " is more than " + options_.name +
               " and its capacity allow");
    high_ -= taken;
    low_ -= taken;
    owed_.push_back({job, now, full_ - low_, full_ - high_});
    trial_ = false;
    return;
  }
  // Nothing is held back until the pace behind a pause is whole again.
  const std::int64_t kept = pace_at(now).share < kWhole ? 0 : held(hold);
  const std::int64_t wanted = std::min(amount + kept, whole_for(amount));
  const std::int64_t left = std::max(this->left(), left_most(now));
  // Where refusals have lowered the limit one asks now and then whether more is taken.
  const bool may_ask = share_most_.at(now) < ModelShare::kAll && now - last_sent_at_ >= seconds(1);
  if (may_ask) asked_at_ = now;
  last_sent_at_ = now;
  if (amount > options_.limit || (sum_ + wanted > left && !(may_ask && sum_ + amount <= ceiling_)))
    violated("budget " + budget + ": " + std::to_string(sum_ + amount) + " in a window of " + options_.name +
             " = " + std::to_string(options_.limit) + ", of which " + std::to_string(left) +
             " are left by what the upstream says, and " + std::to_string(wanted - amount) +
             " are held for higher lanes");
  sent_.push_back({now, job, amount});
  sum_ += amount;
  // It went, so that the bucket held what it takes at least.
  low_ = std::max(low_, level_for(amount, 0)) - taken;
  empty_at_ = now + options_.period * kPeriodPercent / 100;
}

void ModelRate::take_as_probe(std::uint64_t job, std::int64_t amount, TimePoint now) {
  advance(now);
  if (amount <= 0) return;
  const core::Int128 taken = static_cast<core::Int128>(amount) * options_.period.count();
  low_ -= taken;
  if (window_ == core::WindowKind::bucket) {
    high_ -= taken;
    owed_.push_back({job, now, full_ - low_, full_ - high_});
    return;
  }
  sent_.push_back({now, job, amount});
  sum_ += amount;
  empty_at_ = now + options_.period * kPeriodPercent / 100;
}

void ModelRate::correct(std::uint64_t job, TimePoint taken_at, std::int64_t more, TimePoint now) {
  advance(now);
  // One call counts for no more than the limit, and a bucket owes no more than that.
  more = std::min(more, options_.limit);
  const core::Int128 period = options_.period.count(), moved = core::Int128{more} * period;
  if (window_ == core::WindowKind::bucket) {
    const auto own = std::find_if(owed_.begin(), owed_.end(),
                                  [&](const Owed& owed) { return owed.job == job && owed.at == taken_at; });
    const Owed owed = own == owed_.end() ? Owed{job, taken_at, -moved, 0} : *own;
    // Those that were taken after it, also at the same time.
    const auto later = own != owed_.end() ? owed_.erase(own)
                                          : std::find_if(owed_.begin(), owed_.end(), [&](const Owed& other) {
                                              return other.at >= taken_at;
                                            });
    if (more > 0) {
      const core::Int128 least = -core::Int128{options_.limit} * period;
      high_ = std::clamp(high_ - moved, std::min(least, full_), full_);
      low_ = std::max(low_ - moved, least);
    } else {
      const core::Int128 most = std::min(-moved, owed.most);
      // A broker need not know exactly how much has flowed over, and may count in whole tokens.
      const core::Int128 surely = owed.least * kGivesPercent / 100 - full_ / kForgottenPart - period;
      const core::Int128 least = std::max<core::Int128>(std::min(-moved, surely), 0);
      high_ = std::min(high_ + most, full_);
      low_ = std::min(low_ + least, full_);
      for (auto other = later; other != owed_.end(); ++other)  // the bucket has held so much more since
        other->most = std::max<core::Int128>(other->most - least, 0);
      for (Owed& other : owed_)
        other.least = std::max<core::Int128>(other.least - most, 0);
    }
    forget();
    return;
  }
  if (more > 0) low_ -= moved;  // what is given back the window may not have room for
  // What used something that it was not expected to was not listed.
  auto place = std::upper_bound(sent_.begin(), sent_.end(), taken_at,
                                [](TimePoint at, const Sent& sent) { return at < sent.at; });
  if (taken_at >= now - options_.period) {
    auto own = place;
    while (own != sent_.begin() && std::prev(own)->at == taken_at && std::prev(own)->job != job)
      --own;
    if (own != sent_.begin() && std::prev(own)->at == taken_at)
      std::prev(own)->amount += more;
    else
      sent_.insert(place, {taken_at, job, more});
    sum_ += more;
  }
  empty_at_ = std::max(empty_at_, taken_at + options_.period * kPeriodPercent / 100);
}

void ModelRate::cut(TimePoint now) {
  advance(now);
  const std::int64_t calls = options_.period / kAskedEvery;
  const bool few = 2 * calls >= ceiling_;
  const std::int64_t least =
      few ? ModelShare::kAll / 2 : (calls * ModelShare::kAll + ceiling_ - 1) / ceiling_;
  share_.cut(resource() == core::Resource::requests ? least : 0, now);
  share_most_.cut(resource() == core::Resource::requests ? least : 0, now);
  share_then_ = share_.at(now);
  lower_low(ceiling_);
}

void ModelRate::mark(TimePoint now) {
  advance(now);
  share_most_.at(now);
  share_.mark();
  share_most_.mark();
}

void ModelRate::take_back(TimePoint now) {
  advance(now);
  share_.take_back();
  share_most_.take_back();
  share_then_ = share_.at(now);
}

void ModelRate::pause(TimePoint until, TimePoint now) {
  if (until <= now) return;
  advance(now);
  for (Owed& owed : owed_) {  // but for a debt, it is empty whatever was taken
    owed.most = std::min(owed.most, std::max<core::Int128>(-low_, 0));
    owed.least = std::min(owed.least, std::max<core::Int128>(-high_, 0));
  }
  high_ = std::min<core::Int128>(high_, 0);
  low_ = std::min<core::Int128>(low_, 0);
  paused_until_ = until;
  trial_ = true;
}

/// A window that was nearly full is over its new limit: at most by all that the old one let through.
void ModelRate::lower_low(std::int64_t before) {
  if (window_ == core::WindowKind::sliding)
    low_ = std::min<core::Int128>(low_, 0) - static_cast<core::Int128>(before) * options_.period.count();
}

void ModelRate::learn(std::int64_t limit, TimePoint now) {
  const std::int64_t before = ceiling_, ceiling = std::clamp<std::int64_t>(limit, 1, options_.limit);
  if (ceiling == before) return;
  advance(now);
  ceiling_ = ceiling;
  share_.restore();
  share_most_.restore();
  share_then_ = ModelShare::kAll;
  if (ceiling < before) lower_low(before);
}

bool ModelRate::is_lowered(TimePoint now) {
  advance(now);
  return ceiling_ != options_.limit || share_most_.at(now) < ModelShare::kAll ||
         pace_at(now).share < kWhole || pace_at(now).paused;
}

void ModelRate::lift(TimePoint now) {
  advance(now);
  ceiling_ = options_.limit;
  share_.restore();
  share_most_.restore();
  share_then_ = ModelShare::kAll;
  if (paused_until_) refilled_at_ = std::max(refilled_at_, now);  // what came in by then is not certain
  paused_until_.reset();
  trial_ = false;
}

void ModelRate::doubt(std::int64_t remaining, TimePoint now) {
  advance(now);
  if (window_ == core::WindowKind::sliding) {
    lower_low(ceiling_);
    constexpr std::int64_t kPeriodsMost = 4;
    doubted_until_ = now + options_.period * kPeriodsMost;
    empty_at_ = std::max(empty_at_, now + options_.period * kPeriodPercent / 100);
  } else {
    low_ = std::min<core::Int128>(
        low_, static_cast<core::Int128>(std::max<std::int64_t>(remaining, 0)) * options_.period.count());
  }
}

core::Int128 ModelRate::without_fraction(core::Int128 level) const {
  const core::Int128 one = options_.period.count(), rest = level % one;
  return level - (rest < 0 ? rest + one : rest);
}

void ModelRate::configure(const core::RateOptions& options, TimePoint now) {
  advance(now);
  const std::int64_t before = ceiling_;
  ceiling_ = ceiling_ == options_.limit ? options.limit : std::min(ceiling_, options.limit);
  options_ = options;
  const std::int64_t burst_before = burst_;
  burst_ = burst_of(options, window_);
  full_ = static_cast<core::Int128>(burst_) * options_.period.count();
  if (window_ == core::WindowKind::bucket && burst_ < burst_before) {
    const core::Int128 lost = core::Int128{burst_before - burst_} * options_.period.count();
    high_ -= lost;
    low_ -= lost;
  }
  high_ = std::min(without_fraction(high_), full_);
  low_ = std::min(without_fraction(low_), full_);
  const core::Int128 least = -core::Int128{options.limit} * options.period.count();
  high_ = std::max(high_, least);
  if (window_ == core::WindowKind::bucket) low_ = std::max(low_, least);
  if (ceiling_ < before) lower_low(before);
}

bool ModelRate::surely_affordable(std::int64_t amount, int hold, TimePoint now) {
  advance(now);
  if (amount > options_.limit) return false;
  if (window_ == core::WindowKind::sliding && (share_then_ < ModelShare::kAll || now < empty_at_))
    return false;
  return low_ >= level_for(amount, hold) ||
         (window_ == core::WindowKind::bucket && may_try(amount, low_, now));
}

TimePoint ModelRate::affordable_at(std::int64_t amount, int hold, TimePoint now) {
  if (surely_affordable(amount, hold, now)) return now;
  if (window_ == core::WindowKind::sliding || amount > options_.limit) return core::kNever;
  const std::int64_t pace = left();
  const core::Int128 wanted = level_for(amount, hold);
  core::Int128 level = low_;
  for (TimePoint from = now;;) {
    const Pace step = pace_at(from);
    const core::Int128 then = step.until == core::kNever ? wanted : risen(level, pace, from, step.until);
    if (then >= wanted) {
      const std::int64_t rate = paced(pace, step);
      return from + Duration(static_cast<std::int64_t>((wanted - level + rate - 1) / rate));
    }
    level = then;
    from = step.until;
  }
}

}  // namespace lanemq::sim
