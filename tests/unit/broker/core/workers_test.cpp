// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/workers.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "broker/core/scheduler/clients.hpp"

namespace lanemq::core {
namespace {

constexpr std::size_t kServicesMax = 100;

/// Three lanes, of which the first two hold slots, and jobs that take places.
class House {
 public:
  explicit House(std::vector<std::size_t> slots = {0, 0, 0}) {
    for (const std::size_t held : slots)
      options_.push_back({.name = "lane-" + std::to_string(options_.size()), .reserved_slots = held});
    workers_ = std::make_unique<Workers>(options_);
    for (const LaneOptions& options : options_)
      lanes_.push_back(std::make_unique<Lane>(options, static_cast<LaneIndex>(lanes_.size())));
  }
  ~House() {
    for (const auto& [number, worker] : workers_->all())
      while (Away* away = worker->leases.front())
        workers_->free_place(away->job);
  }

  Service& service(const std::string& name) { return workers_->service(name); }
  Worker& ready(const std::string& address, const std::vector<std::string>& services, std::uint32_t capacity,
                LaneMask lanes = 0) {
    Worker* worker = workers_->find(address);
    if (worker == nullptr) worker = &workers_->add(address, address);
    std::vector<Service*> offered;
    for (const std::string& name : services)
      offered.push_back(&service(name));
    workers_->offer(*worker, offered, lanes, capacity);
    return *worker;
  }
  /// Hands a job to the best place; null when there is none.
  Job* take(const std::string& name, LaneIndex lane) {
    Place* const place = workers_->find_place(service(name), lane);
    if (place == nullptr) return nullptr;
    Job& job = jobs_.emplace_back();
    job.lane = lane;
    job.queue = &clients_.join(clients_.named("c"), lanes_[lane]->flow(service(name), 0));
    job.state = JobState::running;
    job.unqueued.away = &aways_.emplace_back(job);
    workers_->take_place(*place->worker, job);
    return &job;
  }
  Workers& workers() { return *workers_; }

