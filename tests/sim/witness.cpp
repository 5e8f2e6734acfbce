// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/witness.hpp"

#include <algorithm>

#include <lanemq/text.hpp>

#include "tests/sim/world.hpp"

namespace lanemq::sim {
namespace {

/// Bodies below this are never left to the store alone: their jobs leave when they are handed over.
constexpr std::size_t kSmallBody = 512;
/// As many heartbeats does a job wait for its worker after a restart, and may a worker be silent.
constexpr int kAdoptHeartbeats = 4, kSilentHeartbeats = 3;

/// Results that ended within this of each other go in any order.
constexpr Duration kOfOneAge = std::chrono::milliseconds(2);

/// Of `limited` and `upstream_quota` it is one that names a limiter: the job is not taken. kEnds has those of
/// a job that was.
constexpr std::string_view kShutRefusal = "shut out, and not taken";
const std::set<std::string_view> kRefusals = {"lane_full", "client_full",   "bytes_full", "store_full",
                                              "draining",  "unsatisfiable", kShutRefusal};
const std::set<std::string_view> kEnds = {"deadline",        "cancelled",      "upstream_rejected",
                                          "upstream_failed", "upstream_quota", "worker_lost",
                                          "limited"};

std::string quoted(const std::string& id) {
  return "job \"" + id + "\"";
}

}  // namespace

Witness::Witness(const Swarm& swarm, const Crashes& crashes)
    : swarm_(swarm), crashes_(crashes), taken_(swarm.options.budgets.size()) {}

// ---- what is known of a job ---------------------------------------------------------------------------

TimePoint Witness::may_be_gone_at(const Followed& job) const {
  if (job.ends_at == core::kNever) return core::kNever;
  const auto cleared = std::lower_bound(cleared_at_.begin(), cleared_at_.end(), job.ends_at);
  return std::min(cleared != cleared_at_.end() ? *cleared : core::kNever,
                  crashes_.keeps ? job.ends_at + job.retain : job.ends_at);
}

/// When the pause ended the job at the earliest, if it did: its upstream was left alone until after the job's
/// deadline, or refused its keys. Perhaps nobody heard of that end, for those who asked before a crash are
/// not known any more.
TimePoint Witness::refused_at(const Followed& job, const Pause& pause) {
  return pause.until > job.deadline ? std::max(pause.said_at, job.submitted_at) : core::kNever;
}

/// While new jobs are refused for a full disk the oldest results make way for them.
bool Witness::may_have_made_way(const Followed& job) const {
  const auto made_way = [&](TimePoint ended_at) {
    const auto full = std::lower_bound(full_at_.begin(), full_at_.end(), ended_at);
    return full != full_at_.end() && *full <= decided_at_;
  };
  return made_way(job.ends_at) || std::any_of(pauses_.begin(), pauses_.end(), [&](const Pause& pause) {
           return made_way(refused_at(job, pause));
         });
}

/// Whether it may have been refused as its upstream is paused, and so long ago.
bool Witness::may_have_been_refused(const Followed& job, Duration ago) const {
  return std::any_of(pauses_.begin(), pauses_.end(), [&](const Pause& pause) {
    const TimePoint ended_at = refused_at(job, pause);
    return ended_at != core::kNever && decided_at_ >= ended_at + ago;
  });
}

bool Witness::goes_on_for_sure(const Followed& job) const {
  return job.promised && decided_at_ < job.ends_at && !may_have_been_refused(job, Duration{});
}

void Witness::may_end(Followed& job, TimePoint at) {
  job.causes.push_back(at);
  job.ends_at = std::min(job.ends_at, at);
  job.over_at = std::min(job.over_at, at);
}

void Witness::may_end(std::uint64_t number, TimePoint at) {
  const auto id = job_of_number_.find(number);
  if (id != job_of_number_.end()) may_end(followed(id->second), at);
}

/// A job that would wait for longer than it may, as its upstream said of it or of another, ends by that now.
void Witness::may_end_by(Followed& job, std::string_view code) {
  if (code == "limited" && decided_at_ < paused_until_) may_end(job, decided_at_);
  if (code == "upstream_quota" && decided_at_ < keys_rest_until_) may_end(job, decided_at_);
}

void Witness::time_is_void(TimePoint now) {
  for (auto& [id, job] : jobs_) {
    may_end(job, now);
  }
  cleared_at_.push_back(now);
  for (auto& [ref, asked] : asked_)
    asked.ends_at = std::min(asked.ends_at, now);
  check_windows();
  taken_.assign(taken_.size(), {});
}

void Witness::crashed(TimePoint noted_at) {
  for (auto& budget : taken_)
    std::erase_if(budget, [&](const Taken& taken) { return taken.forgettable && taken.at > noted_at; });
  for (auto& [id, job] : jobs_)
    if (job.chunk_at != core::kNever && job.chunk_at >= noted_at) job.marked = false;
  made_way_ = {};
  workers_.clear();
  here_since_.clear();
  sessions_.clear();
  holders_.clear();
  listed_by_.clear();
  cancels_due_.clear();
  cancels_told_.clear();
}

void Witness::started(TimePoint now) {
  started_at_ = now;
  full_ = false;
  handed_over_at_.clear();
}

// ---- what clients and operators say -------------------------------------------------------------------

void Witness::client_says(const std::string&, const wire::ClientRequest& request, std::string_view body,
                          std::size_t, TimePoint now) {
  if (const auto* submit = std::get_if<wire::Submit>(&request)) return on(*submit, body, now);
  Asked asked;
  asked.at = now;
  std::optional<std::uint64_t> ref;
  if (const auto* cancel = std::get_if<wire::Cancel>(&request)) {
    may_end(followed(std::string(cancel->id)), now);
    asked.id = cancel->id;
    ref = ref_number(cancel->ref);
  } else if (const auto* fetch = std::get_if<wire::Fetch>(&request)) {
    asked.id = fetch->id;
    asked.reads = fetch->from_seq.has_value();
    asked.next_chunk = fetch->from_seq.value_or(0);
    ref = ref_number(fetch->ref);
  } else if (const auto* status = std::get_if<wire::StatusQuery>(&request)) {
    asked.id = status->id;
    ref = ref_number(status->ref);
  }
  if (ref) asked_[*ref] = asked;
}

void Witness::on(const wire::Submit& submit, std::string_view body, TimePoint now) {
  const core::Options& options = swarm_.options;
  Asked asked;
  asked.id = submit.id;
  asked.body = body;
  asked.submits = true;
  asked.reads = submit.stream;
  asked.at = now;
  asked.content = std::string(submit.service) + '\n' + std::string(submit.lane) + '\n' +
                  std::string(submit.model) + '\n' + asked.body;
  asked.stream = StreamKey(submit.lane, submit.service, submit.model, submit.client);
  const auto lane = std::find_if(options.lanes.begin(), options.lanes.end(),
                                 [&](const core::LaneOptions& one) { return one.name == submit.lane; });
  const bool valid = lane != options.lanes.end();
  asked.may_be_kept = valid && submit.durable.value_or(lane->durable);
  if (valid) {
    const Duration delay = std::chrono::milliseconds(submit.delay_ms.value_or(0));
    asked.ends_at = now + (submit.timeout_ms ? Duration(std::chrono::milliseconds(*submit.timeout_ms))
                                             : delay + lane->timeout);
    asked.in_order = !submit.client.empty() && !submit.delay_ms && body.size() < kSmallBody;
  }
  if (!submit.orphan.empty()) asked.ends_at = now;
  asked.retain = submit.retain_ms ? Duration(std::chrono::milliseconds(*submit.retain_ms)) : options.retain;
  asked.attempts_max = submit.attempts_max.value_or(options.attempts_max);
  service_of_body_.emplace(asked.body, submit.service);
  if (!asked.id.empty()) {
    if (!submit.notify.empty() && submit.group.empty()) notifies_["webhook:" + asked.id] = asked.id;
    if (swarm_.batches && valid && !submit.group.empty()) {
      Batch& batch = batches_[std::string(submit.group)];
      batch.size = static_cast<std::size_t>(submit.group_size.value_or(0));
      batch.ids.insert(asked.id);
    }
    Followed& job = followed(asked.id);
    job.contents.insert(asked.content);
    job.bodies.insert(asked.body);
    job.result_at = core::kNever;
    job.always_durable = job.always_durable && asked.may_be_kept;
    job.first_asked_at = std::min(job.first_asked_at, now);
    job.ends_at = std::min(job.ends_at, asked.ends_at);
    job.over_at = std::min(job.over_at, asked.ends_at);
    job.deadline = std::min(job.deadline, asked.ends_at);
    job.retain = std::min(job.retain, asked.retain);
    job.attempts_top = std::max(job.attempts_top, asked.attempts_max);
    job.attempts_max =
        job.attempts_max == 0 ? asked.attempts_max : std::min(job.attempts_max, asked.attempts_max);
  }
  if (const auto ref = ref_number(submit.ref)) asked_[*ref] = std::move(asked);
}

void Witness::operator_asks(const wire::AdminQuery& query, TimePoint now) {
  if (query.dry_run) return;
  if (query.verb == "redrive" || query.verb == "purge") cleared_at_.push_back(now);
  if (query.verb == "redrive") failed_.clear(), paid_.clear();  // they begin anew
  if (query.verb == "limit") limits_change(now);
  if (query.verb != "move") return;
  followed(std::string(query.id)).moved = true;
  for (auto& [stream, ids] : first_in_line_)
    ids.erase(std::string(query.id));
}

void Witness::reloaded(const core::Options&, TimePoint now) {
  limits_change(now);
}

/// What waits may be more than a limit ever grants now.
void Witness::limits_change(TimePoint now) {
  limits_changed_ = true;
  for (auto& [id, job] : jobs_)
    may_end(job, now);
}

// ---- what clients hear --------------------------------------------------------------------------------

void Witness::releasing(TimePoint decided_at, TimePoint now, bool waited) {
  decided_at_ = decided_at;
  now_ = now;
  waited_ = waited;
}

void Witness::sent_to_client(const std::string& address, const wire::ClientReply& reply,
                             std::string_view body) {
  if (const auto* event = std::get_if<wire::JobEvent>(&reply))
    heard(address, *event);
  else if (const auto* accepted = std::get_if<wire::Accepted>(&reply))
    heard(*accepted);
  else if (const auto* chunk = std::get_if<wire::ChunkReply>(&reply))
    heard(*chunk, body);
  else if (const auto* result = std::get_if<wire::JobResult>(&reply))
    heard_end(result->ref, "", body);
  else if (const auto* error = std::get_if<wire::ErrorReply>(&reply))
    heard(*error, body);
  else if (const auto* status = std::get_if<wire::StatusReply>(&reply))
    heard(*status);
}

void Witness::heard(const wire::Accepted& accepted) {
  const auto place = asked_.find(ref_number(accepted.ref).value_or(0));
  if (place == asked_.end() || !place->second.submits) violated("accepted what nobody submitted");
  Asked& asked = place->second;
  const std::string id(accepted.id);
  if (asked.id.empty()) {
    asked.id = id;
    Followed& job = followed(id);
    job.contents.insert(asked.content);
    job.bodies.insert(asked.body);
    job.first_asked_at = asked.at;
  } else if (asked.id != id) {
    violated("accepted " + quoted(id) + " in place of " + quoted(asked.id));
  }
  Followed& job = followed(id);
  if (accepted.durable && !waited_) violated(quoted(id) + " was accepted before it was on disk");
  if (!accepted.duplicate) {
    if (is_known(job)) violated(quoted(id) + " was accepted anew, though it is known");
    // A life of its own, which what was said before it was submitted does not end. What was decided since is
    // of this life, though nobody has heard of that before the disk had it.
    const auto is_earlier = [&](TimePoint at) { return at < asked.at; };
    std::erase_if(job.causes, is_earlier);
    std::erase_if(job.hand_overs, is_earlier);
    job.ends_at = job.deadline = asked.ends_at;
    for (const TimePoint at : job.causes)
      job.ends_at = std::min(job.ends_at, at);
    job.over_at = job.ends_at;
    if (job.chunk_said_at < asked.at) job.chunk_said_at = core::kNever;
    job.ends_at = std::min(job.ends_at, job.chunk_said_at);
    job.retain = asked.retain;
    job.attempts_max = asked.attempts_max;
    job.answer.reset();
    job.chunks.clear();
    job.chunk_at = core::kNever;
    job.marked = true;
    job.offers = 0;
    job.stream = asked.stream;
    job.in_order = accepted.durable && asked.in_order && !job.moved;
    job.promised = accepted.durable;
    job.promised_at = now_;
    job.submitted_at = asked.at;
    if (job.in_order) first_in_line_[job.stream].insert(id);
  } else if (accepted.durable && !job.promised) {
    job.promised = true;
    job.promised_at = now_;
  }
}

void Witness::heard(const wire::ErrorReply& error, std::string_view body) {
  if (error.code == "store_full" && error.limiter == "store_reserve")
    full_at_.insert(std::upper_bound(full_at_.begin(), full_at_.end(), decided_at_), decided_at_);
  const bool not_taken =
      (error.code == "limited" || error.code == "upstream_quota") && !error.limiter.empty();
  heard_end(error.ref, not_taken ? kShutRefusal : error.code, body);
}

void Witness::heard_end(wire::Raw ref, std::string_view code, std::string_view body) {
  const auto place = asked_.find(ref_number(ref).value_or(0));
  if (place == asked_.end()) return;
  Asked& asked = place->second;
  if (std::exchange(asked.ended, true))
    violated("a second end of what asked for " + quoted(asked.id) + " (" + std::string(code) + ")");
  if (asked.id.empty()) return;
  Followed& job = followed(asked.id);
  if (code == "internal") violated(quoted(asked.id) + " ended with internal");
  if (code == "conflict" && job.contents.size() == 1)
    violated(quoted(asked.id) + " is said to be another one than was submitted");
  if (code == "gone" && asked.reads) return;  // the chunk that it wanted may be, though the job is not
  // Who wants to wait for a job that is known takes memory.
  const bool refused = asked.submits && kRefusals.contains(code) && code != "bytes_full" &&
                       !(code == "unsatisfiable" && limits_changed_);
  if ((code == "gone" || code == "not_found" || refused) && is_known(job))
    violated(quoted(asked.id) + " is known, but the answer is " + std::string(code));
  if (code == "gone" && job.promised && job.result_at != core::kNever && decided_at_ < may_be_gone_at(job) &&
      job.ends_at > made_way_.ended_at)
    made_way_ = {.ended_at = job.ends_at, .said_at = decided_at_};
  if (!code.empty() && !kEnds.contains(code)) return;
  if (code.empty() && !asked.submits && asked.at > made_way_.said_at &&
      job.result_at < made_way_.ended_at - kOfOneAge)
    violated(quoted(asked.id) + " is kept, though a younger result made way");
  may_end_by(job, code);
  if (job.promised && decided_at_ < job.ends_at && decided_at_ < may_be_gone_at(job))
    violated(quoted(asked.id) + " ended for no reason: " + std::string(code));
  const std::string answer = code.empty() ? "result " + std::string(body) : std::string(code);
  if (job.promised && job.answer && *job.answer != answer && is_known(job))
    violated(quoted(asked.id) + " was answered with " + *job.answer + ", and now with " + answer);
  if (!job.promised && !job.always_durable) return;
  job.promised = true;
  job.answer = answer;
  job.answered_at = decided_at_;
  if (const auto number = number_of_.find(asked.id);
      number != number_of_.end() && (code == "deadline" || code == "cancelled"))
    over_at_.try_emplace(number->second, decided_at_);
  if (code.empty()) job.result_at = std::min(job.result_at, decided_at_);
  may_end(job, decided_at_);
  if (const auto line = first_in_line_.find(job.stream); line != first_in_line_.end())
    line->second.erase(asked.id);
}

void Witness::heard(const wire::ChunkReply& chunk, std::string_view body) {
  const auto place = asked_.find(ref_number(chunk.ref).value_or(0));
  if (place == asked_.end() || !place->second.reads) violated("a chunk that nobody asked for");
  Asked& asked = place->second;
  const std::string what = "chunk " + std::to_string(chunk.seq) + " of " + quoted(asked.id);
  if (asked.ended) violated(what + " came behind its end");
  if (chunk.seq != asked.next_chunk)
    violated(what + " came where " + std::to_string(asked.next_chunk) + " is next");
  ++asked.next_chunk;
  if (asked.id.empty()) return;
  Followed& job = followed(asked.id);
  // What was ended may have begun anew, and so may what its broker forgot.
  if (!job.promised || !job.marked || decided_at_ >= job.over_at) return;
  job.chunk_at = std::min(job.chunk_at, decided_at_);
  const auto [known, fresh] = job.chunks.try_emplace(chunk.seq, body);
  if (!fresh && known->second != body) violated(what + " was another one before");
}

void Witness::heard(const wire::StatusReply& status) {
  const std::string id(status.id);
  if (id.empty()) return;
  const auto place = jobs_.find(id);
  if (place == jobs_.end() || !is_known(place->second)) return;
  const Followed& job = place->second;
  if (status.state == "unknown") violated(quoted(id) + " is known, but its state is unknown");
  const bool open = status.state == "queued" || status.state == "delayed" || status.state == "running";
  if (open && job.answer) violated(quoted(id) + " is over, but " + std::string(status.state));
  const auto asked = asked_.find(ref_number(status.ref).value_or(0));
  if (asked == asked_.end()) violated("a status that nobody asked for");
}

// ---- what workers hear --------------------------------------------------------------------------------

void Witness::sent_to_worker(const std::string& address, const wire::WorkerCommand& command,
                             std::string_view body) {
  if (const auto* offer = std::get_if<wire::JobOffer>(&command)) heard(*offer, address, body);
  if (const auto* welcome = std::get_if<wire::Welcome>(&command))
    sessions_[std::string(welcome->session)] = address;
  if (const auto* cancel = std::get_if<wire::CancelJob>(&command)) {
    cancels_due_.erase({address, {cancel->job, cancel->attempt}});
    cancels_told_.insert({address, {cancel->job, cancel->attempt}});
  }
  if (const auto* acked = std::get_if<wire::Acked>(&command))
    for (const wire::Lease& lease : acked->jobs)
      if (failed_[lease.job].contains(lease.attempt)) paid_[lease.job].insert(lease.attempt);
}

void Witness::heard(const wire::JobOffer& offer, const std::string& address, std::string_view body) {
  const std::string id(offer.id);
  const Lease lease(offer.job, offer.attempt);
  if (!handed_over_.insert(lease).second)
    violated(quoted(id) + " is handed over twice as attempt " + std::to_string(offer.attempt));
  if (job_of_number_.try_emplace(offer.job, id).first->second != id)
    violated(quoted(id) + " has the number of " + quoted(job_of_number_[offer.job]));
  if (id.starts_with("webhook:")) {
    take_from_budgets(offer, kHook, lease);
    return heard_webhook(offer);
  }
  const auto submitted = service_of_body_.find(std::string(body));
  if (submitted == service_of_body_.end()) violated(quoted(id) + " was never submitted");
  Followed& job = followed(id);
  if (job.bodies.empty())
    job.bodies.insert(std::string(body));  // the broker made its id
  else if (!job.bodies.contains(std::string(body)))
    violated(quoted(id) + " is handed over with the body of another");
  // An offer that waited for the disk was decided on earlier, and its worker may have been lost since.
  if (job.answer && decided_at_ >= job.answered_at && is_known(job))
    violated(quoted(id) + " is handed over, but was answered");

  if (job.promised && job.chunk_at != core::kNever && job.marked && decided_at_ > job.chunk_at &&
      decided_at_ < job.over_at)
    violated(quoted(id) + " is handed over, though a client has a part of its answer");

  const auto holder = holders_.find(offer.job);
  if (holder != holders_.end() && decided_at_ > holder->second.said_at &&
      offer.attempt > holder->second.attempt) {
    const auto worker = workers_.find(holder->second.address);
    if (worker != workers_.end() &&
        decided_at_ - worker->second < kSilentHeartbeats * swarm_.options.heartbeat)
      violated(quoted(id) + " is handed to " + address + " while " + holder->second.address + " holds it");
  }
  holders_.erase(offer.job);
  // An acknowledged failure is on disk, and cost an attempt.
  if (job.attempts_top > 0 && swarm_.lies == 0 &&
      static_cast<std::int64_t>(paid_[offer.job].size()) >= job.attempts_top)
    violated(quoted(id) + " is handed over again after " + std::to_string(paid_[offer.job].size()) +
             " failures of " + std::to_string(job.attempts_top) + " attempts");
  if (job.offers == 0) check_order(id, job);
  if (const auto line = first_in_line_.find(job.stream); line != first_in_line_.end()) line->second.erase(id);
  ++job.offers;
  number_of_[id] = offer.job;
  last_[offer.job] = {.attempt = offer.attempt, .at = now_};
  count_hand_over(offer, decided_at_);
  // A worker of one service is not told which it is.
  take_from_budgets(offer, offer.service.empty() ? service_of_[address] : std::string(offer.service), lease);
}

/// Its worker may be lost with it.
void Witness::count_hand_over(const wire::JobOffer& offer, TimePoint at) {
  if (!hand_overs_.insert({offer.job, offer.attempt}).second) return;
  Followed& job = followed(std::string(offer.id));
  job.hand_overs.push_back(at);
  const std::int64_t attempts_max = job.attempts_max == 0 ? 1 : job.attempts_max;
  if (std::ssize(job.hand_overs) >= std::min<std::int64_t>(swarm_.options.crash_max, attempts_max))
    may_end(job, at);
}

/// Nobody of its client was promised to run before it was first submitted, and still waits.
void Witness::check_order(const std::string& id, const Followed& job) {
  if (!job.in_order || job.moved || !job.promised) return;
  for (const std::string& other : first_in_line_[job.stream]) {
    const Followed& before = followed(other);
    if (other != id && before.promised_at < job.first_asked_at && decided_at_ < before.ends_at &&
        !may_have_been_refused(before, Duration(0)))
      violated(quoted(id) + " is handed over before " + quoted(other) + ", which came first");
  }
}

void Witness::take_from_budgets(const wire::JobOffer& offer, const std::string& service, Lease lease) {
  const core::Options& options = swarm_.options;
  const auto usual = std::find_if(options.lanes.begin(), options.lanes.end(),
                                  [](const core::LaneOptions& lane) { return lane.is_default; });
  const std::string_view lane = offer.lane.empty() ? std::string_view(usual->name) : offer.lane;
  const auto earlier = handed_over_at_.find(offer.job);
  const TimePoint at = earlier == handed_over_at_.end() ? decided_at_ : earlier->second;
  if (earlier != handed_over_at_.end()) handed_over_at_.erase(earlier);
  const auto matches = [](const std::string& pattern, std::string_view name) {
    return pattern.empty() || glob_match(pattern, name);
  };
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    const core::BudgetOptions& budget = options.budgets[i];
    if (matches(budget.service, service) && matches(budget.model, offer.model) &&
        matches(budget.client, offer.client) && matches(budget.lane, lane))
      taken_[i].push_back({.at = at, .lease = lease, .forgettable = full_ && !waited_});
  }
}

