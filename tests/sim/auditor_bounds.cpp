// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/auditor.hpp"

// That everything which grows has a bound, and that what was borrowed comes back.

namespace lanemq::sim {

void Auditor::check_bounds() const {
  const auto at_most = [](const char* what, std::size_t count, std::size_t bound, const char* option) {
    if (count > bound)
      violated(std::string("there are ") + std::to_string(count) + " " + what + ", more than " + option +
               " (" + std::to_string(bound) + ")");
  };
  at_most("jobs", broker_.jobs().size(), options_.jobs_max, "jobs_max");
  at_most("bytes", broker_.memory_bytes(), options_.memory_max, "memory_max");
  at_most("kept results", broker_.kept_results(), options_.results_max, "results_max");
  at_most("bytes of kept results", broker_.kept_bytes(), options_.results_bytes_max, "results_bytes_max");
  at_most("dead jobs", broker_.dead_jobs(), std::min(options_.dead_max, options_.jobs_max / 4), "dead_max");
  at_most("bytes of dead jobs", broker_.dead_bytes(),
          std::min(options_.dead_bytes_max, options_.memory_max / 4), "dead_bytes_max");
  at_most("workers", broker_.workers().size(), options_.workers_max, "workers_max");
  // Those that workers have left keep their jobs.
  at_most("services", broker_.workers().services().size(), 2 * options_.services_max + broker_.jobs().size(),
          "services_max, of jobs and of workers");
  // Whoever has a job, waits for one, watches or asked last is known, and so many more.
  if (broker_.jobs().size() != table_size())
    violated("the broker has " + std::to_string(broker_.jobs().size()) + " jobs and results, not " +
             std::to_string(table_size()));
  check_account();
  const std::size_t referred = table_size() * (2 + kWaitersMax) + watches_.size();
  at_most("connections", broker_.connections().size(), referred + options_.clients_idle_max + 1,
          "jobs, waiters, watches and clients_idle_max");
  at_most(
      "clients", broker_.clients().size(),
      broker_.jobs().size() + broker_.connections().size() + options_.clients_idle_max + paused_.size() + 1,
      "jobs, connections, pauses and clients_idle_max");
  for (std::size_t i = 0; i < budgets_.size(); ++i) {
    const std::int64_t running = broker_.budgets().all()[i].quota.concurrency().running();
    if (running != budgets_[i].running)
      violated("budget " + budgets_[i].options.name + " counts " + std::to_string(running) +
               " running jobs, not " + std::to_string(budgets_[i].running));
  }
}

void Auditor::check_all_restored(core::Budgets& budgets) {
  // Long enough for every debt, and for what refusals took: of a limit of a day it takes days.
  TimePoint from = now_;
  Duration long_after = std::chrono::hours(1);
  for (const ModelBudget& budget : budgets_) {
    const auto look_at = [&](const ModelBudget& one) {
      from = std::max(from, one.paused_until);
      for (const core::RateOptions& rate : one.options.rates)
        long_after = std::max<Duration>(long_after, 3 * rate.period);
    };
    look_at(budget);
    for (const ModelBudget& account : budget.accounts)
      look_at(account);
  }
  const TimePoint then = from + long_after, later = then + long_after;
  const auto check = [&](const std::string& name, core::WindowKind window, core::RateLimit& rate) {
    const auto all_fits = [&](TimePoint when) { return rate.affordable(rate.limit(), 0, when); };
    // An empty window has room for any job, whatever the upstream said last; a bucket may fill slowly until
    // it says more.
    const bool fits = window == core::WindowKind::bucket || all_fits(then);
    rate.learn_limit(rate.limit(), then);
    if (!fits || rate.available(later) != std::min(rate.capacity(), rate.limit()) || !all_fits(later))
      violated("at the end " + name + " has " + std::to_string(rate.available(later)) + " of " + rate.name() +
               ", and not room for all of it");
  };
  for (core::Budget& budget : budgets.all()) {
    for (core::RateLimit& rate : budget.quota.rates())
      check("budget " + budget.options.name, budget.options.window, rate);
    for (core::Account& account : budget.accounts)
      for (core::RateLimit& rate : account.quota.rates())
        check("account " + account.name, budget.options.window, rate);
  }
}

}  // namespace lanemq::sim
