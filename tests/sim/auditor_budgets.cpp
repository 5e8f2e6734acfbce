// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "tests/sim/auditor.hpp"

// What jobs take of budgets: expected, corrected, given back.

namespace lanemq::sim {
namespace {

/// No answer is believed to have used more, of each resource; nor is its client's turn moved back by more
/// tokens than models take, unless it was expected to take more.
constexpr std::int64_t kBelievedMax = 1'000'000'000, kTurnTokensMax = 1'000'000;

/// Of a streamed answer, where its tokens are not said.
constexpr std::int64_t kBytesPerToken = 3;

/// What a request allows its answer, as the bodies of runs say it; nothing when they do not.
std::int64_t bound_in(std::string_view body) {
  constexpr std::string_view kName = "\"max_tokens\":";
  const std::size_t place = body.find(kName);
  std::int64_t bound = 0;
  if (place != std::string_view::npos)
    std::from_chars(body.data() + place + kName.size(), body.data() + body.size(), bound);
  return bound;
}

}  // namespace

/// What the job is expected to take. Requires of a run: where tokens are counted jobs state what they cost,
/// or, where nothing but bounds of answers is counted, their bodies state those.
void Auditor::expect(ModelJob& job, const std::optional<wire::Cost>& stated) {
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    if (!budgets_[i].matches(job, options_.lanes[job.lane].name)) continue;
    job.budgets |= BudgetMask{1} << i;
  }
  job.counts_tokens = counts_tokens(job.budgets);
  if (!job.counts_tokens) return;
  if (!stated || !stated->input_tokens) violated("the run submitted a job without its cost");
  job.expected.input_tokens = *stated->input_tokens;
  job.expected.output_tokens = stated->output_tokens ? *stated->output_tokens : bound_in(job.body);
  job.cost = std::max<std::int64_t>(job.expected.input_tokens + job.expected.output_tokens, 1);
  note_expected(job);
}

/// Of accounts those alone count whose keys the jobs get: another budget's keys are none of theirs.
bool Auditor::counts_tokens(BudgetMask budgets) const {
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if ((budgets >> i & 1) != 0 && budgets_[i].counts_tokens()) return true;
  const ModelBudget* const pool = pool_of(budgets);
  return pool != nullptr && std::any_of(pool->accounts.begin(), pool->accounts.end(),
                                        [](const ModelBudget& account) { return account.counts_tokens(); });
}

/// What counts tokens may be another budget than when the job came.
void Auditor::appraise(ModelJob& job) {
  if (counts_tokens(job.budgets) == job.counts_tokens) return;
  job.expected = {};
  job.cost = 1;
  job.counts_tokens = false;
  expect(job, job.stated_cost);
}

/// The budget whose keys its jobs get: the first that has some. Null where none has.
const ModelBudget* Auditor::pool_of(BudgetMask budgets) const {
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if ((budgets >> i & 1) != 0 && !budgets_[i].keys.empty()) return &budgets_[i];
  return nullptr;
}

/// The account of the key that the job was given.
ModelBudget* Auditor::account_for(const ModelJob& job, std::string_view key) {
  const ModelBudget* const pool = pool_of(job.budgets);
  if (pool == nullptr && !key.empty()) violated(job.name() + " was given a key, and its budgets have none");
  if (pool == nullptr) return nullptr;
  const auto place = std::find_if(pool->keys.begin(), pool->keys.end(),
                                  [&](const ModelBudget::Key& one) { return one.name == key; });
  if (place == pool->keys.end())
    violated(job.name() + " was given key \"" + std::string(key) + "\", which is not there");
  if (place->draining) violated(job.name() + " was given key " + place->name + ", which is drained");
  return place->account;
}

/// The budgets of a job that was handed over, and the account of its key.
void Auditor::for_limits_of(const ModelJob& job, const std::function<void(ModelBudget&)>& tell) {
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if ((job.budgets >> i & 1) != 0) tell(budgets_[i]);
  if (job.account != nullptr) tell(*job.account);
}

/// More than a limit grants in a whole window, of whichever key that is given to jobs.
bool Auditor::unsatisfiable(const ModelJob& job) const {
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if ((job.budgets >> i & 1) != 0 && budgets_[i].never_has(job.expected)) return true;
  const ModelBudget* const pool = pool_of(job.budgets);
  if (pool == nullptr) return false;
  const auto given = [](const ModelBudget::Key& key) { return !key.draining; };
  return std::any_of(pool->keys.begin(), pool->keys.end(), given) &&
         std::all_of(pool->keys.begin(), pool->keys.end(), [&](const ModelBudget::Key& key) {
           return key.draining || key.account->never_has(job.expected);
         });
}