void Witness::check_windows() {
  // A body that is read back comes after what it takes was taken.
  if (crashes_.spills || limits_changed_) return;
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    const core::BudgetOptions& budget = swarm_.options.budgets[i];
    if (budget.window != core::WindowKind::sliding) continue;
    std::vector<TimePoint> times;
    for (const Taken& taken : taken_[i])
      if (!settled_.contains(taken.lease)) times.push_back(taken.at);
    std::sort(times.begin(), times.end());
    for (const core::RateOptions& rate : budget.rates) {
      if (rate.resource != core::Resource::requests) continue;
      const auto limit = static_cast<std::size_t>(rate.limit);
      for (std::size_t last = limit; last < times.size(); ++last)
        if (times[last] - times[last - limit] < rate.period)
          violated("budget " + budget.name + ": more than " + std::to_string(rate.limit) + " " + rate.name +
                   " in the window that ends at " +
                   std::to_string(static_cast<double>(times[last].time_since_epoch().count()) / 1e6));
    }
  }
}

/// A batch is over when each of its jobs has ended, and once for each watch.
void Witness::heard(const std::string& address, const wire::JobEvent& event) {
  // Who submitted the job may hear of its end later, or never.
  if (const auto place = jobs_.find(std::string(event.id)); event.what == "ended" && place != jobs_.end())
    may_end_by(place->second, event.code);
  if (event.what != "group_over" || event.incomplete || !swarm_.batches) return;
  const std::string name(event.group);
  if (!waited_) violated(name + " was said to be over before that was on disk");
  if (!overs_told_.insert({address, ref_number(event.ref).value_or(0), name}).second)
    violated(name + " was said to be over twice by one watch");
  Batch& batch = batches_[name];
  batch.over = true;
  const auto ended =
      static_cast<std::size_t>(event.succeeded + event.failed + event.cancelled + event.expired);
  if (ended != batch.size || batch.ids.size() < batch.size)
    violated(name + " is over with " + std::to_string(ended) + " jobs of " + std::to_string(batch.size) +
             ", of which " + std::to_string(batch.ids.size()) + " were submitted");
  std::int64_t succeeded = 0, others = 0;
  for (const std::string& id : batch.ids) {
    const Followed& job = followed(id);
    if (goes_on_for_sure(job)) violated(name + " is over, though " + quoted(id) + " goes on");
    if (!job.promised || !job.answer) continue;
    ++(job.answer->starts_with("result ") ? succeeded : others);
  }
  if (succeeded > event.succeeded || others > event.failed + event.cancelled + event.expired)
    violated(name + " is over with other ends than its clients heard");
}

