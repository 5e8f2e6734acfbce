// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/base/amounts.hpp"
#include "broker/core/base/mark.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/concurrency_limit.hpp"
#include "broker/core/budgets/last_two.hpp"
#include "broker/core/budgets/rate_limit.hpp"

namespace lanemq::core {

struct Account;
struct Budget;
struct StoredEntry;

/// Why a job cannot have what it asks of its budgets.
struct Obstacle {
  const Budget* budget = nullptr;    ///< null: nothing stands in the way
  const Account* account = nullptr;  ///< whose limit it is; null: the budget's own
  const RateLimit* rate = nullptr;   ///< null: it is paused, or its concurrency is used up
  bool paused = false;
  bool no_key = false;       ///< all keys rest, are tried by others, or are draining
  std::string_view model{};  ///< paused: that one alone; empty: all
  /// When it may be over, where that was asked for: an estimate on the early side; kNever when only a settle
  /// can tell.
  TimePoint until{};

  explicit operator bool() const { return budget != nullptr; }
  /// For people: `openai tokens_per_minute`, `openai key k1 paused by its upstream`.
  std::string name() const;
  /// For people, why what costs that can never have it. Requires: unsatisfiable() found this limit.
  std::string too_large(const Amounts& amounts) const;
};

/// An upstream that asks for a longer pause gets one of this length, and is asked again.
inline constexpr Duration kUpstreamPauseMax = std::chrono::hours(24);
/// In a pause that is longer than this one job goes after so long, to find out whether it still holds; then
/// after twice as long, and so on. An answer ends the pause.
inline constexpr Duration kPauseProbedAfter = std::chrono::minutes(1);

/// Of saves, one after the other, those after which it is asked whether they are on disk: never more than one
/// that is not.
class SaveMarks {
 public:
  /// True if this save is one of them.
  bool begin() {
    if (on_disk_ != last_) return false;
    ++last_;
    return true;
  }
  void end() { on_disk_ = last_; }

  std::uint64_t last() const { return last_; }
  std::uint64_t on_disk() const { return on_disk_; }

 private:
  std::uint64_t last_ = 0, on_disk_ = 0;
};

/// The limits that one party upstream counts together: those of a budget, or those of one account whose keys
/// the budget has.
class Quota {
 public:
  Quota(const std::vector<RateOptions>& rates, std::int64_t concurrency, WindowKind window);

  std::vector<RateLimit>& rates() { return rates_; }
  const std::vector<RateLimit>& rates() const { return rates_; }
  const ConcurrencyLimit& concurrency() const { return concurrency_; }
  TimePoint paused_until() const { return paused_until_; }
  /// When its pause is over, or a job may find out whether it is; before `now` where there is none.
  TimePoint open_from() const { return std::min(paused_until_, probe_.at); }
  /// Whether a job is under way that finds out whether its pause still holds: that may be over any moment.
  bool is_tried(TimePoint now) const { return now < paused_until_ && probe_.tried_since != kNever; }
  /// Whether it counts something over time.
  bool has_rates() const { return !rates_.empty(); }

  /// Whether something stands in the way of a claim; then says in `obstacle` which of its limits, or that it
  /// is paused. Whose quota it is, is for the caller to say.
  bool blocks(const Claim& claim, TimePoint now, Obstacle& obstacle);
  /// When the claim may be affordable, an estimate on the early side; kNever when only a settle can tell.
  TimePoint when_affordable(const Claim& claim, TimePoint now);
  /// When it will be if until then nothing is taken, given or learnt; kNever where nobody can say.
  TimePoint foreseen(const Claim& claim, TimePoint now) const;
  /// Of what is there, as much as is left after the claim, in thousandths of the burst of the scarcest limit;
  /// 1000 where nothing is counted. Negative for a claim that is larger than the burst.
  std::int64_t room_after(const Claim& claim, TimePoint now);
  /// Whether what is to be left to the lanes above can stay there whenever the claim is had.
  bool leaves_hold(const Claim& claim) const;

  void take(const Claim& claim, TimePoint now);
  /// A job that took `expected` is over; `used` is what it really took, null where nobody knows. True if
  /// there may be room now for one that had none.
  bool settle(const Amounts& expected, const Amounts* used, TimePoint taken_at, TimePoint now);

