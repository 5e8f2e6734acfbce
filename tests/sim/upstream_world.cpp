// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/upstream_world.hpp"

#include <algorithm>

#include "tests/sim/broker_host.hpp"

namespace lanemq::sim {
namespace {

/// What an upstream asks to be left alone for at most.

using core::Duration;
using core::TimePoint;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Of a period: what hand-overs may be late.
constexpr std::int64_t kLateParts = 100;
/// Calls of a window that a failure shows.
constexpr std::size_t kCallsShown = 12;
/// What others use of a shared account at a time, of its limit.
constexpr std::int64_t kOthersParts = 20;

/// The patterns that runs use: nothing, a name, or the beginning of one with a star.
bool fits(const std::string& pattern, const std::string& text) {
  if (pattern.empty()) return true;
  if (pattern.back() == '*') return text.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == text;
}

std::string seconds_of(TimePoint time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", static_cast<double>(time.time_since_epoch().count()) / 1e6);
  return text;
}

}  // namespace

UpstreamWorld::UpstreamWorld(const Swarm& swarm, Random& random, Trace* trace)
    : swarm_(swarm), random_(random), trace_(trace) {
  for (const core::BudgetOptions& budget : swarm.options.budgets) {
    add_rules(budget, {}, false);
    for (const core::KeyOptions& key : budget.keys)
      if (random_.per_mille(static_cast<std::uint64_t>(swarm.upstream.dead_keys)))
        dies_at_[key.name] = TimePoint(random_.between(Duration(0), seconds(20)));
  }
}

bool UpstreamWorld::judges(const Rule& rule) const {
  const auto fit = swarm_.upstream.fit;
  // What a bucket gets back late it may not have had room for in between.
  const bool gives_back = swarm_.released > 0 || (swarm_.usages > 0 && swarm_.misestimates > 0);
  if (rule.window.kind == CountingWindow::Kind::bucket && gives_back) return false;
  return swarm_.lies == 0 && (fit == Swarm::Upstream::Fit::matches || fit == Swarm::Upstream::Fit::wider);
}

// ---- rules --------------------------------------------------------------------------------------------

std::vector<UpstreamWorld::Account> UpstreamWorld::accounts_of(const core::BudgetOptions& budget) {
  std::vector<Account> accounts;
  for (const core::KeyOptions& key : budget.keys) {
    const std::string& name = key.quota_group.empty() ? key.name : key.quota_group;
    auto known = std::find_if(accounts.begin(), accounts.end(),
                              [&](const Account& account) { return account.name == name; });
    if (known == accounts.end()) known = accounts.insert(known, {budget.name, name, {}});
    known->keys.push_back(&key);
  }
  return accounts;
}

void UpstreamWorld::add_rules(const core::BudgetOptions& budget, TimePoint now, bool fresh) {
  for (const core::RateOptions& rate : budget.rates)
    add_rule(budget, {}, {}, rate, now, fresh);
  for (const Account& account : accounts_of(budget)) {
    std::set<std::string> keys;
    for (const core::KeyOptions* key : account.keys)
      keys.insert(key->name);
    for (const core::RateOptions& rate : account.keys.front()->rates)
      add_rule(budget, account.name, keys, rate, now, fresh);
  }
}

void UpstreamWorld::add_rule(const core::BudgetOptions& budget, const std::string& account,
                             std::set<std::string> keys, const core::RateOptions& rate, TimePoint now,
                             bool fresh) {
  Rule& rule = rules_.emplace_back();
  rule.budget = budget.name;
  rule.account = account;
  rule.name = rate.name;
  rule.keys = std::move(keys);
  if (rule.keys.empty()) {
    rule.service = budget.service;
    rule.model = budget.model;
    rule.client = budget.client;
    rule.lane = budget.lane;
  }
  rule.resource = rate.resource;
  // An upstream that counts what it allowed is one that it is configured for; one that counts what was used
  // may be called more carefully than it asks for.
  rule.bound = budget.output == core::OutputCount::bound && random_.percent(70);
  rule.since = now;
  rule.fresh = fresh;
  CountingWindow& window = rule.window;
  window.period = rate.period;
  window.offset = random_.between(Duration(0), rate.period - Duration(1));
  window.kind = CountingWindow::Kind::bucket;
  // Whoever holds a limit in every window holds it in all that begin at given times.
  if (budget.window == core::WindowKind::sliding)
    window.kind = random_.percent(65) ? CountingWindow::Kind::sliding : CountingWindow::Kind::fixed;
  fit(rule, rate, budget.window);
}

/// The limit that the upstream has where that much is configured.
void UpstreamWorld::fit(Rule& rule, const core::RateOptions& rate, core::WindowKind) {
  std::int64_t limit = rate.limit;
  if (swarm_.upstream.fit == Swarm::Upstream::Fit::tighter ||
      swarm_.upstream.fit == Swarm::Upstream::Fit::wider)
    limit = std::max<std::int64_t>(limit * swarm_.upstream.fit_percent / 100, 1);
  const std::int64_t configured =
      rate.capacity > 0 ? rate.capacity : std::max<std::int64_t>(rate.limit / 10, 1);
  // A bucket lets a job larger than itself go when it is full, so that the upstream's is as large as a job
  // may be, one included that was taken in before the limit was lowered; and it holds a hundredth more, for
  // what is under way for a while.
  if (rate.resource != core::Resource::requests) rule.job_max = std::max(rule.job_max, rate.limit);
  rule.window.limit = limit;
  rule.window.burst = std::max(configured, rule.job_max) + limit / kLateParts + 2;
}

bool UpstreamWorld::Rule::matches(const UpstreamCall& call) const {
  if (gone) return false;
  if (!keys.empty()) return keys.contains(call.key);
  return fits(service, call.service) && fits(model, call.model) && fits(client, call.client) &&
         fits(lane, call.lane);
}

std::int64_t UpstreamWorld::Rule::amount(std::int64_t requests, std::int64_t input,
                                         std::int64_t output) const {
  switch (resource) {
    case core::Resource::requests:
      break;
    case core::Resource::tokens:
      return input + output;
    case core::Resource::input_tokens:
      return input;
    case core::Resource::output_tokens:
      return output;
  }
  return requests;
}

void UpstreamWorld::configured(const core::Options& options, bool read_again, TimePoint now) {
  if (read_again) {
    refused_clients_.clear();
    key_told_.clear();
    key_told_at_.clear();
    read_again_at_ = now;
  }
  std::vector<std::pair<const core::BudgetOptions*, std::pair<std::string, const core::RateOptions*>>> wanted;
  for (const core::BudgetOptions& budget : options.budgets) {
    for (const core::RateOptions& rate : budget.rates)
      wanted.push_back({&budget, {"", &rate}});
    for (const Account& account : accounts_of(budget))
      for (const core::RateOptions& rate : account.keys.front()->rates)
        wanted.push_back({&budget, {account.name, &rate}});
  }
  const auto is = [](const Rule& rule, const auto& one) {
    return !rule.gone && rule.budget == one.first->name && rule.account == one.second.first &&
           rule.name == one.second.second->name;
  };
  for (Rule& rule : rules_) {
    const auto place =
        std::find_if(wanted.begin(), wanted.end(), [&](const auto& one) { return is(rule, one); });
    if (place == wanted.end()) {
      rule.gone = true;
      continue;
    }
    for (const core::KeyOptions& key : place->first->keys)
      if (!rule.keys.empty() && (key.quota_group.empty() ? key.name : key.quota_group) == rule.account)
        rule.keys.insert(key.name);
    const Limit before{rule.since, rule.window.limit, rule.window.burst};
    fit(rule, *place->second.second, place->first->window);
    if (rule.window.limit == before.limit && rule.window.burst == before.burst) continue;
    rule.limits.push_back({now, before.limit, before.burst});
    if (rule.window.kind != CountingWindow::Kind::bucket) continue;
    rule.since = now;
    rule.fresh = true;
    rule.calls.clear();
    rule.arrived.clear();
  }
  for (const auto& one : wanted) {
    const bool known =
        std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) { return is(rule, one); });
    if (known) continue;
    std::set<std::string> keys;
    for (const core::KeyOptions& key : one.first->keys)
      if (!one.second.first.empty() &&
          (key.quota_group.empty() ? key.name : key.quota_group) == one.second.first)
        keys.insert(key.name);
    add_rule(*one.first, one.second.first, std::move(keys), *one.second.second, now, true);
  }
}

