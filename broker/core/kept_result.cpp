// SPDX-License-Identifier: Apache-2.0
#include "broker/core/kept_result.hpp"

#include <cstring>
#include <new>

#include "broker/core/check.hpp"
#include "broker/core/lanes.hpp"

namespace lanemq::core {

Job* Record::job() {
  return is_result ? static_cast<KeptResult*>(this)->job : static_cast<Job*>(this);
}

const Job* Record::job() const {
  return const_cast<Record*>(this)->job();
}

KeptResult* Record::result() {
  return is_result ? static_cast<KeptResult*>(this) : static_cast<Job*>(this)->result();
}

const KeptResult* Record::result() const {
  return const_cast<Record*>(this)->result();
}

std::string_view Record::id() const {
  return is_result ? static_cast<const KeptResult*>(this)->id() : static_cast<const Job*>(this)->id();
}

Terminal KeptResult::terminal() const {
  Terminal end{.id = id(),
               .client_named_it = client_named_it,
               .lane = lane,
               .state = state,
               .attempts = attempts,
               .queued_ms = queued_ms,
               .ran_ms = ran_ms,
               .ending = extra ? extra->ending.get() : nullptr,
               .body = Blob::borrow({texts() + id_size + model_size, body_size})};
  if (extra && !extra->body.empty()) end.body = extra->body;
  return end;
}

std::size_t KeptResult::bytes() const {
  std::size_t bytes = kRecordBytes + id_size + model_size + body_size;
  if (extra) bytes += sizeof(Extra) + extra->body.size() + (extra->dead ? extra->dead->bytes() : 0);
  if (answer() != nullptr) bytes += sizeof(AnswerStream) + answer()->kept_bytes();
  return bytes;
}

KeptResults::Of KeptResults::of(const Job& job, std::uint64_t body_hash) {
  return {.number = job.number,
          .attempt = job.attempt,
          .submitted_lane = job.submitted_lane,
          .durable = job.durable,
          .service = &job.stream().service(),
          .body_hash = body_hash,
          .model = job.text.get(JobText::model)};
}

KeptResult& KeptResults::add(const Of& of, const Terminal& end, std::unique_ptr<Ending> ending, bool apart,
                             std::unique_ptr<AnswerStream> answer) {
  const std::string_view model = of.model;
  const bool small = end.body.size() <= JobText::kBodyBytesMax;
  const std::size_t size = sizeof(KeptResult) + end.id.size() + model.size() + (small ? end.body.size() : 0);
  KeptResult& kept = *::new (apart ? ::operator new(size) : arena_.allocate(size)) KeptResult;
  kept.number = of.number;
  kept.attempt = of.attempt;
  kept.attempts = end.attempts;
  kept.lane = end.lane;
  kept.submitted_lane = of.submitted_lane;
  kept.durable = of.durable;
  kept.state = end.state;
  kept.service = of.service;
  kept.body_hash = of.body_hash;
  kept.queued_ms = end.queued_ms;
  kept.ran_ms = end.ran_ms;
  kept.client_named_it = end.client_named_it;
  kept.id_told = end.id_told;
  kept.id_size = static_cast<std::uint16_t>(end.id.size());
  kept.model_size = static_cast<std::uint16_t>(model.size());
  char* place = kept.texts();
  const auto put = [&](std::string_view text) {
    if (!text.empty()) std::memcpy(place, text.data(), text.size());
    place += text.size();
  };
  put(end.id);
  put(model);
  if (small) {
    kept.body_size = static_cast<std::uint16_t>(end.body.size());
    put(end.body.bytes());
  }
  if (!small || ending || apart || answer) {
    kept.extra = std::make_unique<KeptResult::Extra>();
    kept.extra->ending = std::move(ending);
    kept.extra->answer = std::move(answer);
    if (!small) kept.extra->body = end.body.owned();
    if (apart) kept.extra->apart = &kept;
  }
  (apart ? apart_ : usual_).push_back(kept);
  bytes_ += kept.bytes();
  return kept;
}

void KeptResults::bury(KeptResult& result, std::unique_ptr<DeadJob> job) {
  LANEMQ_CHECK(result.apart() && result.dead() == nullptr);
  apart_.remove(result);
  bytes_ -= result.bytes();
  job->number = next_death_++;
  result.extra->dead = std::move(job);
  dead_.push_back(result);
  dead_bytes_ += result.bytes();
}

std::unique_ptr<DeadJob> KeptResults::exhume(KeptResult& result) {
  dead_.remove(result);
  dead_bytes_ -= result.bytes();
  auto job = std::move(result.extra->dead);
  apart_.push_back(result);
  bytes_ += result.bytes();
  return job;
}

void KeptResults::remove(KeptResult& result) {
  LANEMQ_CHECK(result.apart() || &result == usual_.front());
  (result.dead() != nullptr ? dead_ : result.apart() ? apart_ : usual_).remove(result);
  destroy(result);
}

void KeptResults::destroy(KeptResult& result) {
  const bool apart = result.apart();
  const std::size_t size = sizeof(KeptResult) + result.id_size + result.model_size + result.body_size;
  (result.dead() != nullptr ? dead_bytes_ : bytes_) -= result.bytes();
  result.~KeptResult();
  if (!apart) return arena_.free_oldest(size);
#ifndef __clang_analyzer__  // it loses track of who points to whom in a list, and sees uses of what is gone
  ::operator delete(&result);
#endif
}

KeptResults::~KeptResults() {
  while (KeptResult* const result = usual_.pop_front())
    destroy(*result);
  while (KeptResult* const result = apart_.pop_front())
    destroy(*result);
  while (KeptResult* const result = dead_.pop_front())
    destroy(*result);
}

}  // namespace lanemq::core
