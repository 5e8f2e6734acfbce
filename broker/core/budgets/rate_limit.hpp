// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/bucket_signs.hpp"
#include "broker/core/budgets/headroom_history.hpp"
#include "broker/core/budgets/least_room.hpp"
#include "broker/core/budgets/others_use.hpp"
#include "broker/core/budgets/pace_ramp.hpp"
#include "broker/core/budgets/shown_part.hpp"
#include "broker/core/budgets/sliding_window.hpp"
#include "broker/core/budgets/token_bucket.hpp"

namespace lanemq::core {

class StoredNumbers;

/// The state of one limit of a budget.
class RateLimit {
 public:
  RateLimit(const RateOptions& options, WindowKind window);

  const std::string& name() const { return name_; }
  std::int64_t limit() const { return limit_; }
  std::int64_t capacity() const { return bucket_.capacity() / scale_; }
  Resource resource() const { return resource_; }
  Duration period() const { return period_; }
  /// Whether nobody configured it, and neither words nor refusals have shown yet how much it is.
  bool is_unknown() const { return open_ && ceiling_ == limit_ && !is_shown(); }
  bool is_open() const { return open_; }
  /// For a limit whose kind is learnt: whether the upstream's words show a bucket.
  bool shows_bucket() const { return bucket_signs_.shown(); }
  /// The limit that the upstream has stated or shown, when last asked; 0: the configured one holds.
  std::int64_t learnt() const { return effective() < limit_ ? effective() : 0; }
  /// How far a save debits ahead of what was taken, where jobs that are not on disk use the limit.
  std::int64_t ahead() const;
  /// The amount that can be taken at `now`; negative when in debt.
  std::int64_t available(TimePoint now);
  /// What `hold` thousandths of the burst keep free: in a strict window at most a hundredth of the limit.
  std::int64_t held(int hold) const {
    if (hold != held_for_) {
      held_for_ = hold;
      held_ = find_held(hold);
    }
    return held_;
  }
  /// Whether `amount` may be taken so that `hold` thousandths of the burst are left. A larger amount than the
  /// rest of the burst needs a full bucket, and in a `bucket` leaves a debt; more than the whole limit is
  /// never affordable. In debt nothing is, not even an amount of 0.
  bool affordable(std::int64_t amount, int hold, TimePoint now);
  /// Whether an empty window, or a full bucket, has room for `amount` and `hold` thousandths of the burst.
  bool leaves(std::int64_t amount, int hold) const;
  /// Requires: affordable(amount, hold, now), or a debt is meant. In a strict window an amount larger than
  /// the burst leaves the hold and no debt, since the window bounds what comes next.
  void take(std::int64_t amount, TimePoint now, int hold = 0);
  /// Takes more for a call handed over at `taken_at`, which used more than expected. One call counts for at
  /// most the limit. The debt is at most the limit, too: so a period pays it back, in a strict window in any
  /// case.
  void take_late(std::int64_t amount, TimePoint taken_at, TimePoint now);
  /// Gives back an amount that take() took at `taken_at` and that was never used. A bucket takes it as far as
  /// it still owes it: what has flowed over since has made up for the rest.
  void give(std::int64_t amount, TimePoint taken_at, TimePoint now);
  /// The same for a call that the upstream did not count: it never was.
  void unsend(std::int64_t amount, TimePoint sent_at, TimePoint now) {
    give(amount, sent_at, now);
    history_.unsend(amount, sent_at, now);
  }
  /// When `amount` may be affordable; an estimate on the early side. Requires: it is not affordable at `now`.
  TimePoint when_affordable(std::int64_t amount, int hold, TimePoint now);

  /// When `amount` is affordable if nothing is taken, given or learnt until then: exact, for people. Steps
  /// through the coming changes on a copy. kNever: never, or further away than kForeseenSteps changes.
  TimePoint foreseen(std::int64_t amount, int hold, TimePoint now) const;

  /// The upstream states its limit for a period. A lower one counts from now on; a later, higher one counts
  /// up to the configured limit. True if the limit that counts has changed.
  bool learn_limit(std::int64_t limit, TimePoint now);
  /// The upstream refused what was within the limit, which is lowered (ShownPart), but not below two
  /// calls a second. Where nothing was known it falls to what was sent in the last period, or ten a second.
  void cut(TimePoint now);
  /// A row of refusals of one job begins; they turn out to be about that job alone: what they lowered since
  /// is given back.
  void mark_shown() { shown_.mark(); }
  void take_back_shown(TimePoint now) {
    advance(now);
    if (shown_.take_back()) apply_limit();
  }
  /// Whether the call that was handed over at that time asked whether more is taken than refusals have left.
  bool has_asked(TimePoint taken_at) const { return shown_.has_asked(taken_at); }
  /// A call that was handed over at `taken_at` was answered. The limits stated in its answer were learnt
  /// before.
  void answered(TimePoint taken_at, TimePoint now) {
    if (shown_.answered(taken_at)) apply_limit();
    if (!others_.any() || remaining_sent_at_ == taken_at) return;
    others_.granted(taken_at, now);
    advanced_at_ = kNever;
  }
  /// Forgets what the upstream said and showed, its pause too: the configured limit counts, at full pace.
  /// True if there was something to forget.
  bool lift(TimePoint now);
  bool can_lift(TimePoint now);
  /// The configured limit, or a lower one that the upstream has stated or shown.
  std::int64_t effective_limit(TimePoint now);
  /// Whether effective_limit() is what refusals have shown, not what the upstream has stated.
  bool is_shown() const { return !shown_.is_whole(); }
  /// When it was stated or shown. Requires: it is lower than configured.
  TimePoint learnt_at() const { return shown_.since(); }
  /// The part of others' use of this limit that still counts.
  std::int64_t others(TimePoint now) {
    advance(now);
    return others_count_;
  }
  /// Stops the bucket until then and empties it, but keeps a debt: no burst follows. At the end one claim may
  /// go whatever its hold, if there is no debt and a window has room; others' use does not keep it back where
  /// the upstream stated the time. Then the pace begins at a tenth and doubles each second. Requires: no
  /// earlier pause lasts longer.
  void pause(TimePoint until, bool stated, TimePoint now);
  /// The upstream says that the pace rose too fast with a call made at `called_at`: the limit stays, the pace
  /// goes on a little lower and without a burst, and from then on rises by a tenth each second where it would
  /// double. Calls that were under way at such a fall are one sign.
  void rises_too_fast(TimePoint called_at, TimePoint now);
  /// The upstream states what remained when it took in a request sent at `sent_at`. Where that is clearly
  /// less than here, others use the account (OthersUse); a bucket owes the difference. A higher `remaining`
  /// than ours is ignored.
  void learn_remaining(const OthersUse::Said& said, TimePoint sent_at, TimePoint now);

