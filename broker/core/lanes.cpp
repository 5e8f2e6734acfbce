// SPDX-License-Identifier: Apache-2.0
#include "broker/core/lanes.hpp"

#include "broker/core/workers.hpp"

namespace lanemq::core {

Stream& Lane::stream(Service& service, BudgetSet budgets) {
  for (Stream* stream : service.streams)
    if (&stream->lane() == this && stream->budgets() == budgets) return *stream;
  streams_.push_back(std::make_unique<Stream>(*this, service, budgets));
  service.streams.push_back(streams_.back().get());
  return *streams_.back();
}

void Lane::update_ready(Stream& stream) {
  const bool is_ready = stream.ready_at != Stream::kNotReady;
  const bool should_be = !stream.empty() && stream.service().free_places > 0;
  if (is_ready == should_be) return;
  if (should_be) {
    stream.ready_at = ready_.size();
    ready_.push_back(&stream);
    return;
  }
  Stream* const last = ready_.back();
  ready_[stream.ready_at] = last;
  last->ready_at = stream.ready_at;
  ready_.pop_back();
  stream.ready_at = Stream::kNotReady;
}

void Lane::charge(Stream& stream, std::optional<std::int64_t> cost) {
  constexpr std::int64_t kOfLate = 16;
  if (cost) usual_cost_ = std::max<std::int64_t>(usual_cost_ + (*cost - usual_cost_) / kOfLate, 1);
  virtual_now_ = turn_of(stream);
  stream.tag = virtual_now_ + virtual_time(cost.value_or(usual_cost_), stream.weight());
}

void Lane::count_leaving(TimePoint now) {
  ++left_in_second_;
  const std::chrono::duration<double> elapsed = now - second_began_;
  if (elapsed.count() < 1) return;
  leaving_per_second = static_cast<double>(left_in_second_) / elapsed.count();
  second_began_ = now;
  left_in_second_ = 0;
}

}  // namespace lanemq::core