namespace {

/// The id of a job that tells of an end, without the end's time. No end comes twice here: nobody runs a dead
/// job again, and each group has a name of its own.
std::string without_time(std::string_view id) {
  return std::string(id.substr(0, id.rfind(':')));
}

}  // namespace

/// One job tells of an end, and not before that.
void Witness::heard_webhook(const wire::JobOffer& offer) {
  const std::string id = without_time(offer.id);
  handed_out_webhooks_.emplace(offer.id);
  std::set<std::uint64_t>& numbers = telling_[id];
  numbers.insert(offer.job);
  if (numbers.size() > 1) violated(id + " was made twice");
  const auto goes_on = [&](const std::string& of) { return goes_on_for_sure(followed(of)); };
  constexpr std::string_view kOfGroup = "webhook:group:";
  if (id.starts_with(kOfGroup)) {
    const auto batch = batches_.find(id.substr(kOfGroup.size()));
    if (batch == batches_.end()) violated(id + " tells of what nobody submitted");
    for (const std::string& of : batch->second.ids)
      if (goes_on(of)) violated(id + " tells of an end, though " + quoted(of) + " goes on");
    return;
  }
  const auto of = notifies_.find(id);
  if (of == notifies_.end()) violated(id + " tells of what nobody submitted, or a second time");
  if (goes_on(of->second)) violated(id + " tells of an end that has not come");
}

