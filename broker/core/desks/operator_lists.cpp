// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/operator_lists.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <lanemq/text.hpp>

#include "broker/core/desks/operator_answers.hpp"
#include "broker/core/desks/quota_document.hpp"
#include "broker/core/desks/times_document.hpp"
#include "broker/core/desks/workers_wanted.hpp"
#include "broker/core/life/answers.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/scheduler/dispatcher.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/upstreams.hpp"

namespace lanemq::core {
namespace {

/// Services of a worker, and lanes, that a row names.
constexpr std::size_t kNamesShown = 8;
/// Breakers of a service that a row shows.
constexpr std::int64_t kBreakersShown = 16;

std::optional<JobState> state_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(JobState::expired); ++i)
    if (name_of(static_cast<JobState>(i)) == name) return static_cast<JobState>(i);
  return std::nullopt;
}

std::optional<Key::State> key_state_named(std::string_view name) {
  for (const Key::State state : {Key::State::active, Key::State::draining, Key::State::spent})
    if (name_of(state) == name) return state;
  return std::nullopt;
}

std::string_view name_of(ReplyMode mode) {
  switch (mode) {
    case ReplyMode::result:
      return "result";
    case ReplyMode::accepted:
      return "accepted";
    case ReplyMode::both:
      break;
  }
  return "both";
}

LaneIndex lane_of(const Record& record) {
  return record.is_result ? record.result()->lane : record.job()->lane;
}

/// Bytes of a message in a list, and of messages of earlier attempts, so that the answer fits a header.
constexpr std::size_t kMessageShown = 200;

std::string_view shown(std::string_view message) {
  std::size_t size = std::min(message.size(), kMessageShown);
  while (size > 0 && size < message.size() && (static_cast<unsigned char>(message[size]) & 0xC0) == 0x80)
    --size;
  return message.substr(0, size);
}

/// The progress that a running job's worker has reported.
void add_progress(DocumentMap& row, const Job& job, TimePoint now) {
  const Progress* const progress = job.progress();
  if (progress == nullptr) return;
  if (progress->pct) row.integer("pct", *progress->pct);
  row.text_if_any("note", progress->note).integer("silent_ms", to_ms(now - progress->heard_at));
}

}  // namespace

void OperatorLists::list_jobs(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const auto refused = [&](std::string why) {
    answers_.refuse(event.from, fields.ref, {}, bad_request(std::move(why)));
  };
  const Lane* const lane = fields.lane.empty() ? nullptr : state_.lane_named(fields.lane);
  if (!fields.lane.empty() && lane == nullptr)
    return refused("unknown lane \"" + printable(fields.lane) + "\"; the lanes are " + state_.lane_names());
  const std::optional<JobState> state = state_named(fields.state);
  if (!fields.state.empty() && !state)
    return refused(
        "field \"state\" must be queued, delayed, running, succeeded, failed, cancelled or expired");

  DocumentPage page(fields.limit);
  auto place = static_cast<std::size_t>(fields.from);
  const std::size_t end = std::min(state_.jobs.places(), place + kPlacesPerPage);
  for (; place < end && !page.full(); ++place) {
    const Record* record = state_.jobs.at(place);
    if (record == nullptr) continue;
    // An ended job whose worker still holds the place is listed by its result, if one is kept.
    if (const Job* job = record->job(); job != nullptr && job->ended()) record = job->result();
    if (record == nullptr || record->is_result != (state && *state >= JobState::succeeded)) continue;
    if (lane != nullptr && lane->index() != lane_of(*record)) continue;
    DocumentMap row;
    row.text("id", record->id());
    if (const KeptResult* const result = record->result()) {
      if (result->state != *state || !passes(fields.service, result->service()) ||
          !passes(fields.model, result->model()) || !fields.client.empty() || !fields.group.empty())
        continue;
      row.text("state", name_of(result->state)).text("lane", state_.lanes[result->lane]->options().name);
      row.text("service", result->service()).text_if_any("model", result->model());
      row.integer("attempts", result->attempts).integer("ran_ms", result->ran_ms);
    } else {
      const Job& job = *record->job();
      const std::string_view model = job.text.get(JobText::model);
      if ((state && job.state != *state) || !passes(fields.service, job.flow().service().name) ||
          !passes(fields.model, model) || !passes(fields.client, job.queue->client().name) ||
          !passes(fields.group, job.text.get(JobText::group)))
        continue;
      row.text("state", name_of(job.state)).text("lane", state_.lanes[job.lane]->options().name);
      row.text("service", job.flow().service().name).text_if_any("model", model);
      row.text("client", job.queue->client().name).integer("attempts", job.attempts);
      row.text_if_any("group", job.text.get(JobText::group));
      row.integer("age_ms", to_ms(now - job.accepted_at));
      if (const Worker* worker = job.worker()) row.text_if_any("worker", worker->name);
      add_progress(row, job, now);
    }
    page.add(row);
  }
  reply(state_, event,
        list("jobs", page, place < state_.jobs.places() ? std::optional(place) : std::nullopt));
}

