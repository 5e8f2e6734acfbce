// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/auditor.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "tests/sim/measure.hpp"

// The life of jobs in the auditor's picture, and what must hold at the end of every step.

namespace lanemq::sim {
namespace {

using std::chrono::milliseconds;

}  // namespace

Auditor::Auditor(const core::Options& options, core::OptionEditor edit, const core::Broker& broker)
    : bytes_at_start_(core_bytes()),
      options_(options),
      edit_(std::move(edit)),
      broker_(broker),
      waiting_(options.lanes.size()),
      running_(options.lanes.size()),
      moved_in_(options.lanes.size()) {
  for (const core::BudgetOptions& budget : options.budgets)
    budgets_.push_back(ModelBudget::of(budget));
}

void Auditor::advancing(TimePoint now) {
  now_ = now;
  advancing_ = true;
  for (auto& [address, worker] : workers_)
    if (now >= worker.rests_until) worker.rests = false;
}

void Auditor::drain_asked(TimePoint now) {
  now_ = now;
  if (draining_) return;
  draining_ = true;
  for (ModelJob& job : jobs_)
    if (job.waits()) must_end(job, {"draining"});
}

void Auditor::running_given_up(TimePoint now) {
  now_ = now;
  for (auto& [address, worker] : workers_)
    for (ModelJob* job : worker.held)
      if (!job->ended()) must_end(*job, {"draining"});
}

void Auditor::free_place(ModelJob& job) {
  for_limits_of(job, [&](ModelBudget& budget) { budget.call_over(job); });
  job.place->held.erase(&job);
  job.place = nullptr;
  job.alive_at.reset();
  --clients_[job.client].running;
}

void Auditor::requeue(ModelJob& job, Requeue how, TimePoint due_min, TimePoint due_max) {
  // Its client has a part of the answer.
  if (job.parts.next() > 0) return must_end(job, {"worker_lost"});
  if (how != Requeue::costs_attempt) --job.attempts;
  if (how == Requeue::free) correct(job, -job.charged);
  appraise(job);
  if (draining_) return must_end(job, {"draining"});
  --running_[job.lane];
  ++waiting_[job.lane];
  ++clients_[job.client].waiting;
  job.missing = 0;
  job.due_min = due_min;
  job.due_max = due_max;
  job.state = due_max > now_ ? ModelJob::State::delayed : ModelJob::State::queued;
  stream_of(job).waiting.insert(&job);
  upstreams_[job.service].waits(job.client);
}

void Auditor::must_end(ModelJob& job, std::vector<std::string> codes) {
  job.must_end = std::move(codes);
  ending_.push_back(&job);
}

/// The broker said, or is known to have decided, how a job ended.
void Auditor::end(ModelJob& job, const std::string& code, std::string_view answer) {
  const bool demanded = std::find(job.must_end.begin(), job.must_end.end(), code) != job.must_end.end();
  const bool in_time = code == "deadline" && advancing_ && expires(job) != Expires::no;
  const bool orphaned = code == "cancelled" && may_be_orphaned(job);
  const bool too_large = code == "unsatisfiable" && advancing_ && unsatisfiable(job);
  const bool in_vain = code == "limited" && advancing_ && job.waits() && waits_in_vain(job);
  if (!demanded && !in_time && !orphaned && !too_large && !in_vain)
    violated(job.name() + " ended with " + code + " for no reason");
  if (code == "result" && answer != job.answer)
    violated(job.name() + ": the answer is not what its worker said");
  if (job.state == ModelJob::State::running) {
    --running_[job.lane];
    if (job.place != nullptr) cancels_due_.push_back({job.place->address, {job.number, job.attempt}});
  } else {
    --waiting_[job.lane];
    --clients_[job.client].waiting;
    stream_of(job).waiting.erase(&job);
  }
  job.state = ModelJob::State::ended;
  job.ended_at = now_;
  job.code = code;
  job.answer = answer;
  job.dead = code != "result" && code != "cancelled" && !draining_ && options_.dead_max > 0 &&
             job.retain.count() > 0;
  if (job.dead) job.retain = std::max(job.retain, options_.dead_retain);
  deadlines_.erase({job.deadline, &job});
  leave_group(job);
  drop_owners(job);
  ended_.push_back(&job);
}

/// Those whose own delay is over are queued behind all that are queued, in the order of their time.
void Auditor::queue_delayed() {
  std::vector<ModelJob*> due;
  std::erase_if(delays_, [&](ModelJob* job) {
    if (!job->in_own_delay()) return true;
    // One whose deadline has come by then ends there.
    if (!is_due(job->delay_over) || job->deadline <= now_) return false;
    due.push_back(job);
    return true;
  });
  std::sort(due.begin(), due.end(), ByAge());
  for (ModelJob* job : due) {
    ModelStream& stream = stream_of(*job);
    stream.waiting.erase(job);
    job->serial = next_serial_++;
    job->state = ModelJob::State::queued;
    job->queued_at = now_;
    stream.waiting.insert(job);
    upstreams_[job->service].waits(job->client);
  }
}

/// What the broker has of a job under its id. For the few questions whose answer is the broker's choice
/// alone: which of two ends of one turn came first, whether a retry whose wait it drew is over, whether it
/// has looked at a job that a lowered limit can never grant, and what it had room for under a bound of bytes.
/// Either answer is right, and what follows from it is judged. Nothing else is asked.
const core::Record* Auditor::choice_about(const ModelJob& job) const {
  return job.number != 0 && job.id.empty() ? broker_.jobs().find(core::JobNumber{job.number})
                                           : broker_.jobs().find(job.id);
}

/// Of the ends that a job may have come to in this turn, which it was; empty: none so far.
std::string Auditor::chosen_end(const ModelJob& job) const {
  const core::Record* const record = choice_about(job);
  if (record == nullptr && job.must_end.empty())
    return expires(job) == Expires::no ? "unsatisfiable" : "deadline";  // nothing is kept of it
  if (record == nullptr) return job.must_end.front();
  if (record->result() == nullptr) return {};
  switch (record->result()->state) {
    case core::JobState::expired:
      return "deadline";
    case core::JobState::cancelled:
      return "cancelled";
    default: {
      if (!job.must_end.empty()) return job.must_end.front();
      const core::Ending* const ending = record->result()->terminal().ending;
      return ending != nullptr && ending->code == ErrorCode::limited ? "limited" : "unsatisfiable";
    }
  }
}

/// Whether the job's deadline ends it in this turn, whoever hears of it: surely, perhaps, or not. One that
/// waits for its turn to come is looked at when that does, and then ends at once.
Auditor::Expires Auditor::expires(const ModelJob& job) const {
  if (job.deadline > now_) return Expires::no;
  if (is_due(job.deadline)) return Expires::yes;
  if (job.in_own_delay()) return is_due(job.delay_over) ? Expires::yes : Expires::no;
  if (job.state != ModelJob::State::delayed || !is_due(job.due_min)) return Expires::no;
  if (acts_at(job.due_max) <= last_turn_) return Expires::no;  // it has been queued since
  return job.due_min == job.due_max ? Expires::yes : Expires::perhaps;
}

/// Where nobody waits for them, advance() ends those without a word whose client is gone, and those that a
/// lowered limit can never grant; then it hands out. Called before what it handed out is looked at.
void Auditor::end_silently() {
  if (std::exchange(ended_silently_, true)) return;
  std::vector<std::string> gone;
  for (const auto& [address, orphans] : orphans_)
    if (is_due(orphans.cancel_at)) gone.push_back(address);
  for (const std::string& address : gone) {
    const auto place = orphans_.find(address);
    if (place == orphans_.end()) continue;  // what it owned has ended just now
    for (ModelJob* job : std::vector<ModelJob*>(place->second.jobs)) {
      if (job->owners.size() > 1) {
        drop_owner(*job, address);  // it goes on for the others
        continue;
      }
      const bool or_else = expires(*job) != Expires::no || !job->must_end.empty();
      if (!or_else || chosen_end(*job) == "cancelled") end(*job, "cancelled", {});
    }
  }
  if (!limits_fell_) return;
  for (ModelStream& stream : streams_)
    for (ModelJob* job : std::vector<ModelJob*>(stream.waiting.begin(), stream.waiting.end()))
      if (!job->somebody_waits() && !job->id.empty() && unsatisfiable(*job) &&
          chosen_end(*job) == "unsatisfiable")
        end(*job, "unsatisfiable", {});
}

/// Jobs that wait in vain for their upstreams end at some time, even if nobody waits to hear of it.
void Auditor::end_shut_out_silently() {
  const auto is_paused = [&](const ModelBudget& one) {
    return now_ < one.paused_until ||
           std::any_of(one.models.begin(), one.models.end(),
                       [&](const auto& model) { return now_ < model.second.until; });
  };
  if (std::none_of(budgets_.begin(), budgets_.end(), [&](const ModelBudget& budget) {
        return is_paused(budget) || std::any_of(budget.accounts.begin(), budget.accounts.end(), is_paused);
      }))
    return;
  for (ModelStream& stream : streams_)
    for (ModelJob* job : std::vector<ModelJob*>(stream.waiting.begin(), stream.waiting.end()))
      if (!job->somebody_waits() && waits_in_vain(*job) && ended_limited(*job)) end(*job, "limited", {});
}

/// When it looks at a job that waits in vain is the broker's choice, and seen by what it has of it. A job
/// whose id nobody knows is known by its body.
bool Auditor::ended_limited(const ModelJob& job) const {
  if (!job.id.empty()) {
    const core::Record* const record = choice_about(job);
    if (record == nullptr) return expires(job) == Expires::no && !unsatisfiable(job);
    const core::KeptResult* const result = record->result();
    const core::Ending* const ending = result != nullptr ? result->terminal().ending : nullptr;
    return ending != nullptr && ending->code == ErrorCode::limited;
  }
  for (std::size_t place = 0; place < broker_.jobs().places(); ++place) {
    const core::Record* const record = broker_.jobs().at(place);
    const core::Job* const live = record != nullptr ? record->job() : nullptr;
    if (live != nullptr && !live->ended() && live->body().bytes() == job.body) return false;
  }
  return true;
}

/// Jobs whose time is over end even if nobody waits to hear of it; where somebody does, silence is a fault.
void Auditor::expire_silently() {
  for (auto place = deadlines_.begin(); place != deadlines_.end() && place->first <= now_;) {
    ModelJob& job = *(place++)->second;
    const Expires how = expires(job);
    if (how == Expires::no) continue;
    if (how == Expires::perhaps && (job.somebody_waits() || chosen_end(job).empty())) continue;
    // A worker that was lost in the same turn may have been the end of it before.
    if (!job.must_end.empty() && chosen_end(job) != "deadline") continue;
    end(job, "deadline", {});
  }
}

void Auditor::step_over() {
  accept_pending();
  if (advancing_) {
    queue_delayed();
    end_silently();
    end_shut_out_silently();
    expire_silently();
  }
  for (ModelJob* job : ending_) {
    if (!job->ended()) end(*job, job->must_end.front(), job->answer);
    job->must_end.clear();
  }
  for (ModelJob* job : ended_)
    if (job->somebody_waits())
      violated(job->name() + " ended with " + job->code + " and somebody was not told");
  if (immediate_ != 0 && requests_[immediate_].open()) {
    const ModelRequest& asked = requests_[immediate_];
    const bool waits = asked.op == "submit" || asked.status_from != core::kNever;
    if (!waits || asked.accepted_due || (asked.job != nullptr && asked.job->ended()))
      violated("a " + asked.op + " of " + asked.id + " was not answered");
  }
  std::sort(cancels_due_.begin(), cancels_due_.end());
  std::sort(cancels_heard_.begin(), cancels_heard_.end());
  for (const Cancel& cancel : cancels_optional_) {
    const auto same = [&](const Cancel& other) { return !(other < cancel) && !(cancel < other); };
    std::erase_if(cancels_due_, same);
    std::erase_if(cancels_heard_, same);
  }
  const auto same = [](const Cancel& a, const Cancel& b) { return !(a < b) && !(b < a); };
  if (!std::equal(cancels_due_.begin(), cancels_due_.end(), cancels_heard_.begin(), cancels_heard_.end(),
                  same))
    violated("workers were to hear " + std::to_string(cancels_due_.size()) + " cancels and heard " +
             std::to_string(cancels_heard_.size()) + ", or others");
  if (!breakers_due_.empty())
    violated("the breaker of " + breakers_due_.front().first + " was to change and did not");
  if (!words_due_.empty())
    violated("worker " + words_due_.front().first + " was not told " + words_due_.front().second);
  if (!refusal_due_.empty()) violated("worker " + refusal_address_ + " was not told " + refusal_due_);
  while (!fetches_.empty() && fetches_.begin()->first + kTick <= now_ && advancing_) {
    if (requests_[fetches_.begin()->second].open()) violated("a fetch waits longer than it asked");
    fetches_.erase(fetches_.begin());
  }
  if (advancing_) {
    check_silence();
    check_nothing_idles();
    check_wakeup();
  }
  if (order_.due) violated("an operator's " + order_.verb + " was not answered");
  check_kept();  // of what was there before streams made way, too
  check_streams();
  check_groups();
  check_counters();
  check_bounds();
  ending_.clear();
  ended_.clear();
  cancels_due_.clear();
  cancels_heard_.clear();
  cancels_optional_.clear();
  gone_.clear();
  immediate_ = 0;
  incoming_ = 0;
  if (advancing_) last_turn_ = now_;
  advancing_ = ended_silently_ = false;
}

/// What has ended is kept for its time, unless it was purged or makes way: then the oldest goes first.
void Auditor::check_kept() {
  const Goings before = goings_, promised_before = promised_goings_;
  std::vector<ModelJob*> went;
  for (ModelJob* job : ended_) {
    if (!went_.insert(job).second) continue;  // it is only asked for again
    job->kept = job->retain.count() > 0;
    job->kept ? kept_.push_back(job) : went.push_back(job);
  }
  const auto is_over = [&](const ModelJob* job) { return advancing_ && is_due(job->ended_at + job->retain); };
  // A turn does so much of what falls due, and leaves the rest to the next ones.
  constexpr auto kDueInATurn = 1000;
  std::size_t left = 0;
  if (std::count_if(kept_.begin(), kept_.end(), is_over) >= kDueInATurn / 2)
    left = broker_.kept_results() + broker_.dead_jobs();
  std::erase_if(kept_, [&](ModelJob* job) {
    if (!job->purged && !is_over(job)) return false;
    went.push_back(job);
    return true;
  });
  if (left > kept_.size()) {
    if (went.size() < kDueInATurn / 2) violated("results are over, and too few of them are forgotten");
    // Whose id nobody knows cannot be looked for.
    const auto stays = [&](const ModelJob* job) {
      return !job->purged && is_over(job) && (job->id.empty() || choice_about(*job) != nullptr);
    };
    std::stable_partition(went.begin(), went.end(), [&](const ModelJob* job) { return !job->id.empty(); });
    std::erase_if(went, [&](ModelJob* job) {
      if (kept_.size() == left || !stays(job)) return false;
      kept_.push_back(job);
      return true;
    });
    kept_.sort([](const ModelJob* a, const ModelJob* b) { return a->ended_at < b->ended_at; });
  }
  settle_guesses(went);
  make_way(Kept::result, broker_.kept_results(), went);
  make_way(Kept::dead, broker_.dead_jobs(), went);
  for (ModelJob* job : went) {
    job->kept = false;
    count_going(*job, is_over(job));
    const auto known = by_id_.find(job->id);
    if (known != by_id_.end() && known->second == job && broker_.jobs().find(job->id) != nullptr)
      violated(job->name() + " is kept, although it is over, was purged or had to make way");
  }
  for (ModelJob* job : went) {
    job->went.after = before.most;
    job->went.until = goings_.least;
    job->went_promised.after = promised_before.most;
    job->went_promised.until = promised_goings_.least;
  }
  if (went.empty()) return;
  for (const ModelJob* job : kept_)
    if (!job->id.empty() && broker_.jobs().find(job->id) == nullptr)
      violated(job->name() + " is forgotten before its time, or before an older one; it ended " +
               std::to_string((now_ - job->ended_at).count()) + " us ago with " + job->code);
}

/// The job's id goes. Of one whose time is over in a step in which others ended nobody sees whether it made
/// way for them just before.
void Auditor::count_going(ModelJob& job, bool over) {
  const bool succeeded = job.code == "result", promised = succeeded && job.made_way;
  const bool either = succeeded && !promised && over && !job.purged && !ended_.empty();
  job.went.possible = !promised;
  job.went_promised.possible = promised || either;
  if (!job.id_told) return;
  for (const auto& [going, goings] :
       {std::pair(&job.went, &goings_), std::pair(&job.went_promised, &promised_goings_)}) {
    if (!going->possible) continue;
    ++goings->most;
    if (!either) ++goings->least;
  }
}

/// The broker has so many of these left. How many a bound of bytes lets it keep is a matter of its account,
/// which is checked elsewhere; which of them go is not: the oldest. Of those that ended at once any may.
void Auditor::make_way(Kept which, std::size_t left, std::vector<ModelJob*>& went) {
  const bool dead = which == Kept::dead;
  const char* const what = dead ? " dead jobs" : " results";
  std::vector<ModelJob*> all;
  std::copy_if(kept_.begin(), kept_.end(), std::back_inserter(all),
               [&](const ModelJob* job) { return job->dead == dead; });
  if (left > all.size())
    violated(std::to_string(left) + what + " are kept, and not " + std::to_string(all.size()));
  std::size_t surplus = all.size() - left;
  if (surplus == 0) return;
  if (!may_make_way(which, all.size(), went))
    violated(std::to_string(surplus) + what + " of " + std::to_string(all.size()) +
             " are forgotten for no reason, " + all.front()->name() + " perhaps; there are " +
             std::to_string(bytes_kept(which).most) + " bytes of them at most");
  if (!dead && share_of_results() > 0) return make_way_by_share(all, surplus, went);
  // Of results of one millisecond, too.
  const auto age_of = [&](const ModelJob& job) { return dead ? job.ended_at : acts_at(job.ended_at); };
  const TimePoint last = age_of(*all[surplus - 1]);
  const auto surely = [&](const ModelJob& job) { return age_of(job) < last; };
  const auto go = [&](const auto& goes) {
    for (ModelJob* job : all) {
      if (surplus == 0 || age_of(*job) > last || !goes(*job)) continue;
      --surplus;
      job->made_way = true;
      went.push_back(job);
      std::erase(kept_, job);
    }
  };
  // Whose id nobody knows cannot be looked for.
  go(surely);
  go([&](const ModelJob& job) { return !surely(job) && !job.id.empty() && choice_about(job) == nullptr; });
  go([&](const ModelJob& job) { return !surely(job) && job.id.empty(); });
  if (surplus > 0) violated(std::to_string(surplus) + what + " are forgotten before older ones");
}

/// The time of some that seemed to have made way is over. Those that were there until now went now, and
/// others of which nobody knows the ids made way in their place.
void Auditor::settle_guesses(std::vector<ModelJob*>& went) {
  if (!advancing_) return;
  std::size_t due = std::erase_if(guessed_, [&](const Guessed& guess) { return is_due(guess.over_at); });
  if (due == 0) return;
  const auto remain = static_cast<std::size_t>(std::count_if(kept_.begin(), kept_.end(), [&](ModelJob* job) {
    return !job->dead && (job->id.empty() || choice_about(*job) != nullptr);
  }));
  for (std::size_t left = remain; due > 0 && left > broker_.kept_results(); --due, --left) {
    const auto other = std::find_if(kept_.begin(), kept_.end(),
                                    [](const ModelJob* job) { return !job->dead && job->id.empty(); });
    if (other == kept_.end()) return;
    (*other)->made_way = true;
    guessed_.push_back(
        {.client = party_of((*other)->client), .over_at = (*other)->ended_at + (*other)->retain});
    went.push_back(*other);
    kept_.erase(other);
  }
}

/// From how many results on a client is to make way before others; 0: never. Of a few nothing is kept for
/// others, and of bytes there are always few here.
std::size_t Auditor::share_of_results() const {
  constexpr std::size_t kLeast = 16;
  const std::size_t part = options_.results_max * static_cast<std::size_t>(options_.client_share) / 1000;
  return part < kLeast ? 0 : part;
}

/// The same where clients, those of a tenant as one, share what is kept. Who holds his share or more makes
/// way before those who hold less, and everybody's own oldest go first. What went is seen by the ids; where
/// nobody knows an id, it may be either, and its client may hold one more. Of connections that may be
/// forgotten the share is not known.
void Auditor::make_way_by_share(const std::vector<ModelJob*>& all, std::size_t surplus,
                                std::vector<ModelJob*>& went) {
  std::map<std::string, std::size_t> before, stay;
  std::map<std::string, TimePoint> oldest;
  std::optional<TimePoint> oldest_of_all;
  std::vector<ModelJob*> gone, unseen;
  for (const Guessed& guess : guessed_)
    ++before[guess.client];
  // What is over in this step may have been there when others went.
  for (const ModelJob* job : went)
    if (!job->dead) ++before[party_of(job->client)];
  for (ModelJob* job : all) {
    const std::string party = party_of(job->client);
    ++before[party];
    if (job->id.empty()) {
      unseen.push_back(job);
    } else if (choice_about(*job) == nullptr) {
      gone.push_back(job);
    } else {
      // What ended in this step may have come after others went.
      const bool since = std::find(ended_.begin(), ended_.end(), job) != ended_.end();
      if (!since && !names_nobody(job->client)) ++stay[party];
      const TimePoint ended = acts_at(job->ended_at);
      const auto [known, first] = oldest.emplace(party, ended);
      if (!first) known->second = std::min(known->second, ended);
      oldest_of_all = std::min(oldest_of_all.value_or(ended), ended);
    }
  }
  const std::size_t share = share_of_results();
  const bool others_first =
      std::any_of(stay.begin(), stay.end(), [&](const auto& held) { return held.second >= share; });
  for (const ModelJob* job : gone) {
    if (names_nobody(job->client)) continue;
    const TimePoint ended = acts_at(job->ended_at);
    const std::string party = party_of(job->client);
    const auto own = oldest.find(party);
    if (own != oldest.end() && own->second < ended)
      violated(job->name() + " is forgotten before an older one of its client");
    if (before[party] >= share) continue;
    if (others_first)
      violated(job->name() + " is forgotten; its client holds less than its share, and another one more");
    if (oldest_of_all && *oldest_of_all < ended)
      violated(job->name() + " is forgotten before older ones; its client holds less than its share");
  }
  for (ModelJob* job : unseen) {
    if (gone.size() == surplus) break;
    gone.push_back(job);
    guessed_.push_back({.client = party_of(job->client), .over_at = job->ended_at + job->retain});
  }
  if (gone.size() != surplus)
    violated(std::to_string(gone.size()) + " results made way, and not " + std::to_string(surplus));
  for (ModelJob* job : gone) {
    job->made_way = true;
    went.push_back(job);
    std::erase(kept_, job);
  }
}

void Auditor::check_counters() const {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const core::Lane& lane = *broker_.lanes()[i];
    if (lane.depth() != waiting_[i])
      violated("lane " + lane.options().name + " counts " + std::to_string(lane.depth()) +
               " waiting jobs, not " + std::to_string(waiting_[i]));
    if (lane.running != running_[i])
      violated("lane " + lane.options().name + " counts " + std::to_string(lane.running) +
               " running jobs, not " + std::to_string(running_[i]));
  }
  std::size_t queued = 0, jobs = 0, unserved = 0;
  for (const auto& lane : broker_.lanes())
    queued += lane->queued;
  for (const auto& [name, service] : broker_.workers().services()) {
    jobs += service->queued();
    for (std::size_t lane = 0; lane < broker_.lanes().size(); ++lane)
      if (service->queued_in[lane] > 0 && !is_served(name, lane)) {
        ++unserved;
        break;
      }
  }
  if (jobs != queued || unserved != broker_.workers().unserved().size())
    violated("services count " + std::to_string(jobs) + " queued jobs and lanes " + std::to_string(queued) +
             "; " + std::to_string(unserved) + " services have jobs that no worker takes, and " +
             std::to_string(broker_.workers().unserved().size()) + " are listed");
  if (broker_.workers().size() != workers_.size())
    violated("the broker counts " + std::to_string(broker_.workers().size()) + " workers, not " +
             std::to_string(workers_.size()));
}

