// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/model.hpp"

#include <algorithm>

namespace lanemq::sim {
namespace {

/// The patterns that runs use: nothing, a name, or the beginning of one with a star.
bool fits(const std::string& pattern, std::string_view text) {
  if (pattern.empty()) return true;
  if (pattern.back() == '*') return text.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  return text == pattern;
}

}  // namespace

void violated(const std::string& what) {
  throw Violation(what);
}

bool ModelBudget::matches(const ModelJob& job, std::string_view lane) const {
  return fits(options.service, job.service) && fits(options.model, job.model) &&
         fits(options.client, job.client) && fits(options.lane, lane);
}

ModelBudget ModelBudget::of(const core::BudgetOptions& options) {
  ModelBudget budget{
      .options = options, .rates = {}, .at_once = options.concurrency, .keys = {}, .accounts = {}};
  for (const core::RateOptions& rate : options.rates)
    budget.rates.emplace_back(rate, options.window);
  budget.read_keys(options.keys, TimePoint{});
  return budget;
}

void ModelBudget::read_keys(const std::vector<core::KeyOptions>& wanted, TimePoint now) {
  for (Key& key : keys)
    key.draining = true;
  for (const core::KeyOptions& one : wanted) {
    core::BudgetOptions shared;
    shared.name = one.quota_group.empty() ? one.name : one.quota_group;
    shared.model = options.model;
    shared.rates = one.rates;
    shared.concurrency = one.concurrency;
    shared.window = options.window;
    shared.output = options.output;
    const auto known =
        std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == one.name; });
    if (known != keys.end()) {
      known->draining = one.draining;
      known->account->configure(shared, now);
      continue;
    }
    auto account = std::find_if(accounts.begin(), accounts.end(),
                                [&](const ModelBudget& other) { return other.options.name == shared.name; });
    if (account == accounts.end()) account = accounts.insert(account, of(shared));
    keys.push_back({one.name, &*account, one.draining});
  }
}

bool ModelBudget::counts_tokens() const {
  return std::any_of(rates.begin(), rates.end(),
                     [](const ModelRate& rate) { return rate.resource() != core::Resource::requests; });
}

bool ModelBudget::never_has(const core::Amounts& amounts) const {
  return std::any_of(rates.begin(), rates.end(),
                     [&](const ModelRate& rate) { return amounts.of(rate.resource()) > rate.limit(); });
}

bool ModelBudget::leaves(const ModelClaim& claim) const {
  return std::all_of(rates.begin(), rates.end(), [&](const ModelRate& rate) {
    return rate.leaves(claim.amounts.of(rate.resource()), claim.hold);
  });
}

void ModelBudget::take(const ModelJob& job, int hold, TimePoint now) {
  const bool probes = may_probe(now);
  if (now < paused_until && !probes)
    violated(job.name() + " was handed over during a pause of " + options.name);
  if (full()) violated(job.name() + " is one more than the concurrency of " + options.name);
  ++running;
  if (probes) {
    probe_after *= 2;
    probe_at = now + probe_after;
    probe = &job;
  }
  constexpr Duration kOthersFirst = std::chrono::milliseconds(100);
  if (now < paused_until)
    for (auto& [model, pause] : models)
      if (now < pause.until && model != job.model)
        pause.probe_at = std::max(pause.probe_at, probe_at + kOthersFirst);
  if (const auto own = models.find(job.model); own != models.end()) {
    if (own->second.opens_at(now) > now)
      violated(job.name() + " was handed over during a pause of its model at " + options.name);
    constexpr Duration kProbedAfter = std::chrono::minutes(1);
    if (now < own->second.until)  // of those that were refused one goes at a time
      for (auto& [model, pause] : models)
        if (now < pause.until) pause.probe_at = std::max(pause.probe_at, now + kProbedAfter);
    own->second.take(job, now);
  }
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const std::int64_t amount = job.expected.of(rates[i].resource());
    if (probes && is_paused_by_refusals(i))
      rates[i].take_as_probe(job.serial, amount, now);
    else
      rates[i].take(job.serial, amount, hold, options.name, now);
  }
}

void ModelBudget::call_over(const ModelJob& job) {
  --running;
  if (probe == &job) probe = nullptr;
  for (auto& [model, pause] : models)
    if (pause.probe == &job) pause.probe = nullptr;
}