// ---- calls --------------------------------------------------------------------------------------------

UpstreamVerdict UpstreamWorld::begin(const UpstreamCall& what, TimePoint now) {
  const auto offer = offers_.find({what.job, what.attempt});
  Call& call = calls_.emplace_back();
  const std::size_t number = calls_.size() - 1;
  call.what = what;
  call.arrived_at = now;
  call.decided_at = offer == offers_.end() ? now : offer->second.decided_at;
  call.durable = offer != offers_.end() && offer->second.durable;
  call.excused = offer != offers_.end() && offer->second.excused;
  call_of_[{what.job, what.attempt}] = number;
  add_others(now);
  UpstreamVerdict verdict;
  const auto dies = dies_at_.find(what.key);
  verdict.key_refused = dies != dies_at_.end() && dies->second <= now;
  verdict.served = !verdict.key_refused;

  std::vector<Rule*> rules;
  for (Rule& rule : rules_) {
    if (!rule.matches(what) || (rule.fresh && call.decided_at <= rule.since)) continue;
    rules.push_back(&rule);
    const TimePoint at = counts_at(rule, call);
    rule.calls.insert(std::upper_bound(rule.calls.begin(), rule.calls.end(), at,
                                       [&](TimePoint time, std::size_t other) {
                                         return time < counts_at(rule, calls_[other]);
                                       }),
                      number);
    if (judges(rule)) judge_from(rule, at);
    const std::int64_t amount = counted(rule, call);
    if (verdict.served && rule.window.used(rule.arrived, now) + amount > rule.window.most())
      verdict = refuse(rule, amount, now);
  }
  call.served = verdict.served;
  for (Rule* rule : rules)
    if (call.served) rule->arrived.push_back({now, counted(*rule, call)});
  if (!verdict.served) ++refusals_;
  verdict.limits = say_limits(what, now);
  if (trace_ != nullptr)
    trace_->add(now, "~ upstream " + what.service + (what.model.empty() ? "" : " " + what.model) +
                         (what.key.empty() ? "" : " key " + what.key) +
                         (verdict.served ? " begins" : " refuses") + " job " + std::to_string(what.job) +
                         " attempt " + std::to_string(what.attempt) + ": input " +
                         std::to_string(what.input_used) + " of " + std::to_string(what.input_expected) +
                         ", output " + std::to_string(what.output_used) + " of " +
                         std::to_string(what.output_expected));
  return verdict;
}

