// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <lanemq/admin_table.hpp>
#include <lanemq/text.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/broker.hpp"
#include "broker/core/desks/document_page.hpp"
#include "broker/core/desks/quota_document.hpp"

// What operators ask for, and what they change. admin_table.hpp lists the verbs.

namespace lanemq::core {
namespace {

/// Places of jobs or of clients, or workers, that are looked at for one answer, whatever a filter lets
/// through: a list of a million jobs costs many answers, and none of them much of a turn.
constexpr std::size_t kPlacesPerPage = 4096;
/// Names of a worker's services, and of its lanes, that a row of a list shows.
constexpr std::size_t kNamesShown = 8;
/// Breakers of a service that a row of a list shows.
constexpr std::int64_t kBreakersShown = 16;

Refusal bad_question(std::string message) {
  return {ErrorCode::bad_request, std::move(message), {}};
}

std::int64_t signed_of(std::size_t value) {
  return static_cast<std::int64_t>(value);
}

/// Passes what is named so, or matches the glob; what was not asked for passes all.
bool passes(std::string_view wanted, std::string_view name) {
  return wanted.empty() || glob_match(wanted, name);
}

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

/// Lists what `Map` holds by name, from the `from`-th on.
template <class Map, class Row>
std::optional<std::size_t> fill_page(DocumentPage& page, std::int64_t from, const Map& all, Row row) {
  auto at = static_cast<std::size_t>(from);
  if (at >= all.size()) return std::nullopt;
  for (auto entry = std::next(all.begin(), static_cast<std::ptrdiff_t>(at)); entry != all.end();
       ++entry, ++at) {
    if (page.full()) return at;
    page.add(row(*entry));
  }
  return std::nullopt;
}

/// The answer to a question for a list.
DocumentMap list(std::string_view name, const DocumentPage& page, std::optional<std::size_t> next) {
  DocumentMap document;
  document.rows(name, page);
  if (next) document.integer("next", signed_of(*next));
  return document;
}

}  // namespace

void Broker::on(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  if (const std::optional<std::string> fault = admin_fault(fields))
    return refuse(event.from, fields.ref, fields.id, bad_question(*fault));
  switch (admin_info(fields)->verb) {
    case AdminVerb::jobs:
      return list_jobs(event, now);
    case AdminVerb::job:
      return show_job(event, now);
    case AdminVerb::lanes:
      return list_lanes(event);
    case AdminVerb::services:
      return list_services(event, now);
    case AdminVerb::workers:
      return list_workers(event, now);
    case AdminVerb::clients:
      return list_clients(event);
    case AdminVerb::budgets:
      return list_budgets(event, now);
    case AdminVerb::dead:
      return list_dead(event, now);
    case AdminVerb::redrive:
      return redrive_dead(event, now);
    case AdminVerb::purge:
      return purge_dead(event);
    case AdminVerb::pauses:
      return list_pauses(event, now);
    case AdminVerb::pause:
      return pause(event, now);
    case AdminVerb::resume:
      return resume(event, now);
    case AdminVerb::drain:
      return drain_workers(event, true);
    case AdminVerb::move:
      return move_job(event);
    case AdminVerb::limit:
      return change_limit(event, now);
    case AdminVerb::lane:
      return change_lane(event);
    case AdminVerb::backup:
      // What has files answers before.
      return refuse(event.from, event.fields->ref, {},
                    {ErrorCode::bad_request, "there is no store to back up", {}});
  }
}

void Broker::answer(const AdminAsked& to, const DocumentMap& document) {
  scratch_.clear();
  document.write_to(scratch_);
  wire::AdminReply reply;
  reply.document.bytes = scratch_.view();
  reply.ref = to.fields->ref;
  outbox_.add(to.from.peer, to.from.address, to.from.envelope, reply);
}

// ---- lists --------------------------------------------------------------------------------------------

void Broker::list_jobs(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const auto refused = [&](std::string why) {
    refuse(event.from, fields.ref, {}, bad_question(std::move(why)));
  };
  const Lane* const lane = fields.lane.empty() ? nullptr : lane_named(fields.lane);
  if (!fields.lane.empty() && lane == nullptr)
    return refused("unknown lane \"" + std::string(fields.lane) + "\"; the lanes are " + lane_names());
  const std::optional<JobState> state = state_named(fields.state);
  if (!fields.state.empty() && !state)
    return refused(
        "field \"state\" must be queued, delayed, running, succeeded, failed, cancelled or expired");

  DocumentPage page(fields.limit);
  auto place = static_cast<std::size_t>(fields.from);
  const std::size_t end = std::min(jobs_.places(), place + kPlacesPerPage);
  for (; place < end && !page.full(); ++place) {
    const Record* record = jobs_.at(place);
    if (record == nullptr) continue;
    // A job that ended and whose worker has not let go of it is what is kept of it, if anything.
    if (const Job* job = record->job(); job != nullptr && job->ended()) record = job->result();
    if (record == nullptr || record->is_result != (state && *state >= JobState::succeeded)) continue;
    if (lane != nullptr && lane->index() != lane_of(*record)) continue;
    DocumentMap row;
    row.text("id", record->id());
    if (const KeptResult* const result = record->result()) {
      if (result->state != *state || !passes(fields.service, result->service->name) ||
          !passes(fields.model, result->model()) || !fields.client.empty())
        continue;
      row.text("state", name_of(result->state)).text("lane", lanes_[result->lane]->options().name);
      row.text("service", result->service->name).text_if_any("model", result->model());
      row.integer("attempts", result->attempts).integer("ran_ms", result->ran_ms);
    } else {
      const Job& job = *record->job();
      const std::string_view model = job.text.get(JobText::model);
      if ((state && job.state != *state) || !passes(fields.service, job.flow().service().name) ||
          !passes(fields.model, model) || !passes(fields.client, job.queue->client().name))
        continue;
      row.text("state", name_of(job.state)).text("lane", lanes_[job.lane]->options().name);
      row.text("service", job.flow().service().name).text_if_any("model", model);
      row.text("client", job.queue->client().name).integer("attempts", job.attempts);
      row.integer("age_ms", to_ms(now - job.accepted_at));
      if (const Worker* worker = job.worker()) row.text_if_any("worker", worker->name);
    }
    page.add(row);
  }
  answer(event, list("jobs", page, place < jobs_.places() ? std::optional(place) : std::nullopt));
}

void Broker::list_lanes(const AdminAsked& event) {
  DocumentPage page(event.fields->limit);
  const auto next = fill_page(page, event.fields->from, lanes_, [&](const std::unique_ptr<Lane>& lane) {
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
    if (options_.store_durable && options.durable) row.flag("durable", true);
    if (options.boost_after.count() > 0) row.integer("boost_after_ms", to_ms(options.boost_after));
    if (options.is_default) row.flag("default", true);
    if (lane->paused) row.flag("paused", true);
    return row;
  });
  answer(event, list("lanes", page, next));
}

void Broker::list_services(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  const auto next = fill_page(page, event.fields->from, workers_.services(), [&](const auto& entry) {
    const Service& service = *entry.second;
    std::size_t queued = 0;
    for (const FlowGroup* group : service.groups)
      for (const auto& flow : group->flows())
        queued += flow->depth();
    DocumentMap row;
    row.text("name", service.name).integer("queued", signed_of(queued));
    row.integer("workers", signed_of(service.workers));
    row.integer("free_places", signed_of(service.free_places));
    if (!service.breaker.closed()) row.text("breaker", name_of(service.breaker.state()));
    DocumentMap failed;
    for (const Service::FailedModel& one : service.failed_models)
      failed.text(budgets_.model_name(one.model), name_of(one.breaker.state()));
    if (!service.failed_models.empty()) row.map("failed_models", failed);
    DocumentPage breakers(kBreakersShown);
    for (const ShownBreaker& one : breakers_of(service)) {
      if (breakers.full()) break;
      DocumentMap shown;
      shown.text_if_any("model", one.model).text_if_any("client", one.client).text("state", one.state);
      if (one.until > now && one.until != kNever) shown.integer("retry_ms", to_ms(one.until - now));
      breakers.add(shown);
    }
    if (!service.is_sound()) row.rows("breakers", breakers);
    if (service.paused) row.flag("paused", true);
    return row;
  });
  answer(event, list("services", page, next));
}

void Broker::list_workers(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  std::optional<std::size_t> next;
  const auto& all = workers_.all();
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
    for (const auto& lane : lanes_)
      if ((worker.lanes >> lane->index() & 1) != 0) lanes.push_back(lane->options().name);
    if (std::none_of(services.begin(), services.end(),
                     [&](std::string_view name) { return passes(event.fields->service, name); }))
      continue;
    DocumentMap row;
    row.text_if_any("name", worker.name).text("session", worker.session);
    row.text("state", worker.draining ? "draining" : worker.awaits_inventory ? "greeting" : "ready");
    row.integer("running", worker.running).integer("capacity", worker.capacity);
    row.texts("services", services, kNamesShown);
    if (services.size() > kNamesShown) row.integer("services_count", signed_of(services.size()));
    if (worker.reserved()) row.texts("lanes", lanes, kNamesShown);
    row.integer("heard_ms", to_ms(now - worker.heard_at));
    page.add(row);
  }
  answer(event, list("workers", page, next));
}

