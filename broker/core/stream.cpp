// SPDX-License-Identifier: Apache-2.0
#include "broker/core/stream.hpp"

#include <algorithm>

#include "broker/core/check.hpp"
#include "broker/core/clients.hpp"
#include "broker/core/lanes.hpp"

namespace lanemq::core {

Job* ClientQueue::oldest() const {
  Job* const fresh = fresh_.front();
  if (returned_.empty()) return fresh;
  Job* const returned = returned_.begin()->second;
  return fresh == nullptr || returned->arrival < fresh->arrival ? returned : fresh;
}

void ClientQueue::push(Job& job) {
  job.returned = false;
  fresh_.push_back(job);
}

void ClientQueue::put_back(Job& job) {
  job.returned = true;
  const bool fresh = returned_.emplace(job.arrival, &job).second;
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

void Stream::push(Job& job) {
  job.queue->push(job);
  ++depth_;
  update(*job.queue);
}

void Stream::put_back(Job& job) {
  job.queue->put_back(job);
  ++depth_;
  update(*job.queue);
}

void Stream::remove(Job& job) {
  job.queue->remove(job);
  --depth_;
  update(*job.queue);
}

void Stream::update(ClientQueue& queue) {
  const bool takes_turns = queue.turn_at_ != ClientQueue::kNoTurn;
  const bool should = !queue.empty() && !queue.client().at_limit();
  if (!should) {
    if (takes_turns) drop_turn(queue);
  } else {
    const std::uint64_t arrival = queue.oldest()->arrival;
    const std::uint32_t weight = queue.client().options.weight;
    if (!takes_turns) {
      queue.arrival_ = arrival;
      add_turn(queue);
    } else if (queue.arrival_ != arrival) {
      queue.arrival_ = arrival;
      rise(queue.turn_at_);
      sink(queue.turn_at_);
    }
    weight_ += std::int64_t{weight} - queue.weight_;
    queue.weight_ = weight;
  }
  lane_.update_ready(*this);
}

void Stream::set_paused(bool paused) {
  paused_ = paused;
  lane_.update_ready(*this);
}

void Stream::charge(ClientQueue& queue, std::int64_t cost) {
  LANEMQ_CHECK(queue.turn_at_ != ClientQueue::kNoTurn);
  now_ = std::max(now_, queue.tag_);
  queue.tag_ = now_;
  correct(queue, cost);
}

void Stream::correct(ClientQueue& queue, std::int64_t more) {
  queue.tag_ = std::max<std::int64_t>(queue.tag_ + virtual_time(more, queue.client().options.weight), 0);
  if (queue.turn_at_ == ClientQueue::kNoTurn) return;
  rise(queue.turn_at_);
  sink(queue.turn_at_);
}

/// Whose turn is sooner; of equals, whose oldest job came first.
bool Stream::before(const ClientQueue& a, const ClientQueue& b) {
  return a.tag_ != b.tag_ ? a.tag_ < b.tag_ : a.arrival_ < b.arrival_;
}

void Stream::place(ClientQueue& queue, std::size_t at) {
  turns_[at] = &queue;
  queue.turn_at_ = at;
}

void Stream::rise(std::size_t at) {
  ClientQueue& queue = *turns_[at];
  while (at > 0) {
    const std::size_t above = (at - 1) / 2;
    if (!before(queue, *turns_[above])) break;
    place(*turns_[above], at);
    at = above;
  }
  place(queue, at);
}

void Stream::sink(std::size_t at) {
  ClientQueue& queue = *turns_[at];
  while (true) {
    std::size_t below = 2 * at + 1;
    if (below >= turns_.size()) break;
    if (below + 1 < turns_.size() && before(*turns_[below + 1], *turns_[below])) ++below;
    if (!before(*turns_[below], queue)) break;
    place(*turns_[below], at);
    at = below;
  }
  place(queue, at);
}

void Stream::add_turn(ClientQueue& queue) {
  queue.tag_ = std::max(queue.tag_, now_);
  turns_.push_back(&queue);
  rise(turns_.size() - 1);
}

void Stream::drop_turn(ClientQueue& queue) {
  const std::size_t at = queue.turn_at_;
  ClientQueue& last = *turns_.back();
  turns_.pop_back();
  queue.turn_at_ = ClientQueue::kNoTurn;
  weight_ -= queue.weight_;
  queue.weight_ = 0;
  if (&last == &queue) return;
  place(last, at);
  rise(at);
  sink(last.turn_at_);
}

void update_turns(Client& client) {
  for (const auto& queue : client.queues)
    queue->stream().update(*queue);
}

}  // namespace lanemq::core
