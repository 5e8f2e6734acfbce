// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "tests/sim/auditor.hpp"

// What workers report, and what they are told.

namespace lanemq::sim {
namespace {

using std::chrono::milliseconds;

constexpr int kSilentHeartbeatsMax = 3;
constexpr int kMissingMax = 2;
/// What a chunk counts for besides its bytes.
constexpr std::size_t kChunkBytes = 64;
/// Timers have a tick, and a turn may begin somewhat after its time.
constexpr Duration kLate = milliseconds(3);
/// The longest that a job handed back untouched may be kept away.
constexpr Duration kReleasedPauseMax = milliseconds(10);
constexpr Duration kLimitedPause = std::chrono::seconds(1);

/// Whether a job ends so by what its worker says of it.
bool ends_by_word(const std::string& code) {
  return code == "result" || code == "upstream_failed" || code == "upstream_rejected" ||
         code == "upstream_quota";
}

}  // namespace

ModelWorker* Auditor::worker_at(const std::string& address) {
  const auto place = workers_.find(address);
  return place == workers_.end() ? nullptr : &place->second;
}

void Auditor::worker_says(const std::string& address, const wire::WorkerReport& report, std::string_view body,
                          TimePoint now) {
  now_ = now;
  incoming_ = body.size() + kChunkBytes;
  if (const auto* ready = std::get_if<wire::Ready>(&report)) return on(address, *ready);
  ModelWorker* const worker = worker_at(address);
  if (std::holds_alternative<wire::Bye>(report)) {
    if (worker != nullptr) on_bye(*worker);
    return;
  }
  if (worker == nullptr) {
    told_unknown_.insert(address);
    refusal_due_ = "unknown_session";
    refusal_address_ = address;
    return;
  }
  worker->heard_at = now;
  mend(*worker);
  if (const auto* chunk = std::get_if<wire::Chunk>(&report)) return on(*worker, *chunk, body);
  if (const auto* progress = std::get_if<wire::Progress>(&report)) return on(*worker, *progress);
  if (const auto* outcome = std::get_if<wire::Outcome>(&report)) return on(*worker, *outcome, body);
  if (const auto* failure = std::get_if<wire::Failure>(&report)) return on(*worker, *failure, body);
  if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&report)) return on(*worker, *heartbeat);
  violated("a worker said what the auditor does not know");
}

void Auditor::on(const std::string& address, const wire::Ready& ready) {
  const bool fresh = workers_.count(address) == 0;
  const auto known = std::find_if(workers_.begin(), workers_.end(), [&](const auto& one) {
    return !ready.session.empty() && one.second.session == ready.session;
  });
  if (fresh && known != workers_.end()) {
    auto node = workers_.extract(known);
    node.key() = address;
    come_back(workers_.insert(std::move(node)).position->second, address);
  }
  ModelWorker& worker = workers_[address];
  if (fresh && known == workers_.end()) take_back_loss(worker, std::string(ready.session));
  mend(worker);
  worker.takes_jobs();
  worker.resumes = ready.resumes || !ready.session.empty();
  worker.address = address;
  worker.heard_at = now_;
  worker.name = ready.name;
  worker.capacity = static_cast<std::size_t>(std::min<std::int64_t>(ready.capacity, limits::capacity_max));
  worker.services = {ready.services.begin(), ready.services.end()};
  worker.lanes.clear();
  for (std::size_t i = 0; i < options_.lanes.size(); ++i)
    if (std::find(ready.lanes.begin(), ready.lanes.end(), options_.lanes[i].name) != ready.lanes.end())
      worker.lanes.insert(i);
  if (fresh) worker.awaits_inventory = told_unknown_.erase(address) > 0 || !ready.session.empty();
  words_due_.emplace_back(address, "welcome");
  if (worker.draining) words_due_.emplace_back(address, "drain");
}

/// The same worker by another connection: what it holds goes on, and it hears again what may be lost.
void Auditor::come_back(ModelWorker& worker, const std::string& address) {
  worker.address = address;
  worker.returned_at = now_;
  for (auto& [lease, since] : worker.acks_owed)
    since = now_;
  for (ModelJob* job : worker.held) {
    if (job->ended())
      cancels_due_.push_back({address, {job->number, job->attempt}});
    else if (job->streams && job->parts.taken >= 0)
      job->window_due = true;
  }
}

