// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <lanemq/text.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/broker.hpp"
#include "broker/core/desks/document_page.hpp"

// Jobs that came to no good end: what is remembered of them, and how they run again.

namespace lanemq::core {
namespace {

/// Dead jobs that are looked at for one answer, whatever a filter lets through.
constexpr std::size_t kDeadPerPage = 4096;
/// Of those, what one request runs again or forgets where it states no limit.
constexpr std::int64_t kTakenUsual = 100;
/// Of a message in a list, and of those of earlier attempts: with the rest it still fits a header.
constexpr std::size_t kMessageShown = 200;
/// Ids that an answer names of the jobs that it is about.
constexpr std::size_t kIdsShown = 20;

std::string_view shown(std::string_view message) {
  std::size_t size = std::min(message.size(), kMessageShown);
  while (size > 0 && size < message.size() && (static_cast<unsigned char>(message[size]) & 0xC0) == 0x80)
    --size;
  return message.substr(0, size);
}

}  // namespace

/// The attempt under way is over without success. Requires: the job has its worker still.
void Broker::remember_attempt(Job& job, std::string_view cause, std::string_view code,
                              std::string_view message, TimePoint now) {
  const Away& away = job.at_away();
  const Worker& worker = *away.worker;
  History& history = job.need_extra().history;
  const std::ptrdiff_t grown = history.add({.number = job.attempt,
                                            .worker = worker.name.empty() ? worker.session : worker.name,
                                            .began = away.dispatched_at,
                                            .ended = now,
                                            .cause = cause,
                                            .code = std::string(code),
                                            .message = std::string(message)});
  bytes_ += static_cast<std::size_t>(grown);
  evict_results(now);
  if (memory_bytes() <= options_.memory_max) return;
  bytes_ -= history.bytes();
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
         !job.retain.nothing();
}

/// Moves what is needed to run the job again to its result.
void Broker::bury(Job& job, KeptResult& result, TimePoint now) {
  auto dead = std::make_unique<DeadJob>();
  dead->timeout = job.timeout();
  dead->text = KeptText(job.text.parts());
  if (job.extra) {
    dead->body = std::move(job.extra->body);
    dead->cost = job.extra->cost;
    dead->history = std::move(job.extra->history);
  }
  dead->client = job.queue->client().name;
  dead->ended_at = now;
  dead->streams = job.streams;
  dead->timeout_stated = job.timeout_stated;
  dead->attempts_max = job.attempts_max;
  dead->retain_ms = job.retain.ms();
  dead->body_stored = job.body_stored;
  dead->estimate = {.amounts = job.expected().amounts(), .raw_input = job.expected().raw_input};
  kept_.bury(result, std::move(dead));
  const std::size_t count_max = std::min(options_.dead_max, options_.jobs_max / 4);
  const std::size_t bytes_max = std::min(options_.dead_bytes_max, options_.memory_max / 4);
  while (kept_.dead_size() > count_max || kept_.dead_bytes() > bytes_max)
    evict_dead();
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
  fields.stream = dead->streams;
  if (dead->timeout_stated) fields.timeout_ms = to_ms(dead->timeout);
  fields.attempts_max = dead->attempts_max;
  fields.retain_ms = dead->retain_ms;
  fields.meta = {dead->text.get(JobText::meta)};
  fields.trace = {dead->text.get(JobText::trace)};
  if (const std::string_view extras = dead->text.get(JobText::extras); !extras.empty())
    fields.extras = {static_cast<unsigned char>(extras[0]), extras.substr(1)};
  const Submitted event{.from = {}, .fields = &fields, .body = dead->request()};
  // Where it lives does not change: what is on disk stays there.
  fields.durable = bool{result.durable};
  Admission admission{.lane = &lane, .client = &client};
  auto why = admit(event, admission, now);
  if (!why) {
    admission.redriven = true;
    const JobNumber stored_as = result.number;
    if (result.durable) {
      admission.spilled = admission.spilled || dead->body_stored;
      if (dead->body_stored) admission.estimate = dead->estimate;
      if (dead->body_stored) admission.body_bytes = StoredSize::of(dead->text.get(JobText::body));
    }
    const std::unique_ptr<DeadJob> taken = kept_.exhume(result);
    const LaneIndex submitted_lane = result.submitted_lane;
    admission.body_hash = result.body_hash;  // of a body that may be on disk
    if (result.durable)
      outbox_.writes.add(Write::Kind::erase_result, static_cast<std::uint64_t>(result.number));
    remove(result);
    Job& job = accept(event, admission, ReplyMode::accepted, now);
    job.submitted_lane = submitted_lane;  // so that its client finds it again after a move
    const std::size_t history = taken->history.bytes();
    if (history > 0) job.need_extra().history = std::move(taken->history);
    bytes_ += history;
    lane.bytes += history;
    if (job.durable) write_renamed(job, stored_as);
    ++stats_.jobs_redriven;
  }
  clients_.drop_reference(client);
  return why;
}

// ---- what operators ask -------------------------------------------------------------------------------

bool Broker::is_meant(const KeptResult& result, const wire::AdminQuery& filter) const {
  const auto passes = [](std::string_view wanted, std::string_view name) {
    return wanted.empty() || glob_match(wanted, name);
  };
  return (filter.id.empty() || filter.id == result.id()) &&
         passes(filter.lane, lanes_[result.lane]->options().name) &&
         passes(filter.service, result.service->name) && passes(filter.client, result.dead()->client) &&
         passes(filter.model, result.model()) && passes(filter.code, name_of(result.extra->ending->code));
}

/// Calls `take` with each dead job that the filter means, the oldest first, until it says that it wants no
/// more; it may end the job's death. Returns where to go on, if anything is left.
template <class Take>
std::optional<std::uint64_t> Broker::for_each_dead(const wire::AdminQuery& filter, Take take) {
  std::size_t seen = 0;
  for (KeptResult* result = kept_.oldest_dead(); result != nullptr;) {
    KeptResult& dead = *result;
    result = kept_.next_dead(dead);
    const std::uint64_t number = dead.dead()->number;
    if (number < static_cast<std::uint64_t>(filter.from)) continue;
    if (seen++ == kDeadPerPage) return number;
    if (is_meant(dead, filter) && !take(dead)) return number;
  }
  return std::nullopt;
}

void Broker::list_dead(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  const auto next = for_each_dead(*event.fields, [&](const KeptResult& result) {
    if (page.full()) return false;
    const DeadJob& dead = *result.dead();
    DocumentMap row;
    row.text("id", result.id()).text("code", name_of(result.extra->ending->code));
    row.text_if_any("message", shown(result.extra->ending->message));
    row.text("lane", lanes_[result.lane]->options().name).text("service", result.service->name);
    row.text_if_any("model", result.model()).text("client", dead.client);
    row.integer("attempts", result.attempts).integer("dead_ms", to_ms(now - dead.ended_at));
    page.add(row);
    return true;
  });
  DocumentMap document;
  document.rows("dead", page).integer("count", static_cast<std::int64_t>(kept_.dead_size()));
  if (next) document.integer("next", static_cast<std::int64_t>(*next));
  answer(event, document);
}

void Broker::redrive_dead(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  std::int64_t taken = 0, refused = 0;
  std::optional<Refusal> first_refusal;
  std::vector<std::string> ids;
  const auto next = for_each_dead(fields, [&](KeptResult& result) {
    if (taken + refused == fields.limit.value_or(kTakenUsual)) return false;
    if (ids.size() < kIdsShown) ids.emplace_back(result.id());
    auto why = fields.dry_run ? std::nullopt : redrive(result, now);
    if (!why) {
      ++taken;
      return true;
    }
    ++refused;
    if (!first_refusal) first_refusal = std::move(why);
    return true;
  });
  if (!fields.id.empty() && taken + refused == 0)
    return refuse(event.from, fields.ref, fields.id, not_dead(fields.id));
  DocumentMap document;
  document.integer("redriven", taken).integer("refused", refused).texts("ids", ids, kIdsShown);
  if (first_refusal)
    document.text("code", name_of(first_refusal->code)).text("message", first_refusal->message);
  if (next) document.integer("next", static_cast<std::int64_t>(*next));
  if (fields.dry_run) document.flag("dry_run", true);
  answer(event, document);
}

void Broker::purge_dead(const AdminAsked& event) {
  const wire::AdminQuery& fields = *event.fields;
  std::int64_t taken = 0;
  std::vector<std::string> ids;
  const auto next = for_each_dead(fields, [&](KeptResult& result) {
    if (taken == fields.limit.value_or(kTakenUsual)) return false;
    if (ids.size() < kIdsShown) ids.emplace_back(result.id());
    if (!fields.dry_run) forget(result);
    ++taken;
    return true;
  });
  if (!fields.id.empty() && taken == 0) return refuse(event.from, fields.ref, fields.id, not_dead(fields.id));
  DocumentMap document;
  document.integer("purged", taken).texts("ids", ids, kIdsShown);
  if (next) document.integer("next", static_cast<std::int64_t>(*next));
  if (fields.dry_run) document.flag("dry_run", true);
  answer(event, document);
}

Refusal Broker::not_dead(std::string_view id) const {
  return {
      ErrorCode::not_found,
      "no dead job has id \"" + std::string(id) + "\": it is not over, went well, was cancelled or is gone",
      {}};
}

/// The attempts, the last first: its message as it is, of those before it the beginning.
void Broker::add_history(DocumentMap& document, const History& history, TimePoint now) const {
  DocumentPage page(static_cast<std::int64_t>(History::kAttemptsMax));
  const auto& attempts = history.attempts();
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend() && !page.full(); ++attempt) {
    DocumentMap row;
    row.integer("attempt", attempt->number).text("worker", attempt->worker);
    row.text("class", attempt->cause).text_if_any("code", attempt->code);
    row.text_if_any("message", attempt == attempts.rbegin() ? attempt->message : shown(attempt->message));
    row.integer("ran_ms", to_ms(attempt->ended - attempt->began));
    row.integer("ago_ms", to_ms(now - attempt->ended));
    row.integer("ended_ms", options_.wall_ms + to_ms(attempt->ended.time_since_epoch()));
    page.add(row);
  }
  if (!attempts.empty()) document.rows("history", page);
}

}  // namespace lanemq::core
