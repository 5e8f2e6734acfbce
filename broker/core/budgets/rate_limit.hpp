// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/headroom_history.hpp"
#include "broker/core/budgets/sliding_window.hpp"
#include "broker/core/budgets/token_bucket.hpp"

namespace lanemq::core {

class StoredNumbers;

/// One limit of a budget at work.
class RateLimit {
 public:
  RateLimit(const RateOptions& options, WindowKind window);

  const std::string& name() const { return name_; }
  std::int64_t limit() const { return limit_; }
  std::int64_t capacity() const { return bucket_.capacity() / scale_; }
  Resource resource() const { return resource_; }
  Duration period() const { return period_; }
  /// By how much what is saved of it is ahead of what was taken, where jobs use it that are not on disk.
  std::int64_t ahead() const { return std::max<std::int64_t>(capacity() / 2, 1); }
  /// What could be taken at `now`; negative when in debt.
  std::int64_t available(TimePoint now);
  /// What a reserve of so many thousandths of the burst keeps: in a strict window at most a hundredth of the
  /// limit.
  std::int64_t held(int hold) const {
    if (hold != held_for_) {
      held_for_ = hold;
      held_ = find_held(hold);
    }
    return held_;
  }
  /// Whether `amount` may be taken while `hold` thousandths of the burst are left. What is more than the rest
  /// of the burst may be taken when the bucket is full; what is more than the whole limit, never. In a
  /// `bucket` it leaves debt. In debt nothing may be taken: nor what says that it costs nothing.
  bool affordable(std::int64_t amount, int hold, TimePoint now);
  /// Whether `amount` may ever be taken so that `hold` thousandths of the burst are left.
  bool leaves(std::int64_t amount, int hold) const;
  /// Requires: affordable(amount, hold, now), or debt is meant. In a strict window what is larger than the
  /// burst leaves the hold and no debt: the window itself bounds what comes next.
  void take(std::int64_t amount, TimePoint now, int hold = 0);
  /// What was taken at `taken_at` turned out to be more. One call counts for no more than the limit, and what
  /// the bucket owes is no more than that: a period pays it back, of a strict window in any case.
  void take_late(std::int64_t amount, TimePoint taken_at, TimePoint now);
  /// Takes back what take() took at `taken_at` and was never used.
  void give(std::int64_t amount, TimePoint taken_at, TimePoint now);
  /// When `amount` may be affordable; an estimate on the early side. Requires: it is not at `now`.
  TimePoint when_affordable(std::int64_t amount, int hold, TimePoint now);

  /// When it will be if until then nothing is taken, given or learnt: for people, who are told no guess. Goes
  /// through the changes to come one by one, on a copy. kNever: never, or so far away that it is not looked
  /// for.
  TimePoint foreseen(std::int64_t amount, int hold, TimePoint now) const;

  /// The upstream says that its limit is so much for a period of this one's: a lower one counts from now on,
  /// and one that rises again up to what is configured. True if
  /// another one counts now.
  bool learn_limit(std::int64_t limit, TimePoint now);
  /// The upstream refused what was within the limit: a fifth less is taken from now on, at most once in two
  /// seconds. It rises again by a hundredth a second, from ten seconds after the last cut on (AIMD; Chiu &
  /// Jain, 1989).
  void cut(TimePoint now);
  /// Forgets what the upstream has said and shown, its pause too: the limit as configured counts, at its
  /// whole pace. True if there was something to forget.
  bool lift(TimePoint now);
  bool can_lift(TimePoint now);
  /// What counts at `now`: the limit as configured, unless the upstream has shown that it is less.
  std::int64_t effective_limit(TimePoint now);
  /// Nothing is taken until then, and no burst follows: what is there is lost, but for a debt. When it is
  /// over one claim goes, whatever it leaves to others and as long as there is no debt and a window has room;
  /// the limit comes back from a tenth on, doubling each second. Requires: no earlier pause lasts longer.
  void pause(TimePoint until, TimePoint now);
  /// The upstream says what remained when it took in what was sent at `sent_at`. Where that is clearly less
  /// than what is left here, others use the same account, and what they took counts as sent now until
  /// `reset`, or for a period. What is more is not believed: what others took comes back as time passes.
  void learn_remaining(std::int64_t remaining, std::optional<Duration> reset, TimePoint sent_at,
                       TimePoint now);

  /// For Budgets::save() and restore().
  void save(std::int64_t epoch_us, std::int64_t ahead, StoredNumbers& numbers) const;
  /// `paused_until`: of its quota, restored before.
  void restore(StoredNumbers numbers, std::int64_t epoch_us, TimePoint paused_until, TimePoint now);

  /// Another limit or burst counts from now on; what was taken stays taken, up to a limit's worth of debt.
  void configure(const RateOptions& options, TimePoint now);

 private:
  void advance(TimePoint now);
  void recover(TimePoint now);
  void apply_limit();
  void apply_pace();
  void owe(std::int64_t amount, TimePoint now);
  void forget_debt(TimePoint now);
  std::int64_t effective() const;
  std::int64_t headroom() const;
  /// As much as a window has at most for `amount`: what is more than the upstream says that it allows goes
  /// when nothing else counts, for it would wait for ever, and the upstream knows better; more than the limit
  /// never.
  std::int64_t whole_for(std::int64_t amount) const;
  /// What must be there before `amount` is taken: in the bucket, and in the window.
  std::int64_t level_for(std::int64_t amount, int hold) const;
  std::int64_t headroom_for(std::int64_t amount, int hold) const;
  bool is_trial(std::int64_t amount) const;
  std::int64_t find_held(int hold) const;

  std::string name_;
  Resource resource_;
  WindowKind kind_;
  std::int64_t limit_;
  Duration period_;
  std::int64_t ceiling_;               // what the upstream says, at most limit_
  int share_ = 1000;                   // thousandths of the ceiling that refusals have left
  TimePoint cut_at_{}, changed_at_{};  // of share_
  std::int64_t scale_;                 // the bucket's and the pace's units to one request
  TokenBucket bucket_;
  std::optional<SlidingWindow> window_;
  int ramp_;               // thousandths of the pace that count: 0 in a pause, 1000 when it is long over
  TimePoint ramp_next_{};  // when it rises
  bool trial_ = false;     // nothing was taken since the pause
  TimePoint owed_at_{};    // when the debt was last made greater
  TimePoint advanced_at_ = kNever;  // nothing has changed since but by what was taken and given
  // The reserve that was asked for last, and what it keeps: asked eight times a decision.
  static constexpr int kNoHold = -1;
  mutable int held_for_ = kNoHold;
  mutable std::int64_t held_ = 0;
  HeadroomHistory history_;
  TimePoint remaining_sent_at_{};  // of the last request of which the upstream said what remained
};

}  // namespace lanemq::core