  /// The upstream asks for a pause; it is only ever lengthened. True if it is: what a claim waits for may
  /// come earlier than when_affordable() said, since a pause pays debts back faster than the time after an
  /// earlier one.
  bool pause(TimePoint until, TimePoint now);
  /// A call of the model, by its mark, that was made at `taken_at` was answered: a pause that
  /// was there by then is over. True if there was one.
  bool answered(std::uint64_t model, TimePoint taken_at, TimePoint now);
  /// Whether another model was answered within that time.
  bool answers_others(std::uint64_t model, Duration time, TimePoint now) const {
    return answered_.others_within(model, time, now);
  }
  /// A call of the model, by its mark, was refused for its rate.
  void refused(std::uint64_t model, TimePoint now) {
    if (model != kNoMark) refused_.note(model, now);
  }
  /// Whether another model was refused within that time, and none but this one was answered since.
  bool refuses_others(std::uint64_t model, Duration time, TimePoint now) const {
    if (!refused_.others_within(model, time, now)) return false;
    const TimePoint answered = answered_.other_than(model);
    return answered == kNever || answered < refused_.other_than(model);
  }
  /// What the upstream says of its limits of a minute in answer to a job that was handed over at `taken_at`.
  /// True if there may be more room now.
  bool learn(const wire::UpstreamLimits& limits, TimePoint taken_at, TimePoint now);
  /// The upstream refused for its rate and did not say what it is.
  void cut(TimePoint now);
  /// Forgets what the upstream has said and shown: its pause, lower limits, a lower concurrency. True if
  /// there was something to forget.
  bool lift(TimePoint now);
  void succeeded(TimePoint taken_at) { concurrency_.succeeded(taken_at); }
  void overloaded(TimePoint taken_at, TimePoint now) { concurrency_.overloaded(taken_at, now); }

  /// For Budgets::save() and restore(); `name` is put in front of the limits'.
  void save(const std::string& name, std::int64_t epoch_us, std::vector<StoredEntry>& entries) const;
  void restore(const std::string& name, const std::vector<StoredEntry>& entries, std::int64_t epoch_us,
               TimePoint now);
  /// One that ran before a restart runs still.
  void adopt() { concurrency_.take(); }

  // What is used before it is saved (Budgets::use_ahead()).
  /// Saves are ahead of what is taken from the next one on. True if they were not.
  bool lease(const SaveMarks& marks);
  /// They are not any more. True if they were.
  bool end_lease() { return std::exchange(leased_, false); }
  /// Whether what is on disk is ahead of what went out since, and of these amounts.
  bool covers(const Amounts& amounts, const SaveMarks& marks) const;
  void use_ahead(const Amounts& amounts, const SaveMarks& marks);
  /// Whether lift() would find something.
  bool can_lift(TimePoint now);

  /// Other limits count from now on; what was taken stays taken, and what the upstream said of the old ones
  /// is forgotten. Those that are the same change nothing.
  void configure(const std::vector<RateOptions>& rates, std::int64_t concurrency, WindowKind window,
                 TimePoint now);

 private:
  std::vector<RateOptions> options_;  // of rates_
  std::vector<RateLimit> rates_;
  ConcurrencyLimit concurrency_;
  TimePoint paused_until_{};
  Duration paused_for_{};  // when it was last lengthened
  TimePoint paused_at_{};
  /// Finding out whether a pause still holds: when the next job does, how long after the last one, and when
  /// the one went that does at present.
  struct Probe {
    TimePoint at = kNever;
    Duration after = kPauseProbedAfter;
    TimePoint tried_since = kNever;
  } probe_;
  LastTwo answered_, refused_;  // models

  /// What went out before it was saved: between the mark before the one at which it was last counted and that
  /// one, and since.
  struct Ahead {
    std::uint64_t mark = 0;
    Amounts before{.requests = 0}, since{.requests = 0};
  };
  void end_pause(TimePoint now);
  Amounts not_on_disk(const SaveMarks& marks) const;

  Ahead ahead_;
  bool leased_ = false;
  std::uint64_t leased_from_ = 0;  // the first mark whose save is ahead
};

}  // namespace lanemq::core