void Witness::noticed(const core::Notice& notice) {
  if (notice.kind == core::Notice::Kind::webhook_refused) untold_.insert(notice.name);
}

bool Witness::has_ended(const std::string& id) const {
  const auto job = jobs_.find(id);
  return job != jobs_.end() && job->second.promised && job->second.answer;
}

void Witness::check_told(const core::Broker& broker) const {
  if (!swarm_.notifies) return;
  std::set<std::string> made;
  for (std::size_t place = 0; place < broker.jobs().places(); ++place)
    if (const core::Record* const record = broker.jobs().at(place); record != nullptr)
      made.insert(without_time(record->id()));
  // One that ended while a worker had it has a place no more, but its id.
  for (const std::string& id : handed_out_webhooks_)
    if (broker.jobs().find(id) != nullptr) made.insert(without_time(id));
  const auto check = [&](const std::string& id) {
    if (!made.contains(id) && !untold_.contains(id)) violated(id + " was never made");
  };
  for (const auto& [id, of] : notifies_)
    if (has_ended(of)) check(id);
  for (const std::string& batch : complete_batches())
    check("webhook:group:" + batch);
}

std::vector<std::string> Witness::complete_batches() const {
  std::vector<std::string> complete;
  for (const auto& [name, batch] : batches_)
    if (batch.ids.size() == batch.size &&
        std::all_of(batch.ids.begin(), batch.ids.end(), [&](const auto& id) { return has_ended(id); }))
      complete.push_back(name);
  return complete;
}