/// When it counts where it is judged: what is late is not the broker's doing.
TimePoint UpstreamWorld::counts_at(const Rule& rule, const Call& call) {
  return std::min(call.arrived_at, call.decided_at + rule.window.period / kLateParts);
}

/// What it counts, as soon as the call begins.
std::int64_t UpstreamWorld::counted(const Rule& rule, const Call& call) const {
  if (!call.served) return 0;
  const std::int64_t output =
      rule.bound ? std::max(call.what.output_expected, call.what.output_used) : call.what.output_used;
  return rule.amount(1, call.what.input_used, output);
}

/// As much of it as the broker could know of when it decided: what it was expected to use, and what it was
/// told once that is acknowledged; in between the less of the two.
std::int64_t UpstreamWorld::judged(const Rule& rule, const Call& call, TimePoint decided_at) const {
  if (call.excused || !call.served) return 0;
  const UpstreamCall& what = call.what;
  const std::int64_t output_used =
      rule.bound ? std::max(what.output_expected, what.output_used) : what.output_used;
  const std::int64_t expected = rule.amount(1, std::min(what.input_expected, what.input_used),
                                            std::min(what.output_expected, output_used));
  if (!call.told || call.told_at > decided_at) return expected;
  const std::int64_t requests = std::min<std::int64_t>(call.told->requests.value_or(1), 1);
  const std::int64_t input = call.told->input_tokens.value_or(what.input_expected);
  std::int64_t output = call.told->output_tokens.value_or(what.output_expected);
  if (rule.bound && requests > 0) output = std::max(output, what.output_expected);
  const std::int64_t told =
      rule.amount(requests, std::min(input, what.input_used), std::min(output, output_used));
  return call.known && call.told_at < decided_at ? told : std::min(told, expected);
}