void Auditor::mend(ModelWorker& worker) {
  if (!std::exchange(worker.cut, false)) return;
  worker.lost_at = core::kNever;
  for (auto& [lease, since] : worker.acks_owed)
    since = now_;
}

/// The job that an outcome is about, if the worker holds it under that attempt. If not, notes what it must be
/// told.
ModelJob* Auditor::held(ModelWorker& worker, wire::Lease lease) {
  const auto place = by_number_.find(lease.job);
  ModelJob* const job = place == by_number_.end() ? nullptr : place->second;
  if (job != nullptr && job->place == &worker && job->attempt == lease.attempt) {
    worker.acks_owed.emplace_back(lease, now_);
    free_place(*job);
    return job;
  }
  std::erase(worker.strays, lease);
  const bool repeated = job != nullptr && job->kept && job->place == nullptr && job->attempt == lease.attempt;
  if (repeated) {
    worker.acks_owed.emplace_back(lease, now_);
  } else {
    refusal_due_ = "stale";
    refusal_address_ = worker.address;
  }
  return nullptr;
}

/// The call that the job was handed over for is over. Why the call of a job that has ended failed, nobody
/// knows.
void Auditor::call_over(ModelJob& job, ModelUpstream::Said said) {
  ModelUpstream& upstream = upstreams_[job.service];
  if (!options_.breaker) return;
  if (job.ended()) said = ModelUpstream::Said::nothing;
  model_call_over(job, said);
  auto due = upstream.over(said, job, now_);
  // Of several models it is found out first which one fails.
  const bool several = upstream.models.size() > 1;
  if (several && (said == ModelUpstream::Said::failure || said == ModelUpstream::Said::unreachable))
    due = ModelUpstream::Due::may;
  breaker_may_change_ = due == ModelUpstream::Due::may ? job.service : std::string();
  if (due == ModelUpstream::Due::may && upstream.closed && !several && !others_wait(job))
    due = ModelUpstream::Due::open;
  if (due == ModelUpstream::Due::open || due == ModelUpstream::Due::close)
    breakers_due_.emplace_back(job.service, due);
}

void Auditor::model_call_over(ModelJob& job, ModelUpstream::Said said) {
  using Said = ModelUpstream::Said;
  if (job.model.empty()) return;
  FailingModel& model = failing_[{job.service, job.model}];
  const bool failed = said == Said::failure || said == Said::unreachable;
  model.failed = model.failed || failed;
  // What is looked at are calls that were made since its service was sound.
  const ModelUpstream& service = upstreams_[job.service];
  const bool counts = service.closed && job.dispatched_at >= service.closed_at;
  if (!service.closed) model.callers.clear();
  if (counts && (failed || said == Said::success)) model.callers.push_back(job.caller);
  if (model.callers.size() > 2) model.callers.pop_front();
  ModelUpstream& upstream = model.upstream;
  if (upstream.closed || job.model_trial != upstream.opening) return;
  --upstream.trials_out;
  if (said == Said::success || said == Said::refusal) ++upstream.trials_passed;
}

/// That a model is left alone, or is not any more. When that must be is not known: which calls are looked at
/// hangs on the clients and models of all. What follows from it is, until its client may be the only one for
/// whom it fails.
void Auditor::noticed_of_model(const core::Notice& notice) {
  FailingModel& model = failing_[{notice.service, notice.model}];
  ModelUpstream& upstream = model.upstream;
  if (notice.kind == core::Notice::Kind::upstream_closed) {
    if (upstream.closed || (!upstream.vague && upstream.trials_passed < 4))
      violated("model " + notice.model + " of " + notice.service + " is called again after " +
               std::to_string(upstream.trials_passed) + " answers");
    model.failed = false;
    return upstream.close(now_);
  }
  if (!model.failed)
    violated("model " + notice.model + " of " + notice.service + " is left alone, and no call failed");
  const bool several = model.callers.size() == 2 && model.callers.front() != model.callers.back();
  // One that nobody tried was forgotten, and begins anew: with the shortest wait.
  constexpr std::int64_t kFirstMsMost = 6000;
  const bool again = !upstream.closed;
  if (!again || (now_ >= upstream.top_lane_from && notice.retry_ms <= kFirstMsMost)) upstream.openings = 0;
  upstream.open(milliseconds(notice.retry_ms), now_);
  upstream.vague = again || !several;
  go_apart(notice.model);
}