void Broker::list_clients(const AdminAsked& event) {
  DocumentPage page(event.fields->limit);
  auto place = static_cast<std::size_t>(event.fields->from);
  const std::size_t end = std::min(clients_.places(), place + kPlacesPerPage);
  for (; place < end && !page.full(); ++place) {
    const Client* const client = clients_.at(place);
    if (client == nullptr) continue;
    DocumentMap row;
    row.text("name", client->name).integer("waiting", signed_of(client->waiting));
    row.integer("running", signed_of(client->running)).integer("weight", client->options.weight);
    if (client->options.in_flight_max > 0)
      row.integer("in_flight_max", signed_of(client->options.in_flight_max));
    if (client->options.depth_max > 0) row.integer("depth_max", signed_of(client->options.depth_max));
    row.text_if_any("lane_max", client->options.lane_max);
    if (client->paused) row.flag("paused", true);
    page.add(row);
  }
  answer(event, list("clients", page, place < clients_.places() ? std::optional(place) : std::nullopt));
}

namespace {

/// Whether a pattern of a budget lets through what was asked for; what was not asked for passes all.
bool applies(const std::string& pattern, std::string_view name) {
  return name.empty() || pattern.empty() || glob_match(pattern, name);
}

/// Whether it is named so, and jobs such as the query says take from it.
bool is_asked_for(const BudgetOptions& budget, const wire::AdminQuery& fields) {
  return passes(fields.name, budget.name) && applies(budget.service, fields.service) &&
         applies(budget.client, fields.client) && applies(budget.model, fields.model) &&
         applies(budget.lane, fields.lane);
}

void add_quota(DocumentMap& row, Quota& quota, TimePoint now) {
  DocumentMap limits;
  add_limits(limits, quota, now);
  row.map("limits", limits);
  add_pause(row, quota, now);
}

DocumentMap budget_row(Budget& budget, const Budgets& budgets, TimePoint now) {
  const BudgetOptions& options = budget.options;
  DocumentMap row;
  row.text("name", options.name).text_if_any("service", options.service);
  row.text_if_any("model", options.model).text_if_any("client", options.client);
  row.text_if_any("lane", options.lane).text_if_any("tenant", options.tenant);
  row.text("window", options.window == WindowKind::sliding ? "sliding" : "bucket");
  add_quota(row, budget.quota, now);
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
  add_quota(row, account.quota, now);
  return row;
}

}  // namespace

