// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "broker/core/broker.hpp"
#include "broker/core/check.hpp"

// Jobs that came to no good end: what is remembered of them, and how they run again.

namespace lanemq::core {

/// The attempt under way is over without success. Requires: the job has its worker still.
void Broker::remember_attempt(Job& job, std::string_view cause, std::string_view code,
                              std::string_view message, TimePoint now) {
  const Worker& worker = *job.worker;
  History& history = job.need_extra().history;
  std::ptrdiff_t grown = history.add({.number = job.attempt,
                                      .worker = worker.name.empty() ? worker.session : worker.name,
                                      .began = job.dispatched_at,
                                      .ended = now,
                                      .cause = cause,
                                      .code = std::string(code),
                                      .message = std::string(message)});
  const auto count = [&] {
    job.bytes = static_cast<std::uint32_t>(job.bytes + grown);
    bytes_ += static_cast<std::size_t>(grown);
  };
  count();
  evict_results();
  if (memory_bytes() <= options_.memory_max) return;
  grown = -static_cast<std::ptrdiff_t>(history.bytes());
  count();
  history = {};
}

bool Broker::evict_dead() {
  KeptResult* const oldest = kept_.oldest_dead();
  if (oldest == nullptr) return false;
  ++stats_.dead_evicted;
  forget(*oldest);
  return true;
}

/// A job that failed or ran out of time is dead, unless its client wants nothing to be kept of it, or the
/// broker stops.
bool Broker::dies(const Job& job, JobState state) const {
  return (state == JobState::failed || state == JobState::expired) && options_.dead_max > 0 && !draining_ &&
         job.retain_ms > 0;
}

/// Moves what is needed to run the job again to its result. Its texts are gone from the job afterwards.
void Broker::bury(Job& job, KeptResult& result, TimePoint now) {
  auto dead = std::make_unique<DeadJob>();
  dead->text = std::move(job.text);
  if (job.extra) {
    dead->body = std::move(job.extra->body);
    dead->cost = job.extra->cost;
    dead->history = std::move(job.extra->history);
  }
  dead->client = job.queue->client().name;
  dead->ended_at = now;
  dead->timeout = job.deadline - job.accepted_at;
  dead->timeout_stated = job.timeout_stated;
  dead->attempts_max = job.attempts_max;
  dead->retain_ms = job.retain_ms;
  kept_.bury(result, std::move(dead));
  const std::size_t count_max = std::min(options_.dead_max, options_.jobs_max / 4);
  const std::size_t bytes_max = std::min(options_.dead_bytes_max, options_.memory_max / 4);
  while (kept_.dead_size() > count_max || kept_.dead_bytes() > bytes_max)
    evict_dead();
}

bool Broker::matches(const KeptResult& result, const std::string& lane, const DeadFilter& filter) {
  const DeadJob& dead = *result.dead();
  const auto same = [](std::string_view wanted, std::string_view is) {
    return wanted.empty() || wanted == is;
  };
  return same(filter.id, result.id()) && same(filter.lane, lane) &&
         same(filter.service, result.service->name) && same(filter.client, dead.client) &&
         same(filter.model, result.model()) && same(filter.code, name_of(result.extra->ending->code));
}

/// Runs a dead job again, as one that was submitted now: its answer is for those who fetch it. Refused where
/// a submit would be; then it stays dead.
std::optional<Refusal> Broker::redrive(KeptResult& result, TimePoint now) {
  if (result.job != nullptr)
    return Refusal{ErrorCode::conflict,
                   "its last attempt still runs: it is over for its clients, but its worker has not said so",
                   std::chrono::seconds(1)};
  Lane& lane = *lanes_[result.lane];
  Client& client = clients_.named(result.dead()->client);
  clients_.take_reference(client);
  const DeadJob* dead = result.dead();
  wire::Submit fields;
  fields.service = result.service->name;
  fields.id = dead->text.get(JobText::id);
  fields.lane = lane.options().name;
  fields.model = dead->text.get(JobText::model);
  fields.client = dead->text.get(JobText::client);
  fields.cost = dead->cost;
  if (dead->timeout_stated) fields.timeout_ms = to_ms(dead->timeout);
  fields.attempts_max = dead->attempts_max;
  fields.retain_ms = dead->retain_ms;
  fields.meta = {dead->text.get(JobText::meta)};
  fields.trace = {dead->text.get(JobText::trace)};
  if (const std::string_view extras = dead->text.get(JobText::extras); !extras.empty())
    fields.extras = {static_cast<unsigned char>(extras[0]), extras.substr(1)};
  const Submitted event{.from = {}, .fields = &fields, .body = dead->request()};
  Admission admission{.lane = &lane, .client = &client};
  auto why = admit(event, admission);
  if (!why) {
    const std::unique_ptr<DeadJob> taken = kept_.exhume(result);
    timers_.clear(result.extra->timer);
    jobs_.forget(result);
    kept_.remove(result);
    Job& job = accept(event, admission, ReplyMode::accepted, now);
    const std::size_t history = taken->history.bytes();
    if (history > 0) job.need_extra().history = std::move(taken->history);
    job.bytes += static_cast<std::uint32_t>(history);
    bytes_ += history;
    lane.bytes += history;
    ++stats_.jobs_redriven;
  }
  clients_.drop_reference(client);
  return why;
}

}  // namespace lanemq::core
