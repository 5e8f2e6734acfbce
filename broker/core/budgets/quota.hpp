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
#include "broker/core/budgets/refused_jobs.hpp"

namespace lanemq::core {

struct Account;
struct Budget;
struct LaneAnswer;
struct StoredEntry;
class StoredNumbers;

/// Why a job cannot have what it claims of its budgets.
struct Obstacle {
  const Budget* budget = nullptr;    ///< null: nothing stands in the way
  const Account* account = nullptr;  ///< whose limit it is; null: the budget's own
  const RateLimit* rate = nullptr;   ///< null: the quota is paused, or its concurrency is used up
  bool paused = false;
  bool no_key = false;               ///< all keys rest, are tried by others, or are draining
  const LaneAnswer* bank = nullptr;  ///< of a shared budget: what its bank said last to the lane
  std::string_view model{};          ///< where paused: the one model; empty: all
  /// When it may be over, where the caller asked for that: an estimate on the early side; kNever when only a
  /// settle changes it.
  TimePoint until{};

  explicit operator bool() const { return budget != nullptr; }
  /// For people: `openai tokens_per_minute`, `openai key k1 paused by its upstream`; with the number that
  /// counts where the upstream has stated or shown a lower one: `openai concurrency learnt=39`.
  std::string name() const;
  /// The same without that number.
  std::string limit_name() const;
  /// For people: why such amounts can never be had. Requires: found by unsatisfiable().
  std::string too_large(const Amounts& amounts) const;
};

/// A longer pause is cut to this; then the upstream is asked again.
inline constexpr Duration kUpstreamPauseMax = std::chrono::hours(24);
/// During a longer pause one job goes after this time, to find out whether the pause holds; the next after
/// twice as long, and so on. An answer ends the pause.
inline constexpr Duration kPauseProbedAfter = std::chrono::minutes(1);

/// Numbers the saves whose arrival on disk is to be reported. At most one of them is not on disk.
class SaveMarks {
 public:
  /// True if this save is numbered: the caller calls end() when it is on disk.
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

/// How it is found out whether a pause still holds: a job goes after kPauseProbedAfter, then after twice as
/// long each time.
struct Probe {
  TimePoint at = kNever;  ///< when the next job may go
  Duration after = kPauseProbedAfter;
  TimePoint tried_since = kNever;  ///< a job is under way that finds out

  /// A pause begins, or lasts until a later time than it did (`goes_on`).
  void begin(TimePoint until, bool goes_on, TimePoint now) {
    if (!goes_on) after = kPauseProbedAfter;
    tried_since = kNever;  // the answer of an earlier probe says nothing about this pause
    at = until - now > after ? now + after : kNever;
  }
  /// A job goes during the pause.
  void take(TimePoint now) {
    after *= 2;
    at = now + after;
    tried_since = now;
  }
  /// The job that was handed over at that time is over.
  void end(TimePoint taken_at) {
    if (taken_at == tried_since) tried_since = kNever;
  }
};

/// The limits that an upstream counts together: those of a budget, or those of one account of its keys.
class Quota {
 public:
  Quota(const std::vector<RateOptions>& rates, std::int64_t concurrency, WindowKind window);

  std::vector<RateLimit>& rates() { return rates_; }
  const std::vector<RateLimit>& rates() const { return rates_; }
  const ConcurrencyLimit& concurrency() const { return concurrency_; }
  TimePoint paused_until() const { return paused_until_; }
  /// When its pause is over, or a job may probe it; before `now` where there is no pause.
  TimePoint open_from() const { return std::min(paused_until_, probe_.at); }
  /// Whether a job is under way that finds out whether the pause holds: it may end any moment.
  bool is_tried(TimePoint now) const { return now < paused_until_ && probe_.tried_since != kNever; }
  /// Whether it counts something over time.
  bool has_rates() const { return !rates_.empty(); }