std::size_t Auditor::open_jobs() const {
  std::size_t open = 0;
  for (std::size_t i = 0; i < waiting_.size(); ++i)
    open += waiting_[i] + running_[i];
  return open;
}

void Auditor::check_all_answered() const {
  for (const auto& [ref, asked] : requests_)
    if (asked.open()) violated("at the end a " + asked.op + " of " + asked.id + " is not answered");
  for (const ModelJob& job : jobs_)
    if (!job.ended()) violated("at the end " + job.name() + " has not ended");
}

void Auditor::check_all_returned() const {
  const auto none = [](const char* what, std::size_t count) {
    if (count != 0) violated("at the end there are " + std::to_string(count) + " " + what);
  };
  none("jobs", broker_.jobs().size());
  none("kept results", broker_.kept_results());
  none("workers", broker_.workers().size());
  none("services without a worker", broker_.workers().unserved().size());
  none("bytes of jobs", broker_.memory_bytes());
  for (const auto& lane : broker_.lanes()) {
    none("bytes in a lane", lane->bytes);
    none("jobs in a lane", lane->depth() + lane->running);
    const core::LaneCounters& counters = lane->counters;
    const auto taken = static_cast<std::int64_t>(counters.accepted) + moved_in_[lane->index()];
    const auto ended = static_cast<std::int64_t>(counters.succeeded + counters.failed);
    if (taken != ended)
      violated("at the end lane " + lane->options().name + " has taken " + std::to_string(taken) +
               " jobs and ended " + std::to_string(ended));
  }
  for (const ModelBudget& budget : budgets_)
    none("jobs running under a budget", static_cast<std::size_t>(budget.running));
}

}  // namespace lanemq::sim