/// Its jobs wait in streams of their own from now on, whichever service they are for.
void Auditor::go_apart(const std::string& name) {
  if (!apart_.insert(name).second) return;
  std::vector<ModelJob*> moves;
  for (ModelStream& stream : streams_)
    for (ModelJob* job : stream.waiting)
      if (job->model == name) moves.push_back(job);
  for (ModelStream& stream : streams_) {
    std::erase_if(stream.waiting, [&](const ModelJob* job) { return job->model == name; });
    const ModelJob*& witness = stream.turns.witness;
    if (witness != nullptr && witness->model == name) witness = nullptr;
  }
  for (ModelStream& stream : tenants_)
    if (stream.turns.witness != nullptr && stream.turns.witness->model == name)
      stream.turns.witness = nullptr;
  for (ModelJob* job : moves)
    stream_of(*job).waiting.insert(job);
}

/// Whether another client has a job for the same service.
bool Auditor::others_wait(const ModelJob& job) const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const ModelStream& stream) {
    return stream.service == job.service && stream.client != job.client && !stream.waiting.empty();
  });
}

void Auditor::on(ModelWorker& worker, const wire::Outcome& outcome, std::string_view body) {
  ModelJob* const job = held(worker, {outcome.job, outcome.attempt});
  if (job == nullptr) return;
  worker.takes_jobs();
  settle(*job, outcome.usage);
  learn(*job, outcome.limits);
  for_limits_of(*job, [&](ModelBudget& budget) { budget.answered(job->model, job->dispatched_at, now_); });
  call_over(*job, ModelUpstream::Said::success);
  if (job->ended()) return;
  if (job->refused >= job->parts.next()) return must_end(*job, {"upstream_rejected"});
  upstreams_[job->service].succeeded(job->caller);
  ++lost_together_[job->company].ended;
  job->answer = body;
  must_end(*job, {"result"});
}

