// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <lanemq/codec.hpp>

#include "tests/sim/auditor.hpp"

// What operators ask, and what follows from it.

namespace lanemq::sim {

/// An answer to an operator, as far as it is looked at.
struct Auditor::Answer {
  std::string refused;  ///< with that code; empty: it was not
  std::string json;
  std::vector<std::string> ids;

  std::int64_t number(std::string_view field) const {
    const std::string name = '"' + std::string(field) + "\":";
    const std::size_t place = json.find(name);
    std::int64_t value = -1;
    if (place != std::string::npos)
      std::from_chars(json.data() + place + name.size(), json.data() + json.size(), value);
    return value;
  }
  bool has(std::string_view text) const { return json.find(text) != std::string::npos; }
};

Auditor::Answer Auditor::read(const wire::ClientReply& reply) {
  Answer answer;
  if (const auto* error = std::get_if<wire::ErrorReply>(&reply)) {
    answer.refused = error->code;
    return answer;
  }
  const auto* document = std::get_if<wire::AdminReply>(&reply);
  if (document == nullptr) violated("an operator heard what the auditor does not know");
  answer.json = to_json(document->document.bytes);
  std::size_t at = answer.json.find("\"ids\":[");
  if (at == std::string::npos) return answer;
  at = answer.json.find('[', at) + 1;
  while (answer.json[at] == '"') {
    const std::size_t end = answer.json.find('"', at + 1);
    answer.ids.push_back(answer.json.substr(at + 1, end - at - 1));
    at = end + 1 + (answer.json[end + 1] == ',' ? 1 : 0);
  }
  return answer;
}

void Auditor::operator_asks(const wire::AdminQuery& query, TimePoint now) {
  now_ = now;
  order_ = {.verb = std::string(query.verb),
            .what = std::string(query.what),
            .name = std::string(query.name),
            .id = std::string(query.id),
            .lane = std::string(query.lane),
            .service = std::string(query.service),
            .client = std::string(query.client),
            .code = std::string(query.code),
            .refusals = {},
            .limit = static_cast<std::size_t>(query.limit.value_or(0)),
            .dry_run = query.dry_run,
            .due = true};
  if (order_.verb == "move") asked_to_move();
  if (order_.what == "service") asked_to_pause();
  if (drains()) asked_to_drain();
  if (sets()) asked_to_set(query);
}

void Auditor::sent_to_operator(const wire::ClientReply& reply) {
  if (!order_.due) violated("an operator was answered who asked nothing");
  order_.due = false;
  const Answer answer = read(reply);
  if (!answer.refused.empty() && order_.id.empty() &&
      std::find(order_.refusals.begin(), order_.refusals.end(), answer.refused) == order_.refusals.end())
    violated(order_.verb + " was refused with " + answer.refused);
  if (drains()) return heard_drained(answer);
  if (sets()) return heard_set(answer);
  if (order_.verb == "pause" || order_.verb == "resume") return heard_paused(answer, order_.verb == "pause");
  if (order_.verb == "move") return heard_moved(answer);
  if (order_.verb == "redrive") return heard_redriven(answer);
  if (order_.verb == "purge") return heard_purged(answer);
  violated("the run asked as an operator what the auditor does not know");
}

// ---- pauses and moves ---------------------------------------------------------------------------------

bool Auditor::is_paused(const std::string& what, const std::string& name) const {
  return !paused_.empty() && paused_.count({what, name}) != 0;
}

/// But for its client.
bool Auditor::is_paused(const ModelStream& stream) const {
  if (paused_.empty()) return false;
  if (is_paused("lane", options_.lanes[stream.lane].name) || is_paused("service", stream.service))
    return true;
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if ((stream.budgets >> i & 1) != 0 && is_paused("budget", budgets_[i].options.name)) return true;
  return false;
}

/// A service has to be known; anything else of a run is. It is while it has jobs or workers, and may be
/// later.
void Auditor::asked_to_pause() {
  const auto serves = [&](const auto& worker) { return worker.second.services.contains(order_.name); };
  const auto has = [&](const ModelJob& job) { return job.service == order_.name && !job.ended(); };
  if (std::any_of(workers_.begin(), workers_.end(), serves)) return;
  if (std::any_of(jobs_.begin(), jobs_.end(), has)) return;
  order_.refusals = {"not_found"};
}

void Auditor::heard_paused(const Answer& answer, bool pause) {
  if (!answer.refused.empty()) return;  // with a code that is among those it may be refused with
  const auto budget = std::find_if(budgets_.begin(), budgets_.end(), [&](const ModelBudget& one) {
    return !pause && order_.what == "budget" && one.options.name == order_.name;
  });
  const auto any = [&](const auto& is) {
    return budget != budgets_.end() &&
           (is(*budget) || std::any_of(budget->accounts.begin(), budget->accounts.end(), is));
  };
  // Of what an operator paused that pause alone ends.
  const bool differs = is_paused(order_.what, order_.name) != pause;
  bool lifts = !differs && any([&](ModelBudget& one) { return one.is_lowered(now_); });
  if (!lifts && !differs && any([&](const ModelBudget& one) { return one.may_be_lowered(now_); }))
    lifts = answer.has("\"changed\":true");
  const bool changes = lifts || differs;
  if (answer.has("\"changed\":true") != changes)
    violated("a " + order_.verb + " of " + order_.name + " is wrong about what it changes");
  if (!changes || order_.dry_run) return;
  if (lifts) {
    budget->lift(now_);
    budget->lift_models(now_);
    for (ModelBudget& account : budget->accounts) {
      account.lift(now_);
      account.lift_models(now_);
    }
  }
  if (order_.what == "client") ++clients_[order_.name].times_at_limit;
  if (pause)
    paused_.emplace(order_.what, order_.name);
  else
    paused_.erase({order_.what, order_.name});
}

void Auditor::asked_to_move() {
  const ModelJob* const job = known(order_.id);
  const std::size_t lane = lane_index(order_.lane);
  order_.must_refuse = true;
  if (job == nullptr) {
    order_.refusals = {"not_found"};
  } else if (!job->waits()) {
    order_.refusals = {"conflict"};
  } else if (job->lane == lane) {
    order_.must_refuse = false;
  } else if (waiting_[lane] >= options_.lanes[lane].depth_max) {
    order_.refusals = {"lane_full"};
  } else {
    order_.must_refuse = false;
    // How many bytes it has, with its history, the broker knows.
    if (options_.lanes[lane].bytes_max > 0) order_.refusals = {"lane_full"};
    ModelJob there;
    there.service = job->service;
    there.model = job->model;
    there.body = job->body;
    there.client = job->client;
    there.lane = lane;
    expect(there, job->stated_cost);
    if (!unsatisfiable(there)) return;
    order_.refusals.emplace_back("unsatisfiable");
    order_.must_refuse = true;
  }
}

void Auditor::heard_moved(const Answer& answer) {
  if (answer.refused.empty()) {
    if (order_.must_refuse)
      violated("a move of " + order_.id + " was not refused with " + order_.refusals[0]);
  } else {
    if (std::find(order_.refusals.begin(), order_.refusals.end(), answer.refused) == order_.refusals.end())
      violated("a move of " + order_.id + " was refused with " + answer.refused);
    return;
  }
  ModelJob& job = *by_id_.at(order_.id);
  const std::size_t lane = lane_index(order_.lane);
  if (answer.has("\"changed\":true") != (job.lane != lane)) violated("a move is wrong about what it changes");
  if (job.lane == lane || order_.dry_run) return;
  ModelStream& left = stream_of(job);
  left.waiting.erase(&job);
  if (left.turns.witness == &job) left.turns.witness = nullptr;
  for (ModelStream& tenant : tenants_)
    if (tenant.turns.witness == &job) tenant.turns.witness = nullptr;
  --waiting_[job.lane];
  --moved_in_[job.lane];
  job.lane = lane;
  job.budgets = 0;
  job.expected = {};
  job.cost = 1;
  job.counts_tokens = false;
  expect(job, job.stated_cost);
  ++waiting_[job.lane];
  ++moved_in_[job.lane];
  stream_of(job).waiting.insert(&job);
  upstreams_[job.service].waits(job.client);
}

// ---- workers and settings -----------------------------------------------------------------------------

bool Auditor::is_meant(const ModelWorker& worker) const {
  return worker.session == order_.name || worker.name == order_.name;
}

/// Workers that are to drain, or to take jobs again, hear so at once.
void Auditor::asked_to_drain() {
  const bool drain = order_.verb == "drain";
  order_.must_refuse = true;
  order_.refusals = {"not_found"};
  for (auto& [address, worker] : workers_) {
    if (!is_meant(worker)) continue;
    order_.must_refuse = false;
    if (worker.draining == drain) continue;
    order_.changes = true;
    if (order_.dry_run) continue;
    worker.draining = drain;
    words_due_.emplace_back(address, drain ? "drain" : "welcome");
  }
}

void Auditor::heard_drained(const Answer& answer) {
  if (answer.refused.empty() == order_.must_refuse)
    violated("a " + order_.verb + " of worker " + order_.name + " was refused, or was not");
  if (order_.must_refuse) return;
  std::int64_t count = 0, running = 0;
  for (const auto& [address, worker] : workers_) {
    if (!is_meant(worker)) continue;
    ++count;
    running += static_cast<std::int64_t>(worker.held.size());
  }
  if (answer.number("workers") != count || answer.number("running") != running ||
      answer.has("\"changed\":true") != order_.changes)
    violated("a " + order_.verb + " of worker " + order_.name +
             " is wrong about what it is about: " + answer.json);
}

/// What is understood, and what may be changed, is the editor's to say; what follows from it, ours.
void Auditor::asked_to_set(const wire::AdminQuery& query) {
  const auto named = [&](const auto& things) {
    return std::any_of(things.begin(), things.end(), [&](const auto& of) { return of.name == query.name; });
  };
  const bool of_lane = order_.verb == "lane";
  order_.must_refuse = true;
  if (!(of_lane ? named(options_.lanes) : named(options_.budgets))) {
    order_.refusals = {"not_found"};
    return;
  }
  const Result<core::Options> wanted =
      edit_(options_, {.of = of_lane ? core::OptionEdit::Of::lane : core::OptionEdit::Of::budget,
                       .name = query.name,
                       .key = query.key,
                       .setting = query.setting,
                       .value = query.value});
  if (!wanted) {
    order_.refusals = {std::string(name_of(wanted.error().code))};
    return;
  }
  order_.must_refuse = false;
  order_.changes = wanted->lanes != options_.lanes || wanted->budgets != options_.budgets;
  order_.wanted = *wanted;
}

void Auditor::heard_set(const Answer& answer) {
  if (answer.refused.empty() == order_.must_refuse)
    violated("a setting of " + order_.verb + " " + order_.name + " was refused, or was not");
  if (order_.must_refuse) return;
  if (answer.has("\"changed\":true") != order_.changes)
    violated("a setting of " + order_.verb + " " + order_.name + " is wrong about what it changes");
  if (!order_.changes || order_.dry_run) return;
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    if (order_.verb == "limit" && budgets_[i].options.name == order_.name)
      configure(budgets_[i], order_.wanted.budgets[i]);
  adopt(order_.wanted);
}

void Auditor::reloaded(const core::Options& options, TimePoint now) {
  now_ = now;
  for (std::size_t i = 0; i < budgets_.size(); ++i)
    configure(budgets_[i], options.budgets[i]);
  adopt(options);
}

void Auditor::configure(ModelBudget& budget, const core::BudgetOptions& options) {
  const auto falls = [](const std::vector<core::RateOptions>& wanted, const std::vector<ModelRate>& rates) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const core::RateOptions& one) {
      return std::none_of(rates.begin(), rates.end(), [&](const ModelRate& rate) {
        return rate.name() == one.name && rate.limit() <= one.limit;
      });
    });
  };
  limits_fell_ = limits_fell_ || falls(options.rates, budget.rates) || !budget.keys.empty();
  std::set<const ModelStream*> counted;
  for (const auto* all : {&streams_, &tenants_})
    for (const ModelStream& stream : *all)
      if (counts_tokens(stream.budgets)) counted.insert(&stream);
  budget.configure(options, now_);
  budget.read_keys(options.keys, now_);
  for (auto* all : {&streams_, &tenants_})
    for (ModelStream& stream : *all)
      stream.mixed = stream.mixed || counts_tokens(stream.budgets) != counted.contains(&stream);
}

