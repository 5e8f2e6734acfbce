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
void Auditor::expect(ModelJob& job, const std::optional<wire::Cost>& stated) const {
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    if (!budgets_[i].matches(job, options_.lanes[job.lane].name)) continue;
    job.budgets |= BudgetMask{1} << i;
    job.counts_tokens = job.counts_tokens || budgets_[i].counts_tokens();
  }
  if (!job.counts_tokens) return;
  if (!stated || !stated->input_tokens) violated("the run submitted a job without its cost");
  job.expected.input_tokens = *stated->input_tokens;
  job.expected.output_tokens = stated->output_tokens ? *stated->output_tokens : bound_in(job.body);
  job.cost = std::max<std::int64_t>(job.expected.input_tokens + job.expected.output_tokens, 1);
}

/// More than a limit grants in a whole window.
bool Auditor::unsatisfiable(const ModelJob& job) const {
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    if ((job.budgets >> i & 1) == 0) continue;
    for (const ModelRate& rate : budgets_[i].rates)
      if (job.expected.of(rate.resource()) > rate.limit()) return true;
  }
  return false;
}

/// Until when its upstream asked to be left alone.
TimePoint Auditor::shut_until(const ModelJob& job) const {
  TimePoint until{};
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if ((job.budgets >> i & 1) != 0)
      until = std::max(until, std::min(budgets_[i].paused_until, budgets_[i].probe_at));
  return until;
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
  if (!job.counts_tokens) return;
  const std::int64_t most = std::max(kTurnTokensMax, job.cost);
  correct(job, std::min(used.input_tokens + used.output_tokens, most) - job.cost);
}

/// What the upstream said of its limits is so from now on.
void Auditor::learn(const ModelJob& job, const std::optional<wire::UpstreamLimits>& said) {
  for (std::size_t i = 0; said && i < budgets_.size(); ++i)
    if ((job.budgets >> i & 1) != 0) budgets_[i].learn(*said, now_);
}

/// The attempt was never sent.
void Auditor::give_back(const ModelJob& job) {
  count(job, {.requests = 0});
}

void Auditor::count(const ModelJob& job, const core::Amounts& used) {
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    if ((job.budgets >> i & 1) == 0) continue;
    core::Amounts counted = used;
    // Such an upstream counts what it allowed the answer, as soon as it was asked.
    if (budgets_[i].options.output == core::OutputCount::bound && used.requests > 0)
      counted.output_tokens = std::max(used.output_tokens, job.expected.output_tokens);
    for (ModelRate& rate : budgets_[i].rates)
      rate.correct(job.serial, job.dispatched_at,
                   counted.of(rate.resource()) - job.expected.of(rate.resource()), now_);
  }
}

}  // namespace lanemq::sim
