// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/isolation.hpp"

#include <algorithm>

#include "broker/core/base/check.hpp"
#include "broker/core/scheduler/flow.hpp"

namespace lanemq::core {

namespace {

/// Whether the worker may be given one of the jobs.
bool could_take(const Worker& worker, const std::vector<const Job*>& jobs) {
  return std::any_of(jobs.begin(), jobs.end(), [&](const Job* job) { return worker.takes(*job); });
}

}  // namespace

Company Isolation::lost_together(TimePoint now) {
  if (companies_.size() >= kCompaniesMax) clear(companies_.front().company);
  if (++last_ == kNoCompany) ++last_;
  companies_.push_back({.company = last_, .since = now});
  return last_;
}

Company Isolation::lost_of(Company before, TimePoint now) {
  const Suspects* const known = find(before);
  const TimePoint since = known == nullptr ? now : known->since;
  clear(before);
  return lost_together(since);
}

const Isolation::Suspects* Isolation::find(Company company) const {
  const auto place = std::find_if(companies_.begin(), companies_.end(),
                                  [&](const Suspects& one) { return one.company == company; });
  return place == companies_.end() ? nullptr : &*place;
}

std::size_t Isolation::width_at(const Worker& worker, TimePoint now) const {
  const Suspects* const held = worker.suspects == kNoCompany ? nullptr : find(worker.suspects);
  return held == nullptr || now - held->since < kAloneFor ? 1 : 1 + held->ended;
}

void Isolation::ended(Job& job) {
  for (Suspects& one : companies_)
    if (one.company == job.extra->company) ++one.ended;
  job.extra->company = kNoCompany;
}

void Isolation::clear(Company company) {
  if (std::erase_if(companies_, [&](const Suspects& one) { return one.company == company; }) == 0) return;
  for (Service* service : services_) {
    const std::vector<Job*> suspects(service->suspects.begin(), service->suspects.end());
    for (Job* job : suspects) {
      if (job->extra->company != company) continue;
      remove(*job);
      job->flow().update(*job->queue);
    }
  }
}

void Isolation::add(Job& job) {
  Service& service = job.flow().service();
  job.extra->waits_alone = true;
  service.suspects.insert(&job);
  if (std::find(services_.begin(), services_.end(), &service) != services_.end()) return;
  workers_.use(service);
  services_.push_back(&service);
}

void Isolation::remove(Job& job) {
  job.extra->waits_alone = false;
  job.flow().service().suspects.erase(&job);
}

void Isolation::arrange(const MayGo& may_go) {
  std::erase_if(services_, [&](Service* service) {
    if (arrange(*service, may_go)) return false;
    workers_.release(*service);
    return true;
  });
}

/// Returns whether the service needs to be looked at again.
bool Isolation::arrange(Service& service, const MayGo& may_go) {
  std::vector<Worker*>& isolated = service.isolated;
  const std::size_t most = std::max<std::size_t>(service.workers / kWorkersPerIsolated, 1);
  std::vector<const Job*> jobs;  // none that waits for something else: no worker is idle for it
  std::size_t left = kLookedAtMax;
  for (auto job = service.suspects.begin(); job != service.suspects.end() && jobs.size() < most && left-- > 0;
       ++job)
    if (may_go(**job)) jobs.push_back(*job);
  // Those that run one stay as they are until its call is over, or it is free of suspicion.
  for (std::size_t i = isolated.size(); i-- > 0;) {
    Worker& worker = *isolated[i];
    if (worker.suspects != kNoCompany && find(worker.suspects) != nullptr) continue;
    const bool needed = worker.suspects == kNoCompany && worker.fit() && isolated.size() <= jobs.size();
    if (!needed || !could_take(worker, jobs)) let_go(worker);
  }
  while (isolated.size() < jobs.size()) {
    Worker* const best = best_for(jobs);
    if (best == nullptr) break;
    isolate(service, *best);
  }
  // One that became empty meanwhile goes before one that still has other jobs.
  for (Worker* worker : std::vector<Worker*>(isolated)) {
    if (worker->occupied() == 0 || worker->suspects != kNoCompany) continue;
    Worker* const best = best_for(jobs);
    if (best == nullptr || best->occupied() > 0) break;
    let_go(*worker);
    isolate(service, *best);
  }
  return !service.suspects.empty() || !isolated.empty();
}

/// The least loaded of the workers that could take one of the jobs.
Worker* Isolation::best_for(const std::vector<const Job*>& jobs) const {
  Worker* best = nullptr;
  for (const auto& [number, worker] : workers_.all())
    if (worker->isolated_for == nullptr && worker->fit() &&
        (best == nullptr || worker->occupied() < best->occupied()) && could_take(*worker, jobs))
      best = worker.get();
  return best;
}

void Isolation::isolate(Service& service, Worker& worker) {
  service.isolated.push_back(&worker);
  worker.isolated_for = &service;
  workers_.update(worker);
}

void Isolation::let_go(Worker& worker) {
  std::erase(worker.isolated_for->isolated, &worker);
  worker.isolated_for = nullptr;
  worker.suspects = kNoCompany;
  workers_.update(worker);
}

void Isolation::forget(Worker& worker) {
  if (worker.isolated_for != nullptr) let_go(worker);
}

}  // namespace lanemq::core
