// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster/cluster_witness.hpp"

#include <algorithm>

#include <lanemq/codec.hpp>

namespace lanemq::sim {
namespace {

/// What links and stores delay a call for beyond that part of a period is not the broker's to foresee; a
/// takeover, which reads two clocks, may take so much of that.
constexpr std::int64_t kForeseen = 100;
constexpr core::Duration kClocksApart = std::chrono::milliseconds(100);
/// Of a submit: its job is not taken, or not any more.
const std::set<std::string_view> kNotTaken = {"lane_full", "client_full", "bytes_full", "store_full",
                                              "draining"};
/// A new owner waits so long for the workers of calls that another one has handed over; its clock may be a
/// tenth too fast. Then it has the jobs called again, whatever becomes of the calls.
constexpr core::Duration kReturnMax = std::chrono::milliseconds(3600);
const std::set<std::string_view> kJobEnds = {"cancelled", "upstream_failed", "worker_lost"};

std::string named(const std::string& id) {
  return "job \"" + id + "\"";
}

std::string shown(core::TimePoint at) {
  return std::to_string(static_cast<double>(at.time_since_epoch().count()) / 1e6);
}

}  // namespace

// ---- clients ------------------------------------------------------------------------------------------

void ClusterWitness::asks(std::uint64_t ref, const std::string& id, bool durable, std::int64_t tokens) {
  asked_[ref] = {.id = id, .durable = durable};
  jobs_[id].durable = durable;
  jobs_[id].tokens = tokens;
}

/// Of jobs that are not durable the new owner knows nothing: it has their calls given up as soon as their
/// workers tell of them.
void ClusterWitness::owns(std::int64_t epoch, core::TimePoint now) {
  owned_.emplace(epoch, now);
  for (auto& [lease, offer] : offers_)
    if (offer.runs && !jobs_[offer.id].durable) end_call(offer, now);
}

void ClusterWitness::releasing(core::TimePoint decided_at, core::TimePoint now, std::int64_t epoch) {
  decided_at_ = decided_at;
  now_ = now;
  epoch_ = epoch;
}

void ClusterWitness::sent_to_client(const std::string&, const wire::ClientReply& reply,
                                    std::string_view body) {
  if (const auto* accepted = std::get_if<wire::Accepted>(&reply)) {
    const auto place = asked_.find(ref_number(accepted->ref).value_or(0));
    if (place == asked_.end()) violated("accepted what nobody submitted");
    Job& job = jobs_[place->second.id];
    if (!job.durable) return;
    if (!accepted->durable) violated(named(place->second.id) + " was accepted, and is not durable");
    // What waited for its commit may leave late, behind words of another owner.
    if (!accepted->duplicate && job.promised && decided_at_ > job.promised_at)
      violated(named(place->second.id) + " was accepted anew, though it is known");
    promised(job);
  } else if (const auto* result = std::get_if<wire::JobResult>(&reply)) {
    ended(ref_number(result->ref).value_or(0), "", body);
  } else if (const auto* error = std::get_if<wire::ErrorReply>(&reply)) {
    ended(ref_number(error->ref).value_or(0), error->code, body);
  }
}

void ClusterWitness::promised(Job& job) {
  if (!std::exchange(job.promised, true)) job.promised_at = now_;
}

void ClusterWitness::ended(std::uint64_t ref, std::string_view code, std::string_view body) {
  const auto place = asked_.find(ref);
  if (place == asked_.end()) return;
  Asked& asked = place->second;
  if (std::exchange(asked.ended, true))
    violated("a second end of what asked for " + named(asked.id) + " (" + std::string(code) + ")");
  Job& job = jobs_[asked.id];
  if (!job.durable || code == "not_owner") return;  // that says nothing of the job
  if (kNotTaken.contains(code)) {
    if (job.promised && decided_at_ > job.promised_at)
      violated(named(asked.id) + " is known, but the answer is " + std::string(code));
    return;
  }
  if (!code.empty() && !kJobEnds.contains(code))
    violated(named(asked.id) + " was answered with " + std::string(code));
  if (code == "cancelled" && !job.cancelled) violated(named(asked.id) + " was cancelled by nobody");
  const std::string answer = code.empty() ? "result " + std::string(body) : std::string(code);
  if (job.answer && *job.answer != answer)
    violated(named(asked.id) + " was answered with " + *job.answer + ", and now with " + answer);
  if (!job.answer) job.answered_at = now_;
  promised(job);
  job.answer = answer;
}

// ---- workers ------------------------------------------------------------------------------------------

void ClusterWitness::sent_to_worker(const std::string&, const wire::WorkerCommand& command,
                                    std::string_view) {
  const auto* const offer = std::get_if<wire::JobOffer>(&command);
  if (offer == nullptr) return;
  const std::string id(offer->id);
  const auto earlier = handed_over_at_.extract({epoch_, offer->job});
  const core::TimePoint at = earlier.empty() ? decided_at_ : earlier.mapped();
  const Offer made{
      .id = id, .account = account_of(offer->key), .decided_at = at, .left_at = now_, .epoch = epoch_};
  if (!offers_.try_emplace({offer->job, offer->attempt}, made).second)
    violated(named(id) + " is handed over twice as attempt " + std::to_string(offer->attempt));
  // Its successor does not count the call. What a bank grants may be used to the end of its time.
  const auto later = owned_.upper_bound(epoch_);
  if (!options_.budgets.front().shared && later != owned_.end() && later->second < at)
    violated(named(id) + " is handed over by the owner of epoch " + std::to_string(epoch_) +
             ", though there is one of epoch " + std::to_string(later->first) + " since " +
             shown(later->second));
  if (id_of_.try_emplace(offer->job, id).first->second != id)
    violated(named(id) + " has the number of " + named(id_of_[offer->job]));
  Job& job = jobs_[id];
  if (!job.durable) return;
  if (job.number.value_or(offer->job) != offer->job) violated(named(id) + " has a second number");
  job.number = offer->job;
}

void ClusterWitness::calls(std::uint64_t job, std::int64_t attempt, core::TimePoint now) {
  const auto offer = offers_.find({job, attempt});
  if (offer == offers_.end()) violated("a call of what nobody was given");
  // What an owner from before sends late goes to connections that are no more.
  const Job& of = jobs_[offer->second.id];
  if (of.durable && of.answer && offer->second.left_at > of.answered_at)
    violated(named(offer->second.id) + " was handed over at " + shown(offer->second.left_at) +
             ", but was answered at " + shown(of.answered_at));
  // Of what a bank grants the time counts at which it leaves.
  const core::Duration period = options_.budgets.front().rates.front().period;
  const core::TimePoint counts =
      options_.budgets.front().shared
          ? now
          : std::min(now, offer->second.decided_at + period / kForeseen - kClocksApart);
  calls_.push_back({counts, offer->second.account, {.input_tokens = of.tokens}});
  give_up(now);
  offer->second.runs = true;
  calls_now_.begin(offer->second.account, now);
}

void ClusterWitness::call_ends(std::uint64_t job, std::int64_t attempt, core::TimePoint now) {
  const auto offer = offers_.find({job, attempt});
  if (offer != offers_.end() && offer->second.runs) end_call(offer->second, now);
}

void ClusterWitness::end_call(Offer& offer, core::TimePoint now) {
  offer.runs = false;
  calls_now_.end(offer.account, now);
}

/// Calls of earlier owners for which the last one waits no more.
void ClusterWitness::give_up(core::TimePoint now) {
  if (owned_.empty() || now - owned_.rbegin()->second < kReturnMax) return;
  for (auto& [lease, offer] : offers_)
    if (offer.runs && offer.epoch < owned_.rbegin()->first) end_call(offer, now);
}

void ClusterWitness::other_calls(const std::string& account, const core::Amounts& amounts,
                                 core::TimePoint now) {
  calls_.push_back({now, account, amounts});
  give_up(now);
  calls_now_.begin(account, now);
}

std::string ClusterWitness::account_of(std::string_view key) const {
  for (const core::KeyOptions& one : options_.budgets.front().keys)
    if (one.name == key) return StrictUpstream::account_of(one);
  if (!key.empty()) violated("a job has key \"" + std::string(key) + "\", which is not there");
  return {};
}

void ClusterWitness::check_windows() const {
  std::vector<Call> calls = calls_;
  std::stable_sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.at < b.at; });
  StrictUpstream upstream(options_.budgets.front());
  for (const Call& call : calls)
    upstream.take(call.amounts, call.account, call.at);
}

