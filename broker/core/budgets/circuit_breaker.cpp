// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/circuit_breaker.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

namespace {

/// The narrowest of whom both are.
Caller common(const Caller& a, const Caller& b) {
  if (a.client != kNoMark && a.client == b.client) return {.client = a.client, .tenant = a.tenant};
  if (a.tenant != kNoMark && a.tenant == b.tenant) return {.tenant = a.tenant};
  return {};
}

Caller party_of(const Caller& caller) {
  return caller.tenant != kNoMark ? Caller{.tenant = caller.tenant} : Caller{.client = caller.client};
}

}  // namespace

bool says_unreachable(std::string_view code) {
  return code == "connect" || code == "resolve" || code == "tls";
}

bool says_uncalled(std::string_view code) {
  return code == "unknown_key";
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

CircuitBreaker::Finding CircuitBreaker::ended(Verdict verdict, Period called_in, const Caller& caller,
                                              TimePoint now, std::mt19937_64& random) {
  if (state_ == State::open || called_in != period_) return Finding::nothing;
  if (state_ == State::half_open) return judge_trial(verdict, caller, now, random);
  if (verdict == Verdict::unknown) return Finding::nothing;
  if (verdict == Verdict::unreachable) {
    unreachable_for_ = common(unreachable_ == 0 ? caller : unreachable_for_, caller);
    ++unreachable_;
  } else {
    unreachable_ = 0;
  }
  if (verdict == Verdict::refusal) return Finding::nothing;
  const bool failed = verdict != Verdict::success;
  record(failed, caller, By::party, now);
  if (!failed) return Finding::nothing;
  Finding finding = look_at_connections();
  if (finding == Finding::nothing) finding = look(caller);
  if (finding == Finding::all_fail) open({}, now, random);
  return finding;
}

/// Answered calls are noted only for models of which a call has failed: so other calls push no failure out of
/// the ring. One model fills at most kOfClient of the ring.
CircuitBreaker::Finding CircuitBreaker::call_of_model_ended(Verdict verdict, const Caller& caller,
                                                            TimePoint now) {
  if (verdict == Verdict::unknown || verdict == Verdict::refusal) return Finding::nothing;
  const bool failed = verdict != Verdict::success;
  if (!failed && failed_ == 0) return Finding::nothing;
  const auto is_its = [&](const Caller& other) { return other.model == caller.model; };
  if (!failed && count(is_its).calls == 0) return Finding::nothing;
  record(failed, caller, By::model, now);
  const Count its = count(is_its);
  const bool fails = failed && caller.model != kNoMark && its.calls >= kOfClient && its.half();
  return fails ? Finding::one_model_fails : Finding::nothing;
}

template <class Counts>
CircuitBreaker::Count CircuitBreaker::count(Counts counts) const {
  Count count;
  for (std::size_t i = 0; i < calls_made_; ++i) {
    if (!counts(calls_[i].caller)) continue;
    ++count.calls;
    count.failed += calls_[i].failed ? 1 : 0;
  }
  return count;
}

std::uint64_t CircuitBreaker::mark(const Caller& caller, By by) {
  return by == By::model ? caller.model : by == By::party ? caller.party() : caller.client;
}

/// The parties that share the upstream with the caller: other tenants, or else other clients of its tenant.
CircuitBreaker::By CircuitBreaker::sharers_of(const Caller& caller) const {
  const Count others = count([&](const Caller& other) { return other.party() != caller.party(); });
  return others.calls > 0 ? By::party : By::client;
}

void CircuitBreaker::record(bool failed, const Caller& caller, By by, TimePoint now) {
  // While all calls are answered nobody asks whose they were.
  if (failed || failed_ > 0) make_room(caller, by, now);
  calls_[next_call_] = {now, failed, caller};
  next_call_ = (next_call_ + 1) % kWindowCalls;
  calls_made_ = std::min(calls_made_ + 1, kWindowCalls);
  failed_ += failed ? 1 : 0;
}

/// Makes room in the ring for a call of the caller's: drops calls that are too old and, where several clients
/// call (or several models are called), all but the last kOfClient of each. The rest keeps its order, from
/// the ring's beginning.
void CircuitBreaker::make_room(const Caller& caller, By by, TimePoint now) {
  const auto begin = calls_.begin();
  if (calls_made_ == kWindowCalls)
    std::rotate(begin, begin + static_cast<std::ptrdiff_t>(next_call_), calls_.end());
  auto end = std::remove_if(begin, begin + static_cast<std::ptrdiff_t>(calls_made_),
                            [&](const Call& call) { return now - call.at > kWindow; });
  const auto others_called = [&] {
    return std::any_of(begin, end,
                       [&](const Call& call) { return mark(call.caller, by) != mark(caller, by); });
  };
  bool shared = others_called();
  if (!shared && by == By::party) {
    by = By::client;
    shared = others_called();
  }
  if (shared) {
    auto kept = begin;
    for (auto call = begin; call != end; ++call) {
      const std::uint64_t whose = mark(call->caller, by);
      const auto later =
          std::count_if(call + 1, end, [&](const Call& other) { return mark(other.caller, by) == whose; }) +
          (whose == mark(caller, by) ? 1 : 0);
      if (static_cast<std::size_t>(later) < kOfClient) *kept++ = *call;
    }
    end = kept;
  }
  if (end == calls_.end()) end = std::move(begin + 1, end, begin);
  calls_made_ = next_call_ = static_cast<std::size_t>(end - begin);
  failed_ = static_cast<std::size_t>(std::count_if(begin, end, [](const Call& call) { return call.failed; }));
}

/// The finding after several failed connections in a row. If one client or tenant alone saw that while others
/// are answered, nothing: a client may name a target of its own that cannot be reached. Where no other tenant
/// called, it fails for that tenant at most.
CircuitBreaker::Finding CircuitBreaker::look_at_connections() {
  if (unreachable_ < kUnreachableMax) return Finding::nothing;
  const Caller& whose = unreachable_for_;
  if (whose.narrowest() == kNoMark) return Finding::all_fail;
  const By by = whose.client != kNoMark ? By::client : By::party;
  const auto others = [&](const Caller& caller) { return mark(caller, by) != whose.narrowest(); };
  if (!count(others).all()) return Finding::nothing;
  const auto other_tenants = [&](const Caller& caller) { return caller.party() != whose.party(); };
  if (whose.tenant == kNoMark || count(other_tenants).calls > 0) return Finding::all_fail;
  suspect_ = whose;
  return Finding::one_client_fails;
}

/// The finding of the window's calls, now that the caller's last call has failed.
CircuitBreaker::Finding CircuitBreaker::look(const Caller& caller) {
  const By by = sharers_of(caller);
  suspect_ = by == By::party ? party_of(caller) : caller;
  const Count all = count([](const Caller&) { return true; });
  const Count others = count([&](const Caller& other) { return mark(other, by) != mark(caller, by); });
  const bool half = all.half() && fails_without_any_model();
  if (others.calls == 0) {
    if (all.calls >= kCallsMin && half) return Finding::one_client_fails;
  } else if (half && all.calls >= kOfClient + kOthersMin && fails_without_any(by)) {
    if (by == By::party || caller.tenant == kNoMark) return Finding::all_fail;
    suspect_ = party_of(caller);  // no other tenant has called
    return Finding::one_client_fails;
  } else if (half && all.calls > kOfClient && others.calls < kOthersMin && others.all()) {
    return Finding::one_client_fails;
  }
  return model_fails(caller, by) ? Finding::one_model_fails : Finding::nothing;
}

bool CircuitBreaker::fails_without_any(By by) const {
  return std::all_of(
      calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(calls_made_), [&](const Call& call) {
        const Count others =
            count([&](const Caller& other) { return mark(other, by) != mark(call.caller, by); });
        return others.calls >= kOthersMin && others.half();
      });
}

/// Calls that name no model say nothing about any model.
bool CircuitBreaker::fails_without_any_model() const {
  return std::all_of(
      calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(calls_made_), [&](const Call& call) {
        if (call.caller.model == kNoMark) return true;
        const Count others = count(
            [&](const Caller& other) { return other.model != kNoMark && other.model != call.caller.model; });
        return others.all() || (others.calls >= kOthersMin && others.half());
      });
}

/// Whether the calls for the caller's model fail, also without those of any one client, while a call for
/// another model was answered.
bool CircuitBreaker::model_fails(const Caller& caller, By by) const {
  if (caller.model == kNoMark) return false;
  const auto is_its = [&](const Caller& other) { return other.model == caller.model; };
  const Count its = count(is_its);
  const Count others = count([&](const Caller& other) { return other.model != kNoMark && !is_its(other); });
  return its.calls >= kOfClient && its.half() && !others.all() &&
         std::all_of(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(calls_made_),
                     [&](const Call& call) {
                       return count([&](const Caller& other) {
                                return is_its(other) && mark(other, by) != mark(call.caller, by);
                              })
                           .half();
                     });
}

bool CircuitBreaker::names_only(std::uint64_t model) const {
  return model != kNoMark && count([&](const Caller& caller) { return caller.model != model; }).calls == 0;
}

Caller CircuitBreaker::only_caller_of(std::uint64_t model) const {
  Caller only;
  bool any = false;
  for (std::size_t i = 0; i < calls_made_; ++i) {
    const Caller& caller = calls_[i].caller;
    if (caller.model == model) only = common(std::exchange(any, true) ? only : caller, caller);
  }
  return only;
}

void CircuitBreaker::open(const Caller& whose, TimePoint now, std::mt19937_64& random) {
  only_ = failed_last_ = whose;
  begin(now, random);
}

void CircuitBreaker::try_now(TimePoint now) {
  LANEMQ_CHECK(state_ != State::closed);
  state_ = State::half_open;
  ++period_;
  trials_out_ = trials_passed_ = 0;
  only_ = passed_last_ = {};
  open_until_ = top_lane_from_ = now;
}

void CircuitBreaker::begin(TimePoint now, std::mt19937_64& random) {
  Duration wait = kOpenMin;
  for (int i = 0; i < openings_ && wait < kOpenMax; ++i)
    wait *= 2;
  wait = std::min(wait, kOpenMax);
  // Up to a fifth shorter or longer, so that breakers of many services do not try in step.
  wait = wait * static_cast<Duration::rep>(800 + random() % 401) / 1000;
  wait = std::min(wait, kOpenMax);
  ++openings_;
  trials_out_ = trials_passed_ = 0;
  passed_last_ = {};
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

CircuitBreaker::Finding CircuitBreaker::judge_trial(Verdict verdict, const Caller& caller, TimePoint now,
                                                    std::mt19937_64& random) {
  // Every call of this period is a trial, and ends once.
  LANEMQ_CHECK(trials_out_ > 0);
  --trials_out_;
  if (verdict == Verdict::unknown) return Finding::nothing;
  if (verdict == Verdict::failure || verdict == Verdict::unreachable) {
    if (passed_last_.model != kNoMark && caller.model != kNoMark && passed_last_.model != caller.model)
      return Finding::one_model_fails;
    // If others were answered, or were not among the last that tried, the upstream may fail for this client
    // alone, or for its tenant.
    const bool others_passed = passed_last_.client != kNoMark && passed_last_.client != caller.client;
    const bool of_its_tenant = common(passed_last_, caller).tenant != kNoMark;
    only_ = !others_passed ? common(failed_last_, caller) : of_its_tenant ? caller : party_of(caller);
    failed_last_ = caller;
    begin(now, random);
    return Finding::nothing;
  }
  passed_last_ = caller;
  only_ = {};
  if (++trials_passed_ == 1 + kTrialsMax) close();
  return Finding::nothing;
}

void CircuitBreaker::close() {
  state_ = State::closed;
  ++period_;
  openings_ = unreachable_ = 0;
  trials_out_ = trials_passed_ = 0;
  next_call_ = calls_made_ = failed_ = 0;
  only_ = failed_last_ = passed_last_ = {};
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
