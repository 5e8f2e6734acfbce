// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/workers_wanted.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "broker/core/scheduler/clients.hpp"
#include "broker/core/scheduler/flow.hpp"
#include "broker/core/scheduler/flow_group.hpp"

namespace lanemq::core {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// How many jobs a quota can feed beside those that run, where each takes `amounts` and lasts `run`. Without
/// a known `run`: those that may start now.
double room_of(Quota& quota, const Amounts& amounts, std::optional<Duration> run, TimePoint now) {
  if (now < quota.open_from()) return 0;
  const auto running = static_cast<double>(quota.concurrency().running());
  double jobs = kUnbounded;
  if (quota.concurrency().configured() > 0) jobs = static_cast<double>(quota.concurrency().limit()) - running;
  for (RateLimit& rate : quota.rates()) {
    const auto amount = static_cast<double>(amounts.of(rate.resource()));
    if (amount <= 0) continue;
    const double periods =
        run ? static_cast<double>(run->count()) / static_cast<double>(rate.period().count()) : 0;
    jobs = std::min(jobs, run ? static_cast<double>(rate.effective_limit(now)) / amount * periods - running
                              : static_cast<double>(rate.available(now)) / amount);
    if (running == 0) jobs = std::max(jobs, 1.0);  // short jobs: one place is idle most of the time
  }
  return std::max(jobs, 0.0);
}

double room_of(Budget& budget, const Amounts& amounts, std::optional<Duration> run, TimePoint now) {
  if (budget.paused) return 0;
  const double jobs = room_of(budget.quota, amounts, run, now);
  if (budget.keys.empty()) return jobs;
  double of_accounts = 0;
  for (std::size_t place = 0; place < budget.accounts.size(); ++place)
    if (std::any_of(budget.keys.begin(), budget.keys.end(),
                    [&](const Key& key) { return key.account == place && key.state == Key::State::active; }))
      of_accounts += room_of(budget.accounts[place].quota, amounts, run, now);
  return std::min(jobs, of_accounts);
}

/// Whether the upstream is left alone for that model.
bool fails(const Service& service, std::size_t model) {
  return std::any_of(
      service.failed_models.begin(), service.failed_models.end(),
      [&](const Service::FailedModel& failed) { return failed.model == model && !failed.breaker.closed(); });
}

/// The room that clients, and tenants, leave for a service's jobs.
class ClientsRoom {
 public:
  /// How many jobs of the flow they may have at workers, beside those that they have.
  double of(const Flow& flow) { return std::min(of(flow.turns()), static_cast<double>(flow.depth())); }

 private:
  /// Those that are not looked at are taken for like the others.
  double of(const Turns& turns) {
    const std::size_t looked_at = std::min(turns.size(), looks_left_);
    if (looked_at == 0) return std::numeric_limits<double>::infinity();
    looks_left_ -= looked_at;
    double jobs = 0;
    turns.each_of(looked_at, [&](const ClientQueue& queue) { jobs += of(queue); });
    return jobs * static_cast<double>(turns.size()) / static_cast<double>(looked_at);
  }
  double of(const ClientQueue& queue) {
    const Client& client = queue.client();
    const double jobs = queue.inside ? of(*queue.inside) : static_cast<double>(queue.queued());
    if (client.options.in_flight_max == 0) return jobs;
    const auto [left, fresh] =
        left_.try_emplace(&client, static_cast<double>(client.options.in_flight_max - client.running));
    const double its = std::min(jobs, left->second);
    left->second -= its;
    return its;
  }

  std::map<const Client*, double> left_;  // of those, and tenants, with an in_flight_max
  std::size_t looks_left_ = kClientsWanting;
};

/// How many waiting jobs of the service could run, with a place for each.
double able_to_run(const Service& service, Budgets& budgets, TimePoint now) {
  std::map<std::size_t, double> left;  // by the place of a budget
  ClientsRoom clients;
  double able = 0;
  std::size_t looked_at = 0;
  for (const FlowGroup* group : service.groups) {
    if (group == nullptr || group->lane().paused) continue;
    for (const auto& flow : group->flows()) {
      if (flow->empty()) continue;
      if (++looked_at > kFlowsWanting) return able;
      double jobs = clients.of(*flow);
      if (fails(service, budgets.model_of(flow->budgets()))) jobs = std::min(jobs, 1.0);
      const Amounts amounts = flow->head()->expected().amounts();
      const std::vector<std::size_t>& places = budgets.of(flow->budgets());
      for (const std::size_t place : places) {
        const auto [entry, fresh] = left.try_emplace(place, 0);
        if (fresh) entry->second = room_of(budgets.all()[place], amounts, service.usual_run(), now);
        jobs = std::min(jobs, entry->second);
      }
      for (const std::size_t place : places)
        left[place] -= jobs;
      able += jobs;
    }
  }
  return able;
}

}  // namespace

std::size_t workers_wanted(const Service& service, Budgets& budgets, TimePoint now) {
  double able = service.paused ? 0 : std::ceil(able_to_run(service, budgets, now));
  if (!service.breaker.closed()) able = std::min(able, 1.0);  // the one that tries the upstream
  const double jobs = static_cast<double>(service.running) + able;
  if (service.workers == 0 || service.places == 0) return jobs > 0 ? 1 : 0;
  const double places_each = static_cast<double>(service.places) / static_cast<double>(service.workers);
  return static_cast<std::size_t>(std::ceil(jobs / places_each));
}

}  // namespace lanemq::core