void Auditor::on(ModelWorker& worker, const wire::Failure& failure, std::string_view body) {
  ModelJob* const job = held(worker, {failure.job, failure.attempt});
  if (job == nullptr) return;
  failure.error_class == "released" ? worker.hands_back(now_) : worker.takes_jobs();
  if (failure.error_class != "released") {  // its worker has run it, and lives
    ++lost_together_[job->company].ended;
    job->company = 0;
    job->alone = false;
  }
  const Duration stated = milliseconds(failure.retry_after_ms.value_or(0));
  if (failure.error_class == "released")
    give_back(*job);
  else
    settle(*job, failure.usage);
  learn(*job, failure.limits, failure.error_class == "limited");
  if (failure.error_class == "overloaded")
    for_limits_of(*job, [&](ModelBudget& budget) { budget.overloaded(job->dispatched_at, now_); });
  using Said = ModelUpstream::Said;
  const bool failed = failure.error_class == "retry" || failure.error_class == "overloaded";
  const bool unreachable = failure.error_class == "retry" && failure.code == "connect";
  call_over(*job, failed                              ? unreachable ? Said::unreachable : Said::failure
                  : failure.error_class == "released" ? Said::nothing
                                                      : Said::refusal);
  // Its upstream's word holds whatever has become of the job.
  const TimePoint until = now_ + (failure.retry_after_ms.value_or(0) > 0 ? stated : kLimitedPause);
  bool paused = false, apart = false, alone = true, again = false;
  const bool limited = failure.error_class == "limited";
  const bool own = limited && job->account != nullptr && job->account->refuses_alone(*job, now_);
  if (limited && !own)
    for_limits_of(*job, [&](ModelBudget& budget) {
      const bool cuts = !failure.limits;
      // It is the account that rests; the budgets have shown to be too much where that has no limits.
      if (job->account != nullptr && job->account != &budget)
        return cuts && job->account->rates.empty() ? budget.cut(now_) : void();
      if (job->account == nullptr) {
        if (budget.rates.empty()) return;
        again = again || budget.refused_jobs.contains(job->serial);
        if (budget.refuses_alone(*job, now_)) return;
      }
      const ModelBudget::Apart how = budget.limited(job->model, cuts, until, now_);
      apart = apart || how != ModelBudget::Apart::no;
      alone = alone && how == ModelBudget::Apart::alone;
      paused = true;
    });
  if (apart) go_apart(job->model);
  if (job->ended()) return;
  job->answer = body;
  if (failure.error_class == "permanent") return must_end(*job, {"upstream_rejected"});
  if (failure.error_class == "quota") return must_end(*job, {"upstream_quota"});
  const bool broken = job->parts.next() > 0;  // its client has a part of the answer
  if (failed) {
    if (broken) return must_end(*job, {"upstream_failed"});
    if (job->attempts_spent()) return must_end(*job, {"upstream_failed"});
    if (!upstreams_[job->service].take_retry(job->caller, options_of(job->client).tenant))
      return must_end(*job, {"upstream_failed"});
    job->answer.clear();
    Duration bound = options_.backoff_base;
    for (int i = 1; i < job->attempts; ++i)
      bound = std::min<Duration>(bound * 2, options_.backoff_max);
    bound = std::min(bound, options_.backoff_max);
    return requeue(*job, Requeue::costs_attempt, now_ + stated, now_ + std::max(stated, bound));
  }
  const std::string answer = std::exchange(job->answer, {});
  if (failure.error_class == "released") return requeue(*job, Requeue::free, now_, now_ + kReleasedPauseMax);
  if (failure.error_class != "limited") violated("the run used a class that the auditor does not know");
  if (broken) {
    job->answer = answer;
    return must_end(*job, {"upstream_failed"});
  }
  // It would wait for longer than it may.
  if (const TimePoint open = paused ? shut_until(*job) : until; open > now_ && open >= job->deadline) {
    job->answer = answer;
    return must_end(*job, {"limited"});
  }
  // Refused again, it goes after the others, and where any wait for that of the next such job, too.
  constexpr Duration kAfterOthers = std::chrono::milliseconds(200), kNextPauseMax = std::chrono::seconds(30);
  TimePoint due = paused ? now_ : until, due_max = due;
  if (paused && again) {
    const TimePoint open = std::max(shut_until(*job), now_);
    due = open + kAfterOthers;
    due_max = due + std::min<Duration>(open - now_, kNextPauseMax);
  }
  requeue(*job, paused && alone ? Requeue::costs_turn : Requeue::free, due, due_max);
}

void Auditor::on(ModelWorker& worker, const wire::Progress& progress) {
  const wire::Lease lease{progress.job, progress.attempt};
  const auto place = by_number_.find(lease.job);
  ModelJob* const job = place == by_number_.end() ? nullptr : place->second;
  if (job != nullptr && job->place == &worker && job->attempt == lease.attempt) {
    if (!job->ended()) job->alive_at = now_;
    return;
  }
  // That one is to be cancelled the worker knows already.
  if (std::find(worker.strays.begin(), worker.strays.end(), lease) != worker.strays.end()) return;
  refusal_due_ = "stale";
  refusal_address_ = worker.address;
}

/// When the attempt is over if nothing more is heard of it.
TimePoint Auditor::stalls_at(const ModelJob& job) const {
  const Duration patience = options_.lanes[job.lane].stall_timeout;
  if (job.ended() || !job.alive_at || patience.count() == 0 || job.parts.keeps_waiting()) return core::kNever;
  return *job.alive_at + patience;
}

/// An attempt is over since nothing more was heard of it. Its worker is told, and has a place less until it
/// says how that ended, or lists it no more.
void Auditor::noticed_of_stall(const core::Notice& notice) {
  const auto place = by_number_.find(notice.number);
  if (place == by_number_.end() || place->second->place == nullptr || !advancing_ ||
      place->second->attempt != notice.attempt || now_ < stalls_at(*place->second))
    violated("the call of job " + notice.name + " was ended as if it were silent");
  ModelJob& job = *place->second;
  ModelWorker& worker = *job.place;
  cancels_due_.push_back({worker.address, {job.number, job.attempt}});
  worker.strays.push_back({job.number, job.attempt});
  free_place(job);
  call_over(job, ModelUpstream::Said::nothing);
  if (job.parts.next() > 0 || job.attempts_spent()) return must_end(job, {"stalled"});
  requeue(job, Requeue::costs_attempt, now_, now_);
}

