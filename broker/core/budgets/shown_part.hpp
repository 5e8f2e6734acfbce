// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "broker/core/base/time.hpp"

namespace lanemq::core {

/// The part of a limit that the upstream's refusals have left. A refusal lowers it by a fifth, and it rises
/// again while none comes (AIMD; Chiu & Jain, 1989). The refusal may have been about something else, so where
/// what is left of the limit is used up one call asks from time to time whether more is taken.
class ShownPart {
 public:
  static constexpr std::int64_t kWhole = 1'000'000;  ///< parts are in millionths

  bool is_whole() const { return part_ == kWhole; }
  std::int64_t millionths() const { return part_; }
  /// At least 1.
  std::int64_t of(std::int64_t limit) const {
    return is_whole() ? limit
                      : std::max<std::int64_t>(
                            static_cast<std::int64_t>(static_cast<Int128>(limit) * part_ / kWhole), 1);
  }
  /// When it was last lowered, or replaced by the upstream's own number.
  TimePoint since() const { return cut_at_; }

  /// A refusal: lowers it by a fifth, but at most once in two seconds, and not below `least`. While nothing
  /// is answered that went since, refusals are about what went before, and lower it no further.
  void cut(std::int64_t least, TimePoint now);
  /// The first refusal, of a limit that nobody knew: no number bounds how far it rises, so from now on it
  /// rises only while calls go.
  void guess(std::int64_t millionths, TimePoint now);
  /// The upstream's own number replaces what refusals have shown.
  void replace(TimePoint now) {
    lift();
    cut_at_ = now;
  }
  void lift() {
    part_ = kWhole;
    guessed_ = false;
  }
  /// A row of refusals begins that may turn out to be about something else: what they lowered is given back
  /// by take_back(), which says whether it is another now.
  void mark() { marked_ = part_; }
  bool take_back() {
    if (part_ >= marked_) return false;
    part_ = marked_;
    return true;
  }
  /// From ten seconds after the last cut on it rises by a hundredth a second, and faster the longer nothing
  /// is refused: the cut may have been about what others took. True if it is another now.
  bool recover(TimePoint now);
  /// When it rises next; kNever: not before a call goes. Requires: it is not whole.
  TimePoint rises_at() const {
    const TimePoint at = next_rise();
    return guessed_ && at > in_use_until() ? kNever : at;
  }

  /// A call was sent, where one each `usual` is sent on average; or with `asks` although nothing was left.
  void sent(Duration usual, bool asks, TimePoint now);
  /// Whether one may ask although nothing is left.
  bool may_ask(TimePoint now) const { return !is_whole() && now >= ask_at_; }
  TimePoint ask_at() const { return ask_at_; }
  /// Whether the call that was made at that time asked.
  bool has_asked(TimePoint called_at) const { return called_at == asked_at_; }
  /// A call that was made at that time was answered. True if it had asked, and the part is larger now.
  bool answered(TimePoint called_at) {
    answered_ = answered_ || called_at >= cut_at_;
    return has_asked(called_at) && rise_by_answer();
  }

  /// For RateLimit::save() and restore().
  TimePoint changed_at() const { return changed_at_; }
  bool has_answer() const { return answered_; }
  void restore(std::int64_t millionths, bool guessed, TimePoint cut_at, TimePoint changed_at) {
    part_ = std::clamp<std::int64_t>(millionths, 1, kWhole);
    guessed_ = guessed && !is_whole();
    cut_at_ = cut_at;
    changed_at_ = changed_at;
  }
  void restore_answer(bool answered) { answered_ = answered; }

 private:
  static constexpr Duration kRecoverAfter = std::chrono::seconds(10);
  /// The first call asks kAskFirst after the last one, each further one after twice as long, up to kAskMost.
  static constexpr Duration kAskFirst = std::chrono::seconds(1), kAskMost = std::chrono::seconds(8);

  TimePoint next_rise() const { return changed_at_ + kRecoverAfter; }
  /// The last call stands for the time until the next could have asked.
  TimePoint in_use_until() const { return std::max(ask_at_, changed_at_); }
  std::int64_t rises(TimePoint at) const;
  bool rise_by_answer();
  void ask_from(TimePoint now) {
    ask_after_ = kAskFirst;
    ask_at_ = now + kAskFirst;
  }

  std::int64_t part_ = kWhole;
  std::int64_t marked_ = kWhole;
  TimePoint cut_at_{};
  TimePoint changed_at_{};  // when it last changed; later by the time without calls that does not count
  Duration unused_{};       // such time since it was cut
  bool answered_ = true;    // a call that went since it was cut
  bool guessed_ = false;
  TimePoint ask_at_{};  // when the next may ask
  Duration ask_after_ = kAskFirst;
  TimePoint asked_at_ = kNever;  // when the last was sent that asks
};

}  // namespace lanemq::core