void Auditor::adopt(const core::Options& options) {
  options_ = options;
  // Where nothing is shared any more nothing is owed.
  for (auto& [of, owed] : owed_)
    if (options_.lanes[of.second].share_min == 0) owed = {};
  for (ModelStream& stream : streams_)
    for (ModelJob* job : stream.waiting)
      appraise(*job);
}

// ---- dead jobs ----------------------------------------------------------------------------------------

bool Auditor::means(const Order& order, const ModelJob& job) const {
  return job.dead && (order.id.empty() || order.id == job.id) &&
         (order.lane.empty() || order.lane == options_.lanes[job.lane].name) &&
         (order.service.empty() || order.service == job.service) &&
         (order.client.empty() || order.client == job.client) &&
         (order.code.empty() || order.code == job.code);
}

/// The dead jobs that an answer is about: of those that were meant the oldest, as many as there may be.
std::vector<ModelJob*> Auditor::dead_jobs(const Order& order, const std::vector<std::string>& ids) {
  std::vector<ModelJob*> meant, found;
  bool unknown = false;
  for (ModelJob* job : kept_) {
    if (!means(order, *job)) continue;
    meant.push_back(job);
    unknown = unknown || job->id.empty();
  }
  TimePoint latest{};
  for (const std::string& id : ids) {
    auto place = std::find_if(meant.begin(), meant.end(), [&](const ModelJob* job) { return job->id == id; });
    // An id that nobody was told is learned from the answer, but not of which job it is.
    if (place == meant.end() && unknown) continue;
    if (place == meant.end()) violated(order.verb + " of " + id + ", which is not dead or was not meant");
    if ((*place)->ended_at < latest) violated(order.verb + " of " + id + " after a job that died later");
    latest = (*place)->ended_at;
    found.push_back(*place);
  }
  if (ids.size() > order.limit) violated(order.verb + " of more jobs than its limit");
  const bool all = ids.size() < order.limit;
  for (ModelJob* job : meant) {
    if (job->id.empty() || std::find(found.begin(), found.end(), job) != found.end()) continue;
    if (all || job->ended_at < latest) violated(order.verb + " leaves out " + job->name());
  }
  return found;
}