  /// The amount that can be sent, leaving out the pace and others' use: so that two times compare.
  std::int64_t room(TimePoint now);
  /// There was such a room() around that time, at most.
  void recall_room(std::int64_t room, TimePoint when) { history_.note(room - history_.foreign(), when); }

  /// For Budgets::save() and restore().
  void save(std::int64_t epoch_us, std::int64_t ahead, StoredNumbers& numbers,
            Detail detail = Detail::few) const;
  /// `paused_until`: of its quota, which is restored before.
  void restore(StoredNumbers numbers, std::int64_t epoch_us, TimePoint paused_until, TimePoint now);

  /// Applies another limit or burst; what was taken stays taken, with a debt of at most the new limit.
  void configure(const RateOptions& options, TimePoint now);

 private:
  void advance(TimePoint now);
  void apply_limit();
  void apply_pace();
  void owe(std::int64_t amount, TimePoint now);
  void note_room(TimePoint now) {
    if (!window_) room_.note(bucket_.room(), bucket_.capacity(), now);
  }
  std::int64_t effective() const;
  std::int64_t share_min() const;
  bool is_of_another_period(const OthersUse::Said& said, TimePoint now);
  std::int64_t headroom() const;
  std::int64_t own_headroom() const { return window_->headroom() + others_paced_; }
  /// How far a bucket lets calls through beyond its limit in a period, which a reserve may keep; 0: no
  /// bucket. Where others use the account, that burst is theirs as much as ours.
  std::int64_t burst_beyond() const { return shows_bucket() && others_count_ == 0 ? capacity() : 0; }
  std::int64_t window_limit() const { return effective() + burst_beyond(); }
  void leave_to_others(TimePoint now);
  /// The amount that may be sent, others' use counted.
  std::int64_t headroom_left() const;
  /// The most that the window must have free for `amount`. An amount above the stated limit, but within the
  /// configured one, goes when the window is otherwise empty: else it would wait for ever, and the upstream
  /// decides.
  std::int64_t whole_for(std::int64_t amount) const;
  /// The room needed before `amount` is taken: in the window, and as far as the bucket holds it there, too.
  std::int64_t needed_for(std::int64_t amount, int hold) const;
  bool is_trial(std::int64_t amount) const;
  bool may_ask(std::int64_t amount, std::int64_t needed, TimePoint now) const;
  bool may_ask_beyond(std::int64_t amount, TimePoint now) const;
  std::int64_t find_held(int hold) const;
  std::int64_t held_in_window() const;
  void end_ramp();

  std::string name_;
  Resource resource_;
  WindowKind kind_;
  bool open_;
  std::int64_t guess_;
  std::int64_t limit_;
  Duration period_;
  std::int64_t ceiling_;  // as the upstream states it, at most limit_
  ShownPart shown_;       // of ceiling_
  std::int64_t scale_;    // units of the bucket and the pace in one token or request
  TokenBucket bucket_;
  LeastRoom room_;  // of the bucket; not where the window is the bound
  std::optional<SlidingWindow> window_;
  PaceRamp ramp_;
  /// Set by a pause, or by others' use until a reset, after which nothing was taken; none: something was.
  enum class Trial : std::uint8_t { none, of_guess, of_stated_pause } trial_ = Trial::none;
  TimePoint owed_at_{};             // when the debt last grew
  TimePoint advanced_at_ = kNever;  // then only take() and give() have changed it since
  // A cache: the last hold that was asked for, and what it keeps free. One decision asks eight times.
  static constexpr int kNoHold = -1;
  mutable int held_for_ = kNoHold;
  mutable std::int64_t held_ = 0;
  HeadroomHistory history_;
  OthersUse others_;               // where there is a window
  std::int64_t others_count_ = 0;  // of others_, as of advanced_at_
  std::int64_t others_paced_ = 0;  // of that, what the window's limit is lower by
  // For an open limit: how often words have stated it; words in a row that a shorter period would explain,
  // and since when; and whether a shorter period was found, after which none of those words is believed.
  int stated_ = 0, doubts_ = 0;
  TimePoint doubted_since_{};
  bool misread_ = false;
  BucketSigns bucket_signs_;
  TimePoint remaining_sent_at_{};  // when the newest request was sent whose `remaining` is known
};

}  // namespace lanemq::core