void ModelPause::lengthen(TimePoint to, TimePoint now) {
  constexpr Duration kProbedAfter = std::chrono::minutes(1), kOthersFirst = std::chrono::milliseconds(100);
  if (now >= until) probe_after = kProbedAfter;
  probe = nullptr;
  probe_at = to - now > probe_after ? now + probe_after + kOthersFirst : core::kNever;
  until = to;
  began = now;
  held_until = TimePoint{};
  hold = std::chrono::seconds(1);
}

void ModelPause::take(const ModelJob& job, TimePoint now) {
  if (now < until) {
    probe_after *= 2;
    probe_at = now + probe_after;
    probe = &job;
  } else if (hold >= std::chrono::milliseconds(125)) {
    held_until = now + hold;
    hold /= 2;
  }
}

void ModelPause::answered(TimePoint called_at, TimePoint now) {
  if (called_at <= began) return;
  until = std::min(until, now);
  held_until = TimePoint{};
  hold = {};
}

bool ModelBudget::tells_apart(const std::string& model, TimePoint now) const {
  const auto own = models.find(model);
  if (own == models.end() || now - own->second.until >= std::chrono::minutes(1)) return false;
  return std::any_of(answered_at.begin(), answered_at.end(), [&](const auto& other) {
    return other.first != model && other.second > own->second.began;
  });
}

bool ModelBudget::refuses_others(const std::string& model, TimePoint now) const {
  constexpr Duration kLately = std::chrono::seconds(10), kWithin = std::chrono::minutes(1);
  std::optional<TimePoint> refused, answered;
  for (const auto& [other, at] : refused_at)
    if (other != model) refused = std::max(refused.value_or(at), at);
  for (const auto& [other, at] : answered_at)
    if (other != model) answered = std::max(answered.value_or(at), at);
  if (!refused || now - *refused > kWithin) return false;
  return !answered || (*answered < *refused && now - *answered > kLately);
}

const ModelPause* ModelBudget::pause_of(const std::string& model) const {
  const auto own = models.find(model);
  return own == models.end() ? nullptr : &own->second;
}

void ModelBudget::answered(const std::string& model, TimePoint called_at, TimePoint now) {
  if (!model.empty()) answered_at[model] = now;
  if (called_at > refused_job_at) ++answered_since;
  if (const auto own = models.find(model); own != models.end()) own->second.answered(called_at, now);
  for (ModelRate& rate : rates)
    rate.answered(called_at);
  // Who was let through in a pause has found out that it does not hold.
  if (now < paused_until && called_at > paused_at) {
    paused_until = TimePoint{};
    for (ModelRate& rate : rates)
      rate.lift(now);
  }
  if (called_at < overloaded_at || at_once == options.concurrency) return;
  if (++answers < at_once) return;
  ++at_once;
  answers = 0;
}

void ModelBudget::overloaded(TimePoint called_at, TimePoint now) {
  if (options.concurrency == 0 || called_at < overloaded_at) return;
  at_once = std::max<std::int64_t>(at_once * 7 / 10, 1);
  answers = 0;
  overloaded_at = now;
}

void ModelBudget::learn(const wire::UpstreamLimits& said, TimePoint now) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (options.rates[i].period != std::chrono::minutes(1)) continue;
    std::optional<std::int64_t> limit = said.limit_requests;
    if (rates[i].resource() == core::Resource::tokens) limit = said.limit_tokens;
    if (rates[i].resource() == core::Resource::input_tokens) limit = said.limit_input_tokens;
    if (rates[i].resource() == core::Resource::output_tokens) limit = said.limit_output_tokens;
    if (limit > 0) rates[i].learn(*limit, now);
    std::optional<std::int64_t> rest = said.remaining_requests;
    if (rates[i].resource() == core::Resource::tokens) rest = said.remaining_tokens;
    if (rates[i].resource() == core::Resource::input_tokens) rest = said.remaining_input_tokens;
    if (rates[i].resource() == core::Resource::output_tokens) rest = said.remaining_output_tokens;
    if (rest) rates[i].doubt(*rest, now);
  }
}

/// What is counted over a day is not what a refusal is about, nor what a pause empties.
bool ModelBudget::is_paused_by_refusals(std::size_t rate) const {
  return options.rates[rate].period <= std::chrono::minutes(1);
}

