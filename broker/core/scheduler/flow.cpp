// SPDX-License-Identifier: Apache-2.0
#include "broker/core/scheduler/flow.hpp"

#include <algorithm>

#include "broker/core/base/check.hpp"
#include "broker/core/scheduler/clients.hpp"
#include "broker/core/scheduler/flow_group.hpp"
#include "broker/core/scheduler/lanes.hpp"

namespace lanemq::core {

ClientQueue::ClientQueue(Flow& flow, Client& client) : flow_(flow), client_(client) {}

ClientQueue::~ClientQueue() = default;

Job* ClientQueue::oldest() const {
  if (inside != nullptr) return inside->empty() ? nullptr : inside->next()->oldest();
  Job* const fresh = fresh_.front();
  for (const auto& [arrival, returned] : returned_)
    if (!returned->waits_alone()) return fresh == nullptr || arrival < fresh->arrival ? returned : fresh;
  return fresh;
}

void ClientQueue::push(Job& job) {
  job.returned = false;
  fresh_.push_back(job);
}

void ClientQueue::put_back(Job& job) {
  job.returned = true;
  const bool fresh = returned_.emplace(std::uint64_t{job.arrival}, &job).second;
  LANEMQ_CHECK(fresh);
}

void ClientQueue::remove(Job& job) {
  if (job.returned)
    returned_.erase(job.arrival);
  else
    fresh_.remove(job);
  job.returned = false;
}

void ClientQueue::append_to(std::vector<Job*>& all) const {
  for (Job* job = fresh_.front(); job != nullptr; job = fresh_.next(*job))
    all.push_back(job);
  for (const auto& [arrival, job] : returned_)
    all.push_back(job);
}

Lane& Flow::lane() const {
  return group_.lane();
}

Service& Flow::service() const {
  return group_.service();
}

void Flow::push(Job& job) {
  job.queue->push(job);
  ++depth_;
  update(*job.queue);
}

void Flow::put_back(Job& job) {
  job.queue->put_back(job);
  ++depth_;
  update(*job.queue);
}

void Flow::remove(Job& job) {
  job.queue->remove(job);
  --depth_;
  update(*job.queue);
}

const Job* Flow::head_in_turn(const ClientQueue& queue) const {
  const Job* const oldest = queue.oldest();
  if (oldest == nullptr || queue.barred || queue.client().at_limit()) return nullptr;
  const bool held = (lane().disk_stalled && oldest->durable) || (lane().bodies_held && oldest->body_stored);
  return held ? nullptr : oldest;
}

void Flow::update_turn(ClientQueue& queue) {
  turns_of(queue).update(queue, head_in_turn(queue));
  if (queue.tenant != nullptr) turns_.update(*queue.tenant, head_in_turn(*queue.tenant));
}

void Flow::update(ClientQueue& queue) {
  update_turn(queue);
  group_.update(*this);
}

void Flow::set_paused(bool paused) {
  paused_ = paused;
  group_.update(*this);
}

void Flow::set_counts_tokens(bool counts_tokens) {
  if (counts_tokens_ == counts_tokens) return;
  counts_tokens_ = counts_tokens;
  group_.update_cost(*this);
}

void Flow::charge(ClientQueue& queue, std::int64_t cost) {
  turns_of(queue).charge(queue, cost);
  if (queue.tenant != nullptr) turns_.charge(*queue.tenant, cost);
}

void Flow::correct(ClientQueue& queue, std::int64_t more) {
  turns_of(queue).move_back(queue, more);
  if (queue.tenant != nullptr) {
    turns_.move_back(*queue.tenant, more);
    update_turn(queue);  // another client may be next inside
  }
  group_.update(*this);
}

void Turns::update(ClientQueue& queue, const Job* head) {
  const bool took_turns = queue.turn_at_ != ClientQueue::kNoTurn;
  if (head == nullptr) {
    if (took_turns) heap_of(queue).remove(queue);
    weigh(queue, 0);
    return;
  }
  const std::uint64_t arrival = head->arrival;
  if (!took_turns) {
    queue.arrival_ = arrival;
    queue.newcomer = queue.tag_ <= now_;
    if (queue.newcomer) queue.tag_ = now_;
    heap_of(queue).push(queue, turn_of(queue));
  } else if (queue.arrival_ != arrival) {
    queue.arrival_ = arrival;
    heap_of(queue).update(queue, turn_of(queue));
  }
  weigh(queue, queue.client().options.weight);
}

void Turns::weigh(ClientQueue& queue, std::uint32_t weight) {
  const std::int64_t more = std::int64_t{weight} - queue.weight_;
  weight_ += more;
  if (!queue.newcomer) known_weight_ += more;
  queue.weight_ = weight;
}

void Turns::charge(ClientQueue& queue, std::int64_t cost) {
  LANEMQ_CHECK(queue.turn_at_ != ClientQueue::kNoTurn);
  if (queue.tag_ < now_) {
    queue.tag_ = std::max(queue.tag_, now_ - lead_);
  } else {
    now_ = queue.tag_;
    lead_ = 0;
  }
  if (!queue.newcomer) {
    move_back(queue, cost);
    if (!newcomers_.empty()) move_on(cost, weight_);
    return;
  }
  newcomers_.remove(queue);
  queue.newcomer = false;
  known_weight_ += queue.weight_;
  const std::int64_t start = queue.tag_;
  move_back(queue, cost);
  step_ = queue.tag_ - start;
  if (!known_.empty()) move_on(cost, known_weight_);
  known_.push(queue, turn_of(queue));
}

void Turns::move_on(std::int64_t cost, std::int64_t weight) {
  const std::int64_t on = now_ + virtual_time(cost, weight, now_rest_);
  const std::int64_t most = known_.front_key().first + step_;
  if (std::min(on, most) <= now_) return;
  now_ = std::min(on, most);
  lead_ = std::max(lead_, step_);
}

void Turns::move_back(ClientQueue& queue, std::int64_t cost) {
  const std::int64_t moved = virtual_time(cost, queue.client().options.weight, queue.tag_rest_);
  queue.tag_ = std::clamp<std::int64_t>(queue.tag_ + moved, 0, kVirtualTimeMax);
  if (queue.turn_at_ != ClientQueue::kNoTurn) heap_of(queue).update(queue, turn_of(queue));
}

void update_turns(Client& client) {
  for (const auto& queue : client.queues)
    queue->flow().update(*queue);
}

}  // namespace lanemq::core
