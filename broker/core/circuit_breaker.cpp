// SPDX-License-Identifier: Apache-2.0
#include "broker/core/circuit_breaker.hpp"

#include <algorithm>

#include "broker/core/check.hpp"

namespace lanemq::core {

bool says_unreachable(std::string_view code) {
  return code == "connect" || code == "resolve" || code == "tls";
}

bool CircuitBreaker::admits(bool top_lane, TimePoint now) const {
  switch (state_) {
    case State::closed:
      return true;
    case State::open:
      return false;
    case State::half_open:
      break;
  }
  if (trials_out_ > 0 && now - trial_at_ >= kTrialPatience) return true;
  if (trials_passed_ == 0) return trials_out_ == 0 && (!top_lane || now >= top_lane_from_);
  return trials_out_ + trials_passed_ - 1 < kTrialsMax;
}

TimePoint CircuitBreaker::admits_at(bool top_lane) const {
  if (trials_out_ > 0) return kNever;
  return top_lane ? top_lane_from_ : open_until_;
}

TimePoint CircuitBreaker::next_change() const {
  switch (state_) {
    case State::closed:
      return kNever;
    case State::open:
      return open_until_;
    case State::half_open:
      break;
  }
  return trials_out_ > 0 ? trial_at_ + kTrialPatience : top_lane_from_;
}

CircuitBreaker::Period CircuitBreaker::called(TimePoint now) {
  if (state_ == State::half_open) {
    ++trials_out_;
    trial_at_ = now;
  }
  return period_;
}

void CircuitBreaker::ended(Verdict verdict, Period called_in, TimePoint now, std::mt19937_64& random) {
  if (state_ == State::open || called_in != period_) return;
  if (state_ == State::half_open) return judge_trial(verdict, now, random);
  if (verdict == Verdict::unknown) return;
  unreachable_ = verdict == Verdict::unreachable ? unreachable_ + 1 : 0;
  if (verdict == Verdict::refusal) return;
  const bool failed = verdict != Verdict::success;
  calls_[next_call_] = {now, failed};
  next_call_ = (next_call_ + 1) % kWindowCalls;
  calls_made_ = std::min(calls_made_ + 1, kWindowCalls);
  if (failed && (unreachable_ >= kUnreachableMax || too_many_failed(now))) open(now, random);
}

bool CircuitBreaker::too_many_failed(TimePoint now) const {
  std::size_t calls = 0, failed = 0;
  for (std::size_t i = 0; i < calls_made_; ++i) {
    if (now - calls_[i].at > kWindow) continue;
    ++calls;
    failed += calls_[i].failed ? 1 : 0;
  }
  return calls >= kCallsMin && 2 * failed >= calls;
}

void CircuitBreaker::open(TimePoint now, std::mt19937_64& random) {
  Duration wait = kOpenMin;
  for (int i = 0; i < openings_ && wait < kOpenMax; ++i)
    wait *= 2;
  wait = std::min(wait, kOpenMax);
  // A fifth up or down, so that the breakers of many services do not try in step.
  wait = wait * static_cast<Duration::rep>(800 + random() % 401) / 1000;
  wait = std::min(wait, kOpenMax);
  ++openings_;
  trials_out_ = trials_passed_ = 0;
  state_ = State::open;
  ++period_;
  open_until_ = now + wait;
  top_lane_from_ = open_until_ + wait;
}

void CircuitBreaker::advance(TimePoint now) {
  if (state_ != State::open || now < open_until_) return;
  state_ = State::half_open;
  ++period_;
}

void CircuitBreaker::judge_trial(Verdict verdict, TimePoint now, std::mt19937_64& random) {
  // Every call of this period is a trial, and is over once.
  LANEMQ_CHECK(trials_out_ > 0);
  --trials_out_;
  if (verdict == Verdict::unknown) return;
  if (verdict == Verdict::failure || verdict == Verdict::unreachable) return open(now, random);
  if (++trials_passed_ == 1 + kTrialsMax) close();
}

void CircuitBreaker::close() {
  state_ = State::closed;
  ++period_;
  openings_ = unreachable_ = 0;
  trials_out_ = trials_passed_ = 0;
  next_call_ = calls_made_ = 0;
}

std::string_view name_of(CircuitBreaker::State state) {
  switch (state) {
    case CircuitBreaker::State::closed:
      return "closed";
    case CircuitBreaker::State::open:
      return "open";
    case CircuitBreaker::State::half_open:
      break;
  }
  return "half_open";
}

}  // namespace lanemq::core