  /// Whether something stands in the way of a claim. `obstacle` then has the limit, or says that it is
  /// paused; the caller adds the budget and account.
  bool blocks(const Claim& claim, TimePoint now, Obstacle& obstacle);
  /// Whether it is paused, and the claim may not probe that.
  bool is_paused(TimePoint now) const { return now < paused_until_ && now < probe_.at; }
  /// When the claim may be affordable, an estimate on the early side; kNever when only a settle changes that.
  TimePoint when_affordable(const Claim& claim, TimePoint now);
  /// When it is affordable if nothing is taken, given or learnt until then; kNever where nobody can say.
  TimePoint foreseen(const Claim& claim, TimePoint now) const;
  /// Room of the scarcest limit after the claim, in thousandths of its burst; 1000 where nothing is counted.
  /// Negative for a claim larger than the burst.
  std::int64_t room_after(const Claim& claim, TimePoint now);
  /// Whether the claim can leave its hold to higher lanes.
  bool leaves_hold(const Claim& claim) const;

  void take(const Claim& claim, TimePoint now);
  /// A job goes: in a pause it finds out whether that holds. take() does that, too.
  void note_probe(TimePoint now);
  void end_probe(TimePoint taken_at) { probe_.end(taken_at); }
  /// Ends a job that was expected to take `expected`; `used`: what it took, null where nobody knows. True if
  /// there may now be room that was not there.
  bool settle(const Amounts& expected, const Amounts* used, TimePoint taken_at, TimePoint now);

  /// Pauses until then; a pause is only ever lengthened. `stated`: by the upstream. True if it was: a claim
  /// may then be affordable before the time that when_affordable() said, since a debt is paid back faster in
  /// a pause than after an earlier one.
  bool pause(TimePoint until, bool stated, TimePoint now);
  /// A call of the model (by mark) that was made at `taken_at` was answered: ends a pause that began before.
  /// True if there was one.
  bool answered(std::uint64_t model, TimePoint taken_at, TimePoint now);
  /// Whether another model was answered within that time.
  bool answers_others(std::uint64_t model, Duration time, TimePoint now) const {
    return answered_.others_within(model, time, now);
  }
  /// Whether another model was answered after that time.
  bool answers_others_since(std::uint64_t model, TimePoint time) const {
    const TimePoint at = answered_.other_than(model);
    return at != kNever && at > time;
  }
  /// A call of the model (by mark) was refused for its rate.
  void refused(std::uint64_t model, TimePoint now) {
    if (model != kNoMark) refused_.note(model, now);
  }
  /// Whether another model was refused within that time, and none but `model` was answered since.
  bool refuses_others(std::uint64_t model, Duration time, TimePoint now) const {
    if (!refused_.others_within(model, time, now)) return false;
    const TimePoint answered = answered_.other_than(model);
    return answered == kNever || answered < refused_.other_than(model);
  }
  /// Takes the per-minute limits that the upstream states in answer to a job handed over at `taken_at`. True
  /// if there may be more room now.
  bool learn(const wire::UpstreamLimits& limits, TimePoint taken_at, TimePoint now);
  /// The upstream refused for its rate and did not state its limits.
  void cut(TimePoint now);
  /// The upstream refused a call made at `called_at` since the pace rises too fast.
  void rises_too_fast(TimePoint called_at, TimePoint now);
  /// Forgets what the upstream has said and shown: its pause, lower limits, a lower concurrency. True if
  /// there was something to forget.
  bool lift(TimePoint now);
  void succeeded(TimePoint taken_at, TimePoint now, std::int64_t calls = 1) {
    concurrency_.succeeded(taken_at, now, calls);
    if (!heard_) return;
    refused_jobs_.answered(taken_at);
    for (RateLimit& rate : rates_)
      rate.answered(taken_at, now);
  }
  /// A call was refused, and nothing says for what; `places`: for too many at once. Requires: it is settled.
  ConcurrencyLimit::Shown refused_at_once(TimePoint taken_at, TimePoint now, bool places) {
    return concurrency_.refused(taken_at, now, places);
  }
  /// Notes that a call handed over at `taken_at` was refused for its rate; to be called before any other part
  /// learns of the refusal. True: the job itself is refused (RefusedJobs), or a `bare` refusal came by
  /// chance, many answers after the one before. A job that is found out gives back what its refusals lowered.
  bool is_its_own(std::uint64_t job, bool bare, TimePoint taken_at, TimePoint now);
  /// How many jobs share the latest refusals, if these repeat the same few jobs; else 0.
  std::size_t refuses_again() const { return refused_jobs_.again_of(); }
  /// Whether the call that was handed over at that time asked whether more is taken than refusals have left.
  bool has_asked(TimePoint taken_at) const {
    return std::any_of(rates_.begin(), rates_.end(),
                       [&](const RateLimit& rate) { return rate.has_asked(taken_at); });
  }
  /// The pause after a refusal that states nothing. Refusals in a row, without an answer between them, make
  /// it longer, every other time twice as long, from kBarePauseFirst to kBarePauseMost.
  Duration bare_pause(TimePoint now);
  static constexpr Duration kBarePauseFirst = std::chrono::seconds(1),
                            kBarePauseMost = std::chrono::seconds(8);
  void overloaded(TimePoint taken_at, TimePoint now) { concurrency_.overloaded(taken_at, now); }

