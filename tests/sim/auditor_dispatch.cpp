// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/sim/auditor.hpp"

// Who is handed what: places, lanes, order, budgets; all by brute force.

namespace lanemq::sim {

void Auditor::heard_offer(const std::string& address, const wire::JobOffer& offer, std::string_view body) {
  if (advancing_) {
    queue_delayed();
    end_silently();
    end_shut_out_silently();
  }
  const auto found = by_body_.find(std::string(body));
  if (found == by_body_.end()) violated("a job was handed over that nobody submitted");
  ModelJob& job = *found->second;
  ModelWorker* const worker = worker_at(address);
  if (worker == nullptr) violated(job.name() + " was handed to a worker that is not there");
  if (!advancing_) violated(job.name() + " was handed over outside of advance()");
  if (job.named ? offer.id != job.id : offer.id.size() != 26)
    violated(job.name() + " was handed over as " + std::string(offer.id));
  if (job.id.empty()) job.id = offer.id;
  by_id_[job.id] = &job;

  if (!job.waits()) violated(job.name() + " was handed over although it does not wait");
  if (job.parts.next() > 0)
    violated(job.name() + " was handed over although its client has a part of its answer");
  if (offer.stream != job.streams) violated(job.name() + ": its worker was told wrongly whether to stream");
  if (!job.may_be_queued(now_)) violated(job.name() + " was handed over before it was due");
  if (offer.attempt != job.attempt + 1)
    violated(job.name() + " was handed over as attempt " + std::to_string(offer.attempt));
  if (job.number == 0) {
    if (!by_number_.emplace(offer.job, &job).second)
      violated(job.name() + " was given a number that was used before");
    job.number = offer.job;
  } else if (job.number != offer.job) {
    violated(job.name() + " changed its number");
  }
  if (worker->services.size() > 1 ? offer.service != job.service : !offer.service.empty())
    violated(job.name() + ": its worker was told service \"" + std::string(offer.service) + "\"");
  if (offer.timeout_ms.has_value() != job.timeout_stated ||
      (offer.timeout_ms && *offer.timeout_ms > std::max<std::int64_t>(core::to_ms(job.deadline - now_), 1)))
    violated(job.name() + ": its worker was told a wrong timeout_ms");

  if (is_paused(stream_of(job)) || is_paused("client", job.client))
    violated(job.name() + " was handed over although an operator has paused it");
  check_place(job, *worker);
  if (!job.alone) check_order(job, *worker);
  const core::Record* const record = broker_.jobs().find(core::JobNumber{job.number});
  const bool there = record != nullptr && record->job() != nullptr;
  job.caller = there ? record->job()->queue->client().name : job.client;
  check_trial(job);
  if (!job.alone) {
    check_shares(job);
    check_turn(job);
  }
  const int hold = may_be_owed(job) ? owed_claim_of(job).hold : claim_of(job).hold;
  job.account = account_for(job, offer.key);
  for_limits_of(job, [&](ModelBudget& budget) { budget.take(job, hold, now_); });

  share_out(job);
  stream_of(job).waiting.erase(&job);
  --waiting_[job.lane];
  --clients_[job.client].waiting;
  ++clients_[job.client].running;
  for (const std::string& whose : {job.client, party_of(job.client)}) {
    const std::size_t most = options_of(whose).in_flight_max, running = counts_of(whose).running;
    if (most == 0) continue;
    if (running > most) violated(job.name() + " is one more than the in_flight_max of client " + whose);
    if (running == most) ++clients_[whose].times_at_limit;
  }
  ++running_[job.lane];
  job.ran_apart = apart_.contains(job.model);
  job.state = ModelJob::State::running;
  ++job.attempt;
  ++job.attempts;
  if (job.attempts > job.attempts_max + job.shared_deaths)
    violated(job.name() + " was handed over more than attempts_max times");
  job.missing = 0;
  job.parts = {};
  job.refused = -1;
  job.dispatched_at = now_;
  job.place = worker;
  job.at_reserved = worker->reserved();
  worker->held.insert(&job);
  charge(job);
  ++dispatches_;
}

/// Whether a job of the same service waits in a lower lane, perhaps for a retry.
bool Auditor::lower_waits(const ModelStream& stream) const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const ModelStream& other) {
    return other.lane > stream.lane && other.service == stream.service && !other.waiting.empty() &&
           !is_paused(other);
  });
}