void Auditor::on(ModelWorker& worker, const wire::Heartbeat& heartbeat) {
  worker.awaits_inventory = false;
  worker.strays.clear();
  std::set<const ModelJob*> listed;
  for (const wire::Lease& lease : heartbeat.jobs) {
    const auto place = by_number_.find(lease.job);
    ModelJob* const job = place == by_number_.end() ? nullptr : place->second;
    const bool mine = job != nullptr && job->place == &worker && job->attempt == lease.attempt;
    // Its worker has said how it ends, and perhaps has not heard that this was taken.
    const bool said = job != nullptr && job->kept && job->place == nullptr && job->attempt == lease.attempt &&
                      ends_by_word(job->code);
    const bool owed = std::any_of(worker.acks_owed.begin(), worker.acks_owed.end(),
                                  [&](const auto& one) { return one.first == lease; });
    if (mine) listed.insert(job);
    if (mine || said || owed) continue;
    if (job != nullptr && goes_on(worker, *job, lease.attempt)) {
      listed.insert(job);
      continue;
    }
    cancels_due_.push_back({worker.address, lease});
    worker.strays.push_back(lease);
  }
  worker.lost.clear();
  std::vector<ModelJob*> missing;
  for (ModelJob* job : worker.held) {
    if (listed.contains(job))
      job->missing = 0;
    else if (now_ - job->dispatched_at >= kSilentHeartbeatsMax * options_.heartbeat ||
             job->dispatched_at < worker.returned_at)
      ++job->missing;
    if (job->missing >= kMissingMax) missing.push_back(job);
  }
  for (ModelJob* job : missing) {
    free_place(*job);
    call_over(*job, ModelUpstream::Said::nothing);
    if (job->ended()) continue;
    // The first one is free.
    const bool again = std::exchange(job->missed, true);
    if (again && job->parts.next() == 0 && job->attempts_spent())
      must_end(*job, {"worker_lost"});
    else
      requeue(*job, again ? Requeue::costs_attempt : Requeue::free, now_, now_);
  }
}

void Auditor::on_bye(ModelWorker& worker) {
  while (!worker.held.empty()) {
    ModelJob& job = **worker.held.begin();
    free_place(job);  // its upstream may have been asked
    call_over(job, ModelUpstream::Said::nothing);
    if (!job.ended()) requeue(job, Requeue::free, now_, now_);
  }
  forget(worker);
}

void Auditor::worker_disconnected(const std::string& address, core::WorkerDisconnected::Process process,
                                  TimePoint now) {
  using Process = core::WorkerDisconnected::Process;
  now_ = now;
  ModelWorker* const worker = worker_at(address);
  if (worker == nullptr) return;
  if (!worker->resumes || process == Process::ended) return lose(*worker, true);
  if (std::exchange(worker->cut, true)) return;
  if (process == Process::unknown) worker->lost_at = now_ + options_.worker_grace;
}

/// Nobody's silence in that time counts, nor does its own.
void Auditor::stood_still(Duration how_long, TimePoint now) {
  now_ = now;
  for (auto& [address, worker] : workers_) {
    worker.heard_at += how_long;
    if (worker.lost_at != core::kNever) worker.lost_at += how_long;
    for (auto& [lease, owed_since] : worker.acks_owed)
      owed_since += how_long;
    for (ModelJob* job : worker.held) {
      for (ModelReader& reader : job->readers)
        reader.silent_since += how_long;
      if (job->alive_at) *job->alive_at += how_long;
    }
  }
}