 private:
  std::vector<LaneOptions> options_;
  std::unique_ptr<Workers> workers_;
  Clients clients_{{}, 10};
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::deque<Job> jobs_;
  std::deque<Away> aways_;
};

TEST(Workers, a_place_at_a_reserved_worker_goes_first_to_those_it_is_for) {
  House house;
  Worker& general = house.ready("general", {"s"}, 2);
  Worker& reserved = house.ready("reserved", {"s"}, 1, 0b001);

  EXPECT_EQ(house.take("s", 0)->worker(), &reserved);
  EXPECT_EQ(house.take("s", 0)->worker(), &general);
  EXPECT_EQ(house.take("s", 1)->worker(), &general);
  EXPECT_EQ(house.take("s", 1), nullptr);
}

TEST(Workers, lower_lanes_leave_the_held_places_free) {
  House house({2, 0, 0});
  house.ready("w", {"s"}, 3);

  EXPECT_NE(house.take("s", 2), nullptr);
  EXPECT_EQ(house.take("s", 2), nullptr);
  EXPECT_EQ(house.take("s", 1), nullptr);
  EXPECT_NE(house.take("s", 0), nullptr);
  EXPECT_NE(house.take("s", 0), nullptr);
}

TEST(Workers, a_lane_cannot_use_up_what_is_held_for_one_above_it) {
  House house({2, 1, 0});
  house.ready("w", {"s"}, 6);
  for (int i = 0; i < 3; ++i)
    ASSERT_NE(house.take("s", 1), nullptr);

  EXPECT_NE(house.take("s", 2), nullptr);
  EXPECT_EQ(house.take("s", 2), nullptr);
  EXPECT_EQ(house.take("s", 1), nullptr);
  EXPECT_NE(house.take("s", 0), nullptr);
  EXPECT_NE(house.take("s", 0), nullptr);
}

TEST(Workers, take_turns) {
  House house;
  for (const char* address : {"a", "b", "c"})
    house.ready(address, {"s"}, 2);
  std::map<std::string, int> jobs;
  for (int i = 0; i < 3; ++i)
    ++jobs[house.take("s", 0)->worker()->address];

  EXPECT_EQ(jobs, (std::map<std::string, int>{{"a", 1}, {"b", 1}, {"c", 1}}));
}

TEST(Workers, a_place_is_shared_by_the_services_of_its_worker) {
  House house;
  house.ready("w", {"s", "t"}, 1);
  ASSERT_NE(house.take("s", 0), nullptr);
  EXPECT_EQ(house.take("t", 0), nullptr);
  EXPECT_EQ(house.service("t").free_places, 0u);
}

TEST(Workers, a_worker_that_offers_less_than_it_holds_gets_nothing_until_it_has_room) {
  House house;
  house.ready("w", {"s"}, 3);
  Job* const first = house.take("s", 0);
  Job* const second = house.take("s", 0);

  house.ready("w", {"s"}, 1);
  EXPECT_EQ(house.take("s", 0), nullptr);
  house.workers().free_place(*first);
  EXPECT_EQ(house.take("s", 0), nullptr);
  house.workers().free_place(*second);
  EXPECT_NE(house.take("s", 0), nullptr);
}

TEST(Workers, the_service_that_has_been_unused_longest_leaves_first) {
  House house;
  Workers& workers = house.workers();
  Service& a = workers.service("a");
  Service& b = workers.service("b");
  Service& c = workers.service("c");
  EXPECT_EQ(workers.unused(), 3u);
  house.ready("w", {"a", "b"}, 1);
  EXPECT_EQ(workers.unused(), 1u);
  house.ready("w", {"b"}, 1);
  workers.use(b);
  workers.release(b);

  EXPECT_EQ(workers.take_unused(), &c);
  EXPECT_EQ(workers.take_unused(), &a);
  EXPECT_EQ(workers.take_unused(), nullptr);
  workers.forget(a);
  EXPECT_EQ(workers.find_service("a"), nullptr);
  EXPECT_EQ(workers.find_service("b"), &b);
}

/// Free places of a service, counted by looking at every worker.
struct Free {
  std::size_t all = 0, general = 0;
};
Free count_free(const Workers& workers, const Service& service) {
  Free free;
  for (const auto& [number, worker] : workers.all()) {
    if (!worker->available()) continue;
    const bool serves = std::any_of(worker->places.begin(), worker->places.end(),
                                    [&](const auto& place) { return place->service == &service; });
    if (!serves) continue;
    free.all += worker->capacity - worker->running;
    if (worker->lanes == 0) free.general += worker->capacity - worker->running;
  }
  return free;
}

void check_counts(House& house) {
  for (const char* name : {"s", "t"}) {
    const Service& service = house.service(name);
    const Free free = count_free(house.workers(), service);
    RC_ASSERT(service.free_places == free.all);
    RC_ASSERT(service.free_general == free.general);
    std::size_t running[3] = {};
    for (const auto& [number, worker] : house.workers().all())
      for (Away* away = worker->leases.front(); away != nullptr; away = worker->leases.next(*away))
        if (&away->job.flow().service() == &service && !away->reserved_place) ++running[away->job.lane];
    for (std::size_t lane = 0; lane < 3; ++lane)
      RC_ASSERT(service.running_general[lane] == running[lane]);
  }
}

const std::vector<std::vector<std::string>> kOffers = {{"s"}, {"t"}, {"s", "t"}, {"t", "s"}};

TEST(Workers, count_their_free_places_right_whatever_happens) {
  const bool holds = rc::check([] {
    House house({1, 1, 0});
    Workers& workers = house.workers();
    const std::vector<std::string> addresses = {"a", "b", "c", "d"};
    std::vector<Job*> running;
    for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 100))) {
      const std::string address = *rc::gen::elementOf(addresses);
      Worker* const worker = workers.find(address);
      if (step < 20) {
        const auto services = *rc::gen::elementOf(kOffers);
        const auto lanes = static_cast<LaneMask>(*rc::gen::element(0, 0, 0, 0b001, 0b011, 0b100));
        house.ready(address, services, *rc::gen::inRange<std::uint32_t>(1, 5), lanes);
      } else if (step < 60) {
        const std::string name = *rc::gen::element<std::string>("s", "t");
        const auto lane = static_cast<LaneIndex>(*rc::gen::inRange(0, 3));
        if (Job* job = house.take(name, lane)) {
          RC_ASSERT(job->worker()->running <= job->worker()->capacity);
          RC_ASSERT(job->worker()->lanes == 0 || (job->worker()->lanes >> lane & 1) != 0);
          running.push_back(job);
        }
      } else if (step < 85) {
        if (running.empty()) continue;
        Job* const job = *rc::gen::elementOf(running);
        std::erase(running, job);
        workers.free_place(*job);
      } else if (step < 92 && worker != nullptr) {
        worker->awaits_inventory = !worker->awaits_inventory;
        workers.update(*worker);
      } else if (worker != nullptr) {
        worker->draining = true;
        workers.update(*worker);
        while (Away* away = worker->leases.front()) {
          std::erase(running, &away->job);
          workers.free_place(away->job);
        }
        workers.remove(*worker);
      }
      check_counts(house);
    }
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace lanemq::core
