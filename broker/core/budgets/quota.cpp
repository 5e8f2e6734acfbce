// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/quota.hpp"

#include <algorithm>

namespace lanemq::core {
namespace {

/// Limits with longer periods are not what a short pause comes from: a refusal does not lower them.
constexpr Duration kRefusedPeriodMax = std::chrono::minutes(1);
/// So many calls must have been answered before one that is refused without a word is held to be by chance.
constexpr std::int64_t kByChanceOf = 30;
/// Period of a limit that an upstream states without a period.
constexpr std::int64_t kUnsaidPeriodMs = 60'000;

}  // namespace

Quota::Quota(const std::vector<RateOptions>& rates, std::int64_t concurrency, WindowKind window)
    : options_(rates), concurrency_(concurrency) {
  for (const RateOptions& rate : rates)
    rates_.emplace_back(rate, window);
}

bool Quota::blocks(const Claim& claim, TimePoint now, Obstacle& obstacle) {
  const bool paused = now < paused_until_;
  if (is_paused(now)) {
    obstacle.paused = true;
    return true;
  }
  if (concurrency_.full()) return true;
  if (paused) return false;  // this job finds out whether the pause holds
  for (RateLimit& rate : rates_) {
    if (rate.affordable(claim.amounts.of(rate.resource()), claim.hold, now)) continue;
    obstacle.rate = &rate;
    return true;
  }
  return false;
}

TimePoint Quota::when_affordable(const Claim& claim, TimePoint now) {
  if (concurrency_.full()) return kNever;
  if (now < paused_until_ && probe_.at < paused_until_) return std::max(now, probe_.at);
  TimePoint latest = std::max(now, paused_until_);
  for (RateLimit& rate : rates_) {
    const std::int64_t amount = claim.amounts.of(rate.resource());
    if (!rate.affordable(amount, claim.hold, now))
      latest = std::max(latest, rate.when_affordable(amount, claim.hold, now));
  }
  return latest;
}

TimePoint Quota::foreseen(const Claim& claim, TimePoint now) const {
  if (concurrency_.full()) return kNever;
  if (now < paused_until_ && probe_.at < paused_until_) return std::max(now, probe_.at);
  // No job is sent during a pause.
  const TimePoint from = std::max(now, paused_until_);
  TimePoint latest = from;
  for (const RateLimit& rate : rates_)
    latest = std::max(latest, rate.foreseen(claim.amounts.of(rate.resource()), claim.hold, from));
  return latest;
}

std::int64_t Quota::room_after(const Claim& claim, TimePoint now) {
  std::int64_t room = 1000;
  for (RateLimit& rate : rates_)
    room = std::min(room, (rate.available(now) - claim.amounts.of(rate.resource())) * 1000 / rate.capacity());
  return room;
}

bool Quota::leaves_hold(const Claim& claim) const {
  return std::all_of(rates_.begin(), rates_.end(), [&](const RateLimit& rate) {
    return rate.leaves(claim.amounts.of(rate.resource()), claim.hold);
  });
}

void Quota::note_probe(TimePoint now) {
  if (now < paused_until_) probe_.take(now);
}

void Quota::take(const Claim& claim, TimePoint now) {
  concurrency_.take();
  ++bare_row_.taken;
  note_probe(now);
  for (RateLimit& rate : rates_)
    rate.take(claim.amounts.of(rate.resource()), now, claim.hold);
}

bool Quota::settle(const Amounts& expected, const Amounts* used, TimePoint taken_at, TimePoint now) {
  concurrency_.free();
  end_probe(taken_at);
  bool room = concurrency_.limit() > 0;
  if (used == nullptr) return room;
  for (RateLimit& rate : rates_) {
    const std::int64_t more = used->of(rate.resource()) - expected.of(rate.resource());
    if (more > 0) rate.take_late(more, taken_at, now);
    if (more < 0) used->requests == 0 ? rate.unsend(-more, taken_at, now) : rate.give(-more, taken_at, now);
    room = room || more < 0;
  }
  return room;
}

bool Quota::pause(TimePoint until, bool stated, TimePoint now) {
  if (until <= paused_until_) return false;
  probe_.begin(until, now < paused_until_, now);
  paused_until_ = until;
  paused_for_ = until - now;
  paused_at_ = now;
  bare_row_.taken = 0;
  for (RateLimit& rate : rates_)
    if (rate.period() <= kRefusedPeriodMax) rate.pause(until, stated, now);
  return true;
}

bool Quota::is_its_own(std::uint64_t job, bool bare, TimePoint taken_at, TimePoint now) {
  heard_ = true;
  if (taken_at > paused_at_) --bare_row_.taken;
  const bool by_chance = bare && refused_jobs_.answered() >= kByChanceOf;
  const RefusedJobs::Verdict verdict = refused_jobs_.refused(job, now);
  for (RateLimit& rate : rates_) {
    if (!verdict.again) rate.mark_shown();
    if (verdict.found_out) rate.take_back_shown(now);
  }
  return verdict.alone || by_chance;
}

Duration Quota::bare_pause(TimePoint now) {
  heard_ = true;
  if (now < paused_until_) return paused_until_ - now;  // of one row with the refusal that began it
  if (bare_row_.taken > 0) bare_row_.pauses = 0;
  const Duration pause = kBarePauseFirst * (1 << (bare_row_.pauses / 2));
  if (pause >= kBarePauseMost) return kBarePauseMost;
  ++bare_row_.pauses;
  return pause;
}

bool Quota::answered(std::uint64_t model, TimePoint taken_at, TimePoint now) {
  if (model != kNoMark) answered_.note(model, now);
  if (now >= paused_until_ || taken_at <= paused_at_) return false;
  end_pause(now);
  return true;
}

/// All limits count again, as configured.
void Quota::end_pause(TimePoint now) {
  paused_until_ = TimePoint{};
  probe_.at = kNever;
  for (RateLimit& rate : rates_)
    rate.lift(now);
}

bool Quota::learn(const wire::UpstreamLimits& limits, TimePoint taken_at, TimePoint now) {
  struct Said {
    std::optional<std::int64_t> limit, remaining, reset_ms;
  };
  const auto said_of = [&](Resource resource) -> Said {
    switch (resource) {
      case Resource::requests:
        break;
      case Resource::tokens:
        return {limits.limit_tokens, limits.remaining_tokens, limits.reset_tokens_ms};
      case Resource::input_tokens:
        return {limits.limit_input_tokens, limits.remaining_input_tokens, limits.reset_input_tokens_ms};
      case Resource::output_tokens:
        return {limits.limit_output_tokens, limits.remaining_output_tokens, limits.reset_output_tokens_ms};
    }
    return {limits.limit_requests, limits.remaining_requests, limits.reset_requests_ms};
  };
  heard_ = true;
  bool changed = false;
  if (const auto& places = limits.limit_concurrency; places && *places != concurrency_.limit())
    concurrency_.learn(*places, now);
  for (RateLimit& rate : rates_) {
    const std::optional<std::int64_t>& period_ms =
        rate.resource() == Resource::requests ? limits.period_requests_ms : limits.period_tokens_ms;
    if (to_ms(rate.period()) != period_ms.value_or(kUnsaidPeriodMs)) continue;
    const Said said = said_of(rate.resource());
    // Nobody answers within a limit of 0, and who refuses for it has another reason.
    if (said.limit > 0 && rate.learn_limit(*said.limit, now)) changed = true;
    if (!said.remaining) continue;
    OthersUse::Said words{.remaining = *said.remaining, .limit = said.limit};
    if (said.reset_ms)
      words.reset =
          std::chrono::milliseconds(std::clamp<std::int64_t>(*said.reset_ms, 0, to_ms(rate.period())));
    rate.learn_remaining(words, taken_at, now);
  }
  return changed;
}

void Quota::cut(TimePoint now) {
  heard_ = true;
  for (RateLimit& rate : rates_)
    if (rate.period() <= kRefusedPeriodMax) rate.cut(now);
}

void Quota::rises_too_fast(TimePoint called_at, TimePoint now) {
  heard_ = true;
  for (RateLimit& rate : rates_)
    if (rate.period() <= kRefusedPeriodMax) rate.rises_too_fast(called_at, now);
}

bool Quota::lift(TimePoint now) {
  bool any = concurrency_.lift();
  if (now < paused_until_) any = true;
  paused_until_ = TimePoint{};
  probe_.at = kNever;
  for (RateLimit& rate : rates_)
    any = rate.lift(now) || any;
  return any;
}

bool Quota::can_lift(TimePoint now) {
  return now < paused_until_ || concurrency_.is_learnt() ||
         std::any_of(rates_.begin(), rates_.end(), [&](RateLimit& rate) { return rate.can_lift(now); });
}

bool Quota::lease(const SaveMarks& marks) {
  if (leased_ || rates_.empty()) return false;
  leased_ = true;
  leased_from_ = marks.last() + 1;
  return true;
}

Amounts Quota::not_on_disk(const SaveMarks& marks) const {
  Amounts sum{.requests = 0};
  if (marks.on_disk() < ahead_.mark) sum = ahead_.before;
  if (marks.on_disk() < ahead_.mark + 1) sum = sum_of(sum, ahead_.since);
  return sum;
}

bool Quota::covers(const Amounts& amounts, const SaveMarks& marks) const {
  if (rates_.empty()) return true;
  if (!leased_ || marks.on_disk() < leased_from_) return false;
  const Amounts out = sum_of(not_on_disk(marks), amounts);
  return std::all_of(rates_.begin(), rates_.end(),
                     [&](const RateLimit& rate) { return out.of(rate.resource()) <= rate.ahead(); });
}

void Quota::use_ahead(const Amounts& amounts, const SaveMarks& marks) {
  if (ahead_.mark != marks.last()) {
    const bool follows = ahead_.mark + 1 == marks.last() && marks.on_disk() < marks.last();
    ahead_ = {.mark = marks.last(), .before = follows ? ahead_.since : Amounts{.requests = 0}};
  }
  ahead_.since = sum_of(ahead_.since, amounts);
}

void Quota::add(const RateOptions& rate, WindowKind window) {
  options_.push_back(rate);
  rates_.emplace_back(rate, window);
  leased_ = false;  // the next save debits it ahead, too
}

void Quota::configure(const std::vector<RateOptions>& rates, std::int64_t concurrency, WindowKind window,
                      TimePoint now) {
  if (rates == options_ && concurrency == concurrency_.configured()) return;
  options_ = rates;
  leased_ = false;  // the saved debit was ahead by the old bursts: the next save sets it anew
  std::vector<RateLimit> kept;
  for (const RateOptions& options : rates) {
    const auto known = std::find_if(rates_.begin(), rates_.end(),
                                    [&](const RateLimit& rate) { return rate.name() == options.name; });
    if (known == rates_.end()) {
      kept.emplace_back(options, window);
      continue;
    }
    known->configure(options, now);
    kept.push_back(std::move(*known));
  }
  rates_ = std::move(kept);
  concurrency_.configure(concurrency);
  lift(now);
}

}  // namespace lanemq::core