// ---- the database -------------------------------------------------------------------------------------

void ClusterWitness::logged(std::size_t server, const LogEntry* before, const LogEntry& entry) const {
  const io::OwnerRow last = before != nullptr ? before->row : io::OwnerRow{};
  const std::string what = "server " + std::to_string(server) + ": transaction " +
                           std::to_string(entry.row.ticket) + " of epoch " + std::to_string(entry.row.epoch) +
                           " behind " + std::to_string(last.ticket) + " of epoch " +
                           std::to_string(last.epoch);
  if (entry.takes && entry.row.epoch != last.epoch + 1) violated(what + ": a takeover of another row");
  if (entry.takes || entry.by == 0) return;
  if (entry.by < last.epoch) violated(what + ": an owner that was deposed has committed");
  if (entry.by > last.epoch) violated(what + ": an owner without a takeover");
  if (entry.row.ticket != last.ticket + 1) violated(what + ": not the next one");
}

void ClusterWitness::check_log(const std::vector<std::shared_ptr<const LogEntry>>& log) const {
  std::set<std::uint64_t> there;
  for (const auto& entry : log)
    if (entry->batch != 0 && !there.insert(entry->batch).second)
      violated("batch " + std::to_string(entry->batch) + " was committed twice");
  for (const std::uint64_t batch : told_)
    if (!there.contains(batch))
      violated("batch " + std::to_string(batch) + " was told, and is not in the database");
}

// ---- the end ------------------------------------------------------------------------------------------

void ClusterWitness::check_answered() const {
  for (const auto& [id, job] : jobs_)
    if (job.durable && job.promised && !job.answer) violated(named(id) + " has no end");
}

std::optional<std::string> ClusterWitness::answer_of(const std::string& id) const {
  const auto job = jobs_.find(id);
  return job == jobs_.end() ? std::nullopt : job->second.answer;
}

std::vector<std::string> ClusterWitness::answered_ids() const {
  std::vector<std::string> ids;
  for (const auto& [id, job] : jobs_)
    if (job.durable && job.answer) ids.push_back(id);
  return ids;
}

}  // namespace lanemq::sim