void Witness::check_over(const std::string& batch) const {
  if (!batches_.at(batch).over)
    violated(batch + " is not said to be over, though each of its jobs has ended");
}

// ---- what workers say ---------------------------------------------------------------------------------

void Witness::worker_says(const std::string& address, const wire::WorkerReport& report, std::string_view,
                          TimePoint now) {
  check_cancels(now);
  if (const auto* ready = std::get_if<wire::Ready>(&report)) {
    const auto session = sessions_.find(std::string(ready->session));
    if (session != sessions_.end() && session->second != address && !workers_.contains(address) &&
        workers_.contains(session->second))
      move_worker(session->second, address);
    workers_[address] = now;
    here_since_.try_emplace(address, now);
    if (!ready->services.empty()) service_of_[address] = ready->services.front();
  } else if (const auto* chunk = std::get_if<wire::Chunk>(&report)) {
    alive(address, now);
    const auto id = job_of_number_.find(chunk->job);
    if (id == job_of_number_.end()) return;
    Followed& job = followed(id->second);
    job.chunk_said_at = std::min(job.chunk_said_at, now);
    job.ends_at = std::min(job.ends_at, now);
  } else if (const auto* outcome = std::get_if<wire::Outcome>(&report)) {
    alive(address, now);
    may_end(outcome->job, now);
    // What was used was said otherwise than it was reckoned with.
    if (outcome->usage && outcome->usage->requests) settled_.insert({outcome->job, outcome->attempt});
    holders_.erase(outcome->job);
    outcomes_said_.insert({outcome->job, outcome->attempt});
    cancels_due_.erase({address, {outcome->job, outcome->attempt}});
  } else if (const auto* failure = std::get_if<wire::Failure>(&report)) {
    alive(address, now);
    may_end(failure->job, now);
    const bool sent = failure->error_class == "retry" || failure->error_class == "permanent";
    if (failure->error_class == "limited") {
      const TimePoint until = now + std::chrono::milliseconds(failure->retry_after_ms.value_or(1000));
      paused_until_ = std::max(paused_until_, until);
      pauses_.push_back({.said_at = now, .until = until});
    }
    if (failure->error_class == "quota") {
      key_rest_ = std::min<Duration>(key_rest_ * 2, std::chrono::hours(1));
      keys_rest_until_ = std::max(keys_rest_until_, now + key_rest_);
      pauses_.push_back({.said_at = now, .until = keys_rest_until_});
    }
    if (!sent || (failure->usage && failure->usage->requests))
      settled_.insert({failure->job, failure->attempt});
    if (workers_.contains(address) && last_[failure->job].attempt == failure->attempt &&
        (failure->error_class == "retry" || failure->error_class == "overloaded"))
      failed_[failure->job].insert(failure->attempt);
    holders_.erase(failure->job);
    outcomes_said_.insert({failure->job, failure->attempt});
    cancels_due_.erase({address, {failure->job, failure->attempt}});
  } else if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&report)) {
    alive(address, now);
    check_inventory(address, *heartbeat, now);
  } else if (std::holds_alternative<wire::Bye>(report)) {
    forget_worker(address);
  }
}

