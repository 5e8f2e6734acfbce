// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/shown_part.hpp"

namespace lanemq::core {
namespace {

/// The least time between two cuts.
constexpr Duration kCutPause = std::chrono::seconds(2);
/// The rise doubles from kRiseFasterAfter after a cut on, and again with each further kRiseFasterEach, up to
/// kRisePercentMax hundredths a second.
constexpr Duration kRiseFasterAfter = std::chrono::seconds(20), kRiseFasterEach = std::chrono::seconds(5);
constexpr std::int64_t kRisePercentMax = 16;
/// The rise when a call that asked is answered, in hundredths.
constexpr std::int64_t kAnswerPercent = 25;

}  // namespace

void ShownPart::guess(std::int64_t millionths, TimePoint now) {
  part_ = std::clamp<std::int64_t>(millionths, 1, kWhole);
  guessed_ = !is_whole();
  cut_at_ = changed_at_ = now;
  unused_ = Duration(0);
  answered_ = false;
  ask_from(now);
}

void ShownPart::cut(std::int64_t least, TimePoint now) {
  if (!is_whole() && now - cut_at_ < kCutPause) return;
  cut_at_ = changed_at_ = now;  // where it is not lowered it does not rise either
  unused_ = Duration(0);
  if (!is_whole() && !answered_) return;
  answered_ = false;
  part_ = std::max(part_ * 4 / 5, least);
  ask_from(now);
}

/// The rise at that time, in each step.
std::int64_t ShownPart::rises(TimePoint at) const {
  std::int64_t percent = 1;
  for (TimePoint more = cut_at_ + unused_ + kRiseFasterAfter; at >= more && percent < kRisePercentMax;
       more += kRiseFasterEach)
    percent *= 2;
  return std::max<std::int64_t>(part_ * percent / 100, 1);
}

bool ShownPart::recover(TimePoint now) {
  const TimePoint until = guessed_ ? std::min(now, in_use_until()) : now;
  if (is_whole() || until < next_rise()) return false;
  // The rise's first step is taken when the wait ends.
  const auto periods = (until - next_rise()) / std::chrono::seconds(1) + 1;
  const std::int64_t before = part_;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(periods, 1000) && !is_whole(); ++i)
    part_ = std::min(part_ + rises(next_rise() + i * std::chrono::seconds(1)), kWhole);
  // Whole seconds, so that it rises at the same rate however often this is called.
  changed_at_ += periods * std::chrono::seconds(1);
  return part_ != before;
}

void ShownPart::sent(Duration usual, bool asks, TimePoint now) {
  if (guessed_ && now > in_use_until()) {
    const Duration unused = now - in_use_until();
    changed_at_ += unused;
    unused_ += unused;
  }
  if (asks) {
    asked_at_ = now;
    ask_after_ = std::min(2 * ask_after_, kAskMost);
  }
  ask_at_ = now + std::max(ask_after_, 2 * usual);
}

bool ShownPart::rise_by_answer() {
  asked_at_ = kNever;
  ask_after_ = kAskFirst;
  if (is_whole()) return false;
  part_ = std::min(part_ + std::max<std::int64_t>(part_ * kAnswerPercent / 100, 1), kWhole);
  return true;
}

}  // namespace lanemq::core