namespace {

/// Counts of submits and jobs by outcome, and the jobs' times.
void add_lane_figures(DocumentMap& row, Lane& lane, TimePoint now) {
  DocumentMap refused;
  for (const auto& [code, count] : lane.counters.refused_by)
    refused.integer(name_of(code), signed_of(count));
  if (!lane.counters.refused_by.empty()) row.map("refused", refused);
  add_times(row, "wait_ms", lane.wait, now);
  add_times(row, "run_ms", lane.run, now);
  add_times(row, "first_piece_ms", lane.first_piece, now);
}

/// The times of a service's or a client's jobs; nothing where there are no figures.
void add_named_times(DocumentMap& row, const NamedTimes::Place& times, TimePoint now) {
  NamedTimes::Figures* const figures = times.figures();
  if (figures == nullptr) return;
  if (figures->tokens > 0) row.integer("tokens", static_cast<std::int64_t>(figures->tokens));
  add_times(row, "wait_ms", figures->wait, now);
  add_times(row, "run_ms", figures->run, now);
}

}  // namespace

void OperatorLists::list_lanes(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  const auto next = fill_page(page, event.fields->from, state_.lanes, [&](const std::unique_ptr<Lane>& lane) {
    const LaneOptions& options = lane->options();
    DocumentMap row;
    row.text("name", options.name).integer("queued", signed_of(lane->queued));
    row.integer("delayed", signed_of(lane->delayed)).integer("running", signed_of(lane->running));
    row.integer("bytes", signed_of(lane->bytes)).integer("timeout_ms", to_ms(options.timeout));
    row.integer("depth_max", signed_of(options.depth_max));
    if (options.bytes_max > 0) row.integer("bytes_max", signed_of(options.bytes_max));
    if (options.reserved_slots > 0) row.integer("reserved_slots", signed_of(options.reserved_slots));
    if (options.reserve > 0) row.number("reserve", options.reserve / 1000.0);
    if (options.share_min > 0) row.number("share_min", options.share_min / 1000.0);
    if (state_.options.store_durable && options.durable) row.flag("durable", true);
    if (options.stall_timeout.count() > 0) row.integer("stall_timeout_ms", to_ms(options.stall_timeout));
    if (options.boost_after.count() > 0) row.integer("boost_after_ms", to_ms(options.boost_after));
    if (options.is_default) row.flag("default", true);
    if (lane->paused) row.flag("paused", true);
    add_lane_figures(row, *lane, now);
    return row;
  });
  reply(state_, event, list("lanes", page, next));
}

void OperatorLists::list_services(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  const auto next = fill_page(page, event.fields->from, state_.workers.services(), [&](const auto& entry) {
    const Service& service = *entry.second;
    DocumentMap row;
    row.text("name", service.name).integer("queued", signed_of(service.queued()));
    row.integer("running", signed_of(service.running));
    row.integer("workers", signed_of(service.workers)).integer("places", signed_of(service.places));
    row.integer("free_places", signed_of(service.free_places));
    if (service.unserved != 0) row.integer("unserved", signed_of(service.queued_unserved()));
    row.integer("workers_wanted", signed_of(workers_wanted(service, state_.budgets, now)));
    if (!service.breaker.closed()) row.text("breaker", name_of(service.breaker.state()));
    DocumentMap failed;
    for (const Service::FailedModel& one : service.failed_models)
      failed.text(state_.budgets.model_name(one.model), name_of(one.breaker.state()));
    if (!service.failed_models.empty()) row.map("failed_models", failed);
    DocumentPage breakers(kBreakersShown);
    for (const ShownBreaker& one : upstreams_.breakers_of(service)) {
      if (breakers.full()) break;
      DocumentMap shown;
      shown.text_if_any("model", one.model).text_if_any("client", one.client).text("state", one.state);
      if (one.until > now && one.until != kNever) shown.integer("retry_ms", to_ms(one.until - now));
      breakers.add(shown);
    }
    if (!service.is_sound()) row.rows("breakers", breakers);
    if (service.paused) row.flag("paused", true);
    add_named_times(row, service.times, now);
    return row;
  });
  reply(state_, event, list("services", page, next));
}