void Witness::alive(const std::string& address, TimePoint now) {
  const auto worker = workers_.find(address);
  if (worker == workers_.end()) return;
  if (now - worker->second >= kSilentHeartbeats * swarm_.options.heartbeat) return forget_worker(address);
  worker->second = now;
}

void Witness::worker_disconnected(const std::string& address, core::WorkerDisconnected::Process, TimePoint) {
  forget_worker(address);
}

/// It has come back by its session.
void Witness::move_worker(const std::string& from, const std::string& to) {
  workers_.erase(from);
  for (auto& [number, holder] : holders_)
    if (holder.address == from) holder.address = to;
  for (auto& [number, by] : listed_by_)
    if (by == from) by = to;
  std::erase_if(cancels_due_, [&](const auto& due) { return due.first.first == from; });
  std::erase_if(cancels_told_, [&](const auto& told) { return told.first == from; });
  if (const auto since = here_since_.extract(from); !since.empty()) here_since_[to] = since.mapped();
}

/// A worker that lists an attempt that was overtaken is told so before it says so again.
void Witness::check_cancels(TimePoint now) const {
  for (const auto& [due, since] : cancels_due_)
    if (now - since > swarm_.options.heartbeat)
      violated("worker " + due.first + " lists attempt " + std::to_string(due.second.second) + " of job " +
               std::to_string(due.second.first) +
               ", which was overtaken or has ended, and is not told to cancel it");
}

