// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "tests/sim/auditor.hpp"
#include "tests/sim/measure.hpp"

// What jobs and results count for in the bounds of bytes, as far as it is known from outside: at least what
// was handed to the broker of them and is to come out again, at most that and something for each record. The
// broker's own account must lie between the two; what it really holds is measured elsewhere.

namespace lanemq::sim {
namespace {

/// What a record may count for besides what was handed in, and what else of a dead job.
constexpr std::size_t kRecordMost = 2048, kDeadMost = 1024;
/// What an attempt that failed leaves in a job's history, and what a waiting request counts for.
constexpr std::size_t kAttemptMost = 1024, kAttemptsKept = 16, kWaiterMost = 512, kWordMost = 512;
/// What a chunk may count for besides its bytes.
constexpr std::size_t kChunkMost = 64;
/// Of an id that the broker makes.
constexpr std::size_t kIdBytes = 26;

}  // namespace

std::size_t Auditor::texts_of(const wire::Submit& submit, std::size_t envelope) {
  return (submit.id.empty() ? kIdBytes : submit.id.size()) + envelope + submit.ref.bytes.size() +
         submit.model.size() + submit.client.size() + submit.group.size() + submit.meta.bytes.size() +
         submit.trace.bytes.size() + submit.extras.bytes.size();
}

Auditor::Bytes Auditor::bytes_of(const ModelJob& job) const {
  const auto chunks = static_cast<std::size_t>(job.parts.next() - job.parts.first);
  const std::size_t pieces =
      job.parts.bytes_until(job.parts.next() - 1) - job.parts.bytes_until(job.parts.first - 1);
  const std::size_t attempts =
      std::min(static_cast<std::size_t>(job.attempts_before + job.attempt), kAttemptsKept);
  Bytes bytes{.least = 0, .most = kRecordMost + job.texts + pieces + chunks * kChunkMost};
  if (!job.ended()) {
    const std::size_t waiters = job.waiters.size() + job.readers.size();
    bytes.least = job.texts + job.body.size();
    if (job.alive_at) bytes.most += kWordMost;
    bytes.most += job.body.size() + attempts * kAttemptMost + waiters * kWaiterMost;
    for (const std::uint64_t ref : job.waiters)
      if (const auto place = requests_.find(ref); place != requests_.end())
        bytes.most += place->second.envelope;
  } else if (job.kept) {
    bytes.least = job.answer.size() + (job.dead ? job.body.size() : 0);
    bytes.most += job.answer.size() + (job.dead ? kDeadMost + job.body.size() + attempts * kAttemptMost : 0);
  }
  return bytes;
}

/// Of all that have not ended, or hold a place still.
Auditor::Bytes Auditor::bytes_of_jobs() const {
  Bytes all;
  const auto add = [&](const ModelJob& job) {
    all += bytes_of(job);
    // Who waits counts with what stands in front of his answer; but in no lane.
    for (const std::uint64_t ref : job.waiters)
      if (const auto place = requests_.find(ref); place != requests_.end())
        all.least += place->second.envelope;
  };
  for (const ModelStream& stream : streams_)
    for (const ModelJob* job : stream.waiting)
      add(*job);
  for (const auto& [address, worker] : workers_)
    for (const ModelJob* job : worker.held)
      job->ended() ? void(all += Bytes{0, kRecordMost}) : add(*job);
  return all;
}

Auditor::Bytes Auditor::bytes_of_lane(std::size_t lane) const {
  Bytes all;
  for (const ModelStream& stream : streams_)
    if (stream.lane == lane)
      for (const ModelJob* job : stream.waiting)
        all += bytes_of(*job);
  return all;
}

Auditor::Bytes Auditor::bytes_kept(Kept which) const {
  Bytes all;
  for (const ModelJob* job : kept_)
    if (job->dead == (which == Kept::dead)) all += bytes_of(*job);
  return all;
}

/// Jobs and kept results, one that is both once.
std::size_t Auditor::table_size() const {
  std::size_t held = 0;
  for (const auto& [address, worker] : workers_)
    held += static_cast<std::size_t>(
        std::count_if(worker.held.begin(), worker.held.end(),
                      [](const ModelJob* job) { return job->ended() && !job->kept; }));
  return open_jobs() + kept_.size() + held;
}

/// Whether one of the bounds is reached at which they make way. `went`: what this step took besides, perhaps
/// later.
bool Auditor::may_make_way(Kept which, std::size_t count, const std::vector<ModelJob*>& went) const {
  const bool dead = which == Kept::dead;
  Bytes of_kind = bytes_kept(which), others;
  for (const ModelJob* job : went) {
    if (!job->kept) continue;
    (job->dead == dead ? of_kind : others) += bytes_of(*job);
    count += job->dead == dead ? 1 : 0;
  }
  const std::size_t count_max =
      dead ? std::min(options_.dead_max, options_.jobs_max / 4) : options_.results_max;
  const std::size_t bytes_max =
      dead ? std::min(options_.dead_bytes_max, options_.memory_max / 4) : options_.results_bytes_max;
  if (count > count_max || (!dead && table_size() + went.size() >= options_.jobs_max)) return true;
  if (std::min(bytes_max, options_.memory_max) > kBytesNeverReached) return false;
  Bytes all = bytes_of_jobs();
  all += of_kind;
  all += others;
  all += bytes_kept(dead ? Kept::result : Kept::dead);
  all += bytes_of_groups();
  for (const ModelJob& job : pending_)
    all += bytes_of(job);
  // What ended in this step did so one by one, and most of it took more before.
  for (const ModelJob* job : ended_)
    all.most += kRecordMost + job->texts + job->body.size();
  all.most += incoming_ + kAttemptMost;
  return of_kind.most > bytes_max || all.most > options_.memory_max;
}

/// The broker's account of its bytes lies between what it must count and what it may.
void Auditor::check_account() const {
  // Where nothing reaches a bound it is looked at for the envelopes of those who wait alone.
  if (!advancing_ || (options_.memory_max > kBytesNeverReached && !large_envelopes_)) return;
  const auto between = [](const std::string& what, std::size_t counted, const Bytes& bytes) {
    if (counted < bytes.least || counted > bytes.most)
      violated("the broker counts " + std::to_string(counted) + " bytes of " + what + ", which are between " +
               std::to_string(bytes.least) + " and " + std::to_string(bytes.most));
  };
  Bytes all = bytes_of_jobs();
  all += bytes_kept(Kept::result);
  all += bytes_kept(Kept::dead);
  all += bytes_of_groups();
  between("all jobs and results", broker_.memory_bytes(), all);
  between("kept results", broker_.kept_bytes(), bytes_kept(Kept::result));
  between("dead jobs", broker_.dead_bytes(), bytes_kept(Kept::dead));
  for (std::size_t lane = 0; lane < options_.lanes.size(); ++lane)
    between("lane " + options_.lanes[lane].name, broker_.lanes()[lane]->bytes, bytes_of_lane(lane));
}

/// Whatever grows must be in the account, or be a record or a name of which there are only so many.
void Auditor::check_memory(std::size_t sent) {
  // Tables double, and texts are given some room.
  constexpr std::size_t kFactor = 2;
  // Of a job or result, besides what it counts for; of a lane's stream, a client, a connection, a worker, a
  // service; of an id that is gone.
  constexpr std::size_t kRecord = 256, kName = 2048, kGone = 128;
  // How long jobs of a service or client take, which 16 services and 32 clients have.
  constexpr std::size_t kFigures = 128 * 1024, kFigured = 48;
  // What is taken at once and is not full yet: a region of slots for jobs, and chunks of results.
  constexpr std::size_t kSlabs = 1200 * 1024;
  const std::size_t names = addresses_.size() + clients_.size() + streams_.size() + workers_.size();
  peak_.accounted = std::max(peak_.accounted, broker_.memory_bytes());
  peak_.records = std::max(peak_.records, table_size());
  peak_.names = std::max(peak_.names, names);
  peak_.sent = std::max(peak_.sent, sent);
  const std::size_t gone = std::min<std::size_t>(goings_.most, options_.gone_max) +
                           std::min<std::size_t>(promised_goings_.most, options_.gone_max);
  const std::size_t most = kFactor * (peak_.accounted + peak_.sent) + kRecord * peak_.records +
                           kName * peak_.names + kFigures * std::min(peak_.names, kFigured) + kGone * gone +
                           kSlabs;
  const std::int64_t measured = core_bytes() - bytes_at_start_;
  if (measured > static_cast<std::int64_t>(most))
    violated("the broker holds " + std::to_string(measured) + " bytes, more than " + std::to_string(most) +
             ", which follow from what it accounts for (" + std::to_string(peak_.accounted) +
             "), sent in a turn (" + std::to_string(peak_.sent) + "), and from " +
             std::to_string(peak_.records) + " jobs and " + std::to_string(peak_.names) + " names");
}

}  // namespace lanemq::sim
