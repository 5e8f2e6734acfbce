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

/// Whether the client has waited without a break since it was looked at last.
bool Auditor::still_waits(const ModelStream& stream) const {
  const ModelTurns& turns = stream.turns;
  const ModelJob* const witness = turns.witness;
  return witness != nullptr && witness->attempt == turns.witness_attempt && witness->surely_queued(now_) &&
         !at_limit(stream.client) && times_at_limit(stream.client) == turns.times_at_limit;
}

bool Auditor::surely_takes_turns(const ModelStream& stream) const {
  return !at_limit(stream.client) &&
         std::any_of(stream.waiting.begin(), stream.waiting.end(),
                     [&](const ModelJob* job) { return job->surely_queued(now_); });
}

/// The others of its stream are measured from now on, from where the client stands.
void Auditor::look_at_others(ModelStream& stream) {
  ModelTurns& turns = stream.turns;
  for (const ModelStream& other : streams_) {
    if (&other == &stream || !other.shares_with(stream)) continue;
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
  }
  turns.waited = false;
}

/// It waits from now on, if it surely does; returns whether it does.
bool Auditor::begin_to_wait(ModelStream& stream) {
  ModelTurns& turns = stream.turns;
  turns.witness = nullptr;
  turns.ahead = turns.ahead_max = std::max<std::int64_t>(turns.ahead_max, 0);
  if (at_limit(stream.client)) return false;
  // The youngest is there for longest.
  const auto youngest = std::find_if(stream.waiting.rbegin(), stream.waiting.rend(),
                                     [&](const ModelJob* job) { return job->surely_queued(now_); });
  if (youngest == stream.waiting.rend()) return false;
  turns.witness = *youngest;
  turns.witness_attempt = turns.witness->attempt;
  turns.times_at_limit = times_at_limit(stream.client);
  return true;
}

/// A job is about to be handed over: of those who wait, it was this client's turn.
void Auditor::check_turn(const ModelJob& job) {
  if (forgets_clients()) return;
  ModelStream& served = stream_of(job);
  served.turns.waited = still_waits(served);
  const double weight = options_of(job.client).weight;
  for (ModelStream& other : streams_) {
    if (&other == &served || !other.shares_with(served)) continue;
    if (!still_waits(other) && begin_to_wait(other)) look_at_others(other);
    const ModelTurns& turns = other.turns;
    if (turns.witness == nullptr || other.mixed || served.mixed) continue;
    const auto then = turns.others.find(&served);
    const std::int64_t before = then == turns.others.end() ? 0 : then->second.served;
    const std::uint64_t changes =
        served.turns.changes + turns.changes - (then == turns.others.end() ? 0 : then->second.changes);
    const double got = static_cast<double>(served.turns.served - before) / weight;
    const double may = static_cast<double>(turns.ahead) / options_of(other.client).weight;
    if (got > may + kRounding * static_cast<double>(changes + 2))
      violated(job.name() + " of client \"" + job.client + "\" was handed over before those of client \"" +
               other.client + "\", which waits and was served " + std::to_string(got - may) +
               " less for its weight");
  }
}

/// The job has been handed over.
void Auditor::charge(ModelJob& job) {
  ModelStream& stream = stream_of(job);
  job.charged = job.cost;
  ModelTurns& turns = stream.turns;
  if (!forgets_clients()) look_at_others(stream);
  for (ModelStream& other : streams_)
    if (const auto then = other.turns.others.find(&stream); then != other.turns.others.end())
      then->second.behind = 0;  // it stands where the others are
  turns.served += job.cost;
  ++turns.changes;
  turns.given_back = 0;
  turns.ahead = turns.ahead_max = job.cost;
  if (!forgets_clients()) begin_to_wait(stream);
}

/// What was charged for the job's attempt turned out to be `more`, or less, below 0.
void Auditor::correct(ModelJob& job, std::int64_t more) {
  if (more == 0) return;
  job.charged += more;
  ModelStream& stream = stream_of(job);
  ModelTurns& turns = stream.turns;
  const double weight = options_of(job.client).weight;
  for (ModelStream& other : streams_) {
    const auto then = other.turns.others.find(&stream);
    if (more < 0 || then == other.turns.others.end() || then->second.behind == 0) continue;
    // What is less than it was behind delays it no further.
    const double less = std::min(static_cast<double>(more), std::ceil(then->second.behind * weight));
    then->second.behind = std::max(then->second.behind - less / weight, 0.0);
    then->second.served += static_cast<std::int64_t>(less);
  }
  turns.served += more;
  ++turns.changes;
  if (more < 0) turns.given_back -= more;
  turns.ahead += more;
  turns.ahead_max = std::max<std::int64_t>(turns.ahead_max, 0) + more;
}

}  // namespace lanemq::sim