/// A worker is lost: that is held against a job that was alone there. Of several any may be why, and each
/// goes out alone, until one is why, or the worker turns out to live: no such death counts against what
/// attempts it may have, but where that is one. Later some may be out beside each other; then what others
/// they were suspected with is free. `dead`: it cannot come back.
void Auditor::lose(ModelWorker& worker, bool dead) {
  const bool alone = worker.held.size() == 1 && worker.strays.empty();
  const int company = ++companies_;
  lost_together_[company].since = now_;
  for (const ModelJob* job : worker.held) {
    const auto before = lost_together_.find(job->company);
    if (job->company == 0 || before == lost_together_.end()) continue;
    lost_together_[company].since = before->second.since;
    if (!alone) clear_company(job->company);
  }
  std::vector<ModelLost> lost;
  while (!worker.held.empty()) {
    ModelJob& job = **worker.held.begin();
    // Its deadline, or that of its client, may have come first, and then its cancel still went out.
    if (advancing_ && (job.deadline <= now_ || may_be_orphaned(job)))
      cancels_optional_.push_back({worker.address, {job.number, job.attempt}});
    free_place(job);
    call_over(job, ModelUpstream::Said::nothing);
    if (job.ended()) continue;
    if (alone) {
      ++job.crashes;
      clear_company(job.company);
    }
    job.company = company;
    job.alone = true;
    if (!alone && job.attempts_max > 1) ++job.shared_deaths;
    if (job.crashes >= options_.crash_max || job.attempts_spent()) {
      must_end(job, {"worker_lost"});
      continue;
    }
    if (job.parts.next() == 0) lost.push_back({&job, job.attempt, alone, job.dispatched_at});
    requeue(job, Requeue::costs_attempt, now_, now_);
  }
  if (!dead && !lost.empty()) lost_[worker.session] = {now_ + options_.session_keep, std::move(lost)};
  forget(worker);
}

/// None of these is why a worker was lost.
void Auditor::clear_company(int company) {
  if (company == 0) return;
  for (const auto& [number, job] : by_number_)
    if (job->company == company) {
      job->company = 0;
      job->alone = false;
    }
}

/// A worker that was taken for lost is back: nobody died under its jobs.
void Auditor::take_back_loss(ModelWorker& worker, const std::string& session) {
  const auto lost = lost_.extract(session);
  if (lost.empty() || lost.mapped().first <= now_) return;
  worker.session = session;
  worker.lost = lost.mapped().second;
  for (const ModelLost& one : worker.lost) {
    if (one.job->ended()) continue;
    if (one.counted && one.job->crashes > 0) --one.job->crashes;
    if (one.job->attempt == one.attempt) clear_company(one.job->company);
  }
}

/// Whether the worker goes on with a job that nobody was given since it was taken for lost.
bool Auditor::goes_on(ModelWorker& worker, ModelJob& job, std::int64_t attempt) {
  const auto lost = std::find_if(worker.lost.begin(), worker.lost.end(), [&](const ModelLost& one) {
    return one.job == &job && one.attempt == attempt;
  });
  if (lost == worker.lost.end() || !job.waits() || job.attempt != attempt || worker.free() == 0 ||
      !worker.serves(job.service, job.lane))
    return false;
  stream_of(job).waiting.erase(&job);
  --waiting_[job.lane];
  --clients_[job.client].waiting;
  ++clients_[job.client].running;
  ++running_[job.lane];
  for_limits_of(job, [](ModelBudget& budget) { ++budget.running; });
  if (!lost->counted && job.shared_deaths > 0) --job.shared_deaths;
  job.state = ModelJob::State::running;
  job.trial = job.model_trial = 0;
  job.dispatched_at = lost->dispatched_at;
  job.place = &worker;
  job.at_reserved = worker.reserved();
  worker.held.insert(&job);
  return true;
}

void Auditor::forget(ModelWorker& worker) {
  gone_.push_back(worker.session);
  workers_.erase(worker.address);
}

void Auditor::noticed(const core::Notice& notice) {
  using Kind = core::Notice::Kind;
  if (notice.kind == Kind::worker_ready || notice.kind == Kind::worker_returned ||
      notice.kind == Kind::changed_by_operator)
    return;
  const bool opened = notice.kind == core::Notice::Kind::upstream_opened;
  if ((opened || notice.kind == Kind::upstream_closed) && !notice.model.empty())
    return noticed_of_model(notice);
  if (opened || notice.kind == core::Notice::Kind::upstream_closed) {
    const auto due =
        std::find(breakers_due_.begin(), breakers_due_.end(),
                  std::pair(notice.service, opened ? ModelUpstream::Due::open : ModelUpstream::Due::close));
    if (due != breakers_due_.end())
      breakers_due_.erase(due);
    else if (breaker_may_change_ != notice.service)
      violated("the breaker of " + notice.service + " changed for no reason");
    ModelUpstream& upstream = upstreams_[notice.service];
    if (!opened) return upstream.close(now_);
    upstream.open(milliseconds(notice.retry_ms), now_);
    for (const ModelStream& stream : streams_)
      if (stream.service == notice.service && !stream.waiting.empty()) upstream.waits(stream.client);
    return;
  }
  if (notice.kind == Kind::job_stalled) return noticed_of_stall(notice);
  // The others are about what is judged where it counts.
  if (notice.kind != Kind::worker_lost && notice.kind != Kind::worker_left) return;
  if (std::find(gone_.begin(), gone_.end(), notice.session) != gone_.end()) return;
  for (auto& [address, worker] : workers_) {
    if (worker.session != notice.session) continue;
    if (!advancing_ ||
        (now_ - worker.heard_at < kSilentHeartbeatsMax * options_.heartbeat && now_ < worker.lost_at))
      violated("worker " + address + " was given up too early");
    return lose(worker, false);
  }
  violated("a worker was given up that is not there");
}

