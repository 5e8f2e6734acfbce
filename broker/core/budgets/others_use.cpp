// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/others_use.hpp"

#include "broker/core/base/stored_entry.hpp"
#include "broker/core/budgets/bucket_signs.hpp"

namespace lanemq::core {
namespace {

/// So many answers more of one kind are remembered, so that a few of the other kind change nothing.
constexpr int kSeenMax = 3;
/// All that a bucket gives back, and the least part that is counted on.
constexpr std::int8_t kLeftAll = 16, kLeftMin = 4;

/// In a bucket, or where that is not known, a job asks after the first time, and then each time after twice
/// as long; in a window after half of what is left of its reset, where that is not short.
constexpr Duration kAskFirst = std::chrono::seconds(1), kAskMost = std::chrono::seconds(8);
constexpr Duration kAskInWindow = std::chrono::seconds(5);

/// Bound of what is restored, and what stands for reset_told_ in a saved number.
constexpr std::int64_t kAmountMax = std::int64_t{1} << 50, kToldReset = 10'000;

}  // namespace

std::int64_t OthersUse::amount(TimePoint now) const {
  if (amount_ == 0 || now >= until_) return 0;
  if (!is_even() || now <= from_) return amount_;
  const auto left = static_cast<Int128>(amount_) * (until_ - now).count();
  return static_cast<std::int64_t>(left / (until_ - from_).count());
}

void OthersUse::set(std::int64_t amount, Duration back_in, TimePoint now) {
  const bool begins = this->amount(now) == 0;
  amount_ = amount;
  from_ = now;
  until_ = now + std::max(is_even() ? back_in * kLeftAll / left_ : back_in, Duration(1));
  if (is_window()) {
    const Duration half = (until_ - now) / 2;
    ask_at_ = half < kAskInWindow ? until_ : begins ? now + half : std::min(ask_at_, until_);
  } else if (begins) {
    asks_after_ = kAskFirst;
    ask_at_ = now + kAskFirst;
  }
}

void OthersUse::granted(TimePoint taken_at, TimePoint now) {
  const std::int64_t counted = amount(now);
  if (counted == 0 || asked_at_ == kNever || taken_at < asked_at_) return;
  asked_at_ = kNever;
  asks_after_ = kAskFirst;
  ask_at_ = now + kAskFirst;
  if (counted <= 2)
    amount_ = 0;
  else
    set(counted / 2, until_ - now, now);
}

void OthersUse::asked(TimePoint now) {
  asked_at_ = now;
  if (is_window()) {
    const Duration half = (until_ - now) / 2;
    ask_at_ = half < kAskInWindow ? until_ : now + half;
    return;
  }
  asks_after_ = std::clamp(2 * asks_after_, kAskFirst, kAskMost);
  ask_at_ = now + asks_after_;
}

void OthersUse::heard(const Said& said, std::int64_t foreign, std::int64_t tolerance, std::int64_t limit,
                      Duration period, TimePoint now) {
  const std::int64_t counted = amount(now);
  if (foreign <= tolerance) {
    left_ = kLeftAll;
    if (counted <= 2 * tolerance)
      amount_ = 0;
    else
      set(counted / 2, until_ - now, now);
    return;
  }
  reset_told_ = said.reset.has_value();
  if (said.reset) {
    const std::int64_t whole = std::max<std::int64_t>(said.limit.value_or(limit), 1);
    const std::int64_t used = std::clamp<std::int64_t>(whole - said.remaining, 0, whole);
    const bool as_window = BucketSigns::differs(*said.reset, used, whole, period);
    window_seen_ =
        static_cast<std::int8_t>(std::clamp(window_seen_ + (as_window ? 1 : -1), -kSeenMax, kSeenMax));
  }
  // Calls that cross make what remains look larger, so less is believed by and by.
  const std::int64_t less = counted - foreign > tolerance / 2 ? (counted - foreign) / 2 : 0;
  const std::int64_t now_counted = std::max(foreign, counted - less);
  if (counted > 0 && foreign > counted + tolerance / 2)
    left_ = std::max<std::int8_t>(left_ / 2, kLeftMin);
  else if (foreign < counted)
    left_ = std::min<std::int8_t>(left_ * 2, kLeftAll);
  set(now_counted, std::clamp(said.reset.value_or(period), Duration(0), period), now);
}

void OthersUse::save(std::int64_t epoch_us, StoredNumbers& numbers) const {
  const auto time = [&](TimePoint when) {
    numbers.put(when == kNever ? 0 : when.time_since_epoch().count() + epoch_us);
  };
  numbers.put(amount_);
  time(from_);
  time(until_);
  time(ask_at_);
  numbers.put(asks_after_.count());
  numbers.put(window_seen_ * 100 + left_ + (reset_told_ ? kToldReset : 0));
}

void OthersUse::restore(StoredNumbers& numbers, std::int64_t epoch_us, std::int64_t limit, Duration period,
                        TimePoint now) {
  const auto time = [&](TimePoint least, TimePoint most) {
    return std::clamp(TimePoint(Duration(std::max<std::int64_t>(numbers.next() - epoch_us, 0))), least, most);
  };
  amount_ = std::clamp<std::int64_t>(numbers.next(), 0, std::min(limit, kAmountMax));
  from_ = time(TimePoint{}, now);
  until_ = time(from_, now + period * kLeftAll);
  ask_at_ = time(TimePoint{}, until_);
  asks_after_ = std::clamp(Duration(numbers.next()), kAskFirst, kAskMost);
  std::int64_t both = numbers.next();
  reset_told_ = both >= kToldReset / 2;
  if (reset_told_) both -= kToldReset;
  const std::int64_t seen = both >= 0 ? both / 100 : (both - 99) / 100;
  window_seen_ = static_cast<std::int8_t>(std::clamp<std::int64_t>(seen, -kSeenMax, kSeenMax));
  left_ = static_cast<std::int8_t>(std::clamp<std::int64_t>(both - seen * 100, kLeftMin, kLeftAll));
}

}  // namespace lanemq::core