bool ModelBudget::counts_longer() const {
  for (std::size_t i = 0; i < rates.size(); ++i)
    if (!is_paused_by_refusals(i)) return true;
  return false;
}

void ModelBudget::cut(TimePoint now) {
  for (std::size_t i = 0; i < rates.size(); ++i)
    if (is_paused_by_refusals(i)) rates[i].cut(now);
}

bool ModelBudget::refuses_alone(const ModelJob& job, TimePoint now) {
  constexpr int kOthers = 3;
  constexpr std::size_t kFew = 3;
  refused_job_at = now;
  const auto before = refused_jobs.find(job.serial);
  if (before == refused_jobs.end()) {
    if (refused_jobs.size() == kFew) {
      refused_jobs.clear();
      refused_alone.clear();
    }
    refused_jobs[job.serial] = answered_since;
    for (ModelRate& rate : rates)
      rate.mark(now);
    return false;
  }
  if (!refused_alone.contains(job.serial) && answered_since - before->second >= kOthers) {
    refused_alone.insert(job.serial);
    for (ModelRate& rate : rates)
      rate.take_back(now);
  }
  return refused_alone.contains(job.serial);
}

ModelBudget::Apart ModelBudget::limited(const std::string& model, bool cuts, TimePoint until, TimePoint now) {
  constexpr Duration kOthersFirst = std::chrono::milliseconds(100), kOthersWithin = std::chrono::minutes(1);
  const bool apart = !model.empty() && options.model != model;
  if (!model.empty()) refused_at[model] = now;
  if (apart && tells_apart(model, now) && !refuses_others(model, now)) {
    if (ModelPause& own = models[model]; own.until < until) own.lengthen(until, now);
    return Apart::alone;
  }
  if (cuts) cut(now);
  const TimePoint last = until + kOthersFirst;
  if (apart) models[model];
  for (auto& [name, pause] : models)
    if (((apart && name == model) || now - pause.until < kOthersWithin) && pause.until < last)
      pause.lengthen(last, now);
  pause_all(until, now);
  return apart ? Apart::with_all : Apart::no;
}

void ModelBudget::pause_all(TimePoint until, TimePoint now) {
  if (until <= paused_until) return;
  constexpr Duration kProbedAfter = std::chrono::minutes(1);
  if (now >= paused_until) probe_after = kProbedAfter;
  paused_until = until;
  paused_at = now;
  probe = nullptr;  // who was let through before says nothing of this one
  probe_at = until - now > probe_after ? now + probe_after : core::kNever;
  for (std::size_t i = 0; i < rates.size(); ++i)
    if (is_paused_by_refusals(i)) rates[i].pause(until, now);
}

void ModelBudget::configure(const core::BudgetOptions& changed, TimePoint now) {
  const bool same = changed.rates == options.rates && changed.concurrency == options.concurrency;
  options = changed;
  if (same) return;
  std::vector<ModelRate> kept;
  for (const core::RateOptions& wanted : changed.rates) {
    const auto known = std::find_if(rates.begin(), rates.end(),
                                    [&](const ModelRate& rate) { return rate.name() == wanted.name; });
    if (known == rates.end()) {
      kept.emplace_back(wanted, options.window);
      continue;
    }
    known->configure(wanted, now);
    kept.push_back(std::move(*known));
  }
  rates = std::move(kept);
  lift(now);
}

bool ModelBudget::is_lowered(TimePoint now) {
  const auto is_paused = [&](const auto& model) { return now < model.second.until; };
  return now < paused_until || at_once != options.concurrency ||
         std::any_of(models.begin(), models.end(), is_paused) ||
         std::any_of(rates.begin(), rates.end(), [&](ModelRate& rate) { return rate.is_lowered(now); });
}

void ModelBudget::lift(TimePoint now) {
  paused_until = TimePoint{};
  at_once = options.concurrency;
  answers = 0;
  for (ModelRate& rate : rates)
    rate.lift(now);
}

void ModelBudget::lift_models(TimePoint now) {
  for (auto& [model, pause] : models) {
    pause.until = std::min(pause.until, now);
    pause.held_until = TimePoint{};
    pause.hold = {};
  }
}