void Auditor::heard_redriven(const Answer& answer) {
  const std::vector<ModelJob*> dead = dead_jobs(order_, answer.ids);
  if (!answer.refused.empty()) {
    if (order_.id.empty() || answer.refused != "not_found")
      violated("a redrive was refused with " + answer.refused);
    return;
  }
  const std::int64_t count = answer.number("redriven"), refused = answer.number("refused");
  if (count + refused != static_cast<std::int64_t>(answer.ids.size()))
    violated("a redrive counts " + std::to_string(count + refused) + " jobs, and names others");
  if (order_.dry_run) {
    if (refused != 0) violated("a dry run refuses a job");
    return;
  }
  std::optional<std::string> first_code;
  std::int64_t runs = 0;
  for (const std::string& id : answer.ids) {
    const auto place = std::find_if(dead.begin(), dead.end(), [&](ModelJob* job) { return job->id == id; });
    ModelJob* job = place == dead.end() ? nullptr : *place;
    if (job == nullptr) {
      // Nobody was told the id: which job it is shows where it runs again. The name is learned here and no
      // more: when it is handed over it must be that job's.
      const core::Record* const record = broker_.jobs().find(id);
      if (record == nullptr || record->result() != nullptr) continue;
      job = by_body_.at(std::string(record->job()->body().bytes()));
      job->id = id;
    }
    runs += redrive(*job, first_code) ? 1 : 0;
  }
  if (runs != count)
    violated("a redrive says that it runs " + std::to_string(count) + " jobs again, and runs " +
             std::to_string(runs));
  if (dead.size() == answer.ids.size() && !first_code.value_or("").empty() &&
      !answer.has("\"code\":\"" + *first_code + '"'))
    violated("a redrive does not say " + *first_code);
}