void OperatorLists::list_workers(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  std::optional<std::size_t> next;
  const auto& all = state_.workers.all();
  std::size_t looked_at = 0;
  for (auto at = all.lower_bound(static_cast<std::uint64_t>(event.fields->from)); at != all.end(); ++at) {
    const Worker& worker = *at->second;
    if (page.full() || ++looked_at > kPlacesPerPage) {
      next = at->first;
      break;
    }
    std::vector<std::string_view> services, lanes;
    for (const auto& place : worker.places)
      services.push_back(place->service->name);
    for (const auto& lane : state_.lanes)
      if ((worker.lanes >> lane->index() & 1) != 0) lanes.push_back(lane->options().name);
    if (std::none_of(services.begin(), services.end(),
                     [&](std::string_view name) { return passes(event.fields->service, name); }))
      continue;
    DocumentMap row;
    row.text_if_any("name", worker.name).text("session", worker.session);
    row.text("state", worker.draining ? "draining" : worker.awaits_inventory ? "greeting" : "ready");
    row.integer("running", worker.running).integer("capacity", worker.capacity);
    if (!worker.strays.empty()) row.integer("stopping", signed_of(worker.strays.size()));
    row.texts("services", services, kNamesShown);
    if (services.size() > kNamesShown) row.integer("services_count", signed_of(services.size()));
    if (worker.reserved()) row.texts("lanes", lanes, kNamesShown);
    row.integer("heard_ms", to_ms(now - worker.heard_at));
    page.add(row);
  }
  reply(state_, event, list("workers", page, next));
}

namespace {

DocumentMap client_row(const Client& client, TimePoint now) {
  DocumentMap row;
  row.text("name", client.name).integer("waiting", signed_of(client.waiting));
  row.integer("running", signed_of(client.running)).integer("weight", client.options.weight);
  if (client.options.in_flight_max > 0) row.integer("in_flight_max", signed_of(client.options.in_flight_max));
  if (client.options.depth_max > 0) row.integer("depth_max", signed_of(client.options.depth_max));
  row.text_if_any("lane_max", client.options.lane_max);
  if (client.paused) row.flag("paused", true);
  add_named_times(row, client.times, now);
  return row;
}

}  // namespace

void OperatorLists::list_clients(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  auto place = static_cast<std::size_t>(event.fields->from);
  if (event.fields->top) {
    std::vector<std::string_view> top = state_.client_times.ranked();
    top.resize(std::min(top.size(), static_cast<std::size_t>(*event.fields->top)));
    for (; place < top.size() && !page.full(); ++place)
      page.add(client_row(*state_.clients.find(top[place]), now));
    return reply(state_, event,
                 list("clients", page, place < top.size() ? std::optional(place) : std::nullopt));
  }
  const std::size_t end = std::min(state_.clients.places(), place + kPlacesPerPage);
  for (; place < end && !page.full(); ++place)
    if (const Client* const client = state_.clients.at(place); client != nullptr)
      page.add(client_row(*client, now));
  reply(state_, event,
        list("clients", page, place < state_.clients.places() ? std::optional(place) : std::nullopt));
}

