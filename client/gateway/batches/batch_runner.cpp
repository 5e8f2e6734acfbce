// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_runner.hpp"

#include <algorithm>
#include <utility>

namespace lanemq::gateway {

using std::chrono::milliseconds;

void BatchRunner::add(Batch batch) {
  const std::int64_t number = batch.number;
  batches_.emplace(number, Running{.state = std::move(batch)});
}

void BatchRunner::cancel(std::int64_t batch) {
  const auto at = batches_.find(batch);
  if (at != batches_.end()) at->second.state.cancelling = true;
}

BatchRunner::Running* BatchRunner::find(BatchLine line) {
  return is_in_flight(line) ? &batches_.at(line.batch) : nullptr;
}

bool BatchRunner::is_in_flight(BatchLine line) const {
  const auto at = batches_.find(line.batch);
  return at != batches_.end() && at->second.in_flight.contains(line.line);
}

void BatchRunner::settled(BatchLine line) {
  Running* const batch = find(line);
  if (batch == nullptr) return;
  batch->in_flight.erase(line.line);
  --in_flight_;
  batch->state.done[line.line] = true;
  batch->refusals = 0;
}

void BatchRunner::refused(BatchLine line, std::optional<milliseconds> retry_after, WallTime now) {
  Running* const batch = find(line);
  if (batch == nullptr) return;
  batch->in_flight.erase(line.line);
  --in_flight_;
  batch->again.insert(line.line);
  // Lines that were sent together are refused together, which counts as one refusal.
  if (now < batch->not_before) return;
  milliseconds wait =
      std::min(limits_.refusal_wait_first * (1 << std::min(batch->refusals, 10)), limits_.refusal_wait_max);
  if (retry_after) wait = std::clamp(*retry_after, limits_.refusal_wait_first, limits_.told_wait_max);
  ++batch->refusals;
  batch->not_before = now + wait;
}

std::optional<std::uint32_t> BatchRunner::next_line(Running& batch) const {
  if (!batch.again.empty()) return *batch.again.begin();
  const std::vector<bool>& done = batch.state.done;
  while (batch.next < done.size() && done[batch.next])
    ++batch.next;
  if (batch.next == done.size()) return std::nullopt;
  return batch.next;
}

void BatchRunner::stop(std::int64_t number, Running& batch, WallTime now, Actions& actions) {
  batch.stopping = true;
  batch.patience = now + limits_.stop_patience;
  for (const std::uint32_t line : batch.in_flight)
    actions.cancel.push_back({number, line});
  // Lines of an earlier life may still be at the broker: all that may be are cancelled.
  for (std::uint32_t line = batch.next; line < batch.state.started_to; ++line)
    if (!batch.state.done[line]) actions.cancel.push_back({number, line});
  batch.again.clear();
  batch.next = static_cast<std::uint32_t>(batch.state.done.size());
}

bool BatchRunner::over(Running& batch, WallTime now) const {
  if (batch.stopping) return batch.in_flight.empty() || now >= batch.patience;
  return batch.in_flight.empty() && !next_line(batch);
}

BatchRunner::Actions BatchRunner::advance(WallTime now) {
  Actions actions;
  for (auto at = batches_.begin(); at != batches_.end();) {
    Running& batch = at->second;
    if (!batch.stopping && !over(batch, now) && (batch.state.cancelling || now >= batch.state.deadline))
      stop(at->first, batch, now, actions);
    if (!over(batch, now)) {
      ++at;
      continue;
    }
    actions.finished.push_back(at->first);
    in_flight_ -= batch.in_flight.size();
    at = batches_.erase(at);
  }

  // One line of each batch in turn, beginning behind the batch that was served last.
  std::size_t passed_over = 0;
  auto at = batches_.upper_bound(last_served_);
  while (in_flight_ < limits_.in_flight_max && passed_over < batches_.size()) {
    if (at == batches_.end()) at = batches_.begin();
    Running& batch = at->second;
    const std::optional<std::uint32_t> line = now < batch.not_before ? std::nullopt : next_line(batch);
    if (line) {
      batch.again.erase(*line);
      batch.next = std::max(batch.next, *line + 1);
      batch.state.started_to = std::max(batch.state.started_to, batch.next);
      batch.in_flight.insert(*line);
      ++in_flight_;
      last_served_ = at->first;
      actions.submit.push_back({at->first, *line});
      passed_over = 0;
    } else {
      ++passed_over;
    }
    ++at;
  }
  return actions;
}

std::optional<WallTime> BatchRunner::next_wakeup() const {
  std::optional<WallTime> next;
  const auto sooner = [&](WallTime time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [number, batch] : batches_) {
    sooner(batch.stopping ? batch.patience : batch.state.deadline);
    const bool waits = !batch.again.empty() || batch.next < batch.state.done.size();
    if (waits && batch.not_before != WallTime() && in_flight_ < limits_.in_flight_max)
      sooner(batch.not_before);
  }
  return next;
}

}  // namespace lanemq::gateway
