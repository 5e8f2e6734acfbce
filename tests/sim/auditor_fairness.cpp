// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

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

namespace lanemq::sim {
namespace {

/// A broker may count cost for weight in whole ten-thousandths.
constexpr double kRounding = 1e-4;

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

/// It waits from now on, if it surely does.
void Auditor::begin_to_wait(ModelStream& stream) {
  ModelTurns& turns = stream.turns;
  turns.witness = nullptr;
  turns.ahead = turns.ahead_max = std::max<std::int64_t>(turns.ahead_max, 0);
  if (at_limit(stream.client)) return;
  // The youngest is there for longest.
  const auto youngest = std::find_if(stream.waiting.rbegin(), stream.waiting.rend(),
                                     [&](const ModelJob* job) { return job->surely_queued(now_); });
  if (youngest == stream.waiting.rend()) return;
  turns.witness = *youngest;
  turns.witness_attempt = turns.witness->attempt;
  turns.times_at_limit = times_at_limit(stream.client);
  turns.others.clear();
  for (const ModelStream& other : streams_)
    if (&other != &stream && other.shares_with(stream))
      turns.others[&other] = {other.turns.served + other.turns.given_back, other.turns.changes};
}

/// A job is about to be handed over: of those who wait, it was this client's turn.
void Auditor::check_turn(const ModelJob& job) {
  if (forgets_clients()) return;
  const ModelStream& served = stream_of(job);
  const double weight = options_of(job.client).weight;
  for (ModelStream& other : streams_) {
    if (&other == &served || !other.shares_with(served)) continue;
    if (!still_waits(other)) begin_to_wait(other);
    const ModelTurns& turns = other.turns;
    if (turns.witness == nullptr) continue;
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
  ModelTurns& turns = stream_of(job).turns;
  turns.served += more;
  ++turns.changes;
  if (more < 0) turns.given_back -= more;
  turns.ahead += more;
  turns.ahead_max = std::max<std::int64_t>(turns.ahead_max, 0) + more;
}

}  // namespace lanemq::sim
