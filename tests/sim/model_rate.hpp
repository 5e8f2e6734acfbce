// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/base/options.hpp"

namespace lanemq::sim {

using core::Duration;
using core::TimePoint;

/// What refusals have left of a limit, in millionths: a fifth less with each, at most once in two seconds,
/// but of calls one each two seconds, or half of them, and only once until a call that went since is
/// answered; and a hundredth of it more each second from ten seconds after the last one on, and more from
/// twenty on.
class ModelShare {
 public:
  static constexpr std::int64_t kAll = 1'000'000;
  void cut(std::int64_t least, TimePoint now);
  /// A call was answered that went out then: one that went since the last cut.
  void answered(TimePoint called_at) { answered_ = answered_ || called_at >= cut_at_; }
  /// All of it is back: what was guessed is known.
  void restore() { share_ = kAll; }
  /// One job's refusals begin; they say nothing of others: what is as it was then.
  void mark() { marked_ = share_; }
  void take_back() { share_ = std::max(share_, marked_); }
  /// A call was taken that went although nothing was left: a quarter more.
  void raise() { share_ = std::min(share_ + share_ / 4 + 1, kAll); }
  std::int64_t at(TimePoint now);

 private:
  std::int64_t percent_at(TimePoint time) const;

  std::int64_t share_ = kAll, marked_ = kAll;
  bool answered_ = true;
  TimePoint cut_at_{}, rises_at_{};
};

/// One limit, judged by what was handed over, when, and what it turned out to use.
///
/// A sliding window is a list of what was sent in the last period; nothing here paces. At a hand-over all
/// that is known of the window that ends there is at most the limit. What is learned later may put it over:
/// an attempt counts what it was expected to use until it is over, so that a window exceeds its limit by at
/// most what the attempts in it that ended after its last hand-over used above what they were expected to.
/// What is expected to use more than the upstream says that it allows may go when nothing else counts.
///
/// A bucket is its level, in exact arithmetic; after a cut, two levels, between which the true one lies.
/// After a pause it is empty, or holds one at its end, and refills at a tenth of its pace, doubling each
/// second; the first that is no more than the burst goes in any case, where there is no debt.
class ModelRate {
 public:
  ModelRate(const core::RateOptions& options, core::WindowKind window);

  core::Resource resource() const { return options_.resource; }
  const std::string& name() const { return options_.name; }
  std::int64_t limit() const { return options_.limit; }

  /// An attempt that is expected to use `amount` goes out, and must leave `hold` thousandths of the burst.
  /// Throws Violation when that breaks the limit.
  void take(std::uint64_t job, std::int64_t amount, int hold, const std::string& budget, TimePoint now);
  /// An attempt goes out during a pause, to find out whether it holds: whatever there is.
  void take_as_probe(std::uint64_t job, std::int64_t amount, TimePoint now);
  /// That attempt used `more` than was taken for it, or less, below 0. What is more than the limit is no
  /// upstream's truth.
  void correct(std::uint64_t job, TimePoint taken_at, std::int64_t more, TimePoint now);
  /// The upstream says that its limit is so much.
  void learn(std::int64_t limit, TimePoint now);
  /// It says that so much is left: others may have used the rest, or not.
  void doubt(std::int64_t remaining, TimePoint now);
  void answered(TimePoint called_at) {
    share_.answered(called_at);
    share_most_.answered(called_at);
    if (called_at == asked_at_) share_most_.raise();
  }
  /// The upstream refused.
  void cut(TimePoint now);
  /// Refusals of one job begin; they were about that job.
  void mark(TimePoint now);
  void take_back(TimePoint now);
  /// It asks to be left alone until then. Requires: no earlier pause lasts longer.
  void pause(TimePoint until, TimePoint now);

  /// Whether something of what the upstream said or showed still counts, and that it does no more.
  bool is_lowered(TimePoint now);
  /// Whether it may do more: what others took of a window is taken to come back within a few periods.
  bool may_be_lowered(TimePoint now) const { return now < doubted_until_ || share_then_ < ModelShare::kAll; }
  void lift(TimePoint now);

  /// Another limit or burst counts from now on; what went out went out. A fraction of one may be lost.
  void configure(const core::RateOptions& options, TimePoint now);

  /// Whether it is certain that so much may go out now. In a sliding window that is certain only when it has
  /// been empty for so long that no way of pacing can object, and what refusals took of it is back: 10 s
  /// after the last one and a second for each hundredth. After a pause that begins when the pace is back.
  bool surely_affordable(std::int64_t amount, int hold, TimePoint now);
  /// Whether so much can go out and leave that, ever.
  bool leaves(std::int64_t amount, int hold) const;
  /// When so much may surely go out, if nothing does before; kNever: that is for the broker to pace.
  TimePoint affordable_at(std::int64_t amount, int hold, TimePoint now);

 private:
  struct Sent {
    TimePoint at;
    std::uint64_t job;
    std::int64_t amount;
  };

  struct Pace {
    std::int64_t share;  ///< thousandths of the whole
    TimePoint until;     ///< when it is another
    bool paused;
  };

  void advance(TimePoint now);
  Pace pace_at(TimePoint time) const;
  std::int64_t paced(std::int64_t pace, const Pace& now) const;
  /// What a bucket holds at `to` that refills at `pace`, where a pause leaves it that.
  core::Int128 risen(core::Int128 level, std::int64_t pace, TimePoint from, TimePoint to) const;
  void lower_low(std::int64_t before);
  /// What of a debit can be given back is no more than was empty at any time since.
  void forget();
  /// Whether a pause is over, and so much may go to find out whether it is.
  bool may_try(std::int64_t amount, core::Int128 level, TimePoint now) const;
  std::int64_t left() const;
  std::int64_t left_most(TimePoint now);
  /// As much as a window has at most for `amount`.
  std::int64_t whole_for(std::int64_t amount) const;
  core::Int128 without_fraction(core::Int128 level) const;
  std::int64_t held(int hold) const;
  /// What the bucket must hold before `amount` goes out: what is more than the burst goes when it is full.
  core::Int128 level_for(std::int64_t amount, int hold) const;

  core::RateOptions options_;
  core::WindowKind window_;
  std::int64_t ceiling_;  // what the upstream says, at most the limit
  ModelShare share_;
  /// The same if each call that may have asked did so: it went a second or more behind the last one.
  ModelShare share_most_;
  TimePoint asked_at_ = core::kNever, last_sent_at_{};
  std::int64_t share_then_ = ModelShare::kAll;  // when the levels were last brought up to date
  std::int64_t burst_;
  std::deque<Sent> sent_;  // sliding: in the last period
  std::int64_t sum_ = 0;   // of sent_
  TimePoint empty_at_{};   // sliding: from then on surely nothing counts
  std::optional<TimePoint> paused_until_;
  bool trial_ = false;  // nothing went out since
  TimePoint doubted_until_{};
  core::Int128 full_;  // as the levels: amount x period in microseconds
  core::Int128 high_, low_;
  /// What went out of a bucket and is not over, and how much of the bucket was empty ever since, at the most
  /// and at the least: so much can come back.
  struct Owed {
    std::uint64_t job;
    TimePoint at;
    core::Int128 most, least;
  };
  std::vector<Owed> owed_;
  TimePoint refilled_at_{};
};

}  // namespace lanemq::sim