namespace {

/// Whether a budget's pattern matches the name that was asked for; an empty name matches all.
bool applies(const std::string& pattern, std::string_view name) {
  return name.empty() || pattern.empty() || glob_match(pattern, name);
}

/// Whether the budget has the wanted name, and applies to jobs as the query describes them.
bool is_asked_for(const BudgetOptions& budget, const wire::AdminQuery& fields) {
  return passes(fields.name, budget.name) && applies(budget.service, fields.service) &&
         applies(budget.client, fields.client) && applies(budget.model, fields.model) &&
         applies(budget.lane, fields.lane);
}

/// `limited`: a budget, or the quota of a key's account.
template <class Limited>
void add_quota(DocumentMap& row, Limited& limited, const Quota& quota, TimePoint now) {
  DocumentMap limits;
  add_limits(limits, limited, now);
  row.map("limits", limits);
  add_pause(row, quota, now);
}

DocumentMap budget_row(Budget& budget, const Budgets& budgets, TimePoint now) {
  const BudgetOptions& options = budget.options;
  DocumentMap row;
  row.text("name", options.name).text_if_any("service", options.service);
  row.text_if_any("model", options.model).text_if_any("client", options.client);
  row.text_if_any("lane", options.lane).text_if_any("tenant", options.tenant);
  row.text("window", name_of(options.window));
  add_quota(row, budget, budget.quota, now);
  if (budget.slices != nullptr) row.flag("shared", true);
  add_paused_models(row, budgets, budget, Budgets::kModelsApartMax, now);
  if (budget.paused) row.flag("paused", true);
  return row;
}

DocumentMap key_row(Budget& budget, const Key& key, TimePoint now) {
  Account& account = budget.accounts[key.account];
  DocumentMap row;
  row.text("name", budget.options.name).text("key", key.name).text("state", name_of(key.state));
  row.integer("running", key.running).integer("jobs", static_cast<std::int64_t>(key.given));
  row.integer("weight", key.weight);
  if (key.state == Key::State::spent)
    row.integer("rests_ms", std::max<std::int64_t>(to_ms(key.rests_until - now), 0));
  if (account.name != key.name) row.text("quota_group", account.name);
  // For a shared budget the bank counts, and reports only which key a call may have.
  if (budget.slices != nullptr)
    add_pause(row, account.quota, now);
  else
    add_quota(row, account.quota, account.quota, now);
  return row;
}

}  // namespace

/// The list counts places: one for each budget, and one for each of its keys.
void OperatorLists::list_budgets(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const std::optional<Key::State> state = key_state_named(fields.state);
  if (!fields.state.empty() && !state)
    return answers_.refuse(event.from, fields.ref, {},
                           bad_request("field \"state\" must be active, draining or spent: that of a key"));
  const bool keys_alone = state || !fields.key.empty();
  const auto from = static_cast<std::size_t>(fields.from);
  DocumentPage page(fields.limit);
  std::size_t first = 0;  // the place of a budget
  for (Budget& budget : state_.budgets.all()) {
    const std::size_t end = first + 1 + budget.keys.size();
    const bool asked_for = is_asked_for(budget.options, fields);
    for (std::size_t place = std::max(first, from); place < end; ++place) {
      if (page.full() || place - from >= kPlacesPerPage)
        return reply(state_, event, list("budgets", page, place));
      if (!asked_for) continue;
      if (place == first) {
        if (!keys_alone) page.add(budget_row(budget, state_.budgets, now));
        continue;
      }
      const Key& key = budget.keys[place - first - 1];
      if (passes(fields.key, key.name) && (!state || key.state == *state))
        page.add(key_row(budget, key, now));
    }
    first = end;
  }
  reply(state_, event, list("budgets", page, std::nullopt));
}

void OperatorLists::list_pauses(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  const auto next = fill_page(page, event.fields->from, state_.pauses.all(), [&](const auto& entry) {
    const Pause& pause = entry.second;
    DocumentMap row;
    row.text("what", name_of(pause.kind)).text("name", pause.name).text_if_any("reason", pause.reason);
    row.integer("for_ms", to_ms(now - pause.since));
    return row;
  });
  reply(state_, event, list("pauses", page, next));
}

void OperatorLists::list_dead(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  const auto next = for_each_dead(state_, results_.kept(), *event.fields, [&](const KeptResult& result) {
    if (page.full()) return false;
    const DeadJob& dead = *result.dead();
    DocumentMap row;
    row.text("id", result.id()).text("code", name_of(result.extra->ending->code));
    row.text_if_any("message", shown(result.extra->ending->message));
    row.text("lane", state_.lanes[result.lane]->options().name).text("service", result.service());
    row.text_if_any("model", result.model()).text("client", dead.client);
    row.integer("attempts", result.attempts).integer("dead_ms", to_ms(now - dead.ended_at));
    page.add(row);
    return true;
  });
  DocumentMap document;
  document.rows("dead", page).integer("count", static_cast<std::int64_t>(results_.kept().dead_size()));
  if (next) document.integer("next", static_cast<std::int64_t>(*next));
  reply(state_, event, document);
}

// ---- one job ------------------------------------------------------------------------------------------

