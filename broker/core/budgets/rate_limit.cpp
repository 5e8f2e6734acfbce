// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/rate_limit.hpp"

#include <algorithm>

namespace lanemq::core {
namespace {

std::int64_t capacity_of(const RateOptions& options, WindowKind window) {
  std::int64_t capacity =
      options.capacity > 0 ? options.capacity : std::max<std::int64_t>(options.limit / 10, 1);
  if (window != WindowKind::bucket)
    capacity = std::min(capacity, std::max<std::int64_t>(options.limit / 2, 1));
  return capacity;
}

/// Units of the bucket where the pace changes. Small limits count in thousandths: the pace is a whole number,
/// and rounding must not lose part of a few requests per period.
std::int64_t scale_of(const RateOptions& options) {
  const std::int64_t limit = options.open && options.resource == Resource::requests ? 100 : options.limit;
  return std::clamp<std::int64_t>(100000 / limit, 1, 1000);
}

/// A call each so long is asked in any case: a client that obeys its upstream asks as often, and waits less.
constexpr Duration kAskedEvery = std::chrono::milliseconds(500);

/// Where nothing is known of a limit a refusal leaves a call each so long at the least: others may have taken
/// the rest.
constexpr Duration kGuessEvery = std::chrono::milliseconds(100);
/// Debit ahead for an unknown limit: enough between two commits, and little after a crash.
constexpr std::int64_t kOpenAheadCalls = 64, kOpenAheadTokens = 64'000;
/// A stated limit that is not configured and has a longer period counts after kLongStated statements.
constexpr Duration kLongPeriod = std::chrono::minutes(1);
constexpr int kLongStated = 3;
/// Words about another period say that all is back within such a part of the assumed one, so often in a row,
/// for longer than that part lasts; resets are whole seconds.
constexpr std::int64_t kDoubtedPart = 10;
constexpr int kDoubtsMin = 3;
/// And that no more is used than such a part of what was sent.
constexpr std::int64_t kDoubtedUse = 4;
constexpr Duration kDoubtedSlack = std::chrono::seconds(1);
/// Refusals leave at least so much of a limit, in millionths.
constexpr std::int64_t kShareMin = 10'000;

/// Bound on what the bucket gathers during a pause, so that one job can go when the pause ends.
constexpr std::int64_t kPausedLevelMax = 1;

/// In parts of a limit: less may be missing upstream before others are taken to use the account. Calls cross
/// on their way, and upstreams count in steps of their own.
constexpr std::int64_t kForeignTolerance = 20;

/// A debt is kept for this part of a period longer than the period, since clocks drift apart.
constexpr std::int64_t kPeriodSlack = 100;

/// In a strict window a reserve keeps at most this part of the limit free.
constexpr std::int64_t kHeldInWindow = 100;

/// Bound of the changes that foreseen() goes through: a window that empties, the ramp after a pause, and a
/// limit that rises.
constexpr int kForeseenSteps = 2 * static_cast<int>(SlidingWindow::kSlices);

/// Tokens leave a strict window in lumps as large as the jobs were. At an even pace a lump is sent again
/// within a whole period, and a hundredth of the limit is always free. So when at most a 26th is free, that
/// is sent within a twentieth of a period, and no job waits longer than a 26th of a period. A faster pace is
/// worse for urgent jobs larger than their reserve: they find less free.
constexpr std::int64_t kNearlyFull = 26, kLumpsInPeriod = 20;

std::int64_t lump_pace(std::int64_t headroom, std::int64_t limit) {
  return headroom > 0 && headroom * kNearlyFull <= limit ? headroom * kLumpsInPeriod : 0;
}

std::int64_t floor_divide(std::int64_t value, std::int64_t by) {
  return value >= 0 ? value / by : -((-value + by - 1) / by);
}

}  // namespace

RateLimit::RateLimit(const RateOptions& options, WindowKind window)
    : name_(options.name),
      resource_(options.resource),
      kind_(window),
      open_(options.open),
      guess_(options.guess),
      limit_(options.limit),
      period_(options.period),
      ceiling_(options.limit),
      scale_(window != WindowKind::bucket ? scale_of(options) : 1),
      bucket_(options.limit * scale_, options.period, capacity_of(options, window) * scale_),
      history_(options.period) {
  if (window != WindowKind::bucket) window_.emplace(options.limit, options.period, scale_);
}

void RateLimit::configure(const RateOptions& options, TimePoint now) {
  advance(now);
  note_room(now);  // of the capacity until now
  std::int64_t level = floor_divide(bucket_.level(), scale_);
  const std::int64_t before = limit_;
  // Past use stays used: a smaller bucket that counted as full would let a large job go at once.
  if (!window_) level -= std::max<std::int64_t>(bucket_.capacity() / scale_ - capacity_of(options, kind_), 0);
  limit_ = options.limit;
  ceiling_ = ceiling_ == before ? limit_ : std::min(ceiling_, limit_);
  scale_ = window_ ? scale_of(options) : 1;
  bucket_ = TokenBucket(limit_ * scale_, period_, capacity_of(options, kind_) * scale_);
  bucket_.set_level(std::max(level, -limit_) * scale_, now);
  if (window_) window_->set_scale(scale_);
  history_.lower(before - limit_);
  apply_limit();
}

std::int64_t RateLimit::effective() const {
  return shown_.of(ceiling_);
}

void RateLimit::apply_limit() {
  advanced_at_ = kNever;
  held_for_ = kNoHold;
  // A limit that is not configured has the default burst of configured ones.
  if (open_) bucket_.set_capacity(std::max<std::int64_t>(effective() / 10, 1) * scale_);
  others_paced_ = 0;
  if (window_) window_->set_limit(window_limit());
  apply_pace();
}

void RateLimit::apply_pace() {
  // A bucket refills evenly, so others' use needs no further pacing.
  const bool given_back = others_count_ > 0 && others_.is_even();
  std::int64_t pace = effective() * scale_;
  if (window_ && !given_back) pace = burst_beyond() > 0 ? std::min(pace, window_->pace()) : window_->pace();
  if (window_ && burst_beyond() == 0 && ramp_.is_full() && resource_ != Resource::requests)
    pace += lump_pace(own_headroom(), effective()) * scale_;
  // Debts are paid back during a pause, too.
  const int share = ramp_.is_paused() ? PaceRamp::kFull : ramp_.share();
  const std::int64_t asked =
      resource_ == Resource::requests ? std::min(period_ / kAskedEvery * scale_, pace) : 1;
  bucket_.set_rate(std::max<std::int64_t>(pace * share / PaceRamp::kFull, asked));
}

bool RateLimit::learn_limit(std::int64_t limit, TimePoint now) {
  if (misread_) return false;
  // One stray word about a day would keep jobs back for a day.
  if (open_ && period_ > kLongPeriod && ++stated_ < kLongStated) return false;
  const std::int64_t ceiling = std::clamp<std::int64_t>(limit, 1, limit_);
  if (ceiling == ceiling_) return false;
  advance(now);
  ceiling_ = ceiling;
  shown_.replace(now);
  apply_limit();
  return true;
}

/// Lower bound on the share after refusals: a call each kAskedEvery, at most half of the limit.
std::int64_t RateLimit::share_min() const {
  if (resource_ != Resource::requests) return kShareMin;
  const std::int64_t asked = (period_ / kAskedEvery * ShownPart::kWhole + ceiling_ - 1) / ceiling_;
  return std::clamp(asked, open_ && ceiling_ == limit_ ? 1 : kShareMin, ShownPart::kWhole / 2);
}

std::int64_t RateLimit::ahead() const {
  if (open_) return resource_ == Resource::requests ? kOpenAheadCalls : kOpenAheadTokens;
  return std::max<std::int64_t>(capacity() / 2, 1);
}

void RateLimit::cut(TimePoint now) {
  advance(now);
  if (is_unknown() && window_) {
    const std::int64_t pace = std::max<std::int64_t>({window_->total(), guess_, period_ / kGuessEvery});
    shown_.guess(static_cast<std::int64_t>(static_cast<Int128>(pace) * ShownPart::kWhole / limit_), now);
  } else {
    shown_.cut(share_min(), now);
  }
  apply_limit();
}

bool RateLimit::can_lift(TimePoint now) {
  advance(now);
  return others_.amount(now) > 0 || ceiling_ != limit_ || is_shown() || !ramp_.is_full() || ramp_.is_gentle();
}

bool RateLimit::lift(TimePoint now) {
  if (!can_lift(now)) return false;
  ceiling_ = limit_;
  shown_.lift();
  ramp_.lift();
  trial_ = Trial::none;
  others_.forget();
  others_count_ = 0;
  apply_limit();
  return true;
}

std::int64_t RateLimit::effective_limit(TimePoint now) {
  advance(now);
  return effective();
}

void RateLimit::pause(TimePoint until, bool stated, TimePoint now) {
  if (until <= now) return;
  advance(now);
  // Emptied it would have been in any case, but for a debt.
  if (!window_) room_.note(std::max<std::int64_t>(-bucket_.level(), 0), bucket_.capacity(), now);
  bucket_.lower_to(0);
  ramp_.pause(until);
  held_for_ = kNoHold;
  trial_ = stated ? Trial::of_stated_pause : Trial::of_guess;
  advanced_at_ = kNever;
  apply_pace();
}

/// A reserve keeps its room free again, which is there at once: gathered from the pace nothing could go
/// meanwhile.
void RateLimit::end_ramp() {
  trial_ = Trial::none;
  held_for_ = kNoHold;
  if (window_ && burst_beyond() == 0 && bucket_.level() >= 0) bucket_.raise_to(held_in_window() * scale_);
}

void RateLimit::rises_too_fast(TimePoint called_at, TimePoint now) {
  if (is_unknown()) return cut(now);
  advance(now);
  if (!ramp_.fall(called_at, now)) return;
  bucket_.lower_to(0);
  advanced_at_ = kNever;
  held_for_ = kNoHold;
  apply_pace();
}

std::int64_t RateLimit::headroom() const {
  return window_ ? own_headroom() - burst_beyond() : floor_divide(bucket_.level(), scale_);
}

void RateLimit::leave_to_others(TimePoint now) {
  const bool counted = others_count_ > 0;
  others_count_ = others_.amount(now);
  // A window has been reset: one goes at once, and the pace that others left does not keep it back.
  if (counted && others_count_ == 0 && !others_.is_even() && trial_ == Trial::none) trial_ = Trial::of_guess;
  // Where others' use is refilled at once, our pace is that of a smaller window.
  const std::int64_t paced = others_.is_even() ? 0 : std::min(others_count_, effective() - 1);
  const bool changes = shows_bucket() && counted != (others_count_ > 0);
  if (changes) held_for_ = kNoHold;
  if (paced == others_paced_ && !changes) return;
  others_paced_ = paced;
  window_->set_limit(window_limit() - paced);
}

std::int64_t RateLimit::headroom_left() const {
  if (others_count_ == 0) return window_->headroom();
  // Others' use makes no debt of ours.
  const std::int64_t own = own_headroom();
  return own > 0 ? std::max<std::int64_t>(own - others_count_, 0) : own;
}

void RateLimit::learn_remaining(const OthersUse::Said& said, TimePoint sent_at, TimePoint now) {
  // An answer to an older request tells nothing new.
  if (sent_at < remaining_sent_at_) return;
  if (open_ && (is_unknown() || is_of_another_period(said, now))) return;
  advance(now);
  if (kind_ == WindowKind::automatic && said.reset && said.limit > 0) {
    const std::int64_t used = std::clamp<std::int64_t>(*said.limit - said.remaining, 0, *said.limit);
    if (bucket_signs_.heard(*said.reset, used, *said.limit, window_->total(), period_, now)) apply_limit();
  }
  // A limit that is learnt with these words has no history: what went unseen is as if others had sent it.
  const bool first = open_ && remaining_sent_at_ == TimePoint{};
  const std::optional<std::int64_t> then = first ? headroom() : history_.at(sent_at);
  if (!then) return;
  remaining_sent_at_ = sent_at;
  // Some upstreams report what remained when they took the request in, others what remains when they answer
  // it.
  const std::int64_t foreign =
      std::min(*then, headroom()) - std::clamp<std::int64_t>(said.remaining, 0, limit_);
  const std::int64_t tolerance = std::max<std::int64_t>(effective() / kForeignTolerance, 1);
  if (!window_) {
    if (foreign <= tolerance) return;
    history_.lower(foreign);
    return owe(foreign, now);
  }
  if (foreign <= tolerance && !others_.any()) return;
  others_.heard(said, foreign, tolerance, effective(), period_, now);
  advanced_at_ = kNever;
  advance(now);
}

std::int64_t RateLimit::room(TimePoint now) {
  advance(now);
  return headroom() + history_.foreign();
}

void RateLimit::advance(TimePoint now) {
  // Called many times in a turn: what is taken and given changes bucket and window alike.
  if (now == advanced_at_) return;
  advanced_at_ = now;
  if (shown_.recover(now)) apply_limit();
  const std::int64_t rate_before = bucket_.rate();
  std::int64_t rate_now = 0;
  if (window_) {
    // Until then the window had no more room, whether advance() was called meanwhile or not.
    if (const TimePoint changes = window_->next_change(); changes <= now) {
      bucket_.refill(changes);
      bucket_.lower_to((headroom_left() + 1) * scale_);
    }
    window_->advance(now);
    if (others_.any() || others_count_ > 0) leave_to_others(now);
  }
  while (!ramp_.is_full() && ramp_.next() <= now) {
    bucket_.refill(ramp_.next());
    if (ramp_.is_paused()) bucket_.lower_to(kPausedLevelMax * scale_);
    ramp_.rise();
    if (ramp_.is_full()) end_ramp();
    apply_pace();
  }
  if (window_ && ramp_.is_full()) {
    // The last pace may be that of a full window long ago. If it is higher now the higher one counts; the
    // window is the bound in any case.
    apply_pace();
    rate_now = bucket_.rate();
    bucket_.set_rate(std::max(rate_before, rate_now));
  }
  // After a period a debt has left the upstream's window, however slow the pace is.
  if (const TimePoint over = owed_at_ + period_ + period_ / kPeriodSlack;
      window_ && bucket_.level() < 0 && now >= over) {
    bucket_.refill(over);
    bucket_.raise_to(0);
  }
  bucket_.refill(now);
  if (ramp_.is_paused()) bucket_.lower_to(kPausedLevelMax * scale_);
  if (!window_) return;
  if (rate_now > 0)
    bucket_.set_rate(rate_now);
  else
    apply_pace();
  // The bucket must not gather, for a later burst, what the window cannot take now.
  bucket_.lower_to((headroom_left() + 1) * scale_);
}

std::int64_t RateLimit::available(TimePoint now) {
  advance(now);
  if (!window_) return bucket_.level();
  return std::min(floor_divide(bucket_.level(), scale_), headroom_left());
}

std::int64_t RateLimit::find_held(int hold) const {
  const std::int64_t held = capacity() * hold / 1000;
  if (!window_ || burst_beyond() > 0) return held;
  // A strict window has room for a burst only if that room is always kept free, which costs rate; and after a
  // pause nothing could go at a tenth of the pace until the burst is gathered.
  return ramp_.is_full() ? std::min(held, held_in_window()) : 0;
}

/// The most that a reserve keeps free in a strict window.
std::int64_t RateLimit::held_in_window() const {
  return std::max<std::int64_t>(effective() / kHeldInWindow, 1);
}

std::int64_t RateLimit::whole_for(std::int64_t amount) const {
  if (amount > limit_) return amount;
  return amount <= ceiling_ ? ceiling_ : effective();
}

std::int64_t RateLimit::needed_for(std::int64_t amount, int hold) const {
  if (amount <= 0) return 0;
  const std::int64_t needed = amount + held(hold);
  return window_ ? std::min(needed, whole_for(amount)) : needed;
}

bool RateLimit::affordable(std::int64_t amount, int hold, TimePoint now) {
  if (amount > limit_) return false;
  advance(now);
  const std::int64_t needed = needed_for(amount, hold);
  if (window_ && headroom_left() < needed) return may_ask(amount, needed, now) || may_ask_beyond(amount, now);
  return floor_divide(bucket_.level(), scale_) >= std::min(needed, capacity()) ||
         (is_trial(amount) && !ramp_.is_paused() && bucket_.level() >= 0);
}

/// Whether words that name no period are about a shorter one than is assumed: time and again hardly anything
/// of what was sent is said to be used, and that to be back at once. That is true of no bucket of this
/// period, whose reset tells how much is used, and of a window only at its end. Then the limit is unknown
/// again, and stays so.
bool RateLimit::is_of_another_period(const OthersUse::Said& said, TimePoint now) {
  if (!said.reset || !said.limit || *said.reset > period_ / kDoubtedPart) {
    doubts_ = 0;
    return false;
  }
  const std::int64_t whole = std::max<std::int64_t>(*said.limit, 1);
  const std::int64_t used = std::clamp<std::int64_t>(whole - said.remaining, 0, whole);
  const Duration expected = BucketSigns::full_in(used, whole, period_);
  // In a sliding window, where the next call's time is told, as much is used as was sent.
  const std::int64_t sent = window_ ? window_->total() : 0;
  if (expected < 3 * *said.reset + kDoubtedSlack || kDoubtedUse * used > sent) return false;
  if (doubts_++ == 0) doubted_since_ = now;
  if (doubts_ < kDoubtsMin || now - doubted_since_ <= period_ / kDoubtedPart + kDoubtedSlack) return false;
  misread_ = true;
  lift(now);
  return true;
}

/// Whether the amount may be the first after a pause, which finds out whether the pause is over.
bool RateLimit::is_trial(std::int64_t amount) const {
  return trial_ != Trial::none && (window_ || amount <= capacity());
}

/// Whether the amount may go that others' use alone keeps back: the first after a pause whose end the
/// upstream stated; or one that finds out whether it is still so.
bool RateLimit::may_ask(std::int64_t amount, std::int64_t needed, TimePoint now) const {
  if (others_count_ == 0 || amount <= 0 || own_headroom() < needed) return false;
  return bucket_.level() >= 0 && !ramp_.is_paused() &&
         (trial_ == Trial::of_stated_pause || others_.may_ask(now));
}

/// Whether the amount may go although the share left by refusals is used up: it finds out whether more is
/// taken. Configured and stated limits still bound it.
bool RateLimit::may_ask_beyond(std::int64_t amount, TimePoint now) const {
  return amount > 0 && shown_.may_ask(now) && !ramp_.is_paused() && others_count_ == 0 &&
         window_->total() + amount <= ceiling_;
}

TimePoint RateLimit::foreseen(std::int64_t amount, int hold, TimePoint now) const {
  if (amount > limit_) return kNever;
  RateLimit ahead = *this;
  for (int step = 0; step < kForeseenSteps; ++step) {
    if (ahead.affordable(amount, hold, now)) return now;
    const TimePoint next = ahead.when_affordable(amount, hold, now);
    if (next == kNever) return kNever;
    now = std::max(next, now + Duration(1));
  }
  return kNever;
}

bool RateLimit::leaves(std::int64_t amount, int hold) const {
  return amount + held(hold) <= (window_ ? whole_for(amount) : capacity());
}

void RateLimit::take(std::int64_t amount, TimePoint now, int hold) {
  advance(now);
  if (!ramp_.is_paused() && amount > 0) trial_ = Trial::none;
  note_room(now);
  if (others_count_ > 0 && amount > 0 && headroom_left() < amount) others_.asked(now);
  if (is_shown() && window_ && amount > 0)
    shown_.sent(period_ / effective() * amount, headroom_left() < needed_for(amount, hold), now);
  const std::int64_t level = bucket_.level(), left = held(hold) * scale_;
  if (window_ && level >= 0)
    bucket_.take(std::min(amount * scale_, level - (level >= left ? left : 0)));
  else
    bucket_.take(amount * scale_);
  if (window_) window_->record(amount, now);
  history_.note(headroom(), now);
}

void RateLimit::take_late(std::int64_t amount, TimePoint taken_at, TimePoint now) {
  advance(now);
  const std::int64_t counted = std::min(amount, limit_);
  owe(counted, now);
  if (window_) window_->record_late(counted, taken_at);
}

/// Takes from the bucket, also into debt.
void RateLimit::owe(std::int64_t amount, TimePoint now) {
  owed_at_ = now;
  note_room(now);
  bucket_.take(amount * scale_);
  bucket_.raise_to(-limit_ * scale_);
}

void RateLimit::give(std::int64_t amount, TimePoint taken_at, TimePoint now) {
  advance(now);
  bucket_.give(window_ ? amount * scale_ : room_.give(amount, taken_at));
  if (window_) window_->unrecord(amount, taken_at);
}

TimePoint RateLimit::when_affordable(std::int64_t amount, int hold, TimePoint now) {
  advance(now);
  const std::int64_t needed = needed_for(amount, hold);
  const std::int64_t level = is_trial(amount) ? 0 : std::min(needed, capacity());
  TimePoint refilled = bucket_.when_level(level * scale_, now);
  if (!ramp_.is_full()) refilled = std::min(refilled, ramp_.next());
  // While the limit recovers the pace rises each second.
  if (is_shown()) refilled = std::min(refilled, shown_.rises_at());
  if (!window_) return refilled;
  if (others_count_ > 0) refilled = std::min(refilled, std::max(others_.until(), now));
  if (headroom_left() < needed) {
    TimePoint asks = kNever;
    if (!ramp_.is_paused() && others_count_ > 0) asks = std::max(others_.ask_at(), now);
    if (!ramp_.is_paused() && others_count_ == 0 && is_shown()) asks = std::max(shown_.ask_at(), now);
    return std::min(window_->next_change(), asks);
  }
  return std::min(refilled, std::max(window_->next_change(), now));
}

}  // namespace lanemq::core