/// A budget and each of its keys have a place in one list, as in the stats.
void Broker::list_budgets(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const std::optional<Key::State> state = key_state_named(fields.state);
  if (!fields.state.empty() && !state)
    return refuse(event.from, fields.ref, {},
                  bad_question("field \"state\" must be active, draining or spent: that of a key"));
  const bool keys_alone = state || !fields.key.empty();
  const auto from = static_cast<std::size_t>(fields.from);
  DocumentPage page(fields.limit);
  std::size_t first = 0;  // the place of a budget
  for (Budget& budget : budgets_.all()) {
    const std::size_t end = first + 1 + budget.keys.size();
    const bool asked_for = is_asked_for(budget.options, fields);
    for (std::size_t place = std::max(first, from); place < end; ++place) {
      if (page.full() || place - from >= kPlacesPerPage) return answer(event, list("budgets", page, place));
      if (!asked_for) continue;
      if (place == first) {
        if (!keys_alone) page.add(budget_row(budget, budgets_, now));
        continue;
      }
      const Key& key = budget.keys[place - first - 1];
      if (passes(fields.key, key.name) && (!state || key.state == *state))
        page.add(key_row(budget, key, now));
    }
    first = end;
  }
  answer(event, list("budgets", page, std::nullopt));
}

// ---- one job ------------------------------------------------------------------------------------------

