// SPDX-License-Identifier: Apache-2.0
#include "tests/figures/account_cell.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/figures/stage.hpp"
#include "tests/sim/random.hpp"

namespace lanemq::figures {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kBounds[] = {"bucket", "fixed", "sliding", "places", "slope"};
constexpr const char* kWords[] = {"all", "retry-after", "none"};
constexpr const char* kOthers[] = {"half", "greedy", "stop", "falls", "nobody"};

constexpr TimePoint kBegin{seconds(100)};
constexpr Duration kMeasured = minutes(3), kSparseEvery = seconds(2), kRefusedIn = milliseconds(30);
constexpr int kCallers = 40;
constexpr std::int64_t kCallTokens = 1000;

std::int64_t draw_amount(const Account::Rules& rules, sim::Random& random) {
  return rules.call > 1 ? random.between(rules.call / 5, rules.call * 9 / 5) : 1;
}

core::Options options_of(const Cell& cell) {
  core::Options options = core::default_options();
  for (core::LaneOptions& lane : options.lanes)
    lane.depth_max = options.jobs_max;
  if (!cell.configured) return options;
  core::BudgetOptions budget{.name = "api"};
  if (cell.rules.bound == Bound::places)
    budget.concurrency = cell.rules.limit;
  else
    budget.rates.push_back(per_minute(cell.rules.resource, cell.rules.limit));
  options.budgets.push_back(budget);
  return options;
}

}  // namespace

Cell Cell::draw(std::uint64_t seed) {
  sim::Random random(seed);
  std::uint64_t kind = seed % kKinds;
  const auto next = [&](std::uint64_t of) {
    const std::uint64_t which = kind % of;
    kind /= of;
    return which;
  };
  Cell cell;
  Account::Rules& rules = cell.rules;
  rules.seed = seed;
  cell.bulk = next(2) == 0;
  cell.configured = next(2) == 0;
  const bool tokens = next(2) == 1;
  rules.bound = static_cast<Bound>(next(5));
  rules.words = static_cast<Words>(next(3));
  rules.others = static_cast<Others>(next(4));
  rules.takes = milliseconds(random.between(100, 2000));
  if (rules.bound == Bound::places) {
    rules.limit = random.between(4, 40);
  } else {
    // No more than the callers could use.
    const double most = 0.6 * kCallers * 60e6 / static_cast<double>(rules.takes.count());
    const double drawn = static_cast<double>(random.below(1001)) / 1000;
    rules.limit = static_cast<std::int64_t>(120 * std::pow(std::min(most, 3000.0) / 120, drawn));
    if (tokens) {
      rules.resource = core::Resource::tokens;
      rules.call = kCallTokens;
      rules.limit *= kCallTokens;
    }
  }
  cell.from = kBegin + (cell.configured || rules.words == Words::all ? seconds(30) : 3 * minutes(1));
  cell.end = cell.from + kMeasured;
  rules.begins = cell.from + seconds(random.between(20, 90));
  rules.ends = rules.begins + minutes(1);
  if (rules.bound == Bound::places) rules.falls_to = random.between(2, 16);
  return cell;
}

std::string Cell::kind() const {
  return std::string(kBounds[static_cast<int>(rules.bound)]) + "/" + kWords[static_cast<int>(rules.words)] +
         "/" + kOthers[static_cast<int>(rules.others)] + (bulk ? "/bulk" : "/sparse") +
         (rules.resource == core::Resource::tokens ? "/tokens" : "/requests") +
         (configured ? "/configured" : "/not");
}

std::string Cell::describe() const {
  const auto in_seconds = [](Duration time) {
    return std::to_string(std::chrono::duration<double>(time).count());
  };
  return kind() + ": limit " + std::to_string(rules.limit) + ", a call takes " + in_seconds(rules.takes) +
         " s; measured from second " + in_seconds(from - kBegin) +
         " on; others stop, or the limit falls, at second " + in_seconds(rules.begins - kBegin);
}

double CellFigures::share(const Cell& cell) const {
  if (cell.rules.others == Others::greedy)
    return amount / static_cast<double>(std::max<std::int64_t>(witness.amount, 1));
  return amount / left;
}

CellFigures measure(const Cell& cell) {
  const Account::Rules& rules = cell.rules;
  Account account(rules);
  CellFigures sum;
  struct Call {
    TimePoint wanted;
    std::int64_t amount;
    bool granted = false;
  };
  std::map<std::string, Call> calls;
  Stage stage(options_of(cell), [&](const Work& work, TimePoint now) {
    Call& call = calls.at(work.client);
    const std::int64_t amount = cell.bulk ? std::max<std::int64_t>(work.stated.input_tokens, 1) : call.amount;
    const Account::Word word = account.call(now, rules.call > 1 ? amount : 1);
    if (now >= cell.from) {
      ++(word.granted ? sum.granted : sum.refused);
      if (word.granted) sum.amount += static_cast<double>(rules.call > 1 ? amount : 1);
    }
    if (word.granted && !cell.bulk) {
      call.granted = true;
      if (call.wanted >= cell.from) sum.waits.push_back(now - call.wanted);
    }
    return Answer{.takes = word.granted ? word.takes : kRefusedIn,
                  .retry_after = word.retry_after,
                  .refused = !word.granted,
                  .limits = word.limits,
                  .limited_by = word.too_steep ? std::optional(LimitedBy::slope) : std::nullopt};
  });
  stage.add_worker(kCallers);
  sim::Random random(rules.seed + 1);
  const auto submit = [&](const std::string& client, std::int64_t amount) {
    stage.submit({.client = client, .stated = {.input_tokens = rules.call > 1 ? amount : 0}});
  };
  if (cell.bulk) {
    calls["a"] = {};
    const double most = account.pace(kBegin) * 1.3 / static_cast<double>(rules.call) *
                        std::chrono::duration<double>(cell.end - kBegin).count();
    for (int i = 0; i < static_cast<int>(most) + 200; ++i)
      submit("a", draw_amount(rules, random));
  } else {
    for (TimePoint at = kBegin; at < cell.end; at += kSparseEvery)
      stage.at(at, [&, at, amount = draw_amount(rules, random)] {
        const std::string client = std::to_string(at.time_since_epoch().count());
        calls[client] = {at, amount};
        submit(client, amount);
      });
  }
  stage.run_until(cell.end);
  for (const auto& [client, call] : calls)
    if (!cell.bulk && !call.granted && call.wanted >= cell.from) sum.waits.push_back(cell.end - call.wanted);
  // No more than forty callers can use.
  const double most = kCallers * static_cast<double>(rules.call) *
                      std::chrono::duration<double>(cell.end - cell.from).count() /
                      std::chrono::duration<double>(rules.takes).count();
  sum.left = std::min(account.left_by_others(cell.from, cell.end), most);
  sim::Random amounts(rules.seed + 1);
  sum.witness = witness(rules, cell.bulk ? kCallers : 0, kBegin, cell.from, cell.end,
                        [&] { return draw_amount(rules, amounts); });
  return sum;
}

}  // namespace lanemq::figures