/// The broker has tried to run it again; returns whether it does. `first_code`: why the first that does not
/// is refused, empty where that is not known.
bool Auditor::redrive(ModelJob& dead, std::optional<std::string>& first_code) {
  ModelRequest asked;
  appraise(dead);  // it is as if it came now
  may_be_refused(asked, dead);
  if (!asked.must_refuse && unsatisfiable(dead)) {
    asked.refusals.emplace_back("unsatisfiable");
    asked.must_refuse = true;
  }
  const Duration timeout = dead.timeout_stated ? dead.timeout : options_.lanes[dead.lane].timeout;
  if (const TimePoint until = shut_until(dead);
      !asked.must_refuse && until > now_ && until >= now_ + timeout) {
    asked.refusals.emplace_back("limited");
    asked.must_refuse = true;
  }
  may_find_no_room(asked, dead);
  if (dead.place != nullptr) {
    asked.refusals = {"conflict"};
    asked.must_refuse = true;
  }
  // What was run again before it in this step may have made, or taken, the room.
  const bool room_changed =
      order_.limit > 1 && (options_.jobs_max < 1000 || options_.memory_max < kBytesNeverReached);
  const bool may_choose = !asked.must_refuse && (!asked.refusals.empty() || room_changed);
  const core::Record* const choice = may_choose ? choice_about(dead) : nullptr;
  if (asked.must_refuse || (choice != nullptr && choice->result() != nullptr)) {
    const bool known = asked.must_refuse && asked.refusals.size() == 1;
    if (!first_code) first_code = known ? asked.refusals[0] : "";
    return false;
  }

  std::erase(kept_, &dead);
  dead.kept = false;
  ModelJob& job = jobs_.emplace_back();
  job.id = dead.id;
  job.named = job.id_told = true;
  job.service = dead.service;
  job.model = dead.model;
  job.client = dead.client;
  job.group = dead.group;
  job.body = dead.body;
  job.lane = dead.lane;
  job.submitted_lane = dead.submitted_lane;
  job.texts = dead.texts - dead.envelope;  // nobody is owed its answer
  job.stated_cost = dead.stated_cost;
  job.streams = dead.streams;
  job.accepted_at = now_;
  job.timeout_stated = dead.timeout_stated;
  job.timeout = job.timeout_stated ? dead.timeout : options_.lanes[job.lane].timeout;
  job.deadline = now_ + job.timeout;
  job.retain = job.retain_asked = dead.retain_asked;
  job.attempts_max = dead.attempts_max;
  job.attempts_before = dead.attempts_before + dead.attempt;
  // Nothing keeps its connection: if that is forgotten, the next jobs from there are of another client.
  if (forgets_clients() && job.client.starts_with(kConnection)) job.client += " again";
  expect(job, job.stated_cost);
  join_group(job, true);
  take(job);
  return true;
}

void Auditor::heard_purged(const Answer& answer) {
  const std::vector<ModelJob*> dead = dead_jobs(order_, answer.ids);
  if (!answer.refused.empty()) {
    if (order_.id.empty() || answer.refused != "not_found")
      violated("a purge was refused with " + answer.refused);
    return;
  }
  if (answer.number("purged") != static_cast<std::int64_t>(answer.ids.size()))
    violated("a purge counts " + std::to_string(answer.number("purged")) + " jobs, and names others");
  if (order_.dry_run) return;
  for (ModelJob* job : dead)
    job->purged = true;
  // Names that nobody was told are those of jobs without one, the oldest first.
  std::size_t unknown = answer.ids.size() - dead.size();
  for (ModelJob* job : kept_) {
    if (unknown == 0 || job->purged || !job->id.empty() || !means(order_, *job)) continue;
    job->purged = true;
    --unknown;
  }
}

}  // namespace lanemq::sim