/// Who else uses the accounts does so at any time, by a part of each limit.
void UpstreamWorld::add_others(TimePoint now) {
  if (swarm_.upstream.fit != Swarm::Upstream::Fit::shared) return;
  while (others_until_ < now) {
    const Duration pause = random_.between(milliseconds(1), seconds(3));
    const std::int64_t part = random_.between(1, 1000 / kOthersParts);
    others_until_ += pause;
    for (Rule& rule : rules_)
      if (!rule.gone && (rule.arrived.empty() || rule.arrived.back().at <= others_until_))
        rule.arrived.push_back({others_until_, std::max<std::int64_t>(rule.window.limit * part / 1000, 1)});
  }
}

UpstreamVerdict UpstreamWorld::refuse(const Rule& rule, std::int64_t amount, TimePoint now) {
  UpstreamVerdict verdict;
  verdict.served = false;
  using Says = Swarm::Upstream::Says;
  switch (swarm_.upstream.retry_after) {
    case Says::nothing:
      break;
    case Says::truth: {
      const TimePoint at = rule.window.fits_at(rule.arrived, amount, now);
      verdict.retry_after = at == core::kNever ? Duration(hours(1)) : at - now;
      break;
    }
    case Says::late:
      verdict.retry_after = rule.window.period;
      break;
    case Says::absurd:
      verdict.retry_after =
          random_.one_of<Duration>({Duration(0), milliseconds(1), hours(24), hours(24 * 365),
                                    milliseconds((std::int64_t{1} << 53) - 1)});
      break;
  }
  if (verdict.retry_after) verdict.retry_after = std::min(*verdict.retry_after, swarm_.retry_after_max);
  return verdict;
}

/// What it says of its limits of a minute: of the account's where it has some, else of the budget's.
std::optional<wire::UpstreamLimits> UpstreamWorld::say_limits(const UpstreamCall& call, TimePoint now) {
  using Says = Swarm::Upstream::Says;
  const Says says = swarm_.upstream.headers;
  if (says == Says::nothing) return std::nullopt;
  const bool of_account = std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    return rule.matches(call) && !rule.account.empty();
  });
  wire::UpstreamLimits limits;
  bool any = false;
  for (const Rule& rule : rules_) {
    if (!rule.matches(call) || rule.account.empty() == of_account) continue;
    if (rule.window.period != std::chrono::minutes(1)) continue;
    any = true;
    const std::vector<Counted>& amounts = rule.arrived;
    std::int64_t limit = rule.window.limit;
    std::int64_t remaining = std::max<std::int64_t>(rule.window.most() - rule.window.used(amounts, now), 0);
    std::int64_t reset = core::to_ms(rule.window.reset(amounts, now));
    if (says == Says::absurd && random_.percent(30)) {
      limit = random_.one_of<std::int64_t>({0, 1, limit / 2, limit * 2, std::int64_t{1} << 40, INT64_MAX});
      remaining = random_.one_of<std::int64_t>({0, 1, remaining, std::int64_t{1} << 40, INT64_MAX});
      reset = random_.one_of<std::int64_t>({0, 1, reset, 86'400'000, std::int64_t{1} << 40});
    }
    const auto say = [&](std::optional<std::int64_t>& of_limit, std::optional<std::int64_t>& of_rest,
                         std::optional<std::int64_t>& of_reset) {
      // Of several the least is said.
      if (of_limit && *of_limit <= limit) return;
      of_limit = limit;
      if (!swarm_.upstream.says_remaining) return;
      of_rest = remaining;
      of_reset = reset;
    };
    switch (rule.resource) {
      case core::Resource::requests:
        say(limits.limit_requests, limits.remaining_requests, limits.reset_requests_ms);
        break;
      case core::Resource::tokens:
        say(limits.limit_tokens, limits.remaining_tokens, limits.reset_tokens_ms);
        break;
      case core::Resource::input_tokens:
        say(limits.limit_input_tokens, limits.remaining_input_tokens, limits.reset_input_tokens_ms);
        break;
      case core::Resource::output_tokens:
        say(limits.limit_output_tokens, limits.remaining_output_tokens, limits.reset_output_tokens_ms);
        break;
    }
  }
  if (!any) return std::nullopt;
  if (says == Says::late) std::swap(limits, said_before_[call.service + '/' + call.model + '/' + call.key]);
  return limits;
}

