// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_runner.hpp"

#include <algorithm>
#include <utility>

#include "client/gateway/limits/fair_bound.hpp"

namespace lanemq::gateway {

using std::chrono::milliseconds;

void BatchRunner::add(Batch batch) {
  const std::int64_t number = batch.number;
  callers_[batch.caller].batches.insert(number);
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
  free_place(*batch);
  batch->state.done[line.line] = true;
  batch->refusals = 0;
}

void BatchRunner::refused(BatchLine line, std::optional<milliseconds> retry_after, WallTime now) {
  Running* const batch = find(line);
  if (batch == nullptr) return;
  batch->in_flight.erase(line.line);
  free_place(*batch);
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
  // Lines of an earlier life may still be at the broker, or have ended there since.
  for (std::uint32_t line = batch.next; line < batch.state.started_to; ++line) {
    if (batch.state.done[line]) continue;
    actions.collect.push_back({number, line});
    batch.in_flight.insert(line);
    ++in_flight_;
    ++callers_.at(batch.state.caller).in_flight;
  }
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
    free_place(batch, batch.in_flight.size());
    const auto caller = callers_.find(batch.state.caller);
    caller->second.batches.erase(at->first);
    if (caller->second.batches.empty()) callers_.erase(caller);
    at = batches_.erase(at);
  }

  // One line of each caller in turn, beginning behind the one that was served last.
  std::size_t passed_over = 0;
  auto caller = callers_.upper_bound(last_served_);
  while (in_flight_ < limits_.in_flight_max && passed_over < callers_.size()) {
    if (caller == callers_.end()) caller = callers_.begin();
    if (const std::optional<BatchLine> line = take_line(caller->second, now)) {
      last_served_ = caller->first;
      actions.submit.push_back(*line);
      passed_over = 0;
    } else {
      ++passed_over;
    }
    ++caller;
  }
  return actions;
}

/// The next line of the caller's batches, which take turns likewise; none: none may go.
std::optional<BatchLine> BatchRunner::take_line(Caller& caller, WallTime now) {
  if (!may_take_one_of(limits_.in_flight_max, in_flight_, caller.in_flight, kOfCaller)) return std::nullopt;
  auto number = caller.batches.upper_bound(caller.last_served);
  for (std::size_t left = caller.batches.size(); left > 0; --left, ++number) {
    if (number == caller.batches.end()) number = caller.batches.begin();
    Running& batch = batches_.at(*number);
    if (now < batch.not_before ||
        !may_take_one_of(limits_.in_flight_max, in_flight_, batch.in_flight.size(), kOfBatch))
      continue;
    const std::optional<std::uint32_t> line = next_line(batch);
    if (!line) continue;
    batch.again.erase(*line);
    batch.next = std::max(batch.next, *line + 1);
    batch.state.started_to = std::max(batch.state.started_to, batch.next);
    batch.in_flight.insert(*line);
    ++in_flight_;
    ++caller.in_flight;
    caller.last_served = *number;
    return BatchLine{*number, *line};
  }
  return std::nullopt;
}

void BatchRunner::free_place(const Running& batch, std::size_t lines) {
  in_flight_ -= lines;
  callers_.at(batch.state.caller).in_flight -= lines;
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
