// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/sim/auditor.hpp"

// Between the clients of a stream: whoever waits is passed by each other client with one job at most beyond
// its weighted share.
//
// Since a client j was last served, or began to wait, each other client i of its stream may have been served,
// for its weight, at most what j's last job cost j for its own, before i goes once more while j waits. That
// is the bound of start-time fair queuing, |served_i / w_i - served_j / w_j| <= cost_i / w_i + cost_j / w_j,
// said of one hand-over. What is corrected later (an attempt used something else, or was handed back and
// costs nothing) counts as served when it is known. What is given back to a client is its credit until it is
// served next.
//
// A client that has nothing to do falls behind while others are served, and saves nothing up by that: when it
// comes back it stands where they are. Had it been known from the start that one of its jobs costs more, it
// would stand there too, as long as it were still behind: only what goes beyond that counts. How far behind
// it can be follows from what both were served since, where the client that measures it waited all the time;
// else it is not known. A client that surely waits is not behind, and all counts.
//
// A client that comes anew may be served before who waits, and that is owed to who waits: up to one job of
// the newcomer's. Which client the broker takes for new cannot be told here, so that any may have been. Of
// clients that all wait the tests of a flow ask the bound without it.
//
// The clients of a tenant are one client to all others, with the weight that is said of the tenant; and so
// are they measured. Inside the tenant each is measured by the others of it alone.