// ---- the judgement ------------------------------------------------------------------------------------

void UpstreamWorld::offered(const wire::JobOffer& offer, bool durable, TimePoint decided_at, TimePoint) {
  offers_[{offer.job, offer.attempt}] = {decided_at, durable};
  client_of_.try_emplace(offer.job, offer.client);
  check_key(offer, decided_at);
}

void UpstreamWorld::check_key(const wire::JobOffer& offer, TimePoint decided_at) const {
  if (swarm_.lies > 0 || offer.key.empty()) return;
  // What one client asks for may be why; where two were refused within seconds the key rests for all. It may
  // rest already since one of them was refused before: what is said during a rest does not begin another.
  constexpr Duration kTogether = std::chrono::seconds(9);
  const auto known = refused_clients_.find(std::string(offer.key));
  if (known == refused_clients_.end()) return;
  const std::vector<TimePoint>& told = key_told_at_.at(known->first);
  for (const auto& [client, at] : known->second)
    for (const auto& [other, other_at] : known->second) {
      if (client == other || at > other_at || other_at - at > kTogether || other_at >= decided_at) continue;
      const TimePoint rests_since =
          *std::find_if(told.begin(), told.end(),
                        [first = other_at - core::Key::kRestMin](TimePoint time) { return time > first; });
      if (decided_at < rests_since + core::Key::kRestMin)
        violated("job " + std::to_string(offer.job) + " was given key " + std::string(offer.key) +
                 ", which rests since its upstream refused it at " + seconds_of(rests_since));
    }
}

void UpstreamWorld::told(wire::Lease lease, const std::optional<wire::Usage>& usage, bool key_refused,
                         TimePoint now) {
  const auto place = call_of_.find({lease.job, lease.attempt});
  if (place == call_of_.end()) return;
  Call& call = calls_[place->second];
  // What is said of a call that was decided before the keys were read again is out of date; and a broker that
  // died since may not know the job any more, nor which key it had.
  if (key_refused && !call.what.key.empty() && told_a_key_.insert(lease.job).second) {
    key_told_at_[call.what.key].push_back(now);
    if (call.decided_at > std::max(read_again_at_, died_at_))
      key_told_[{lease.job, lease.attempt}] = {call.what.key, now};
  }
  if (call.known) return;
  call.told = usage;
  call.told_at = now;
}

void UpstreamWorld::acknowledged(wire::Lease lease) {
  if (const auto told = key_told_.extract({lease.job, lease.attempt}); !told.empty())
    refused_clients_[told.mapped().key].emplace_back(client_of_[lease.job], told.mapped().at);
  const auto place = call_of_.find({lease.job, lease.attempt});
  if (place == call_of_.end()) return;
  Call& call = calls_[place->second];
  if (call.known || call.told_at == core::kNever) return;
  call.known = true;
  if (!call.told) return;
  for (const Rule& rule : rules_)
    if (judges(rule) && rule.matches(call.what)) judge_from(rule, call.told_at);
}

/// No window that ends at one of the calls from then on holds more than it may.
void UpstreamWorld::judge_from(const Rule& rule, TimePoint from) const {
  const auto first = std::lower_bound(
      rule.calls.begin(), rule.calls.end(), from,
      [&](std::size_t number, TimePoint time) { return counts_at(rule, calls_[number]) < time; });
  for (auto place = first; place != rule.calls.end(); ++place) {
    const Call& call = calls_[*place];
    // One that counts at the same time stands for all that do.
    if (std::next(place) != rule.calls.end() &&
        counts_at(rule, calls_[*std::next(place)]) == counts_at(rule, call))
      continue;
    judge(rule, static_cast<std::size_t>(place - rule.calls.begin()));
  }
}