void Broker::show_job(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const Record* const record = jobs_.find(fields.id);
  if (record == nullptr)
    return refuse(event.from, fields.ref, fields.id,
                  {ErrorCode::not_found,
                   "no job with id \"" + std::string(fields.id) +
                       "\" is known: none came, or it ended and is no longer kept",
                   {}});
  DocumentMap document;
  document.text("id", record->id()).integer("job", static_cast<std::int64_t>(record->number));
  if (const KeptResult* const result = record->result()) {
    document.text("state", name_of(result->state)).text("lane", lanes_[result->lane]->options().name);
    document.text("service", result->service->name).text_if_any("model", result->model());
    document.integer("attempts", result->attempts).integer("attempt", result->attempt);
    document.integer("queued_ms", result->queued_ms).integer("ran_ms", result->ran_ms);
    const Terminal end = result->terminal();
    document.integer("body_bytes", signed_of(end.body.size()));
    document.integer("kept_ms", std::max<std::int64_t>(to_ms(result->due - now), 0));
    if (end.ending != nullptr && result->state != JobState::succeeded)
      document.text("code", name_of(end.ending->code)).text_if_any("message", end.ending->message);
    if (result->dead() != nullptr) document.flag("dead", true);
    if (const DeadJob* const dead = result->dead()) add_history(document, dead->history, now);
    return answer(event, document);
  }
  const Job& job = *record->job();
  document.text("state", name_of(job.state)).text("lane", lanes_[job.lane]->options().name);
  document.text("service", job.flow().service().name).text_if_any("model", job.text.get(JobText::model));
  document.text("client", job.queue->client().name);
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
  for (const std::size_t i : budgets_.of(set))
    budgets.push_back(budgets_.all()[i].options.name);
  if (!budgets.empty()) document.texts("budgets", budgets, kNamesShown);
  if (budgets_.counts_tokens(set))
    document.integer("input_tokens", job.expected().input_tokens)
        .integer("output_tokens", job.expected().output_tokens);
  if (job.state == JobState::running) {
    const Away& away = job.at_away();
    document.text_if_any("worker", away.worker->name).text("session", away.worker->session);
    document.text_if_any("key", budgets_.key_of(away.reservation));
    document.integer("queued_ms", away.queued_ms).integer("ran_ms", to_ms(now - away.dispatched_at));
  } else {
    const Wait wait = wait_of(job, now);
    document.text("blocked_by", wait.what);
    if (wait.until) document.integer("eta_ms", std::max<std::int64_t>(to_ms(*wait.until - now), 0));
  }
  if (job.extra) add_history(document, job.extra->history, now);
  answer(event, document);
}

// ---- pauses -------------------------------------------------------------------------------------------

void Broker::list_pauses(const AdminAsked& event, TimePoint now) {
  DocumentPage page(event.fields->limit);
  const auto next = fill_page(page, event.fields->from, pauses_.all(), [&](const auto& entry) {
    const Pause& pause = entry.second;
    DocumentMap row;
    row.text("what", name_of(pause.kind)).text("name", pause.name).text_if_any("reason", pause.reason);
    row.integer("for_ms", to_ms(now - pause.since));
    return row;
  });
  answer(event, list("pauses", page, next));
}

Budget* Broker::budget_named(std::string_view name) {
  for (Budget& budget : budgets_.all())
    if (budget.options.name == name) return &budget;
  return nullptr;
}

/// A client comes and goes with its jobs: it can be paused before it comes. Anything else has to be there, or
/// a slip of the pen would go unseen.
std::optional<Refusal> Broker::not_there(PauseKind kind, std::string_view name) const {
  std::string message;
  switch (kind) {
    case PauseKind::lane:
      if (!name.empty() && lane_named(name) != nullptr) return std::nullopt;
      message = "unknown lane \"" + std::string(name) + "\"; the lanes are " + lane_names();
      break;
    case PauseKind::service:
      if (workers_.services().contains(name)) return std::nullopt;
      message = "no job and no worker has named service \"" + std::string(name) +
                "\"; do \"services\" lists those that are known";
      break;
    case PauseKind::client:
      return std::nullopt;
    case PauseKind::budget:
      for (const Budget& budget : budgets_.all())
        if (budget.options.name == name) return std::nullopt;
      message = "no budget \"" + std::string(name) + "\" is configured; do \"budgets\" lists those that are";
      break;
  }
  return Refusal{ErrorCode::not_found, std::move(message), {}};
}