void Witness::forget_worker(const std::string& address) {
  workers_.erase(address);
  here_since_.erase(address);
  std::erase_if(cancels_due_, [&](const auto& due) { return due.first.first == address; });
  std::erase_if(cancels_told_, [&](const auto& told) { return told.first == address; });
  std::erase_if(holders_, [&](const auto& holder) { return holder.second.address == address; });
}

/// Whatever a worker that is known lists, soon after the start and as its last attempt before that, stays
/// with it.
void Witness::check_inventory(const std::string& address, const wire::Heartbeat& inventory, TimePoint now) {
  std::erase_if(holders_, [&](const auto& holder) { return holder.second.address == address; });
  if (!workers_.contains(address)) return;
  for (const wire::Lease& lease : inventory.jobs) {
    const auto last = last_.find(lease.job);
    const bool runs = !outcomes_said_.contains({lease.job, lease.attempt});
    // What ended before the worker was here it has not heard of, until it is told by this connection: once
    // is enough, however long it takes to stop.
    const auto over = over_at_.find(lease.job);
    const auto since = here_since_.find(address);
    const bool ended = over != over_at_.end() && since != here_since_.end() && over->second < since->second &&
                       !cancels_told_.contains({address, Lease(lease.job, lease.attempt)});
    if (runs && (ended || (last != last_.end() && last->second.attempt > lease.attempt)))
      cancels_due_.try_emplace({address, Lease(lease.job, lease.attempt)}, now);
  }
  if (swarm_.lies > 0) return;
  if (now - started_at_ >= kAdoptHeartbeats * swarm_.options.heartbeat) return;
  for (const wire::Lease& lease : inventory.jobs) {
    const auto last = last_.find(lease.job);
    if (last == last_.end() || last->second.attempt != lease.attempt || last->second.at >= started_at_)
      continue;
    const Followed& job = followed(job_of_number_[lease.job]);
    if (!job.promised || now >= job.ends_at) continue;
    // It is the first one's that lists it, even if that comes back under another address.
    if (listed_by_.try_emplace(lease.job, address).first->second != address) continue;
    holders_[lease.job] = {.address = address, .attempt = lease.attempt, .said_at = now};
  }
}

}  // namespace lanemq::sim