void UpstreamWorld::judge(const Rule& rule, std::size_t last) const {
  const TimePoint end = counts_at(rule, calls_[rule.calls[last]]);
  std::size_t first = last;
  while (first > 0 && (rule.window.kind == CountingWindow::Kind::bucket ||
                       counts_at(rule, calls_[rule.calls[first - 1]]) > end - rule.window.period))
    --first;
  // Of calls that overtook each other the one that was decided last knew most.
  TimePoint decided_first = core::kNever, decided_last{};
  for (std::size_t i = first; i <= last; ++i) {
    const Call& call = calls_[rule.calls[i]];
    decided_last = std::max(decided_last, call.decided_at);
    if (counts_at(rule, call) == end) decided_first = std::min(decided_first, call.decided_at);
  }
  CountingWindow window = rule.window;
  // What was in force when they were decided; of changes in between the most that was.
  bool between = true;
  for (auto change = rule.limits.rbegin(); change != rule.limits.rend() && change->since >= decided_first;
       ++change) {
    between = change->since <= decided_last;
    window.limit = between ? std::max(window.limit, change->limit) : change->limit;
    window.burst = between ? std::max(window.burst, change->burst) : change->burst;
  }
  std::vector<Counted> amounts;
  for (std::size_t i = first; i <= last; ++i) {
    const Call& call = calls_[rule.calls[i]];
    amounts.push_back({counts_at(rule, call), judged(rule, call, decided_last)});
  }
  const std::int64_t used = window.used(amounts, end);
  if (used <= window.most()) return;
  std::string text = "upstream of budget " + rule.budget +
                     (rule.account.empty() ? "" : ", account " + rule.account) + ": " + std::to_string(used) +
                     " of " + rule.name + " are used at " + seconds_of(end) + ", and it allows " +
                     std::to_string(window.most()) + " (" + window.describe() + "). The last calls:";
  for (std::size_t i = amounts.size() > kCallsShown ? amounts.size() - kCallsShown : 0; i < amounts.size();
       ++i) {
    const Call& call = calls_[rule.calls[first + i]];
    text += "\n  job " + std::to_string(call.what.job) + " attempt " + std::to_string(call.what.attempt) +
            " decided " + seconds_of(call.decided_at) + " began " + seconds_of(call.arrived_at) + " counts " +
            std::to_string(amounts[i].amount) + " (expected " + std::to_string(call.what.input_expected) +
            "+" + std::to_string(call.what.output_expected) + ", used " +
            std::to_string(call.what.input_used) + "+" + std::to_string(call.what.output_used) + ")" +
            (call.known ? " known since " + seconds_of(call.told_at) : " nothing is known of its end");
  }
  violated(text);
}

void UpstreamWorld::broker_died(TimePoint noted_at, TimePoint now) {
  died_at_ = now;
  for (Call& call : calls_) {
    if (!call.durable && call.decided_at > noted_at) call.excused = true;
    if (!call.known) call.told_at = core::kNever;
  }
  for (auto& [lease, offer] : offers_)
    if (!offer.durable && offer.decided_at > noted_at) offer.excused = true;
  key_told_.clear();
  refused_clients_.clear();  // of late: that is in no store
}

void UpstreamWorld::memory_is_void() {
  for (Call& call : calls_)
    call.excused = true;
  for (auto& [lease, offer] : offers_)
    offer.excused = true;
  refused_clients_.clear();
  key_told_.clear();
  key_told_at_.clear();
}

std::string UpstreamWorld::describe() const {
  std::string text;
  for (const Rule& rule : rules_) {
    if (rule.gone) continue;
    text += "upstream of " + rule.budget + (rule.account.empty() ? "" : " account " + rule.account) + ": " +
            rule.name + " " + rule.window.describe() + (rule.bound ? ", counts what answers may have" : "") +
            "\n";
  }
  for (const auto& [key, at] : dies_at_)
    text += "key " + key + " is refused from " + seconds_of(at) + " on\n";
  return text;
}

}  // namespace lanemq::sim