void Broker::pause(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const std::optional<PauseKind> kind = pause_kind(fields.what);
  if (!kind)
    return refuse(event.from, fields.ref, {},
                  bad_question("field \"what\" must be lane, service, client or budget"));
  if (const auto why = not_there(*kind, fields.name)) return refuse(event.from, fields.ref, {}, *why);
  const std::string name(fields.name);
  const Pause* const known = pauses_.find(*kind, name);
  if (known == nullptr && pauses_.full())
    return refuse(event.from, fields.ref, {},
                  {ErrorCode::bad_request,
                   "there are " + std::to_string(Pauses::kMax) + " pauses already; resume some of them",
                   {}});
  const bool changed = known == nullptr || known->reason != fields.reason;
  if (changed && !fields.dry_run) {
    const TimePoint since = known != nullptr ? known->since : now;
    const bool fresh = known == nullptr;
    pauses_.set({*kind, name, std::string(fields.reason), since});
    if (fresh) set_paused(*kind, name, true);
    note_change(event, fields.what, name, std::string(fields.reason));
  }
  answer_pause(event, true, changed);
}

/// A budget's operator takes back what its upstream said, too.
void Broker::resume(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  if (fields.what == "worker") return drain_workers(event, false);
  const std::optional<PauseKind> kind = pause_kind(fields.what);
  if (!kind)
    return refuse(event.from, fields.ref, {},
                  bad_question("field \"what\" must be lane, service, client, budget or worker"));
  if (const auto why = not_there(*kind, fields.name)) return refuse(event.from, fields.ref, {}, *why);
  const std::string name(fields.name);
  const bool paused = pauses_.find(*kind, name) != nullptr;
  const auto budget =
      static_cast<std::size_t>(*kind == PauseKind::budget ? budget_named(name) - budgets_.all().data() : 0);
  const bool lifts = *kind == PauseKind::budget && budgets_.can_lift(budget, now);
  if (paused && !fields.dry_run) {
    pauses_.remove(*kind, name);
    set_paused(*kind, name, false);
  }
  if (lifts && !fields.dry_run) budgets_.lift(budget, now);
  if ((paused || lifts) && !fields.dry_run)
    note_change(event, fields.what, name, lifts ? "what its upstream said is forgotten" : "");
  answer_pause(event, false, paused || lifts);
}

/// How it stands now, or would without a dry run.
void Broker::answer_pause(const AdminAsked& event, bool paused, bool changed) {
  const wire::AdminQuery& fields = *event.fields;
  DocumentMap document;
  document.text("what", fields.what).text("name", fields.name).flag("paused", paused);
  document.text_if_any("reason", fields.reason).flag("changed", changed);
  if (fields.dry_run) document.flag("dry_run", true);
  answer(event, document);
}

/// Sets the flag that dispatch goes by, and has everything that it concerns looked at again.
/// Requires: it is there, and the flag is the other way.
void Broker::set_paused(PauseKind kind, const std::string& name, bool paused) {
  switch (kind) {
    case PauseKind::lane: {
      Lane& lane = *lane_named(name);
      lane.paused = paused;
      for (const auto& group : lane.groups())
        update_flows(*group);
      return;
    }
    case PauseKind::service: {
      Service& service = *workers_.services().find(name)->second;
      if (service.paused != paused) paused ? workers_.use(service) : workers_.release(service);
      service.paused = paused;
      for (const FlowGroup* group : service.groups)
        update_flows(*group);
      return;
    }
    case PauseKind::client: {
      Client& client = clients_.named(name);
      client.paused = paused;
      update_turns(client);
      // A paused client is known for as long as it is paused, with jobs or without.
      if (paused)
        clients_.take_reference(client);
      else
        clients_.drop_reference(client);
      return;
    }
    case PauseKind::budget:
      budget_named(name)->paused = paused;
      return update_flows();
  }
}

void Broker::update_flows(const FlowGroup& group) {
  for (const auto& flow : group.flows())
    update_flow(*flow);
}

void Broker::update_flows() {
  for (const auto& lane : lanes_)
    for (const auto& group : lane->groups())
      update_flows(*group);
}

/// What is true of its budgets, and whether an operator has paused what it needs.
void Broker::update_flow(Flow& flow) {
  flow.set_counts_tokens(budgets_.counts_tokens(flow.budgets()));
  if (!pauses_.empty() || flow.paused())
    flow.set_paused(flow.lane().paused || flow.service().paused || budgets_.paused(flow.budgets()));
}