/// An upstream that failed is called when it is time, by few, and by the lowest lane that can.
void Auditor::check_trial(const ModelJob& handed_over) {
  ModelUpstream& upstream = upstreams_[handed_over.service];
  ModelJob& job = *by_number_.at(handed_over.number);
  job.trial = job.model_trial = 0;
  if (const auto failing = failing_.find({job.service, job.model});
      failing != failing_.end() && !failing->second.upstream.closed) {
    ModelUpstream& model = failing->second.upstream;
    if (!model.may_call(is_top(job.lane), now_))
      violated(job.name() + " was handed over although its model " + job.model + " failed and is left alone");
    job.model_trial = model.opening;
    ++model.trials_out;
    // Where nobody tried it for so long it is forgotten.
    model.vague = model.vague || now_ >= model.top_lane_from;
    model.trial_at = now_;
  }
  if (upstream.closed) return;
  if (!upstream.may_call(is_top(job.lane), now_))
    violated(job.name() + " was handed over although its upstream failed and is left alone");
  const std::vector<Waiting> next = whoever_is_next();
  for (const ModelStream& stream : streams_) {
    if (stream.lane <= job.lane || stream.service != job.service || stream.head(now_) == nullptr) continue;
    if (upstream.models.size() > 1) continue;  // what fails may be one of them
    if (at_limit(stream.client) || is_paused(stream) || !has_place(stream.service, stream.lane)) continue;
    // Nobody saves what the lower lane needs, at whichever level.
    if (surely_runs_at(stream.budgets, options_.lanes.size(), next) == now_)
      violated(job.name() + " was handed over to try its upstream although a lower lane has a job for that");
  }
  job.trial = upstream.opening;
  ++upstream.trials_out;
  upstream.trial_at = now_;
}

/// Whether a job that goes out alone may go to the worker beside what that has: one more of those that were
/// lost together for each that has ended, after a while.
bool Auditor::may_go_beside(const ModelJob& job, const ModelWorker& worker) const {
  constexpr Duration kOneByOne = std::chrono::seconds(20);
  if (worker.held.empty()) return true;
  const auto lost = lost_together_.find(job.company);
  return lost != lost_together_.end() && now_ - lost->second.since >= kOneByOne &&
         worker.held.size() <= lost->second.ended &&
         std::all_of(worker.held.begin(), worker.held.end(),
                     [&](const ModelJob* other) { return other->company == job.company; });
}

/// The worker may take the job, and no better place was free.
void Auditor::check_place(const ModelJob& job, const ModelWorker& worker) const {
  if (worker.free() == 0)
    violated(job.name() + " was handed to worker " + worker.address + ", which rests, or holds " +
             std::to_string(worker.held.size()) + " of " + std::to_string(worker.capacity));
  if (!worker.serves(job.service, job.lane))
    violated(job.name() + " was handed to a worker that does not serve it");
  if (now_ - worker.heard_at > 3 * options_.heartbeat)
    violated(job.name() + " was handed to a worker that has missed its heartbeat");
  const auto goes_alone = [](const ModelJob* other) { return other->alone; };
  if (job.alone ? !may_go_beside(job, worker)
                : std::any_of(worker.held.begin(), worker.held.end(), goes_alone))
    violated(job.name() + " was handed over beside one that may kill its worker, or it may itself");
  if (worker.reserved() || job.alone) return;
  for (const auto& [address, other] : workers_)
    if (other.reserved() && other.free() > 0 && other.serves(job.service, job.lane) &&
        surely_takes_jobs(other))
      violated(job.name() + " was handed to a general worker although a reserved one is free");
  if (free_general(job.service, false) <= held_for_higher(job.service, job.lane))
    violated(job.name() + " took a place that is held for a higher lane");
}

std::size_t Auditor::free_general(const std::string& service, bool surely) const {
  std::size_t free = 0;
  for (const auto& [address, worker] : workers_)
    if (!worker.reserved() && worker.services.count(service) != 0 && (!surely || surely_takes_jobs(worker)))
      free += worker.free();
  return free;
}