void OperatorLists::show_job(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const Record* const record = state_.jobs.find(fields.id);
  if (record == nullptr)
    return answers_.refuse(event.from, fields.ref, fields.id,
                           {ErrorCode::not_found,
                            "no job with id \"" + std::string(fields.id) +
                                "\" is known: none came, or it ended and is no longer kept",
                            {}});
  DocumentMap document;
  document.text("id", record->id()).integer("job", static_cast<std::int64_t>(record->number));
  if (const KeptResult* const result = record->result()) {
    document.text("state", name_of(result->state)).text("lane", state_.lanes[result->lane]->options().name);
    document.text("service", result->service()).text_if_any("model", result->model());
    document.integer("attempts", result->attempts).integer("attempt", result->attempt);
    document.integer("queued_ms", result->queued_ms).integer("ran_ms", result->ran_ms);
    const Terminal end = result->terminal();
    document.integer("body_bytes", signed_of(end.body.size()));
    document.integer("kept_ms", std::max<std::int64_t>(to_ms(result->due - now), 0));
    if (end.ending != nullptr && result->state != JobState::succeeded)
      document.text("code", name_of(end.ending->code)).text_if_any("message", end.ending->message);
    if (result->dead() != nullptr) document.flag("dead", true);
    if (const DeadJob* const dead = result->dead()) add_history(document, dead->history, now);
    return reply(state_, event, document);
  }
  const Job& job = *record->job();
  document.text("state", name_of(job.state)).text("lane", state_.lanes[job.lane]->options().name);
  document.text("service", job.flow().service().name).text_if_any("model", job.text.get(JobText::model));
  document.text("client", job.queue->client().name);
  document.text_if_any("group", job.text.get(JobText::group));
  document.integer("attempts", job.attempts).integer("attempts_max", job.attempts_max);
  document.integer("attempt", job.attempt);
  if (job.crashes() > 0) document.integer("crashes", job.crashes());
  document.integer("age_ms", to_ms(now - job.accepted_at));
  document.integer("deadline_ms", std::max<std::int64_t>(to_ms(job.deadline - now), 0));
  document.integer("body_bytes", signed_of(job.body_bytes())).integer("bytes", signed_of(job.bytes()));
  document.text("reply", name_of(job.reply)).integer("retain_ms", job.retain.ms());
  if (job.extra && !job.extra->waiters.empty())
    document.integer("waiters", signed_of(job.extra->waiters.size()));
  if (const AnswerStream* const answer = job.answer()) {
    document.integer("readers", signed_of(answer->readers.size()));
    document.integer("chunks", answer->next());
  }
  const BudgetSet set = job.flow().budgets();
  std::vector<std::string_view> budgets;
  for (const std::size_t i : state_.budgets.of(set))
    budgets.push_back(state_.budgets.all()[i].options.name);
  if (!budgets.empty()) document.texts("budgets", budgets, kNamesShown);
  if (state_.budgets.counts_tokens(set))
    document.integer("input_tokens", job.expected().input_tokens)
        .integer("output_tokens", job.expected().output_tokens);
  if (job.state == JobState::running) {
    const Away& away = job.at_away();
    document.text_if_any("worker", away.worker->name).text("session", away.worker->session);
    document.text_if_any("key", state_.budgets.key_of(away.reservation));
    document.integer("queued_ms", away.queued_ms).integer("ran_ms", to_ms(now - away.dispatched_at));
    add_progress(document, job, now);
  } else {
    const Dispatcher::Wait wait = dispatcher_.wait_of(job, now);
    document.text("blocked_by", wait.what);
    if (wait.until) document.integer("eta_ms", std::max<std::int64_t>(to_ms(*wait.until - now), 0));
  }
  if (job.extra) add_history(document, job.extra->history, now);
  reply(state_, event, document);
}

/// The attempts, the last first. Messages of earlier attempts are cut.
void OperatorLists::add_history(DocumentMap& document, const History& history, TimePoint now) const {
  DocumentPage page(static_cast<std::int64_t>(History::kAttemptsMax));
  const auto& attempts = history.attempts();
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend() && !page.full(); ++attempt) {
    DocumentMap row;
    row.integer("attempt", attempt->number).text("worker", attempt->worker);
    row.text("class", attempt->cause).text_if_any("code", attempt->code);
    row.text_if_any("message", attempt == attempts.rbegin() ? attempt->message : shown(attempt->message));
    row.integer("ran_ms", to_ms(attempt->ended - attempt->began));
    row.integer("ago_ms", to_ms(now - attempt->ended));
    row.integer("ended_ms", state_.options.unix_ms(attempt->ended));
    page.add(row);
  }
  if (!attempts.empty()) document.rows("history", page);
}

}  // namespace lanemq::core