/// What pause a job waits for, as its status says it; empty: none.
std::string Broker::paused_by(const Job& job) const {
  if (pauses_.empty()) return {};
  const Flow& flow = job.flow();
  std::vector<std::pair<PauseKind, std::string>> needed{{PauseKind::lane, flow.lane().options().name},
                                                        {PauseKind::service, flow.service().name},
                                                        {PauseKind::client, job.queue->client().name}};
  for (const std::size_t i : budgets_.of(flow.budgets()))
    needed.emplace_back(PauseKind::budget, budgets_.all()[i].options.name);
  for (const auto& [kind, name] : needed) {
    const Pause* const pause = pauses_.find(kind, name);
    if (pause == nullptr) continue;
    const std::string what = "paused " + std::string(name_of(kind)) + " " + name;
    return pause->reason.empty() ? what : what + ": " + pause->reason;
  }
  return {};
}

void Broker::note_change(const AdminAsked& event, std::string_view what, std::string_view name,
                         std::string how) {
  outbox_.notices.push_back({.kind = Notice::Kind::changed_by_operator,
                             .verb = std::string(event.fields->verb),
                             .what = std::string(what),
                             .name = std::string(name),
                             .how = std::move(how)});
}

// ---- workers ------------------------------------------------------------------------------------------

/// Drains the worker of that session, or all of that name, or takes that back: a worker that is welcome again
/// takes jobs as before.
void Broker::drain_workers(const AdminAsked& event, bool drain) {
  const wire::AdminQuery& fields = *event.fields;
  std::size_t found = 0, running = 0;
  bool changed = false;
  for (const auto& [number, worker] : workers_.all()) {
    if (worker->session != fields.name && worker->name != fields.name) continue;
    ++found;
    running += worker->running;
    if (worker->draining == drain) continue;
    changed = true;
    if (fields.dry_run) continue;
    worker->draining = drain;
    workers_.update(*worker);
    if (drain)
      tell(*worker, wire::Drain{});
    else
      say_welcome(*worker);
  }
  if (found == 0)
    return refuse(event.from, fields.ref, {},
                  {ErrorCode::not_found,
                   "no worker with the name or the session \"" + std::string(fields.name) +
                       "\" is here; do \"workers\" lists those that are",
                   {}});
  if (changed && !fields.dry_run)
    note_change(event, "worker", fields.name, std::to_string(found) + " of them");
  DocumentMap document;
  document.text("what", "worker").text("name", fields.name).flag("draining", drain);
  document.integer("workers", signed_of(found)).integer("running", signed_of(running));
  document.flag("changed", changed);
  if (fields.dry_run) document.flag("dry_run", true);
  answer(event, document);
}

// ---- jobs ---------------------------------------------------------------------------------------------

/// A job that waits holds nothing of its budgets: it leaves one queue for another, and takes its number of
/// arrival along.
void Broker::move_job(const AdminAsked& event) {
  const wire::AdminQuery& fields = *event.fields;
  const auto refused = [&](const Refusal& why) { refuse(event.from, fields.ref, fields.id, why); };
  Record* const record = jobs_.find(fields.id);
  if (record == nullptr)
    return refused({ErrorCode::not_found, "no job with id \"" + std::string(fields.id) + "\" is known", {}});
  const JobState state = record->is_result ? record->result()->state : record->job()->state;
  if (state != JobState::queued && state != JobState::delayed)
    return refused({ErrorCode::conflict,
                    "job \"" + std::string(fields.id) + "\" is " + std::string(name_of(state)) +
                        "; only one that is queued or delayed can be moved",
                    {}});
  Lane* const lane = lane_named(fields.lane);
  if (lane == nullptr)
    return refused({ErrorCode::not_found,
                    "unknown lane \"" + std::string(fields.lane) + "\"; the lanes are " + lane_names(),
                    {}});
  Job& job = *record->job();
  const std::string from = lanes_[job.lane]->options().name;
  const bool changed = lane->index() != job.lane;
  if (changed) {
    if (const auto why = lane_full(*lane, job.bytes())) return refused(*why);
    Client& client = job.queue->client();
    Service& service = job.flow().service();
    const std::string_view model = job.text.get(JobText::model);
    const BudgetSet budgets =
        budgets_.match(service.name, model, client.name, lane->options().name, client.options.tenant);
    Estimate estimate{.amounts = job.expected().amounts(), .raw_input = job.expected().raw_input};
    // What the lane's budgets do not count says nothing beside jobs that were submitted to it.
    if (!budgets_.counts_tokens(budgets) && !job.body_stored) estimate = {};
    // One whose body is on disk costs what it was taken to cost when it came.
    if (const auto why = job.body_stored
                             ? std::nullopt
                             : too_large_for(budgets, model, job.text.get(JobText::client), job.body(),
                                             job.extra ? job.extra->cost : std::nullopt, estimate))
      return refused(*why);
    if (!fields.dry_run) {
      Flow& flow = lane->flow(service, budgets);
      update_flow(flow);  // it may be new
      leave_queue(job);
      ClientQueue& left = *job.queue;
      job.queue = &clients_.join(client, flow);
      clients_.leave(left);
      job.lane = lane->index();
      job.set_expected(expected_of(estimate));
      enqueue(job);
      write_changed(job);
      note_change(event, "job", fields.id, from + " to " + lane->options().name);
    }
  }
  DocumentMap document;
  document.text("id", fields.id).text("lane", lane->options().name).text("from_lane", from);
  document.flag("changed", changed);
  if (fields.dry_run) document.flag("dry_run", true);
  answer(event, document);
}