bool ModelBudget::surely_affordable(const ModelClaim& claim, TimePoint now) {
  if (now < paused_until || full()) return may_probe(now) && !full() && !counts_longer();
  return std::all_of(rates.begin(), rates.end(), [&](ModelRate& rate) {
    return rate.surely_affordable(claim.amounts.of(rate.resource()), claim.hold, now) &&
           (!claim.leaves_hold || rate.leaves(claim.amounts.of(rate.resource()), claim.hold));
  });
}

TimePoint ModelBudget::affordable_at(const ModelClaim& claim, TimePoint now) {
  if (full()) return core::kNever;
  if (now < paused_until && probe_at < paused_until && !counts_longer()) return std::max(now, probe_at);
  TimePoint latest = std::max(now, paused_until);
  for (ModelRate& rate : rates)
    latest = std::max(latest, rate.affordable_at(claim.amounts.of(rate.resource()), claim.hold, now));
  return latest;
}

ModelUpstream::Due ModelUpstream::over(Said said, const ModelJob& job, TimePoint now) {
  constexpr std::size_t kCalls = 20, kCallsMin = 10, kOfClient = 5, kOthersMin = 2;
  constexpr Duration kWindow = std::chrono::seconds(30);
  const bool failed = said == Said::failure || said == Said::unreachable;
  if (!closed) {
    if (job.trial != opening) return Due::nothing;
    --trials_out;
    if (said == Said::nothing) return Due::nothing;
    if (failed) {
      const bool others_passed = !passed_last.empty() && passed_last != job.caller;
      only = others_passed || failed_last == job.caller ? job.caller : std::string();
      failed_last = job.caller;
      failed_client = job.client;
      return vague ? Due::may : Due::open;
    }
    passed_last = job.caller;
    only.clear();
    return ++trials_passed < 4 ? vague ? Due::may : Due::nothing : vague ? Due::may : Due::close;
  }
  if (said == Said::nothing || job.dispatched_at < closed_at) return Due::nothing;
  if (said != Said::unreachable)
    unreachable.clear();
  else if (unreachable.size() < 100)
    unreachable.push_back(job.caller);
  if (said == Said::refusal) return Due::nothing;
  calls.push_back({now, failed, job.caller});
  // Once one of them failed it counts whose they are: of each client the last five, where there are several.
  if (std::any_of(calls.begin(), calls.end(), [](const Call& call) { return call.failed; })) {
    std::erase_if(calls, [&](const Call& call) { return call.at + kWindow < now; });
    std::map<std::string, std::size_t> later;
    std::deque<Call> kept;
    const bool several =
        std::any_of(calls.begin(), calls.end(), [&](const Call& call) { return call.client != job.caller; });
    for (auto call = calls.rbegin(); call != calls.rend(); ++call)
      if (++later[call->client] <= kOfClient || !several) kept.push_front(*call);
    calls = std::move(kept);
  }
  if (calls.size() > kCalls) calls.pop_front();
  if (!failed) return Due::nothing;
  only.clear();
  failed_last.clear();
  // That one client reaches nothing is its own affair while another one of them is answered.
  if (unreachable.size() >= 5) {
    const std::set<std::string> whose(unreachable.begin(), unreachable.end());
    const bool others_are_answered = std::any_of(calls.begin(), calls.end(), [&](const Call& call) {
      return !call.failed && call.client != *whose.begin();
    });
    if (whose.size() > 1 || !others_are_answered) return Due::open;
  }
  std::size_t failures = 0, of_others = 0, failures_of_others = 0;
  for (const Call& call : calls) {
    failures += call.failed ? 1 : 0;
    of_others += call.client == job.caller ? 0 : 1;
    failures_of_others += call.failed && call.client != job.caller ? 1 : 0;
  }
  if (failures * 2 < calls.size()) return Due::nothing;
  const bool alone = of_others == 0 && calls.size() >= kCallsMin;
  const bool almost =
      of_others > 0 && of_others < kOthersMin && failures_of_others == of_others && calls.size() > kOfClient;
  if (of_others > 0 && calls.size() >= kOfClient + kOthersMin && fails_without_any_client()) return Due::open;
  if (!alone && !almost) return Due::nothing;
  only = failed_last = job.caller;
  failed_client = job.client;
  return Due::may;
}

bool ModelUpstream::fails_without_any_client() const {
  return std::all_of(calls.begin(), calls.end(), [&](const Call& one) {
    std::size_t others = 0, failures = 0;
    for (const Call& call : calls) {
      others += call.client == one.client ? 0 : 1;
      failures += call.failed && call.client != one.client ? 1 : 0;
    }
    return others >= 2 && failures * 2 >= others;
  });
}