namespace lanemq::sim {
namespace {

/// A broker may count cost for weight in whole ten-thousandths.
constexpr double kRounding = 1e-4;
/// Of how far a client is behind: it may be any.
constexpr double kUnknown = std::numeric_limits<double>::infinity();

}  // namespace

bool Auditor::forgets_clients() const {
  // Of clients without a job only so many are remembered, and who is forgotten owes nothing.
  constexpr std::size_t kNever = 1000;
  return options_.clients_idle_max < kNever;
}

/// The client's tenant takes turns, too.
void Auditor::add_tenant(const ModelStream& stream) {
  if (stream.circle.empty()) return;
  ModelStream tenant = stream;
  tenant.client = party_of(stream.client);
  tenant.circle.clear();
  if (std::none_of(tenants_.begin(), tenants_.end(), [&](const ModelStream& known) {
        return known.shares_with(tenant) && known.client == tenant.client;
      }))
    tenants_.push_back(std::move(tenant));
}

/// The job's stream among those with whom its client takes turns, and its tenant's among those with whom that
/// does.
std::vector<ModelStream*> Auditor::turns_of(const ModelJob& job) {
  std::vector<ModelStream*> turns = {&stream_of(job)};
  for (ModelStream& tenant : tenants_)
    if (!turns[0]->circle.empty() && tenant.shares_with(*turns[0]) && tenant.client == party_of(job.client))
      turns.push_back(&tenant);
  return turns;
}

/// Calls `tell` with all others with whom it takes turns.
void Auditor::for_others_of(const ModelStream& stream, const std::function<void(ModelStream&)>& tell) {
  for (auto* all : {&streams_, &tenants_})
    for (ModelStream& other : *all)
      if (&other != &stream && other.circle == stream.circle && other.shares_with(stream)) tell(other);
}

/// Its jobs that wait, the oldest first; of a tenant those of its clients that may have more jobs at workers.
std::vector<ModelJob*> Auditor::waiting_of(const ModelStream& stream) const {
  if (!stream.client.starts_with('@')) return {stream.waiting.begin(), stream.waiting.end()};
  std::set<ModelJob*, ByAge> all;
  for (const ModelStream& one : streams_)
    if (one.shares_with(stream) && !at_limit(one.client) && party_of(one.client) == stream.client)
      all.insert(one.waiting.begin(), one.waiting.end());
  return {all.begin(), all.end()};
}

/// Whether the client has waited without a break since it was looked at last.
bool Auditor::still_waits(const ModelStream& stream) const {
  const ModelTurns& turns = stream.turns;
  const ModelJob* const witness = turns.witness;
  return witness != nullptr && witness->attempt == turns.witness_attempt && witness->surely_queued(now_) &&
         !at_limit(stream.client) && !at_limit(witness->client) &&
         times_at_limit(stream.client) == turns.times_at_limit;
}

bool Auditor::surely_takes_turns(const ModelStream& stream) const {
  const std::vector<ModelJob*> waiting = waiting_of(stream);
  return !at_limit(stream.client) && std::any_of(waiting.begin(), waiting.end(), [&](const ModelJob* job) {
    return job->surely_queued(now_);
  });
}

/// The others of its stream are measured from now on, from where the client stands.
void Auditor::look_at_others(ModelStream& stream) {
  ModelTurns& turns = stream.turns;
  for_others_of(stream, [&](const ModelStream& other) {
    const ModelTurns& theirs = other.turns;
    ModelTurns::Then& then = turns.others[&other];
    if (surely_takes_turns(other)) {
      then.behind = 0;  // but for its credit
    } else if (!turns.waited) {
      then.behind = kUnknown;
    } else {
      const double moved =
          static_cast<double>(turns.ahead + turns.given_back) / options_of(stream.client).weight;
      const double got = static_cast<double>(theirs.served - then.served) / options_of(other.client).weight;
      const auto changes = static_cast<double>(turns.changes + theirs.changes - then.changes + 2);
      then.behind = std::max(then.behind + moved - got + kRounding * changes, 0.0);
    }
    then.served = theirs.served + theirs.given_back;
    then.changes = theirs.changes;
  });
  turns.waited = false;
}

/// It waits from now on, if it surely does; returns whether it does.
bool Auditor::begin_to_wait(ModelStream& stream) {
  ModelTurns& turns = stream.turns;
  turns.witness = nullptr;
  turns.ahead = turns.ahead_max = std::max<std::int64_t>(turns.ahead_max, 0);
  if (at_limit(stream.client)) return false;
  // The youngest is there for longest.
  const std::vector<ModelJob*> waiting = waiting_of(stream);
  const auto youngest = std::find_if(waiting.rbegin(), waiting.rend(),
                                     [&](const ModelJob* job) { return job->surely_queued(now_); });
  if (youngest == waiting.rend()) return false;
  turns.witness = *youngest;
  turns.witness_attempt = turns.witness->attempt;
  turns.times_at_limit = times_at_limit(stream.client);
  return true;
}

/// A job is about to be handed over: of those who wait, it was this client's turn, and its tenant's.
void Auditor::check_turn(const ModelJob& job) {
  if (forgets_clients()) return;
  for (ModelStream* served : turns_of(job))
    check_turn(job, *served);
}

void Auditor::check_turn(const ModelJob& job, ModelStream& served) {
  served.turns.waited = still_waits(served);
  const double weight = options_of(served.client).weight;
  for_others_of(served, [&](ModelStream& other) {
    if (!still_waits(other) && begin_to_wait(other)) look_at_others(other);
    const ModelTurns& turns = other.turns;
    if (turns.witness == nullptr || other.mixed || served.mixed) return;
    const auto then = turns.others.find(&served);
    const std::int64_t before = then == turns.others.end() ? 0 : then->second.served;
    const std::uint64_t changes =
        served.turns.changes + turns.changes - (then == turns.others.end() ? 0 : then->second.changes);
    const double got = static_cast<double>(served.turns.served - before) / weight;
    const double may =
        static_cast<double>(turns.ahead) / options_of(other.client).weight + served.turns.passed;
    if (got > may + kRounding * static_cast<double>(changes + 2))
      violated(job.name() + " of client \"" + served.client + "\" was handed over before those of client \"" +
               other.client + "\", which waits and was served " + std::to_string(got - may) +
               " less for its weight");
  });
}

/// The job has been handed over.
void Auditor::charge(ModelJob& job) {
  if (job.alone) {  // beside the turns
    job.charged = 0;
    return correct(job, job.cost);
  }
  job.charged = job.cost;
  for (ModelStream* stream : turns_of(job))
    charge(*stream, job.cost);
}

void Auditor::charge(ModelStream& stream, std::int64_t cost) {
  ModelTurns& turns = stream.turns;
  if (!forgets_clients()) look_at_others(stream);
  for_others_of(stream, [&](ModelStream& other) {
    if (const auto then = other.turns.others.find(&stream); then != other.turns.others.end())
      then->second.behind = 0;  // it stands where the others are
  });
  const double passes_by = static_cast<double>(cost) / options_of(stream.client).weight;
  for_others_of(stream,
                [&](ModelStream& other) { other.turns.passed = std::max(other.turns.passed, passes_by); });
  turns.served += cost;
  ++turns.changes;
  turns.given_back = 0;
  turns.ahead = turns.ahead_max = cost;
  if (!forgets_clients()) begin_to_wait(stream);
}

/// What was charged for the job's attempt turned out to be `more`, or less, below 0.
void Auditor::correct(ModelJob& job, std::int64_t more) {
  if (more == 0) return;
  job.charged += more;
  for (ModelStream* stream : turns_of(job))
    correct(*stream, more);
}

void Auditor::correct(ModelStream& stream, std::int64_t more) {
  ModelTurns& turns = stream.turns;
  const double weight = options_of(stream.client).weight;
  for_others_of(stream, [&](ModelStream& other) {
    const auto then = other.turns.others.find(&stream);
    if (more < 0 || then == other.turns.others.end() || then->second.behind == 0) return;
    // What is less than it was behind delays it no further.
    const double less = std::min(static_cast<double>(more), std::ceil(then->second.behind * weight));
    then->second.behind = std::max(then->second.behind - less / weight, 0.0);
    then->second.served += static_cast<std::int64_t>(less);
  });
  turns.served += more;
  ++turns.changes;
  if (more < 0) turns.given_back -= more;
  turns.ahead += more;
  turns.ahead_max = std::max<std::int64_t>(turns.ahead_max, 0) + more;
}

}  // namespace lanemq::sim