/// The slots of each lane above are for it and the lanes above it: what those do not use stays held.
std::size_t Auditor::held_for_higher(const std::string& service, std::size_t lane) const {
  std::vector<std::size_t> running(lane);
  bool any = false;
  for (std::size_t i = 0; i < lane; ++i)
    any |= options_.lanes[i].reserved_slots > 0;
  if (!any) return 0;
  for (const auto& [address, worker] : workers_)
    for (const ModelJob* job : worker.held)
      if (job->service == service && job->lane < lane && !job->at_reserved) ++running[job->lane];
  std::size_t held = 0, slots = 0, used = 0;
  for (std::size_t i = 0; i < lane; ++i) {
    slots += options_.lanes[i].reserved_slots;
    used += running[i];
    if (slots > used) held = std::max(held, slots - used);
  }
  return held;
}

/// Whether it is given jobs as any: it has not missed a heartbeat, and no job is there which goes out alone,
/// so that the broker may keep it empty for that.
bool Auditor::surely_takes_jobs(const ModelWorker& worker) const {
  if (now_ - worker.heard_at >= 3 * options_.heartbeat / 2) return false;
  return std::none_of(by_number_.begin(), by_number_.end(), [&](const auto& one) {
    const ModelJob& job = *one.second;
    return job.alone && (job.waits() || job.place != nullptr) && worker.services.contains(job.service);
  });
}

/// Whether a job of that service and lane could take a place of this worker now.
bool Auditor::has_place(const ModelWorker& worker, const std::string& service, std::size_t lane) const {
  if (worker.free() == 0 || !worker.serves(service, lane) || !surely_takes_jobs(worker)) return false;
  return worker.reserved() || free_general(service, true) > held_for_higher(service, lane);
}

/// Whether a worker that does not drain may be given such jobs once it has a place.
bool Auditor::is_served(const std::string& service, std::size_t lane) const {
  std::size_t places = 0, slots = 0;
  for (const auto& [address, worker] : workers_) {
    if (worker.draining || !worker.serves(service, lane)) continue;
    if (worker.reserved()) return true;
    places += worker.capacity;
  }
  for (std::size_t above = 0; above < lane; ++above)
    slots += options_.lanes[above].reserved_slots;
  return places > slots;
}

/// It may have no more jobs at workers, or an operator has paused it; or it may have to leave it to others to
/// try an upstream.
bool Auditor::at_limit(const std::string& client) const {
  return surely_at_limit(client) ||
         std::any_of(upstreams_.begin(), upstreams_.end(), [&](const auto& upstream) {
           return std::any_of(upstream.second.bars.begin(), upstream.second.bars.end(), [&](const auto& bar) {
             return told_apart(bar.first) == told_apart(client) && now_ <= bar.second + kTick;
           });
         });
}

/// A connection that the broker may have forgotten could be any of them.
std::string Auditor::told_apart(const std::string& client) const {
  return names_nobody(client) ? std::string(kConnection) : client;
}

/// It is a connection that the broker may have forgotten, and known again as another one.
bool Auditor::names_nobody(const std::string& client) const {
  return forgets_clients() && client.starts_with(kConnection);
}

bool Auditor::surely_at_limit(const std::string& client) const {
  if (is_paused("client", client)) return true;
  for (const std::string& whose : {client, party_of(client)})
    if (const std::size_t most = options_of(whose).in_flight_max;
        most > 0 && counts_of(whose).running >= most)
      return true;
  return false;
}

std::uint64_t Auditor::times_at_limit(const std::string& client) const {
  std::uint64_t times = counts_of(client).times_at_limit;
  if (const std::string party = party_of(client); party != client) {
    const auto place = clients_.find(party);
    times += place == clients_.end() ? 0 : place->second.times_at_limit;
  }
  for (const auto& [service, upstream] : upstreams_)
    times += upstream.times_barred;
  return times;
}

