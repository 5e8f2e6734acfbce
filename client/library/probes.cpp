// SPDX-License-Identifier: Apache-2.0
#include "client/library/probes.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include <lanemq/codec.hpp>
#include <lanemq/job_states.hpp>

namespace lanemq::client {

void Probes::begin_anew(TimePoint now) {
  at_ = now + kAfter;
  headers_.clear();
  asked_.clear();
}

std::vector<std::uint64_t> Probes::ask(std::vector<Job> waiting, TimePoint now) {
  forget(waiting);
  const std::size_t turn = std::max(kAtOnce, (waiting.size() * kTurn.count() + kEvery.count() - 1) /
                                                 static_cast<std::size_t>(kEvery.count()));
  waiting.erase(
      std::remove_if(waiting.begin(), waiting.end(), [now](const Job& job) { return job.due > now; }),
      waiting.end());
  std::sort(waiting.begin(), waiting.end(), [](const Job& one, const Job& two) {
    return std::tie(one.due, one.ref) < std::tie(two.due, two.ref);
  });
  at_ = now + (waiting.size() > turn ? kTurn : kEvery);
  waiting.resize(std::min(waiting.size(), turn));

  std::vector<std::uint64_t> refs;
  Buffer ref_bytes, header;
  for (auto job = waiting.begin(); job != waiting.end();) {
    wire::StatusQuery question{.ref = number_ref(kRef, ref_bytes)};
    for (; job != waiting.end() && question.ids.size() < kAtOnce; ++job) {
      question.ids.push_back(job->id);
      refs.push_back(job->ref);
      std::vector<std::uint64_t>& named = asked_[std::string(job->id)];
      if (std::find(named.begin(), named.end(), job->ref) == named.end()) named.push_back(job->ref);
    }
    header.clear();
    encode(question, header);
    headers_.emplace_back(header.view());
  }
  return refs;
}

/// Forgets questions that were not answered, and whose jobs are waited for no more.
void Probes::forget(const std::vector<Job>& waiting) {
  if (asked_.size() <= 2 * waiting.size() + 1024) return;
  std::unordered_set<std::string_view> ids;
  for (const Job& job : waiting)
    ids.insert(job.id);
  for (auto at = asked_.begin(); at != asked_.end();)
    at = ids.contains(at->first) ? std::next(at) : asked_.erase(at);
}

void Probes::answered(const wire::StatusReply& reply,
                      const std::function<void(std::uint64_t ref, std::string_view state)>& over) {
  for (const JobState& job : decode_job_states(reply.jobs.bytes)) {
    const auto at = asked_.find(job.id);
    if (at == asked_.end()) continue;
    for (const std::uint64_t ref : at->second)
      over(ref, job.state);
    asked_.erase(at);
  }
}

}  // namespace lanemq::client