/// Until when its upstream asked to be left alone.
TimePoint Auditor::shut_until(const ModelJob& job) const {
  TimePoint until{};
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if ((job.budgets >> i & 1) != 0) until = std::max(until, budgets_[i].open_from(now_));
  until = std::max(until, model_shut_until(job));
  const ModelBudget* const pool = pool_of(job.budgets);
  if (pool == nullptr) return until;
  TimePoint soonest = core::kNever;
  for (const ModelBudget::Key& key : pool->keys)
    if (!key.draining) soonest = std::min(soonest, key.account->open_from(now_));
  return soonest == core::kNever ? until : std::max(until, soonest);
}

/// The same for the job's model alone: the longest of its pauses, unless that may be over any moment. A pool
/// keeps the job back by what all its keys have in common.
TimePoint Auditor::model_shut_until(const ModelJob& job) const {
  TimePoint longest = now_;
  bool tried = false;
  const auto look_at = [&](TimePoint until, bool is_tried) {
    if (until <= longest) return;
    longest = until;
    tried = is_tried;
  };
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if ((job.budgets >> i & 1) != 0)
      if (const ModelPause* const pause = budgets_[i].pause_of(job.model))
        look_at(pause->opens_at(now_), pause->is_tried(now_));
  if (const ModelBudget* const pool = pool_of(job.budgets)) {
    TimePoint soonest = core::kNever;
    bool any_tried = false;
    for (const ModelBudget::Key& key : pool->keys) {
      if (key.draining) continue;
      const ModelPause* const pause = key.account->pause_of(job.model);
      soonest = std::min(soonest, pause == nullptr ? now_ : pause->opens_at(now_));
      any_tried = any_tried || (pause != nullptr && pause->is_tried(now_));
    }
    if (soonest != core::kNever) look_at(soonest, any_tried);
  }
  return tried ? TimePoint{} : longest;
}

bool Auditor::waits_in_vain(const ModelJob& job) const {
  const TimePoint until = shut_until(job);
  return until > now_ && until >= job.deadline;
}

/// The attempt is over and was sent; what is not known of its usage is what was expected.
void Auditor::settle(ModelJob& job, const std::optional<wire::Usage>& usage) {
  if (!usage) return;
  core::Amounts used;
  const auto believed = [](std::optional<std::int64_t> said, std::int64_t otherwise) {
    return said ? std::min(*said, kBelievedMax) : otherwise;
  };
  used.requests = believed(usage->requests, 1);
  used.input_tokens = believed(usage->input_tokens, job.expected.input_tokens);
  used.output_tokens = believed(usage->output_tokens, job.expected.output_tokens);
  // Of a stream that says nothing of its output, what came of it is known.
  const auto came = static_cast<std::int64_t>(job.parts.bytes_until(job.parts.next() - 1));
  if (!usage->output_tokens && came > 0)
    used.output_tokens = std::min(used.output_tokens, came / kBytesPerToken + 1);
  count(job, used);
  if (!counts_tokens(job.budgets)) return;
  const std::int64_t most = std::max(kTurnTokensMax, job.cost);
  correct(job, std::min(used.input_tokens + used.output_tokens, most) - job.cost);
}

/// What the upstream said of its limits is so from now on.
void Auditor::learn(const ModelJob& job, const std::optional<wire::UpstreamLimits>& said, bool refused) {
  if (!said) return;
  const auto tell = [&](ModelBudget& budget) {
    if (!refused || !budget.tells_apart(job.model, now_)) budget.learn(*said, now_);
  };
  if (job.account == nullptr) return for_limits_of(job, tell);
  // Of its account alone, unless that has no limits of its own, and the budget no other one.
  if (!job.account->rates.empty()) return tell(*job.account);
  for (ModelBudget& budget : budgets_)
    if (&budget == pool_of(job.budgets) && budget.accounts.size() == 1) tell(budget);
}

/// The attempt was never sent.
void Auditor::give_back(const ModelJob& job) {
  count(job, {.requests = 0});
}

void Auditor::count(const ModelJob& job, const core::Amounts& used) {
  for_limits_of(job, [&](ModelBudget& budget) {
    core::Amounts counted = used;
    // Such an upstream counts what it allowed the answer, as soon as it was asked.
    if (budget.options.output == core::OutputCount::bound && used.requests > 0)
      counted.output_tokens = std::max(used.output_tokens, job.expected.output_tokens);
    for (ModelRate& rate : budget.rates)
      rate.correct(job.serial, job.dispatched_at,
                   counted.of(rate.resource()) - job.expected.of(rate.resource()), now_);
  });
}

}  // namespace lanemq::sim