/// Nobody with a better claim could have used the same place and the same budgets. What stands in the way of
/// both keeps both: who is short of a budget saves it for itself.
void Auditor::check_order(const ModelJob& job, const ModelWorker& worker) {
  // What is owed may go before all lanes but the top one.
  const std::size_t level = may_be_owed(job) ? 1 : level_of(job);
  const ModelStream& own = stream_of(job);
  for (const ModelStream& stream : streams_) {
    const ModelJob* const other = stream.head(now_);
    if (other == nullptr || other == &job || is_paused(stream) || !stream.model.empty()) continue;
    // What both want is saved by who goes first; of keys it may be another one.
    const BudgetMask asked_for =
        pool_of(stream.budgets) == nullptr ? stream.budgets & ~job.budgets : stream.budgets;
    if (stream.shares_with(own)) {
      // Between clients it is a matter of what each was served.
      if (stream.client != job.client || other->serial > job.serial || other->came_with(job)) continue;
    } else if (!(level_of(*other) < level || boosted_before(stream, job, level)) || at_limit(stream.client) ||
               !upstreams_[stream.service].closed || !has_place(worker, stream.service, stream.lane) ||
               lowest_level(stream) > level ||
               (lowest_level(stream) == level && !boosted_before(stream, job, level)) ||
               surely_runs_at(asked_for, level_of(*other) < level ? level - 1 : level, whoever_is_next()) >
                   now_) {
      continue;
    }
    violated(job.name() + " of lane " + options_.lanes[job.lane].name + " was handed over before " +
             other->name() + " of lane " + options_.lanes[stream.lane].name +
             ", which is older or higher and could have run");
  }
}

/// Whether whoever is next in the stream was boosted from below to the same level as the job, and came before
/// it: of those the oldest goes first, behind what is owed. Not judged of those that have budgets: in line
/// for one they stand by when they came to ask.
bool Auditor::boosted_before(const ModelStream& stream, const ModelJob& job, std::size_t level) const {
  // What moves to a stream of its own does so when it is asked, and stands by when that was.
  if (stream.budgets != 0 || apart_.contains(job.model)) return false;
  if (level >= job.lane || level >= stream.lane || level_of(job) != level || may_be_owed(job)) return false;
  bool before = true;
  for_next_of(stream, [&](const ModelJob& next) {
    before = before && level_of(next) == level && next.serial < job.serial && !next.came_with(job);
  });
  return before;
}

bool Auditor::has_place(const std::string& service, std::size_t lane) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const auto& worker) { return has_place(worker.second, service, lane); });
}

std::vector<Auditor::Waiting> Auditor::whoever_is_next() const {
  std::vector<Waiting> next;
  for (const ModelStream& stream : streams_) {
    if (stream.waiting.empty() || surely_at_limit(stream.client) || is_paused(stream)) continue;
    for (const ModelJob* job : stream.candidates(now_)) {
      // It ends as soon as it is asked, and keeps nobody waiting.
      if (limits_fell_ && unsatisfiable(*job)) continue;
      next.push_back({&stream, level_of(*job), claim_of(*job)});
      // What is owed to its lane may be saved before all others but the top lane, what is held for them
      // included.
      if (may_be_owed(*job)) next.push_back({&stream, 1, owed_claim_of(*job)});
    }
  }
  return next;
}

/// When there is room in the budgets for whoever is next and competes at the level or above: none of them
/// then saves there for itself what another could use. kNever: not known.
TimePoint Auditor::surely_runs_at(BudgetMask budgets, std::size_t level, const std::vector<Waiting>& next) {
  TimePoint latest = now_;
  for (std::size_t i = 0; i < budgets_.size() && latest < core::kNever; ++i) {
    if ((budgets >> i & 1) == 0) continue;
    const auto wants = [&](const Waiting& other) {
      return (other.stream->budgets >> i & 1) != 0 && other.level <= level;
    };
    const bool alone = std::count_if(next.begin(), next.end(), wants) == 1;
    for (const Waiting& other : next) {
      if (!wants(other)) continue;
      latest = std::max(latest, budgets_[i].affordable_at(other.claim, now_));
      if (pool_of(other.stream->budgets) == &budgets_[i])
        latest = std::max(latest, key_free_at(budgets_[i], other.claim, alone));
    }
  }
  return latest;
}

