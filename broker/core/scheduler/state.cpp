// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/state.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

// One statement for each draw: within one statement the compiler would choose their order.
State::State(Options all, std::uint64_t seed)
    : options(std::move(all)),
      shards(shards_for_clients(options)),
      random(seed),
      workers(options.lanes, options.webhook_service),
      clients(options.clients, options.clients_idle_max),
      connections(clients, options.clients_idle_max),
      budgets(options.budgets, options.learn_limits),
      estimates(options.media_tokens, options.output_default),
      id_hash_seed(random()),
      jobs(options.jobs_max, random() >> 36, id_hash_seed),
      body_hash_seed(random()) {
  LANEMQ_CHECK(!options.lanes.empty() && options.lanes.size() <= kLanesMax);
  for (const LaneOptions& lane : options.lanes) {
    lanes.push_back(std::make_unique<Lane>(lane, static_cast<LaneIndex>(lanes.size())));
    if (lane.is_default) default_lane = lanes.back().get();
  }
  LANEMQ_CHECK(default_lane != nullptr);
  std::vector<std::string> names;
  for (const ShardOptions& shard : options.shards)
    names.push_back(shard.name);
  budgets.shared.begin(options.shard, options.shard_epoch, !options.store_shared, std::move(names));
}

template <class Note>
void State::note(const Job& job, TimePoint now, Note&& note) {
  Service& service = job.flow().service();
  Client& client = job.queue->client();
  if (NamedTimes::Figures* const figures = service_times.at(service.times, service.name, now)) note(*figures);
  if (NamedTimes::Figures* const figures = client_times.at(client.times, client.name, now)) note(*figures);
}

void State::note_wait(const Job& job, Duration waited, TimePoint now) {
  note(job, now, [&](NamedTimes::Figures& figures) { figures.wait.record(waited, now); });
}

void State::note_run(const Job& job, Duration ran_for, TimePoint now) {
  note(job, now, [&](NamedTimes::Figures& figures) { figures.run.record(ran_for, now); });
}

void State::note_tokens(const Job& job, std::int64_t tokens, TimePoint now) {
  note(job, now, [&](NamedTimes::Figures& figures) { figures.tokens += static_cast<std::uint64_t>(tokens); });
}

Lane* State::lane_named(std::string_view name) const {
  if (name.empty()) return default_lane;
  for (const auto& lane : lanes)
    if (lane->options().name == name) return lane.get();
  return nullptr;
}

Lane& State::lane_or_default(std::string_view name) const {
  Lane* const lane = lane_named(name);
  return lane != nullptr ? *lane : *default_lane;
}

std::string State::lane_names() const {
  std::string names;
  for (const auto& lane : lanes)
    names += (names.empty() ? "" : ", ") + lane->options().name;
  return names;
}

Budget* State::budget_named(std::string_view name) {
  for (Budget& budget : budgets.all())
    if (budget.options.name == name) return &budget;
  return nullptr;
}

Flow& State::flow_of(Lane& lane, Service& service, BudgetSet set) {
  Flow& flow = lane.flow(service, set);
  update_flow(flow);  // the flow may be new
  return flow;
}

BudgetSet State::home_of(const Job& job) {
  const Flow& flow = job.flow();
  if (!budgets.may_move()) return flow.budgets();
  return budgets.home(flow.budgets(), flow.service().name, job.text.get(JobText::model));
}

void State::update_flow(Flow& flow) {
  flow.set_counts_tokens(budgets.counts_tokens(flow.budgets()));
  if (!pauses.empty() || flow.paused())
    flow.set_paused(flow.lane().paused || flow.service().paused || budgets.paused(flow.budgets()));
}

void State::update_flows(const FlowGroup& group) {
  for (const auto& flow : group.flows())
    update_flow(*flow);
}

void State::update_flows() {
  for (const auto& lane : lanes)
    for (const auto& group : lane->groups())
      update_flows(*group);
}

void State::enqueue(Job& job) {
  Lane& lane = *lanes[job.lane];
  const std::size_t job_bytes = job.bytes();
  lane.bytes += job_bytes;
  const std::size_t webhooks = job.flow().service().tells_ends ? 1 : 0;
  lane.webhooks += webhooks;
  for (Client* party = &job.queue->client(); party != nullptr; party = party->tenant) {
    ++party->waiting;
    party->webhooks += webhooks;
    Client::Held& held = party->held_in(job.lane);
    ++held.jobs;
    held.bytes += job_bytes;
    held.webhooks += webhooks;
  }
  if (job.state == JobState::delayed) {
    ++lane.delayed;
    delayed.push_back(job.at_away());
    return;
  }
  ++lane.queued;
  workers.queued(job.flow().service(), job.lane);
  if (job.attempt == 0 && job.queue->comes_last(job)) return job.flow().push(job);
  if (isolation.suspects(job)) isolation.add(job);
  job.flow().put_back(job);
}

void State::leave_queue(Job& job) {
  Lane& lane = *lanes[job.lane];
  const std::size_t job_bytes = job.bytes();
  lane.bytes -= job_bytes;
  const std::size_t webhooks = job.flow().service().tells_ends ? 1 : 0;
  lane.webhooks -= webhooks;
  for (Client* party = &job.queue->client(); party != nullptr; party = party->tenant) {
    --party->waiting;
    party->webhooks -= webhooks;
    Client::Held& held = party->held_in(job.lane);
    --held.jobs;
    held.bytes -= job_bytes;
    held.webhooks -= webhooks;
  }
  if (job.state == JobState::delayed) {
    --lane.delayed;
    delayed.remove(job.at_away());
    return;
  }
  --lane.queued;
  workers.unqueued(job.flow().service(), job.lane);
  if (job.waits_alone()) isolation.remove(job);
  job.flow().remove(job);
}

void State::set_timer(Job& job) {
  timers.set(job.timer,
             job.state == JobState::delayed ? std::min(job.at_away().due, job.deadline) : job.deadline);
}

void State::forget_progress(Job& job) {
  if (job.progress() == nullptr) return;
  timers.clear(job.progress()->timer);
  bytes -= job.progress()->bytes();
  job.extra->progress.reset();
}

std::size_t State::running() const {
  std::size_t sum = 0;
  for (const auto& lane : lanes)
    sum += lane->running;
  return sum;
}

}  // namespace lanemq::core
