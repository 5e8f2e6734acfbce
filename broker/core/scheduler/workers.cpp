// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/workers.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "broker/core/base/check.hpp"

namespace lanemq::core {
namespace {

Places& list_of(const Place& place) {
  return place.worker->reserved() ? place.service->reserved : place.service->general;
}

}  // namespace

std::size_t Service::queued() const {
  return std::accumulate(queued_in.begin(), queued_in.end(), std::size_t{0});
}

std::size_t Service::queued_unserved() const {
  std::size_t jobs = 0;
  for (std::size_t lane = 0; lane < queued_in.size(); ++lane)
    if ((unserved >> lane & 1) != 0) jobs += queued_in[lane];
  return jobs;
}

Workers::Workers(const std::vector<LaneOptions>& lanes, std::string webhook_service)
    : webhook_service_(std::move(webhook_service)) {
  std::size_t above = 0;
  for (const LaneOptions& lane : lanes) {
    reserved_above_.push_back(above);
    above += lane.reserved_slots;
  }
}

Worker* Workers::find(std::string_view address) const {
  const auto place = by_address_.find(address);
  return place == by_address_.end() ? nullptr : place->second;
}

Worker* Workers::of_session(std::string_view session) const {
  const auto place = by_session_.find(session);
  return place == by_session_.end() ? nullptr : place->second;
}

bool Worker::takes(const Job& job) const {
  return (lanes == 0 || (lanes >> job.lane & 1) != 0) &&
         std::any_of(places.begin(), places.end(),
                     [&](const auto& place) { return place->service == &job.flow().service(); });
}

Worker* Workers::of_key(std::string_view key) const {
  for (const auto& [number, worker] : by_number_)
    if (worker->key == key) return worker.get();
  return nullptr;
}

void Workers::move(Worker& worker, std::string_view address) {
  by_address_.erase(worker.address);
  worker.address = address;
  worker.grouping = {};  // batches that were begun go to the old address
  const bool fresh = by_address_.emplace(worker.address, &worker).second;
  LANEMQ_CHECK(fresh);
}

Worker& Workers::add(std::string_view address, std::string session) {
  auto worker = std::make_unique<Worker>();
  worker->address = address;
  worker->session = std::move(session);
  worker->number = next_number_++;
  Worker& added = *worker;
  const bool fresh = by_address_.emplace(added.address, &added).second;
  LANEMQ_CHECK(fresh);
  by_session_.emplace(added.session, &added);
  by_number_.emplace(added.number, std::move(worker));
  return added;
}

void Workers::remove(Worker& worker) {
  LANEMQ_CHECK(worker.running == 0 && worker.leases.empty());
  offer(worker, {}, 0, 0);
  by_address_.erase(worker.address);
  by_session_.erase(worker.session);
  by_number_.erase(worker.number);
}

Service* Workers::find_service(std::string_view name) const {
  const auto place = services_.find(name);
  return place == services_.end() ? nullptr : place->second.get();
}

Service& Workers::service(std::string_view name) {
  if (Service* const known = find_service(name)) return *known;
  Service& made = *services_.emplace(name, std::make_unique<Service>(std::string(name))).first->second;
  made.tells_ends = !name.empty() && name == webhook_service_;
  unused_.push_back(made);
  return made;
}

void Workers::change_free(Worker& worker, std::ptrdiff_t places) {
  for (const auto& place : worker.places) {
    Service& service = *place->service;
    const bool had_free = service.free_places > 0;
    service.free_places += static_cast<std::size_t>(places);
    if (!worker.reserved()) service.free_general += static_cast<std::size_t>(places);
    if (had_free == (service.free_places > 0)) continue;
    for (FlowGroup* group : service.groups)
      group->lane().update_ready(*group);
  }
}

void Workers::list(Worker& worker) {
  worker.listed = true;
  for (const auto& place : worker.places)
    list_of(*place).push_back(*place, worker.part_in_use());
  change_free(worker, static_cast<std::ptrdiff_t>(worker.capacity - worker.occupied()));
}

void Workers::unlist(Worker& worker) {
  change_free(worker, -static_cast<std::ptrdiff_t>(worker.capacity - worker.occupied()));
  for (const auto& place : worker.places)
    list_of(*place).remove(*place);
  worker.listed = false;
}

void Workers::update(Worker& worker) {
  if (worker.available() == worker.listed) return;
  if (worker.listed)
    unlist(worker);
  else
    list(worker);
}

void Workers::offer(Worker& worker, const std::vector<Service*>& services, LaneMask lanes,
                    std::uint32_t capacity) {
  if (worker.listed) unlist(worker);
  count_offer(worker, -1);
  for (const auto& place : worker.places) {
    Service& service = *place->service;
    service.places -= worker.capacity;
    if (--service.workers == 0) --offered_;
    release(service);
  }
  worker.places.clear();
  worker.lanes = lanes;
  worker.capacity = capacity;
  for (Service* service : services) {
    service->places += capacity;
    if (service->workers++ == 0) ++offered_;
    use(*service);
    auto place = std::make_unique<Place>();
    place->worker = &worker;
    place->service = service;
    worker.places.push_back(std::move(place));
  }
  worker.leaves = worker.draining;
  count_offer(worker, 1);
  update(worker);
}

void Workers::set_draining(Worker& worker, bool draining) {
  worker.draining = draining;
  if (worker.leaves != draining) {
    count_offer(worker, -1);
    worker.leaves = draining;
    count_offer(worker, 1);
  }
  update(worker);
}

/// Counts what the worker offers in its services, or takes it out of them.
void Workers::count_offer(const Worker& worker, int workers) {
  for (const auto& place : worker.places) {
    Service& service = *place->service;
    Takers& takers = worker.leaves ? service.leavers : service.takers;
    if (!worker.reserved()) takers.places += static_cast<std::size_t>(workers) * worker.capacity;
    for (std::size_t lane = 0; lane < reserved_above_.size(); ++lane)
      if ((worker.lanes >> lane & 1) != 0) takers.of_lane[lane] += static_cast<std::uint32_t>(workers);
    look_for_served(service);
  }
}

void Workers::look_for_served(Service& service) {
  service.served = 0;
  for (std::size_t lane = 0; lane < reserved_above_.size(); ++lane)
    if (takes(service.takers, static_cast<LaneIndex>(lane)))
      service.served = static_cast<LaneMask>(service.served | 1U << lane);
  look_for_unserved(service);
}

void Workers::look_for_unserved(Service& service) {
  const bool was_listed = service.unserved != 0;
  service.unserved = 0;
  for (std::size_t lane = 0; lane < reserved_above_.size(); ++lane)
    if (service.queued_in[lane] > 0 && !service.serves(static_cast<LaneIndex>(lane)))
      service.unserved = static_cast<LaneMask>(service.unserved | 1U << lane);
  if (was_listed == (service.unserved != 0)) return;
  if (was_listed) return unserved_.remove(service);
  service.unserved_looks = 0;
  unserved_.push_back(service);
}

std::size_t Workers::offered_with(const Worker* worker, const std::vector<std::string_view>& names) const {
  std::size_t offered = offered_;
  if (worker != nullptr)
    for (const auto& place : worker->places)
      if (place->service->workers == 1) --offered;
  const std::set<std::string_view> each(names.begin(), names.end());
  for (const std::string_view name : each) {
    const Service* const service = find_service(name);
    const bool only_here = service != nullptr && service->workers == 1 && worker != nullptr &&
                           std::any_of(worker->places.begin(), worker->places.end(),
                                       [&](const auto& place) { return place->service == service; });
    if (service == nullptr || service->workers == 0 || only_here) ++offered;
  }
  return offered;
}

void Workers::set_strays(Worker& worker, std::vector<wire::Lease> strays) {
  if (strays.empty() && worker.strays.empty()) return;
  if (worker.listed) unlist(worker);
  worker.strays = std::move(strays);
  update(worker);
}

std::size_t Workers::held_for_higher_lanes(const Service& service, LaneIndex lane) const {
  if (reserved_above_[lane] == 0) return 0;
  // A lane's own slots are for it and the lanes above it: whatever runs in `high`, the slots of `critical`
  // stay held.
  std::size_t held = 0, used = 0;
  for (LaneIndex above = 0; above < lane; ++above) {
    used += service.running_general[above];
    const std::size_t slots = reserved_above_[above + 1u];
    if (slots > used) held = std::max(held, slots - used);
  }
  return held;
}

Place* Workers::find_place(Service& service, LaneIndex lane) const {
  for (Place* place = service.reserved.front(); place != nullptr; place = service.reserved.next(*place))
    if ((place->worker->lanes >> lane & 1) != 0) return place;
  if (service.general.empty() || service.free_general <= held_for_higher_lanes(service, lane)) return nullptr;
  return service.general.front();
}

void Workers::take_place(Worker& worker, Job& job) {
  Away& away = job.at_away();
  LANEMQ_CHECK(worker.fit() && away.worker == nullptr);
  LANEMQ_CHECK(worker.listed || (worker.isolated_for != nullptr &&
                                 (worker.occupied() == 0 || worker.suspects == job.extra->company)));
  if (worker.listed)
    change_free(worker, -1);
  else
    worker.suspects = job.extra->company;
  ++worker.running;
  worker.leases.push_back(away);
  away.worker = &worker;
  away.reserved_place = worker.reserved();
  ++job.flow().service().running;
  if (!away.reserved_place) ++job.flow().service().running_general[job.lane];
  if (!worker.available()) return update(worker);
  list_anew(worker);
}

/// Moves the worker behind others of its services with as much in use: the next job goes to another one.
void Workers::list_anew(Worker& worker) {
  const std::uint8_t part = worker.part_in_use();
  for (const auto& place : worker.places) {
    list_of(*place).remove(*place);
    list_of(*place).push_back(*place, part);
  }
}

void Workers::free_place(Job& job) {
  Away& away = job.at_away();
  Worker& worker = *away.worker;
  LANEMQ_CHECK(worker.running > 0);
  worker.leases.remove(away);
  --worker.running;
  away.worker = nullptr;
  --job.flow().service().running;
  if (!away.reserved_place) --job.flow().service().running_general[job.lane];
  if (worker.running == 0) worker.suspects = kNoCompany;
  if (!worker.listed) return update(worker);
  change_free(worker, 1);
  if (!worker.places.empty() && worker.places.front()->part != worker.part_in_use()) list_anew(worker);
}

}  // namespace lanemq::core