  /// For Budgets::save() and restore(). `name` is put in front of the names of limits.
  void save(const std::string& name, std::int64_t epoch_us, std::vector<StoredEntry>& entries,
            Detail detail = Detail::few) const;
  void restore(const std::string& name, const std::vector<StoredEntry>& entries, std::int64_t epoch_us,
               TimePoint now);
  /// Counts a job that ran before a restart and still runs.
  void adopt() { concurrency_.take(); }

  // Use before it is saved (Budgets::use_ahead()).
  /// From the next save on debits ahead of what is taken. True if it did not before.
  bool lease(const SaveMarks& marks);
  /// Stops doing so. True if it did.
  bool end_lease() { return std::exchange(leased_, false); }
  /// Whether the saved debit covers what went out since that save, and these amounts.
  bool covers(const Amounts& amounts, const SaveMarks& marks) const;
  void use_ahead(const Amounts& amounts, const SaveMarks& marks);
  /// Whether lift() would find something.
  bool can_lift(TimePoint now);

  /// Adds a limit. One that was added after reserve() moves no other, if `limits` is enough for all.
  void add(const RateOptions& rate, WindowKind window);
  void reserve(std::size_t limits) { rates_.reserve(limits); }

  /// Applies other limits; what was taken stays taken. Forgets what the upstream said of the old ones. A
  /// limit that is the same is left alone.
  void configure(const std::vector<RateOptions>& rates, std::int64_t concurrency, WindowKind window,
                 TimePoint now);

 private:
  std::vector<RateOptions> options_;  // of rates_
  std::vector<RateLimit> rates_;
  ConcurrencyLimit concurrency_;
  TimePoint paused_until_{};
  Duration paused_for_{};  // as of when it was last lengthened
  TimePoint paused_at_{};
  Probe probe_;
  LastTwo answered_, refused_;  // models
  /// Refusals that state nothing.
  struct BareRow {
    int pauses = 0;          ///< in a row
    std::int64_t taken = 0;  ///< calls since the last pause began, but for refused ones
  } bare_row_;
  bool heard_ = false;  // the upstream has stated or refused something
  RefusedJobs refused_jobs_;

  /// Amounts that went out before they were saved: after save `mark`, and between the one before and it.
  struct Ahead {
    std::uint64_t mark = 0;
    Amounts before{.requests = 0}, since{.requests = 0};
  };
  void end_pause(TimePoint now);
  void restore_rest(StoredNumbers& numbers, std::int64_t epoch_us, TimePoint now);
  Amounts not_on_disk(const SaveMarks& marks) const;

  Ahead ahead_;
  bool leased_ = false;
  std::uint64_t leased_from_ = 0;  // the first save that debits ahead
};

}  // namespace lanemq::core