/// What the client has saved up; else of ten, and a tenth of what succeeds; three more for all who had fewer
/// than three of them. Of these a tenant's clients are one.
bool ModelUpstream::take_retry(const std::string& client, const std::string& tenant) {
  if (const auto its = saved.find(client); its != saved.end() && its->second >= 10) {
    its->second -= 10;
    return true;
  }
  const std::string& whose = tenant.empty() ? client : tenant;
  const bool had_few = std::count(retries.begin(), retries.end(), whose) < 3;
  if (retry_parts < (had_few ? -20 : 10)) return false;
  retry_parts -= 10;
  retries.push_back(whose);
  return true;
}

/// Nobody saves while nothing is missing.
void ModelUpstream::succeeded(const std::string& client) {
  constexpr std::size_t kSaversMax = 256;
  if (retry_parts >= 100) return;
  if (saved.size() < kSaversMax || saved.count(client) != 0) {
    int& its = saved[client];
    if (its < 30) {
      ++its;
      return;
    }
  }
  if (++retry_parts % 10 == 0) retries.pop_front();
  if (retry_parts >= 100) saved.clear();
}

void ModelUpstream::waits(const std::string& client) {
  if (closed || failed_last.empty() || client == failed_client) return;
  bars[failed_client] = top_lane_from;
  ++times_barred;
  vague = vague || !only.empty();
}

void ModelUpstream::open(Duration wait, TimePoint now) {
  constexpr Duration kMost = std::chrono::seconds(60);
  const Duration middle = std::min<Duration>(std::chrono::seconds(5) * (1 << std::min(openings, 5)), kMost);
  if (wait < middle * 4 / 5 - std::chrono::milliseconds(1) || wait > std::min(middle * 6 / 5, kMost))
    violated("an upstream is left alone for " + std::to_string(wait.count()) + " us");
  closed = false;
  ++openings;
  ++opening;
  trials_out = trials_passed = 0;
  open_until = now + wait;
  top_lane_from = open_until + wait;
  vague = models.size() > 1;
  passed_last.clear();
}

void ModelUpstream::close(TimePoint now) {
  closed = true;
  closed_at = now;
  unreachable.clear();
  openings = 0;
  calls.clear();
  only.clear();
  failed_last.clear();
  passed_last.clear();
  bars.clear();
  vague = false;
}

bool ModelUpstream::may_call(bool top_lane, TimePoint now) const {
  if (closed || vague) return true;
  if (now < open_until) return false;
  if (trials_out > 0 && now - trial_at >= std::chrono::seconds(60)) return true;
  if (trials_passed == 0) return trials_out == 0 && (!top_lane || now >= top_lane_from);
  return trials_out + trials_passed <= 3;
}

bool ModelUpstream::surely_calls(bool top_lane, TimePoint now) const {
  if (vague) return false;
  // The wait is known to the millisecond, and timers have a tick.
  const TimePoint from =
      (top_lane && trials_passed == 0 ? top_lane_from : open_until) + std::chrono::milliseconds(4);
  return closed || (now > from && may_call(top_lane, now));
}

bool ModelJob::came_with(const ModelJob& other) const {
  return queued_at != TimePoint{} && queued_at == other.queued_at &&
         std::chrono::abs(delay_over - other.delay_over) < std::chrono::milliseconds(1);
}

std::string ModelJob::name() const {
  return "job " + (id.empty() ? "(unnamed, body " + body.substr(0, 20) + ")" : id) + " attempt " +
         std::to_string(attempt);
}

ModelJob* ModelStream::head(TimePoint now) const {
  for (ModelJob* job : waiting)
    if (job->surely_queued(now)) return job;
  return nullptr;
}

std::vector<ModelJob*> ModelStream::candidates(TimePoint now) const {
  std::vector<ModelJob*> candidates;
  const ModelJob* first = nullptr;
  for (ModelJob* job : waiting) {
    if (model.empty() && first != nullptr && !job->came_with(*first)) break;
    if (job->alone) continue;
    if (job->may_be_queued(now)) candidates.push_back(job);
    if (first == nullptr && job->surely_queued(now)) first = job;
  }
  return candidates;
}

}  // namespace lanemq::sim
