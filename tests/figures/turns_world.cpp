// SPDX-License-Identifier: Apache-2.0
#include "tests/figures/turns_world.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace lanemq::figures {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kServicesMost = 24;  // that the worker offers
constexpr const char* kLanes[] = {"top", "high", "normal", "low"};

std::string service_name(std::size_t number) {
  return "s" + std::to_string(number);
}

core::Options draw_options(sim::Random& random) {
  core::Options options;
  options.lanes.clear();
  const std::size_t lanes = 1 + random.below(4);
  const bool boosts = random.percent(50), shares = random.percent(50);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    core::LaneOptions one{.name = kLanes[lane], .is_default = lane == lanes - 1};
    one.depth_max = 100'000;
    if (boosts && lane > 1) one.boost_after = random.between(seconds(1), seconds(20));
    if (shares && lane > 0) one.share_min = static_cast<int>(random.between(0, 200));
    options.lanes.push_back(one);
  }
  options.store_durable = false;
  return options;
}

}  // namespace

TurnsWorld::TurnsWorld(std::uint64_t seed, sim::Trace* trace)
    : random_(seed),
      trace_(trace),
      options_(draw_options(random_)),
      stage_(
          [this] {
            for (int i = 0; i < 8; ++i)
              options_.clients.push_back(
                  {.name = "c" + std::to_string(i),
                   .weight = static_cast<std::uint32_t>(random_.percent(50) ? 1 : random_.between(1, 10))});
            cost_most_ = random_.one_of<std::int64_t>({1, 1, 3, 100});
            if (cost_most_ > 1) {
              core::BudgetOptions& counts = options_.budgets.emplace_back();
              counts.name = "counts";
              counts.rates.push_back(per_minute(core::Resource::tokens, 1'000'000'000));
            }
            return options_;
          }(),
          [this](const Work&, TimePoint) {
            return Answer{.takes = random_.between(milliseconds(20), milliseconds(200))};
          }) {
  services_ = random_.percent(50) ? 1 : static_cast<std::size_t>(random_.between(2, 4));
  regulars_ = static_cast<std::size_t>(random_.between(1, 8));
  places_ = static_cast<std::size_t>(random_.between(1, 4));
  new_clients_percent_ = random_.one_of<std::uint64_t>({0, 50, 90, 100});
  new_services_percent_ = services_ > 1 ? random_.one_of<std::uint64_t>({0, 30, 100}) : 0;
  above_percent_ = random_.one_of<std::uint64_t>({0, 10, 50});
  at_a_time_ = random_.below(3) + 1;
  left_ = static_cast<std::size_t>(random_.between(100, 500));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kServicesMost; ++i)
    names.push_back(service_name(i));
  stage_.add_worker(static_cast<std::int64_t>(places_), {}, {names.begin(), names.end()});
  stage_.on_hand_over = [this](std::size_t job) { handed_over(job); };
}

std::string TurnsWorld::describe() const {
  std::string text = std::to_string(places_) + " places, " + std::to_string(services_) + " services, " +
                     std::to_string(regulars_) + " clients, " + std::to_string(new_clients_percent_) +
                     " and " + std::to_string(new_services_percent_) + " % newcomers, " +
                     std::to_string(at_a_time_) + " at a time, cost up to " + std::to_string(cost_most_) +
                     "; lanes";
  for (const core::LaneOptions& lane : options_.lanes)
    text += " " + lane.name + " boost_after=" + std::to_string(core::to_ms(lane.boost_after)) +
            "ms share_min=" + std::to_string(lane.share_min);
  return text;
}

std::int64_t TurnsWorld::weight_of(const std::string& client) const {
  for (const core::ClientOptions& one : options_.clients)
    if (one.name == client) return one.weight;
  return 1;
}

std::size_t TurnsWorld::level_of(const Waiting& job) const {
  const Duration boost_after = options_.lanes[job.lane].boost_after;
  if (boost_after.count() <= 0 || job.lane <= 1) return job.lane;
  const auto steps = static_cast<std::size_t>((stage_.now() - job.since) / boost_after);
  return steps >= job.lane ? 1 : std::max<std::size_t>(job.lane - steps, 1);
}

void TurnsWorld::submit(std::size_t lane, const std::string& service, const std::string& client) {
  const std::int64_t cost = random_.between(1, cost_most_);
  Work work;
  work.lane = options_.lanes[lane].name;
  work.client = client;
  work.service = service;
  work.stated = {.input_tokens = cost};
  const std::size_t job = stage_.submit(work);
  const Waiting waiting{.lane = lane,
                        .service = service,
                        .client = client,
                        .cost = cost,
                        .weight = weight_of(client),
                        .since = stage_.now()};
  waiting_[job] = waiting;
  const auto comes = [&](Circle& circle, const std::string& name, std::int64_t weight) {
    Party& party = circle.parties[name];
    if (party.waiting++ == 0) party.owed = 0;
    party.weight = weight;
    const auto wait =
        static_cast<std::size_t>(std::count_if(circle.parties.begin(), circle.parties.end(),
                                               [](const auto& one) { return one.second.waiting > 0; }));
    circle.widest = std::max(circle.widest, wait);
  };
  comes(clients_[std::to_string(lane) + service], client, waiting.weight);
  comes(flows_[lane], service, 1);
}

/// Somebody is new at each hand-over, or so.
void TurnsWorld::newcomers() {
  const std::size_t lanes = options_.lanes.size();
  const auto lane_of_one = [&] { return random_.percent(70) ? lanes - 1 : random_.below(lanes); };
  for (std::uint64_t i = 0; i < at_a_time_; ++i) {
    if (random_.percent(new_clients_percent_))
      submit(lane_of_one(), service_name(random_.below(services_)), "new-" + std::to_string(++new_names_));
    if (random_.percent(new_services_percent_))
      submit(lane_of_one(), service_name(services_ + ++new_names_ % (kServicesMost - services_)), "c0");
  }
  if (lanes > 2 && random_.percent(above_percent_))
    submit(1 + random_.below(lanes - 2), service_name(random_.below(services_)), "person");
}

sim::RunReport TurnsWorld::run() {
  const std::size_t lanes = options_.lanes.size();
  for (std::size_t i = 0; i < regulars_; ++i)
    for (std::int64_t jobs = random_.between(20, 200); jobs > 0; --jobs)
      submit(random_.percent(80) ? lanes - 1 : random_.below(lanes), service_name(random_.below(services_)),
             "c" + std::to_string(i));
  stage_.run_until(stage_.now());
  while (left_ > 0 && !waiting_.empty() && stage_.next() != core::kNever)
    stage_.step();
  return {.jobs = stage_.jobs(),
          .dispatches = handed_over_,
          .simulated = stage_.now().time_since_epoch(),
          .digest = digest_};
}

void TurnsWorld::handed_over(std::size_t number) {
  const Waiting job = waiting_.at(number);
  if (trace_ != nullptr)
    trace_->add(stage_.now(), "job " + std::to_string(number) + " of " + job.client + " for " + job.service +
                                  " in lane " + kLanes[job.lane] + ", at level " +
                                  std::to_string(level_of(job)) + ", costs " + std::to_string(job.cost));
  digest_ = digest_ * 1099511628211U + number;
  ++handed_over_;
  judge_circle(clients_[std::to_string(job.lane) + job.service],
               "client of lane " + std::string(kLanes[job.lane]) + " and service " + job.service, job.client,
               job.cost);
  const bool plain = std::none_of(options_.lanes.begin(), options_.lanes.end(), [](const auto& lane) {
    return lane.boost_after.count() > 0 || lane.share_min > 0;
  });
  if (plain && cost_most_ == 1) {
    for (auto& [service, party] : flows_[job.lane].parties) {
      party.weight = 0;
      for (const auto& [client, one] : clients_[std::to_string(job.lane) + service].parties)
        if (one.waiting > 0 || (service == job.service && client == job.client)) party.weight += one.weight;
    }
    judge_circle(flows_[job.lane], "service of lane " + std::string(kLanes[job.lane]), job.service, job.cost);
  }
  judge_boosts(job);
  judge_shares(job);
  waiting_.erase(number);
  if (left_ == 0) return;
  --left_;
  stage_.at(stage_.now(), [this] { newcomers(); });
}

/// Who waits gets its part, by weight, of what those who wait are handed: but for the cost of its last job,
/// and for one job of each of those that came before it, or while it was still ahead.
void TurnsWorld::judge_circle(Circle& circle, const std::string& whose, const std::string& served,
                              std::int64_t cost) {
  std::int64_t all = 0;
  for (const auto& [name, party] : circle.parties)
    if (party.waiting > 0) all += party.weight;
  Party& its = circle.parties.at(served);
  circle.dearest = std::max(circle.dearest, static_cast<double>(cost) / static_cast<double>(its.weight));
  for (auto& [name, party] : circle.parties) {
    if (name == served || party.waiting == 0) continue;
    const auto weight = static_cast<double>(party.weight);
    party.owed += static_cast<double>(cost) * weight / static_cast<double>(all);
    const double slack = circle.dearest * weight * (2 + std::log(static_cast<double>(circle.widest)));
    if (party.owed > party.last + slack)
      sim::violated(name + ", a " + whose + ", waits and is owed " + std::to_string(party.owed) +
                    ", more than its last job, " + std::to_string(party.last) + ", and " +
                    std::to_string(slack));
  }
  its.owed = 0;
  its.last = static_cast<double>(cost);
  --its.waiting;
}

/// While both wait, jobs of lower lanes that were boosted get as much of a level as the lane's own.
void TurnsWorld::judge_boosts(const Waiting& job) {
  const bool shares = std::any_of(options_.lanes.begin(), options_.lanes.end(),
                                  [](const auto& lane) { return lane.share_min > 0; });
  if (shares || services_ > 1 || new_services_percent_ > 0) return;
  const std::size_t level = level_of(job);
  // Which client is next in a lane is not judged here: all of its jobs are at that level, or none counts.
  std::vector<std::size_t> jobs(options_.lanes.size()), elsewhere(options_.lanes.size());
  std::set<std::string> names;
  std::int64_t weight = 0;
  for (const auto& [number, other] : waiting_) {
    ++(level_of(other) == level ? jobs : elsewhere)[other.lane];
    if (other.lane == level && names.insert(other.client).second) weight += other.weight;
  }
  bool boosted = false;
  for (std::size_t lane = level + 1; lane < jobs.size(); ++lane)
    boosted = boosted || (jobs[lane] > 0 && elsewhere[lane] == 0);
  Balance& balance = boosts_[level];
  if (jobs[level] == 0 || elsewhere[level] > 0 || !boosted) {
    balance = {};
    return;
  }
  (job.lane == level ? balance.own : balance.others) += static_cast<double>(job.cost);
  const double slack = static_cast<double>(cost_most_) * (3 + static_cast<double>(weight));
  if (std::abs(balance.own - balance.others) > slack)
    sim::violated("at level " + std::string(kLanes[level]) + " the lane's own were handed " +
                  std::to_string(balance.own) + " and those boosted " + std::to_string(balance.others) +
                  " while both waited");
}

/// A lane that waits gets its share of what its service is handed, but for two of its jobs, where the top
/// lane asks for nothing.
void TurnsWorld::judge_shares(const Waiting& job) {
  if (cost_most_ > 3) return;  // a job may cost more than two of another lane are owed at a time
  for (std::size_t lane = 1; lane < options_.lanes.size(); ++lane) {
    const int share = options_.lanes[lane].share_min;
    if (share == 0) continue;
    Balance& balance = shares_[{lane, job.service}];
    const bool waits = std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& other) {
      return other.second.lane == lane && other.second.service == job.service;
    });
    if (!waits || job.lane == 0) {
      balance = {};
      continue;
    }
    (job.lane == lane ? balance.own : balance.others) += static_cast<double>(job.cost);
    const double due = share / 1000.0 * (balance.own + balance.others);
    if (balance.own < due - 2.0 * static_cast<double>(cost_most_) - 2)
      sim::violated("lane " + std::string(kLanes[lane]) + " waits and was handed " +
                    std::to_string(balance.own) + " of " + std::to_string(balance.own + balance.others) +
                    " of service " + job.service + ", less than its share_min");
  }
}

}  // namespace lanemq::figures
