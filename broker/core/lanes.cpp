// SPDX-License-Identifier: Apache-2.0
#include "broker/core/lanes.hpp"

#include "broker/core/check.hpp"
#include "broker/core/workers.hpp"

namespace lanemq::core {

Job* Stream::head() const {
  Job* const fresh = fresh_.front();
  if (returned_.empty()) return fresh;
  Job* const returned = returned_.begin()->second;
  return fresh == nullptr || returned->arrival < fresh->arrival ? returned : fresh;
}

void Stream::push(Job& job) {
  job.returned = false;
  fresh_.push_back(job);
}

void Stream::put_back(Job& job) {
  job.returned = true;
  const bool fresh = returned_.emplace(job.arrival, &job).second;
  LANEMQ_CHECK(fresh);
}

void Stream::remove(Job& job) {
  if (job.returned)
    returned_.erase(job.arrival);
  else
    fresh_.remove(job);
  job.returned = false;
}

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

void Lane::count_leaving(TimePoint now) {
  ++left_in_second_;
  const std::chrono::duration<double> elapsed = now - second_began_;
  if (elapsed.count() < 1) return;
  leaving_per_second = static_cast<double>(left_in_second_) / elapsed.count();
  second_began_ = now;
  left_in_second_ = 0;
}

}  // namespace lanemq::core