/// When there is room in the account of a key; of each that could be had ever, unless nobody else wants one:
/// which of them others save is the broker's choice.
TimePoint Auditor::key_free_at(const ModelBudget& pool, const ModelClaim& claim, bool alone) const {
  TimePoint soonest = core::kNever, latest = now_;
  for (const ModelBudget::Key& key : pool.keys) {
    if (key.draining || key.account->never_has(claim.amounts)) continue;
    const TimePoint when = key.account->affordable_at(claim, now_);
    soonest = std::min(soonest, when);
    latest = std::max(latest, when);
  }
  return soonest == core::kNever || alone ? soonest : latest;
}

/// After a turn nothing waits that could run.
void Auditor::check_nothing_idles() {
  const std::vector<Waiting> next = whoever_is_next();
  for (const ModelStream& stream : streams_) {
    const ModelJob* const job = stream.head(now_);
    if (job == nullptr || at_limit(stream.client) || is_paused(stream) || !stream.model.empty() ||
        !has_place(stream.service, stream.lane))
      continue;
    const ModelUpstream& upstream = upstreams_[stream.service];
    if (!upstream.surely_calls(is_top(stream.lane), now_) || (!upstream.closed && lower_waits(stream)))
      continue;
    if (surely_runs_at(stream.budgets, stream.lane, next) == now_)
      violated(job->name() + " waits although a worker and its budgets have room");
  }
}

/// The broker asks to be woken in time for whatever time alone will bring.
void Auditor::check_wakeup() {
  constexpr Duration kLate = std::chrono::milliseconds(2);
  const std::vector<Waiting> next = whoever_is_next();
  TimePoint wanted = core::kNever;
  std::string what = "the end of a fetch";
  if (!deadlines_.empty()) {
    wanted = deadlines_.begin()->first;
    what = "the deadline of " + deadlines_.begin()->second->name();
  }
  for (const auto& [address, worker] : workers_)
    for (const ModelJob* job : worker.held)
      if (const TimePoint due = stalls_at(*job); due < wanted) {
        wanted = due;
        what = "the end of the silent call of " + job->name();
      }
  if (!fetches_.empty() && requests_[fetches_.begin()->second].open())
    wanted = std::min(wanted, fetches_.begin()->first);
  for (const ModelStream& stream : streams_) {
    for (const ModelJob* job : stream.waiting) {
      if (job->state != ModelJob::State::delayed || job->due_max <= now_) continue;
      // How long a retry waits is the broker's draw: it may be over already.
      const core::Record* const record =
          job->number == 0 ? broker_.jobs().find(job->id) : broker_.jobs().find(core::JobNumber{job->number});
      if (record != nullptr && record->job() != nullptr && record->job()->state == core::JobState::delayed)
        if (job->due_max < wanted) {
          wanted = job->due_max;
          what = "the end of the delay of " + job->name();
        }
    }
    if (stream.head(now_) == nullptr || at_limit(stream.client) || is_paused(stream) || !stream.model.empty())
      continue;
    TimePoint runs = surely_runs_at(stream.budgets, stream.lane, next);
    if (const ModelUpstream& upstream = upstreams_[stream.service]; !upstream.closed) {
      // Whoever is under way decides, or a lower lane goes first.
      if (upstream.vague || upstream.trials_out > 0 || lower_waits(stream)) continue;
      const bool first = is_top(stream.lane) && upstream.trials_passed == 0;
      runs = std::max(runs, first ? upstream.top_lane_from : upstream.open_until);
    }
    if (runs <= now_ || runs >= wanted || !has_place(stream.service, stream.lane)) continue;
    wanted = runs;
    what = "room in the budgets of " + stream.head(now_)->name();
  }
  if (wanted == core::kNever) return;
  const auto wakeup = broker_.next_wakeup();
  if (!wakeup || *wakeup > std::max(wanted, now_) + kLate)
    violated("the broker would sleep until " +
             std::to_string(wakeup ? wakeup->time_since_epoch().count() : 0) + " us although at " +
             std::to_string(wanted.time_since_epoch().count()) + " us comes " + what);
}

}  // namespace lanemq::sim
