// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/swarm.hpp"

#include <algorithm>

namespace lanemq::sim {
namespace {

using core::Duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Duration draw_timeout(Random& random) {
  return random.one_of<Duration>({seconds(2), seconds(10), seconds(30), seconds(60)});
}

void draw_lanes(Random& random, core::Options& options) {
  static const char* const kNames[] = {"critical", "high", "normal", "low", "batch"};
  const auto count = static_cast<std::size_t>(random.between(1, 5));
  const auto fallback = random.below(count);
  const bool small = random.percent(40), bytes = random.percent(10), slots = random.percent(30);
  const bool reserves = random.percent(40), shares = random.percent(40), boosts = random.percent(30);
  for (std::size_t i = 0; i < count; ++i) {
    core::LaneOptions lane{.name = kNames[i]};
    lane.timeout = draw_timeout(random);
    lane.depth_max = small ? static_cast<std::size_t>(random.between(1, 20)) : 100000;
    if (bytes) lane.bytes_max = static_cast<std::size_t>(random.between(2000, 40000));
    if (slots) lane.reserved_slots = random.below(4);
    lane.is_default = i == fallback;
    // Up to five: together less than all there is.
    if (reserves && random.percent(60)) lane.reserve = static_cast<int>(random.between(10, 180));
    if (shares && random.percent(70)) lane.share_min = static_cast<int>(random.between(5, 190));
    if (boosts && random.percent(70)) lane.boost_after = random.between(milliseconds(5), milliseconds(3000));
    options.lanes.push_back(lane);
  }
}

core::RateOptions draw_rate(Random& random, core::WindowKind window, bool tokens) {
  const auto kinds = core::rate_kinds();
  const auto suits = [&](const core::RateKind& kind) {
    return (kind.resource != core::Resource::requests) == tokens && kind.period <= minutes(1);
  };
  std::size_t at = random.below(kinds.size());
  while (!suits(kinds[at]))
    at = (at + 1) % kinds.size();
  core::RateOptions rate;
  rate.name = kinds[at].name;
  rate.resource = kinds[at].resource;
  rate.period = kinds[at].period;
  rate.limit = rate.period == seconds(1) ? random.between(1, 200) : random.between(10, 3000);
  if (tokens) rate.limit *= random.one_of<std::int64_t>({10, 100, 1000});
  if (random.percent(30)) rate.capacity = random.between(1, rate.limit);
  // As much as a configuration may say.
  if (window == core::WindowKind::sliding)
    rate.capacity = std::min(rate.capacity, std::max<std::int64_t>(rate.limit / 2, 1));
  return rate;
}

void draw_budgets(Random& random, const Swarm& swarm, core::Options& options) {
  const std::uint64_t count = random.one_of<std::uint64_t>({0, 0, 1, 1, 2, 3});
  const std::uint64_t tokens = random.one_of<std::uint64_t>({0, 60, 90});
  const bool bound = random.percent(30);
  for (std::uint64_t i = 0; i < count; ++i) {
    core::BudgetOptions budget;
    budget.name = "budget-" + std::to_string(i);
    if (random.percent(50)) budget.service = random.pick(swarm.services);
    if (random.percent(30)) budget.model = random.percent(50) ? "m*" : random.pick(swarm.models);
    if (random.percent(20)) budget.client = random.percent(50) ? "k*" : "k1";
    if (random.percent(20)) budget.lane = options.lanes[random.below(options.lanes.size())].name;
    budget.window = random.percent(50) ? core::WindowKind::sliding : core::WindowKind::bucket;
    for (const std::uint64_t percent : {70, 15}) {
      if (!random.percent(percent)) continue;
      core::RateOptions rate = draw_rate(random, budget.window, random.percent(tokens));
      if (budget.rates.empty() || budget.rates.front().name != rate.name) budget.rates.push_back(rate);
    }
    if (bound) budget.output = core::OutputCount::bound;
    if (budget.rates.empty() || random.percent(30)) budget.concurrency = random.between(1, 20);
    options.budgets.push_back(budget);
  }
}

/// Jobs that suit the budgets: from so small that many fit to so large that some never do.
void draw_costs(Random& random, Swarm& swarm) {
  std::int64_t least = 0;
  bool bound = true;
  for (const core::BudgetOptions& budget : swarm.options.budgets) {
    for (const core::RateOptions& rate : budget.rates) {
      if (rate.resource == core::Resource::requests) continue;
      least = least == 0 ? rate.limit : std::min(least, rate.limit);
      bound = bound && budget.output == core::OutputCount::bound;
    }
  }
  swarm.states_costs = least > 0 || random.percent(20);
  swarm.states_bounds = least > 0 && bound;
  if (least == 0) least = 1000;
  swarm.input_max = std::max<std::int64_t>(least / random.one_of<std::int64_t>({1, 5, 50}), 1);
  swarm.output_max = std::max<std::int64_t>(least / random.one_of<std::int64_t>({2, 8, 80}), 1);
  swarm.usages = random.one_of<int>({0, 500, 1000});
  swarm.misestimates = random.one_of<int>({0, 0, 200, 1000});
}

void draw_clients(Random& random, Swarm& swarm) {
  swarm.names = {"", "", "k1", "k2", "k3"};
  for (const char* name : {"k1", "k2", "*"}) {
    if (random.percent(60)) continue;
    core::ClientOptions client;
    client.name = name;
    client.weight = static_cast<std::uint32_t>(random.between(1, core::ClientOptions::kWeightMax));
    if (random.percent(40)) client.in_flight_max = static_cast<std::size_t>(random.between(1, 10));
    if (random.percent(20)) client.depth_max = static_cast<std::size_t>(random.between(1, 50));
    if (random.percent(10)) client.lane_max = random.pick(swarm.options.lanes).name;
    swarm.options.clients.push_back(client);
  }
}

void draw_options(Random& random, core::Options& options) {
  options.heartbeat =
      random.one_of<Duration>({milliseconds(100), milliseconds(300), seconds(1), seconds(1), seconds(10)});
  options.attempts_max = static_cast<int>(random.between(1, 4));
  options.crash_max = static_cast<int>(random.between(1, 3));
  options.backoff_base = random.one_of<Duration>({milliseconds(1), milliseconds(50), milliseconds(500)});
  options.backoff_max = random.one_of<Duration>({milliseconds(20), seconds(5)});
  options.retain = random.one_of<Duration>({milliseconds(0), milliseconds(50), seconds(5), seconds(60)});
  if (random.percent(30)) options.results_max = static_cast<std::size_t>(random.between(0, 20));
  if (random.percent(15)) options.results_bytes_max = static_cast<std::size_t>(random.between(500, 50000));
  if (random.percent(10)) options.jobs_max = static_cast<std::size_t>(random.between(2, 100));
  if (random.percent(10)) options.memory_max = static_cast<std::size_t>(random.between(2000, 60000));
  if (random.percent(10)) {
    options.clients_idle_max = random.below(3);
    // A connection that is forgotten while a job of its client still runs, which was cancelled or is run
    // again by an operator, is another client next time.
    for (core::ClientOptions& client : options.clients)
      if (client.name == "*") client.in_flight_max = client.depth_max = 0;
  }
  options.dead_retain = random.one_of<Duration>({milliseconds(1), milliseconds(100), seconds(60)});
  options.dead_max = random.one_of<std::size_t>({0, 3, 10000});
  if (random.percent(10)) options.dead_bytes_max = static_cast<std::size_t>(random.between(500, 50000));
  if (random.percent(60)) options.gone_max = random.one_of<std::size_t>({0, 2, 5, 12});
  options.drain_timeout = random.one_of<Duration>({milliseconds(10), seconds(1), seconds(10)});
}

/// So many results that clients share them out. What is drawn later does not depend on it.
void draw_share(Random random, core::Options& options) {
  if (!random.percent(20)) return;
  options.client_share = random.one_of<int>({200, 250, 500, 900});
  options.results_max = static_cast<std::size_t>(random.between(20, 120));
  options.retain = std::max<Duration>(options.retain, seconds(5));
}

int maybe(Random& random, std::uint64_t percent, std::int64_t most) {
  return random.percent(percent) ? static_cast<int>(random.between(1, most)) : 0;
}

void draw_traffic(Random& random, Swarm& swarm) {
  swarm.clients = static_cast<int>(random.between(1, 6));
  swarm.workers = static_cast<int>(random.between(1, 6));
  swarm.worker_capacity_max = random.one_of<std::size_t>({1, 2, 8, 40});
  swarm.delay_max =
      random.one_of<Duration>({microseconds(0), microseconds(200), milliseconds(5), milliseconds(30)});
  swarm.loop_lag = random.one_of<Duration>({microseconds(0), microseconds(50), microseconds(900)});
  swarm.think_max = random.one_of<Duration>({milliseconds(1), milliseconds(10), milliseconds(100)});
  swarm.work_max =
      random.one_of<Duration>({microseconds(10), milliseconds(5), milliseconds(100), seconds(2)});
  swarm.trouble_min = milliseconds(10);
  swarm.trouble_max = random.one_of<Duration>({milliseconds(200), seconds(2), seconds(10)});
  swarm.body_bytes_max = random.one_of<int>({8, 100, 6000});
  swarm.pending_max = random.one_of<std::size_t>({1, 10, 200});
}

void draw_streams(Random& random, Swarm& swarm) {
  swarm.streams = maybe(random, 50, 1000);
  swarm.stream_chunks_max = random.one_of<int>({3, 20, 200});
  swarm.chunk_bytes_max = random.one_of<int>({10, 300, 20'000, 100'000});
  swarm.chunk_pause_max =
      random.one_of<Duration>({microseconds(0), milliseconds(1), milliseconds(50), seconds(1)});
  swarm.silent_readers = maybe(random, 50, 400);
  swarm.seen_after_max = random.one_of<Duration>({microseconds(0), milliseconds(5), milliseconds(500)});
  if (random.percent(60))
    swarm.options.stream_kept_bytes_max =
        limits::stream_bytes_max + random.one_of<std::size_t>({0, 50'000, 300'000});
}

}  // namespace

void draw_upstream(Random& random, Swarm& swarm) {
  using Upstream = Swarm::Upstream;
  using Fit = Upstream::Fit;
  using Says = Upstream::Says;
  Upstream& upstream = swarm.upstream;
  upstream.fit =
      random.one_of({Fit::matches, Fit::matches, Fit::matches, Fit::wider, Fit::tighter, Fit::shared});
  if (upstream.fit == Fit::wider) upstream.fit_percent = static_cast<int>(random.between(101, 300));
  if (upstream.fit == Fit::tighter) upstream.fit_percent = static_cast<int>(random.between(30, 95));
  upstream.retry_after = random.one_of({Says::nothing, Says::truth, Says::truth, Says::late, Says::absurd});
  if (random.percent(30))
    upstream.headers = random.one_of({Says::truth, Says::truth, Says::late, Says::absurd});
  upstream.says_remaining = random.percent(60);
  upstream.absurd_usages = maybe(random, 15, 50);
  upstream.dead_keys = random.percent(30) ? 400 : 0;
  swarm.free_jobs = maybe(random, 20, 500);
}

/// Limits that are felt: so narrow that they are used up in a run that is this short, and traffic so slow
/// that it lasts for some minutes.
void draw_scarcity(Random& random, Swarm& swarm) {
  if (!random.percent(50)) return;
  const bool slow = random.percent(60);
  std::int64_t least = 0;
  for (core::BudgetOptions& budget : swarm.options.budgets) {
    for (core::RateOptions& rate : budget.rates) {
      for (const core::RateKind& kind : core::rate_kinds())
        if (kind.resource == rate.resource &&
            kind.period == (slow ? Duration(minutes(1)) : Duration(seconds(1)))) {
          rate.name = kind.name;
          rate.period = kind.period;
        }
      if (rate.resource == core::Resource::requests) {
        rate.limit = slow ? random.between(3, 30) : random.between(1, 8);
        rate.capacity = random.percent(50) ? 0 : std::max<std::int64_t>(rate.limit / 2, 1);
      } else {
        least = least == 0 ? rate.limit : std::min(least, rate.limit);
      }
    }
    if (budget.rates.size() == 2 && budget.rates[0].name == budget.rates[1].name) budget.rates.pop_back();
  }
  if (least > 0) {
    swarm.input_max = std::max<std::int64_t>(least / random.one_of<std::int64_t>({2, 6, 20}), 1);
    swarm.output_max = std::max<std::int64_t>(least / random.one_of<std::int64_t>({2, 6, 20}), 1);
  }
  core::Options& options = swarm.options;
  options.heartbeat = random.one_of<Duration>({seconds(1), seconds(1), seconds(10)});
  swarm.workers = static_cast<int>(random.between(1, 3));
  swarm.worker_capacity_max = random.one_of<std::size_t>({2, 8, 40});
  swarm.pending_max = 200;
  swarm.think_max = random.one_of<Duration>({milliseconds(50), milliseconds(200), milliseconds(500)});
  swarm.work_max = random.one_of<Duration>({milliseconds(5), milliseconds(300), seconds(2)});
  swarm.trouble_max = random.one_of<Duration>({seconds(1), seconds(5)});
  swarm.operator_max = seconds(2);
  if (slow) {
    swarm.clients = static_cast<int>(random.between(1, 2));
    swarm.think_max = random.one_of<Duration>({seconds(2), seconds(4)});
    swarm.work_max = random.one_of<Duration>({milliseconds(300), seconds(5), seconds(20)});
    swarm.trouble_max = seconds(20);
    swarm.operator_max = seconds(10);
  }
  swarm.leaves = swarm.leaves || random.percent(40);
  for (core::LaneOptions& lane : options.lanes)
    lane.timeout = random.one_of<Duration>({seconds(10), seconds(60)});
}

/// Some limits are of a day: so wide that they are hardly felt, or so narrow that little is done in a run.
void draw_days(Random& random, core::Options& options) {
  for (core::BudgetOptions& budget : options.budgets) {
    for (core::RateOptions& rate : budget.rates) {
      if (!random.percent(8)) continue;
      for (const core::RateKind& kind : core::rate_kinds())
        if (kind.resource == rate.resource && kind.period == std::chrono::hours(24)) {
          rate.name = kind.name;
          rate.period = kind.period;
        }
      rate.limit = random.one_of<std::int64_t>({rate.limit, rate.limit * 5, 1'000'000'000});
      rate.limit = std::min<std::int64_t>(rate.limit, 1'000'000'000);
      rate.capacity = 0;
    }
    if (budget.rates.size() == 2 && budget.rates[0].name == budget.rates[1].name) budget.rates.pop_back();
  }
}

Swarm draw_swarm(Random& random) {
  Swarm swarm;
  for (std::int64_t i = random.between(1, 3); i > 0; --i)
    swarm.services.push_back("service-" + std::to_string(i));
  swarm.models = {"", "m1", "m2", "other"};
  draw_lanes(random, swarm.options);
  draw_clients(random, swarm);
  draw_budgets(random, swarm, swarm.options);
  draw_costs(random, swarm);
  draw_options(random, swarm.options);
  draw_traffic(random, swarm);

  swarm.duplicates = maybe(random, 50, 200);
  swarm.conflicts = maybe(random, 30, 50);
  swarm.cancels = maybe(random, 50, 150);
  swarm.queries = maybe(random, 50, 150);
  swarm.unnamed = maybe(random, 50, 300);
  swarm.nonsense = maybe(random, 20, 30);
  swarm.short_timeouts = random.percent(40);
  swarm.forgetful = random.percent(30);
  swarm.delays = maybe(random, 40, 500);
  swarm.submit_delay_max = random.one_of<Duration>({milliseconds(3), milliseconds(200), seconds(5)});
  swarm.retries = maybe(random, 50, 300);
  swarm.limited = maybe(random, 30, 100);
  // What a model alone shows is the business of transcripts and of the neighbour.
  swarm.models = {"", swarm.models[swarm.services.size()]};
  swarm.permanents = maybe(random, 40, 200);
  swarm.released = maybe(random, 40, 200);
  swarm.crashes = random.percent(40);
  swarm.stalls = random.percent(40);
  swarm.reconnects = random.percent(40);
  swarm.leaves = random.percent(30);
  swarm.vanishing_clients = random.percent(30);
  swarm.restarts = random.percent(15);
  swarm.lies = maybe(random, 30, 100);
  swarm.tells_unreachable = random.percent(60);
  swarm.drains = random.percent(25);
  swarm.redrives = random.percent(50);
  swarm.pauses = random.percent(30);
  swarm.moves = random.percent(30);
  swarm.operator_max = random.one_of<Duration>({milliseconds(10), milliseconds(100), seconds(1)});
  if (random.percent(25)) swarm.outage = random.one_of<Duration>({seconds(1), seconds(10), minutes(1)});
  swarm.outages_refuse = random.percent(50);
  swarm.options.breaker = random.percent(90);
  swarm.options.learn_limits = false;  // the auditor knows configured budgets alone
  swarm.orphans = maybe(random, 40, random.one_of<std::int64_t>({20, 600}));
  if (swarm.orphans > 0 && random.percent(70)) swarm.vanishing_clients = swarm.tells_unreachable = true;
  swarm.settings = random.percent(30);
  swarm.said_limits = maybe(random, 30, random.one_of<std::int64_t>({20, 300}));
  swarm.drained_workers = random.percent(30);
  draw_streams(random, swarm);
  swarm.options.worker_grace =
      random.one_of<Duration>({milliseconds(1), milliseconds(50), milliseconds(500)});
  draw_upstream(random, swarm);
  draw_scarcity(random, swarm);
  draw_days(random, swarm.options);
  draw_share(random, swarm.options);
  if (random.percent(15))
    swarm.stand_still_max = random.one_of<Duration>({seconds(1), seconds(8), seconds(60)});
  return swarm;
}

namespace {

/// A limit of a day so wide that it is never felt, at an upstream whose other limits change.
void draw_wide_limit(Random& random, Swarm& swarm) {
  core::BudgetOptions budget;
  budget.name = "budget-wide";
  budget.window = core::WindowKind::bucket;
  budget.concurrency = random.between(5, 20);
  for (const core::RateKind& kind : core::rate_kinds())
    if (kind.resource == core::Resource::requests && kind.period == std::chrono::hours(24)) {
      core::RateOptions rate;
      rate.name = kind.name;
      rate.resource = kind.resource;
      rate.period = kind.period;
      rate.limit = random.between(300'000'000, 1'000'000'000);
      budget.rates.push_back(rate);
    }
  swarm.options.budgets.push_back(budget);
  swarm.settings = true;
  swarm.operator_max = std::min<Duration>(swarm.operator_max, milliseconds(300));
}

/// Pools of keys, and limits and keys that come and go, for an auditor who follows what is counted. Which
/// keys an upstream refuses for good is judged elsewhere.
void draw_changes(Random& random, Swarm& swarm) {
  if (swarm.options.budgets.empty()) return;
  const bool keys = random.percent(12);
  swarm.limit_changes = random.percent(12);
  if (keys) {
    draw_keys(random, swarm.options);
    swarm.upstream.dead_keys = 0;
    swarm.keys_are_refused = false;
  }
  if (!keys && !swarm.limit_changes) return;
  swarm.states_costs = true;
  swarm.states_bounds = false;
}

}  // namespace

void draw_rarities(Random& random, Swarm& swarm, bool follows) {
  using std::chrono::hours;
  if (random.percent(6)) swarm.large_texts = static_cast<int>(random.between(20, 500));
  if (random.percent(6)) swarm.envelope_bytes_max = limits::envelope_bytes_max;
  if (random.percent(8)) {
    swarm.retain_max = random.one_of<Duration>({minutes(10), hours(1), hours(24), hours(24 * 7)});
    const auto some = [&] { return milliseconds(random.between(1, core::to_ms(swarm.retain_max))); };
    if (random.percent(50)) swarm.options.retain = some();
    if (random.percent(50)) swarm.options.dead_retain = some();
  }
  if (random.percent(8)) {
    swarm.retry_after_max = random.one_of<Duration>({minutes(3), minutes(20), hours(1), hours(7)});
    swarm.limited = std::max(swarm.limited, static_cast<int>(random.between(1, 30)));
    // A job that names a model waits apart: nobody follows that.
    swarm.models = follows ? std::vector<std::string>{""} : std::vector<std::string>{"", "m1", "m2", "other"};
  }
  if (random.percent(3)) {
    swarm.client_names = static_cast<int>(random.between(100, 5000));
    // Those of which the broker forgets are new ones next time, with all that it knew of their upstreams.
    swarm.service_names = static_cast<int>(random.between(1, follows ? 900 : 3000));
  }
  if (!follows) return;
  if (random.percent(5)) draw_wide_limit(random, swarm);
  draw_changes(random, swarm);
  if (swarm.options.breaker && swarm.retry_after_max == Swarm::kRetryAfterMax && random.percent(8)) {
    swarm.models = {"", "m1", "m2", "other"};
    swarm.failing_model = random.one_of<const char*>({"m1", "m2"});
    swarm.failing_for = random.one_of<Duration>({seconds(1), seconds(5), seconds(20)});
  }
}

void draw_words(Random& random, Swarm& swarm) {
  if (!random.percent(15)) return;
  swarm.words = static_cast<int>(random.between(100, 1000));
  swarm.hangs = static_cast<int>(random.between(0, 400));
  swarm.word_pause_max = random.one_of<Duration>({milliseconds(5), milliseconds(300), seconds(3)});
  for (core::LaneOptions& lane : swarm.options.lanes)
    if (random.percent(80))
      lane.stall_timeout =
          random.one_of<Duration>({milliseconds(20), milliseconds(300), seconds(2), seconds(10)});
}

/// A client's own entry stands in front of the one for all. Whose breaker opens for whom is judged elsewhere.
void draw_tenants(Random& random, Swarm& swarm) {
  if (!random.percent(12)) return;
  auto& entries = swarm.options.clients;
  const auto entry = [&](const std::string& name) -> core::ClientOptions& {
    const auto named = [&](const std::string& wanted) {
      return std::find_if(entries.begin(), entries.end(),
                          [&](const core::ClientOptions& one) { return one.name == wanted; });
    };
    if (const auto known = named(name); known != entries.end()) return *known;
    core::ClientOptions added = named("*") != entries.end() ? *named("*") : core::ClientOptions{};
    added.name = name;
    return entries.emplace_back(added);
  };
  swarm.names.insert(swarm.names.end(), {"k4", "k5"});
  for (const char* const name : {"k1", "k2", "k3", "k4", "k5"})
    entry(name).tenant = random.one_of<const char*>({"t1", "t1", "t2", ""});
  for (const char* const space : {"@t1/", "@t2/"}) {
    if (random.percent(30)) continue;
    core::ClientOptions& tenant = entry(space);
    tenant.weight = static_cast<std::uint32_t>(random.between(1, core::ClientOptions::kWeightMax));
    tenant.in_flight_max = random.percent(40) ? static_cast<std::size_t>(random.between(1, 15)) : 0;
    tenant.depth_max = random.percent(20) ? static_cast<std::size_t>(random.between(1, 80)) : 0;
  }
  swarm.options.breaker = false;
  swarm.failing_model.clear();
  swarm.failing_for = {};
}

/// Pools of keys, of one account or of several, for some of the budgets.
void draw_keys(Random& random, core::Options& options) {
  for (core::BudgetOptions& budget : options.budgets) {
    if (!random.percent(40)) continue;
    const std::int64_t count = random.between(1, 5);
    const std::int64_t accounts = random.between(1, count);
    const bool grouped = random.percent(50), limited = random.percent(80);
    for (std::int64_t i = 0; i < count; ++i) {
      core::KeyOptions key;
      key.name = budget.name + "-key-" + std::to_string(i);
      if (grouped) key.quota_group = budget.name + "-account-" + std::to_string(i % accounts);
      key.weight = static_cast<std::uint32_t>(random.between(1, 10));
      key.draining = random.percent(5);
      const auto same = std::find_if(
          budget.keys.begin(), budget.keys.end(),
          [&](const core::KeyOptions& other) { return grouped && other.quota_group == key.quota_group; });
      if (same != budget.keys.end()) {
        key.rates = same->rates;
        key.concurrency = same->concurrency;
      } else if (limited) {
        const bool tokens = random.percent(40);
        key.rates.push_back(draw_rate(random, budget.window, tokens));
        if (random.percent(20)) key.concurrency = random.between(1, 10);
      }
      budget.keys.push_back(key);
    }
  }
}

core::Options draw_other_limits(Random& random, const core::Options& options) {
  core::Options other = options;
  const auto change = [&](std::vector<core::RateOptions>& rates, core::WindowKind window) {
    if (!rates.empty() && random.percent(20)) rates.erase(rates.begin());
    if (rates.size() < 2 && random.percent(30)) {
      const bool tokens = random.percent(70);
      const core::RateOptions rate = draw_rate(random, window, tokens);
      if (rates.empty() || rates.front().name != rate.name) rates.push_back(rate);
    }
    for (core::RateOptions& rate : rates) {
      if (!random.percent(20)) continue;
      rate.limit = std::clamp<std::int64_t>(rate.limit * random.between(20, 300) / 100, 1, 1'000'000'000);
      rate.capacity = 0;
    }
  };
  for (core::BudgetOptions& budget : other.budgets) {
    change(budget.rates, budget.window);
    if (random.percent(20)) budget.concurrency = random.between(0, 20);
    for (core::KeyOptions& key : budget.keys) {
      if (random.percent(20)) key.draining = !key.draining;
      if (random.percent(20)) key.weight = static_cast<std::uint32_t>(random.between(1, 10));
      if (key.quota_group.empty()) change(key.rates, budget.window);
    }
    if (budget.keys.size() > 1 && random.percent(15)) budget.keys.pop_back();
    if (budget.rates.empty() && budget.keys.empty() && budget.concurrency == 0) budget.concurrency = 5;
  }
  return other;
}

std::string describe_limits(const core::Options& options) {
  std::string text;
  for (const core::BudgetOptions& budget : options.budgets) {
    text += "budget " + budget.name + " service=" + budget.service + " model=" + budget.model +
            " client=" + budget.client + " lane=" + budget.lane +
            " concurrency=" + std::to_string(budget.concurrency) +
            (budget.window == core::WindowKind::bucket ? " bucket" : " sliding") +
            (budget.output == core::OutputCount::bound ? " output=max_tokens" : "");
    for (const core::RateOptions& rate : budget.rates)
      text +=
          " " + rate.name + "=" + std::to_string(rate.limit) + " capacity=" + std::to_string(rate.capacity);
    text += "\n";
  }
  for (const core::BudgetOptions& budget : options.budgets)
    for (const core::KeyOptions& key : budget.keys) {
      text += "key " + key.name + " group=" + key.quota_group + " weight=" + std::to_string(key.weight) +
              " concurrency=" + std::to_string(key.concurrency) + (key.draining ? " draining" : "");
      for (const core::RateOptions& rate : key.rates)
        text +=
            " " + rate.name + "=" + std::to_string(rate.limit) + " capacity=" + std::to_string(rate.capacity);
      text += "\n";
    }
  return text;
}

namespace {

std::string describe(const Swarm::Upstream& upstream) {
  static const char* const kFits[] = {"matches", "wider", "tighter", "shared"};
  static const char* const kSays[] = {"nothing", "truth", "late", "absurd"};
  return std::string(kFits[static_cast<std::size_t>(upstream.fit)]) + " " +
         std::to_string(upstream.fit_percent) + "%" +
         " retry_after=" + kSays[static_cast<std::size_t>(upstream.retry_after)] +
         " headers=" + kSays[static_cast<std::size_t>(upstream.headers)] +
         (upstream.says_remaining ? " and remaining" : "") +
         " absurd_usages=" + std::to_string(upstream.absurd_usages) +
         " dead_keys=" + std::to_string(upstream.dead_keys);
}

}  // namespace

std::string describe(const Swarm& swarm) {
  const auto ms = [](Duration time) { return std::to_string(core::to_ms(time)) + "ms"; };
  std::string text;
  for (const core::LaneOptions& lane : swarm.options.lanes)
    text += "lane " + lane.name + " timeout=" + ms(lane.timeout) +
            " depth_max=" + std::to_string(lane.depth_max) + " bytes_max=" + std::to_string(lane.bytes_max) +
            " reserved_slots=" + std::to_string(lane.reserved_slots) +
            " reserve=" + std::to_string(lane.reserve) + " share_min=" + std::to_string(lane.share_min) +
            " boost_after=" + ms(lane.boost_after) + "\n";
  text += describe_limits(swarm.options);
  const core::Options& options = swarm.options;
  for (const core::ClientOptions& client : options.clients)
    text += "client " + client.name + " weight=" + std::to_string(client.weight) +
            " in_flight_max=" + std::to_string(client.in_flight_max) +
            " depth_max=" + std::to_string(client.depth_max) + " lane_max=" + client.lane_max + "\n";
  return text + "heartbeat=" + ms(options.heartbeat) + " retain=" + ms(options.retain) +
         " attempts_max=" + std::to_string(options.attempts_max) +
         " crash_max=" + std::to_string(options.crash_max) +
         " results_max=" + std::to_string(options.results_max) +
         " client_share=" + std::to_string(options.client_share) + " dead_retain=" + ms(options.dead_retain) +
         " dead_max=" + std::to_string(options.dead_max) + " jobs_max=" + std::to_string(options.jobs_max) +
         "\nclients=" + std::to_string(swarm.clients) + " workers=" + std::to_string(swarm.workers) +
         " delay_max=" + ms(swarm.delay_max) + " lies=" + std::to_string(swarm.lies) +
         " outage=" + ms(swarm.outage) + " input_max=" + std::to_string(swarm.input_max) +
         " output_max=" + std::to_string(swarm.output_max) + " usages=" + std::to_string(swarm.usages) +
         " misestimates=" + std::to_string(swarm.misestimates) + " streams=" + std::to_string(swarm.streams) +
         (swarm.returns_late ? " returns_late" : "") + (swarm.gateways ? " gateways" : "") +
         " words=" + std::to_string(swarm.words) + " groups=" + std::to_string(swarm.groups) +
         " stream_chunks_max=" + std::to_string(swarm.stream_chunks_max) +
         " chunk_bytes_max=" + std::to_string(swarm.chunk_bytes_max) +
         " stream_kept_bytes_max=" + std::to_string(options.stream_kept_bytes_max) + "\nupstream " +
         describe(swarm.upstream) + " free_jobs=" + std::to_string(swarm.free_jobs) +
         " limit_changes=" + (swarm.limit_changes ? "yes" : "no") +
         " stand_still_max=" + ms(swarm.stand_still_max) +
         "\nlarge_texts=" + std::to_string(swarm.large_texts) +
         " envelope_bytes_max=" + std::to_string(swarm.envelope_bytes_max) +
         " retain_max=" + ms(swarm.retain_max) + " retry_after_max=" + ms(swarm.retry_after_max) +
         " client_names=" + std::to_string(swarm.client_names) +
         " service_names=" + std::to_string(swarm.service_names) + " failing_model=" + swarm.failing_model +
         " failing_for=" + ms(swarm.failing_for);
}

}  // namespace lanemq::sim