// ---- settings -----------------------------------------------------------------------------------------

namespace {

/// The answer to a setting, and how long that holds.
DocumentMap setting(const wire::AdminQuery& fields, std::string_view what, bool changed) {
  DocumentMap document;
  document.text("what", what).text("name", fields.name).text_if_any("key", fields.key);
  document.text("setting", fields.setting).text("value", fields.value).flag("changed", changed);
  if (fields.dry_run) document.flag("dry_run", true);
  document.text("until", "the configuration is read again, or the broker ends");
  return document;
}

/// The options with the setting changed that a query asks for.
Result<Options> edited(const AdminAsked& event, const Options& options, OptionEdit::Of of) {
  const wire::AdminQuery& fields = *event.fields;
  if (event.edit == nullptr)
    return failure(ErrorCode::forbidden, "this broker's settings cannot be changed while it runs");
  return (*event.edit)(
      options,
      {.of = of, .name = fields.name, .key = fields.key, .setting = fields.setting, .value = fields.value});
}

std::string assignment(const wire::AdminQuery& fields) {
  return std::string(fields.key) + (fields.key.empty() ? "" : " ") + std::string(fields.setting) + "=" +
         std::string(fields.value);
}

}  // namespace

void Broker::change_limit(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const auto refused = [&](const Refusal& why) { refuse(event.from, fields.ref, {}, why); };
  if (const auto why = not_there(PauseKind::budget, fields.name)) return refused(*why);
  const Result<Options> options = edited(event, options_, OptionEdit::Of::budget);
  if (!options) return refused({options.error().code, options.error().message, {}});
  const auto wanted = std::find_if(options->budgets.begin(), options->budgets.end(),
                                   [&](const BudgetOptions& budget) { return budget.name == fields.name; });
  LANEMQ_CHECK(wanted != options->budgets.end());
  const bool changed = options_.budgets != options->budgets;
  if (changed && !fields.dry_run) {
    options_.budgets = options->budgets;
    parking_.leave_all();
    budgets_.change_limits(*wanted, now);
    update_flows();
    reappraise();
    note_change(event, "budget", fields.name, assignment(fields));
  }
  answer(event, setting(fields, "budget", changed));
}

void Broker::change_lane(const AdminAsked& event) {
  const wire::AdminQuery& fields = *event.fields;
  const auto refused = [&](const Refusal& why) { refuse(event.from, fields.ref, {}, why); };
  if (const auto why = not_there(PauseKind::lane, fields.name)) return refused(*why);
  const Result<Options> options = edited(event, options_, OptionEdit::Of::lane);
  if (!options) return refused({options.error().code, options.error().message, {}});
  const bool changed = options_.lanes != options->lanes;
  if (changed && !fields.dry_run) {
    options_.lanes = options->lanes;
    Lane& lane = *lane_named(fields.name);
    lane.configure(options_.lanes[lane.index()]);
    parking_.leave_all();
    apply_guards();
    note_change(event, "lane", fields.name, assignment(fields));
  }
  answer(event, setting(fields, "lane", changed));
}

}  // namespace lanemq::core