void Auditor::check_silence() {
  for (const auto& [address, worker] : workers_) {
    if (now_ - worker.heard_at > (kSilentHeartbeatsMax + 1) * options_.heartbeat + kLate)
      violated("worker " + address + " is silent and not given up");
    for (const ModelJob* job : worker.held)
      if (const TimePoint due = stalls_at(*job); due != core::kNever && now_ - due > kLate)
        violated(job->name() + ": nothing is heard of its call any more, and it goes on");
    if (worker.cut && worker.lost_at != core::kNever && now_ - worker.lost_at > kLate)
      violated("worker " + address + " is gone for longer than worker_grace and not given up");
    if (!worker.cut && !worker.acks_owed.empty() &&
        now_ - worker.acks_owed.front().second > options_.heartbeat + kLate)
      violated("worker " + address + " waits for an acknowledgement longer than a heartbeat");
  }
}

// ---- what they are told -------------------------------------------------------------------------------

void Auditor::sent_to_worker(const std::string& address, const wire::WorkerCommand& command,
                             std::string_view body) {
  if (const auto* refusal = std::get_if<wire::WorkerRefusal>(&command))
    return heard_refusal(address, *refusal);
  if (const auto* cancel = std::get_if<wire::CancelJob>(&command)) {
    cancels_heard_.push_back({address, {cancel->job, cancel->attempt}});
    return;
  }
  if (const auto* offer = std::get_if<wire::JobOffer>(&command)) return heard_offer(address, *offer, body);
  if (const auto* window = std::get_if<wire::Window>(&command)) return heard_window(address, *window);
  ModelWorker* const worker = worker_at(address);
  if (const auto* acked = std::get_if<wire::Acked>(&command)) {
    if (worker != nullptr) return heard_acked(*worker, *acked);
    if (gone_.empty()) violated("an acknowledgement to a worker that is not there");
    return;
  }
  if (const auto* welcome = std::get_if<wire::Welcome>(&command)) {
    if (worker == nullptr) violated("a welcome to a worker that did not ask");
    if (!worker->session.empty() && worker->session != welcome->session)
      violated("a session changed its name");
    worker->session = welcome->session;
    return heard_word(address, "welcome");
  }
  if (std::holds_alternative<wire::Drain>(command)) return heard_word(address, "drain");
  if (!std::holds_alternative<wire::Heartbeat>(command))
    violated("a worker heard what the auditor does not know");
}

void Auditor::heard_word(const std::string& address, const std::string& word) {
  const auto due = std::find(words_due_.begin(), words_due_.end(), std::pair(address, word));
  if (due == words_due_.end()) violated("worker " + address + " was told " + word + " for no reason");
  words_due_.erase(due);
}

void Auditor::heard_acked(ModelWorker& worker, const wire::Acked& acked) {
  for (const wire::Lease& lease : acked.jobs) {
    const auto place = std::find_if(worker.acks_owed.begin(), worker.acks_owed.end(),
                                    [&](const auto& owed) { return owed.first == lease; });
    if (place == worker.acks_owed.end()) violated("an outcome was acknowledged that was not said, or twice");
    worker.acks_owed.erase(place);
  }
}

void Auditor::heard_refusal(const std::string& address, const wire::WorkerRefusal& refusal) {
  if (refusal_due_ != refusal.code || refusal_address_ != address)
    violated("worker " + address + " was told " + std::string(refusal.code) + " for no reason");
  refusal_due_.clear();
}

}  // namespace lanemq::sim
