// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/operator_desk.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <lanemq/admin_table.hpp>
#include <lanemq/text.hpp>

#include "broker/core/base/check.hpp"
#include "broker/core/desks/admission.hpp"
#include "broker/core/desks/operator_answers.hpp"
#include "broker/core/desks/operator_lists.hpp"
#include "broker/core/desks/worker_desk.hpp"
#include "broker/core/life/answers.hpp"
#include "broker/core/life/job_life.hpp"
#include "broker/core/life/journal.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/life/watchers.hpp"
#include "broker/core/scheduler/dispatcher.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/terms.hpp"

namespace lanemq::core {
namespace {

/// Jobs that one redrive or purge handles if it states no limit.
constexpr std::int64_t kTakenUsual = 100;
/// Ids of handled jobs that an answer names.
constexpr std::size_t kIdsShown = 20;

Refusal not_dead(std::string_view id) {
  return {
      ErrorCode::not_found,
      "no dead job has id \"" + std::string(id) + "\": it is not over, went well, was cancelled or is gone",
      {}};
}

}  // namespace

OperatorDesk::OperatorDesk(State& state, Terms& terms, Dispatcher& dispatcher, Journal& journal,
                           Results& results, Answers& answers, JobLife& life, Admission& admission,
                           WorkerDesk& workers, OperatorLists& lists, Watchers& watchers)
    : state_(state),
      terms_(terms),
      dispatcher_(dispatcher),
      journal_(journal),
      results_(results),
      answers_(answers),
      life_(life),
      admission_(admission),
      workers_(workers),
      lists_(lists),
      watchers_(watchers) {}

void OperatorDesk::on(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  if (const std::optional<std::string> fault = admin_fault(fields))
    return answers_.refuse(event.from, fields.ref, fields.id, bad_request(*fault));
  switch (admin_info(fields)->verb) {
    case AdminVerb::jobs:
      return lists_.list_jobs(event, now);
    case AdminVerb::job:
      return lists_.show_job(event, now);
    case AdminVerb::lanes:
      return lists_.list_lanes(event, now);
    case AdminVerb::services:
      return lists_.list_services(event, now);
    case AdminVerb::workers:
      return lists_.list_workers(event, now);
    case AdminVerb::clients:
      return lists_.list_clients(event, now);
    case AdminVerb::budgets:
      return lists_.list_budgets(event, now);
    case AdminVerb::dead:
      return lists_.list_dead(event, now);
    case AdminVerb::redrive:
      return redrive_dead(event, now);
    case AdminVerb::purge:
      return purge_dead(event);
    case AdminVerb::pauses:
      return lists_.list_pauses(event, now);
    case AdminVerb::pause:
      return pause(event, now);
    case AdminVerb::resume:
      return resume(event, now);
    case AdminVerb::drain:
      return drain_workers(event, true);
    case AdminVerb::move:
      return move_job(event, now);
    case AdminVerb::limit:
      return change_limit(event, now);
    case AdminVerb::lane:
      return change_lane(event);
    case AdminVerb::backup:
    case AdminVerb::config:
    case AdminVerb::changes:
    case AdminVerb::reload:
    case AdminVerb::plugin:
    case AdminVerb::handover:
      // The loop, which knows the store, the configuration and the plugins, answers these itself.
      return answers_.refuse(
          event.from, event.fields->ref, {},
          {ErrorCode::bad_request, "there is neither a store nor a configuration nor a plugin here", {}});
  }
}

// ---- pauses -------------------------------------------------------------------------------------------

/// Refuses a pause of something unknown, which is likely a typing error. A client may be unknown: it comes
/// and goes with its jobs.
std::optional<Refusal> OperatorDesk::not_there(PauseKind kind, std::string_view name) const {
  std::string message;
  switch (kind) {
    case PauseKind::lane:
      if (!name.empty() && state_.lane_named(name) != nullptr) return std::nullopt;
      message = "unknown lane \"" + printable(name) + "\"; the lanes are " + state_.lane_names();
      break;
    case PauseKind::service:
      if (state_.workers.services().contains(name)) return std::nullopt;
      message = "no job and no worker has named service \"" + std::string(name) +
                "\"; do \"services\" lists those that are known";
      break;
    case PauseKind::client:
      return std::nullopt;
    case PauseKind::budget:
      for (const Budget& budget : state_.budgets.all())
        if (budget.options.name == name) return std::nullopt;
      message = "no budget \"" + std::string(name) + "\" is configured; do \"budgets\" lists those that are";
      break;
  }
  return Refusal{ErrorCode::not_found, std::move(message), {}};
}

void OperatorDesk::pause(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const std::optional<PauseKind> kind = pause_kind(fields.what);
  if (!kind)
    return answers_.refuse(event.from, fields.ref, {},
                           bad_request("field \"what\" must be lane, service, client or budget"));
  if (const auto why = not_there(*kind, fields.name))
    return answers_.refuse(event.from, fields.ref, {}, *why);
  const std::string name(fields.name);
  const Pause* const known = state_.pauses.find(*kind, name);
  if (known == nullptr && state_.pauses.full())
    return answers_.refuse(
        event.from, fields.ref, {},
        {ErrorCode::bad_request,
         "there are " + std::to_string(Pauses::kMax) + " pauses already; resume some of them",
         {}});
  const bool changed = known == nullptr || known->reason != fields.reason;
  if (changed && !fields.dry_run) {
    const TimePoint since = known != nullptr ? known->since : now;
    const bool fresh = known == nullptr;
    state_.pauses.set({*kind, name, std::string(fields.reason), since});
    if (fresh) set_paused(*kind, name, true);
    note_change(event, fields.what, name, std::string(fields.reason));
  }
  answer_pause(event, true, changed);
}

/// Resuming a budget that no operator pauses forgets what its upstream has said. What an operator paused may
/// be gone.
void OperatorDesk::resume(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  if (fields.what == "worker") return drain_workers(event, false);
  const std::optional<PauseKind> kind = pause_kind(fields.what);
  if (!kind)
    return answers_.refuse(event.from, fields.ref, {},
                           bad_request("field \"what\" must be lane, service, client, budget or worker"));
  const std::string name(fields.name);
  const bool paused = state_.pauses.find(*kind, name) != nullptr;
  const auto why = not_there(*kind, fields.name);
  if (why && !paused) return answers_.refuse(event.from, fields.ref, {}, *why);
  const auto budget = static_cast<std::size_t>(
      *kind == PauseKind::budget && !why ? state_.budget_named(name) - state_.budgets.all().data() : 0);
  const bool lifts = *kind == PauseKind::budget && !paused && state_.budgets.can_lift(budget, now);
  if (paused && !fields.dry_run) {
    state_.pauses.remove(*kind, name);
    if (!why) set_paused(*kind, name, false);
  }
  if (lifts && !fields.dry_run) state_.budgets.lift(budget, now);
  if ((paused || lifts) && !fields.dry_run)
    note_change(event, fields.what, name, lifts ? "what its upstream said is forgotten" : "");
  answer_pause(event, false, paused || lifts);
}

/// The answer with the pause as it is now, or would be without dry_run.
void OperatorDesk::answer_pause(const AdminAsked& event, bool paused, bool changed) {
  const wire::AdminQuery& fields = *event.fields;
  DocumentMap document;
  document.text("what", fields.what).text("name", fields.name).flag("paused", paused);
  document.text_if_any("reason", fields.reason).flag("changed", changed);
  if (fields.dry_run) document.flag("dry_run", true);
  reply(state_, event, document);
}

/// Sets the flag that dispatch reads, and wakes all that waits for it. Requires: the thing exists, and has
/// the other flag.
void OperatorDesk::set_paused(PauseKind kind, const std::string& name, bool paused) {
  switch (kind) {
    case PauseKind::lane: {
      Lane& lane = *state_.lane_named(name);
      lane.paused = paused;
      for (const auto& group : lane.groups())
        state_.update_flows(*group);
      return;
    }
    case PauseKind::service: {
      Service& service = *state_.workers.services().find(name)->second;
      if (service.paused != paused) paused ? state_.workers.use(service) : state_.workers.release(service);
      service.paused = paused;
      for (const FlowGroup* group : service.groups)
        state_.update_flows(*group);
      return;
    }
    case PauseKind::client: {
      Client& client = state_.clients.named(name);
      client.paused = paused;
      update_turns(client);
      // The broker does not forget a paused client, even without jobs.
      if (paused)
        state_.clients.take_reference(client);
      else
        state_.clients.drop_reference(client);
      return;
    }
    case PauseKind::budget:
      state_.budget_named(name)->paused = paused;
      return state_.update_flows();
  }
}

void OperatorDesk::note_change(const AdminAsked& event, std::string_view what, std::string_view name,
                               std::string how) {
  state_.outbox.notices.push_back({.kind = Notice::Kind::changed_by_operator,
                                   .verb = std::string(event.fields->verb),
                                   .what = std::string(what),
                                   .name = std::string(name),
                                   .how = std::move(how)});
}

/// Tells how many dead jobs an operator handled, and by which filter he chose them.
void OperatorDesk::note_dead_change(const AdminAsked& event, std::string_view done, std::int64_t jobs) {
  const wire::AdminQuery& fields = *event.fields;
  std::string how = std::string(done) + " " + std::to_string(jobs);
  const std::pair<std::string_view, std::string_view> filters[] = {{"lane", fields.lane},
                                                                   {"service", fields.service},
                                                                   {"client", fields.client},
                                                                   {"model", fields.model},
                                                                   {"code", fields.code}};
  for (const auto& [filter, value] : filters)
    if (!value.empty()) how.append(", ").append(filter).append(" ").append(value);
  note_change(event, "dead", fields.id, std::move(how));
}

/// Drains the worker of that session, or all of that name, or ends their draining: they get jobs again.
void OperatorDesk::drain_workers(const AdminAsked& event, bool drain) {
  const wire::AdminQuery& fields = *event.fields;
  std::size_t found = 0, running = 0;
  bool changed = false;
  for (const auto& [number, worker] : state_.workers.all()) {
    if (worker->session != fields.name && worker->name != fields.name) continue;
    ++found;
    running += worker->running;
    if (worker->draining == drain) continue;
    changed = true;
    if (fields.dry_run) continue;
    state_.workers.set_draining(*worker, drain);
    if (drain)
      state_.tell(*worker, wire::Drain{});
    else
      workers_.say_welcome(*worker);
  }
  if (found == 0)
    return answers_.refuse(event.from, fields.ref, {},
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
  reply(state_, event, document);
}

// ---- jobs ---------------------------------------------------------------------------------------------

/// Moves a waiting job, which holds nothing of its budgets, to another lane's queue. It keeps its arrival
/// number.
void OperatorDesk::move_job(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const auto refused = [&](const Refusal& why) { answers_.refuse(event.from, fields.ref, fields.id, why); };
  Record* const record = state_.jobs.find(fields.id);
  if (record == nullptr)
    return refused({ErrorCode::not_found, "no job with id \"" + std::string(fields.id) + "\" is known", {}});
  const JobState state = record->is_result ? record->result()->state : record->job()->state;
  if (state != JobState::queued && state != JobState::delayed)
    return refused({ErrorCode::conflict,
                    "job \"" + std::string(fields.id) + "\" is " + std::string(name_of(state)) +
                        "; only one that is queued or delayed can be moved",
                    {}});
  Lane* const lane = state_.lane_named(fields.lane);
  if (lane == nullptr)
    return refused({ErrorCode::not_found,
                    "unknown lane \"" + printable(fields.lane) + "\"; the lanes are " + state_.lane_names(),
                    {}});
  Job& job = *record->job();
  const std::string from = state_.lanes[job.lane]->options().name;
  const bool changed = lane->index() != job.lane;
  if (changed) {
    if (const auto why = admission_.lane_full(*lane, job.bytes())) return refused(*why);
    Client& client = job.queue->client();
    Service& service = job.flow().service();
    const std::string_view model = job.text.get(JobText::model);
    const BudgetSet budgets =
        state_.budgets.match(service.name, model, client.name, lane->options().name, client.options.tenant);
    // The estimate of a job whose body is on disk stays as it was.
    Estimate estimate{.amounts = job.expected().amounts(), .raw_input = job.expected().raw_input};
    if (!job.body_stored) {
      estimate = terms_.estimate(budgets, model, job.text.get(JobText::client), job.body().bytes(),
                                 job.extra ? job.extra->cost : std::nullopt);
      if (const auto why = admission_.too_large_for(budgets, estimate)) return refused(*why);
    }
    if (!fields.dry_run) {
      Flow& flow = state_.flow_of(*lane, service, budgets);
      state_.leave_queue(job);
      ClientQueue& left = *job.queue;
      job.queue = &state_.clients.join(client, flow);
      state_.clients.leave(left);
      job.lane = lane->index();
      job.set_expected(expected_of(estimate));
      job.estimate_rough = estimate.rough;
      state_.enqueue(job);
      journal_.write_changed(job);
      watchers_.tell(job, {.what = "moved", .state = job.state, .from_lane = from}, now);
      note_change(event, "job", fields.id, from + " to " + lane->options().name);
    }
  }
  DocumentMap document;
  document.text("id", fields.id).text("lane", lane->options().name).text("from_lane", from);
  document.flag("changed", changed);
  if (fields.dry_run) document.flag("dry_run", true);
  reply(state_, event, document);
}

std::optional<Refusal> OperatorDesk::redrive(KeptResult& result, TimePoint now) {
  if (result.job != nullptr)
    return Refusal{ErrorCode::conflict,
                   "its last attempt still runs: it is over for its clients, but its worker has not said so",
                   std::chrono::seconds(1)};
  const DeadJob* dead = result.dead();
  const auto submitted = decoder_.submit(dead->record);
  if (!submitted) return Refusal{ErrorCode::internal, submitted.error().message, {}};
  Lane& lane = *state_.lanes[result.lane];
  wire::Submit fields = *submitted;
  fields.lane = lane.options().name;
  // A durable job stays durable.
  fields.durable = bool{result.durable};
  // No client waits for the job: it starts at once, without a delay.
  fields.delay_ms.reset();
  fields.group_size.reset();
  fields.reply = fields.orphan = fields.limited = fields.spent = {};
  Client& client = state_.clients.named(dead->client);
  state_.clients.take_reference(client);
  const Submitted event{.from = {}, .fields = &fields, .body = dead->body};
  Admitted admitted{.lane = &lane, .client = &client, .redriven = true};
  auto why = admission_.admit(event, admitted, now);
  if (!why) {
    const JobNumber stored_as = result.number;
    if (result.durable) {
      admitted.spilled = admitted.spilled || dead->body_stored;
      if (dead->body_stored) admitted.estimate = dead->estimate;
      if (dead->body_stored) admitted.body_bytes = dead->body_bytes;
    }
    const std::unique_ptr<DeadJob> taken = results_.kept().exhume(result);
    const LaneIndex submitted_lane = result.submitted_lane;
    admitted.body_hash = result.body_hash;  // known even where the body is on disk
    if (result.durable)
      state_.outbox.writes.add(Write::Kind::erase_result, static_cast<std::uint64_t>(result.number));
    results_.remove(result);
    Job& job = life_.accept(event, admitted, ReplyMode::accepted, now);
    job.submitted_lane = submitted_lane;  // the id still matches a submit to that lane
    const std::size_t history = taken->history.bytes();
    if (history > 0) job.need_extra().history = std::move(taken->history);
    state_.bytes += history;
    lane.bytes += history;
    if (job.durable) journal_.write_renamed(job, stored_as);
    ++state_.stats.jobs_redriven;
  }
  state_.clients.drop_reference(client);
  return why;
}

void OperatorDesk::redrive_dead(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  std::int64_t taken = 0, refused = 0;
  std::optional<Refusal> first_refusal;
  std::vector<std::string> ids;
  const auto next = for_each_dead(state_, results_.kept(), fields, [&](KeptResult& result) {
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
    return answers_.refuse(event.from, fields.ref, fields.id, not_dead(fields.id));
  DocumentMap document;
  document.integer("redriven", taken).integer("refused", refused).texts("ids", ids, kIdsShown);
  if (first_refusal)
    document.text("code", name_of(first_refusal->code)).text("message", first_refusal->message);
  if (next) document.integer("next", static_cast<std::int64_t>(*next));
  if (fields.dry_run) document.flag("dry_run", true);
  reply(state_, event, document);
  if (!fields.dry_run && taken > 0) note_dead_change(event, "redriven", taken);
}

void OperatorDesk::purge_dead(const AdminAsked& event) {
  const wire::AdminQuery& fields = *event.fields;
  std::int64_t taken = 0;
  std::vector<std::string> ids;
  const auto next = for_each_dead(state_, results_.kept(), fields, [&](KeptResult& result) {
    if (taken == fields.limit.value_or(kTakenUsual)) return false;
    if (ids.size() < kIdsShown) ids.emplace_back(result.id());
    if (!fields.dry_run) results_.forget(result);
    ++taken;
    return true;
  });
  if (!fields.id.empty() && taken == 0)
    return answers_.refuse(event.from, fields.ref, fields.id, not_dead(fields.id));
  DocumentMap document;
  document.integer("purged", taken).texts("ids", ids, kIdsShown);
  if (next) document.integer("next", static_cast<std::int64_t>(*next));
  if (fields.dry_run) document.flag("dry_run", true);
  reply(state_, event, document);
  if (!fields.dry_run && taken > 0) note_dead_change(event, "purged", taken);
}

// ---- settings -----------------------------------------------------------------------------------------

namespace {

/// The answer to a changed setting; `until` says how long the change holds.
DocumentMap setting(const wire::AdminQuery& fields, std::string_view what, bool changed) {
  DocumentMap document;
  document.text("what", what).text("name", fields.name).text_if_any("key", fields.key);
  document.text("setting", fields.setting).text("value", fields.value).flag("changed", changed);
  if (fields.dry_run) document.flag("dry_run", true);
  document.text("until", "the configuration is read again, or the broker ends");
  return document;
}

/// The options with the query's setting changed.
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

void OperatorDesk::change_limit(const AdminAsked& event, TimePoint now) {
  const wire::AdminQuery& fields = *event.fields;
  const auto refused = [&](const Refusal& why) { answers_.refuse(event.from, fields.ref, {}, why); };
  if (const auto why = not_there(PauseKind::budget, fields.name)) return refused(*why);
  if (state_.budget_named(fields.name)->learnt != nullptr)
    return refused(
        bad_request("budget \"" + std::string(fields.name) +
                    "\" is learnt: its limits are what its upstream says and shows; do \"resume\" forgets "
                    "them, and a budget in the configuration takes its place"));
  const Result<Options> options = edited(event, state_.options, OptionEdit::Of::budget);
  if (!options) return refused({options.error().code, options.error().message, {}});
  const auto wanted = std::find_if(options->budgets.begin(), options->budgets.end(),
                                   [&](const BudgetOptions& budget) { return budget.name == fields.name; });
  LANEMQ_CHECK(wanted != options->budgets.end());
  const bool changed = state_.options.budgets != options->budgets;
  if (changed && !fields.dry_run) {
    state_.options.budgets = options->budgets;
    dispatcher_.limits_changed();
    state_.budgets.change_limits(*wanted, now);
    state_.update_flows();
    terms_.reappraise();
    note_change(event, "budget", fields.name, assignment(fields));
  }
  reply(state_, event, setting(fields, "budget", changed));
}

void OperatorDesk::change_lane(const AdminAsked& event) {
  const wire::AdminQuery& fields = *event.fields;
  const auto refused = [&](const Refusal& why) { answers_.refuse(event.from, fields.ref, {}, why); };
  if (const auto why = not_there(PauseKind::lane, fields.name)) return refused(*why);
  const Result<Options> options = edited(event, state_.options, OptionEdit::Of::lane);
  if (!options) return refused({options.error().code, options.error().message, {}});
  const bool changed = state_.options.lanes != options->lanes;
  if (changed && !fields.dry_run) {
    state_.options.lanes = options->lanes;
    Lane& lane = *state_.lane_named(fields.name);
    lane.configure(state_.options.lanes[lane.index()]);
    dispatcher_.limits_changed();
    dispatcher_.options_changed();
    note_change(event, "lane", fields.name, assignment(fields));
  }
  reply(state_, event, setting(fields, "lane", changed));
}

}  // namespace lanemq::core
