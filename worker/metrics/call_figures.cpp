// SPDX-License-Identifier: Apache-2.0
#include "worker/metrics/call_figures.hpp"

#include <algorithm>
#include <chrono>

#include <lanemq/text.hpp>

namespace lanemq::worker {
namespace {

using Counts = std::map<std::string, std::uint64_t, std::less<>>;

/// What comes behind `most` different names counts as `other`.
void count(Counts& counts, std::string_view name, std::size_t most) {
  const auto known = counts.find(name);
  if (known != counts.end())
    ++known->second;
  else if (counts.size() < most)
    counts.emplace(printable(name), 1);
  else
    ++counts["other"];
}

void add_tokens(std::uint64_t& sum, const std::optional<std::int64_t>& tokens) {
  // A broken upstream may say anything.
  sum += static_cast<std::uint64_t>(std::clamp<std::int64_t>(tokens.value_or(0), 0, std::int64_t{1} << 40));
}

}  // namespace

CallFigures::CallFigures(const std::vector<std::string>& services, std::shared_ptr<CallWatcher> next)
    : next_(std::move(next)) {
  for (const std::string& name : services)
    services_.push_back({.name = name});
}

std::string CallFigures::began(const JobCall& job) {
  const auto service = std::find_if(services_.begin(), services_.end(),
                                    [&](const ServiceFigures& known) { return known.name == job.service; });
  if (service != services_.end()) {
    running_.insert_or_assign({job.lease.job, job.lease.attempt},
                              Running{static_cast<std::size_t>(service - services_.begin()), job.now});
    const std::lock_guard lock(mutex_);
    ++service->started;
    ++service->running;
  }
  return next_ ? next_->began(job) : std::string();
}

void CallFigures::streams(wire::Lease lease, TimePoint now) {
  const auto found = running_.find({lease.job, lease.attempt});
  if (found != running_.end() && !found->second.streams) {
    found->second.streams = true;
    const std::lock_guard lock(mutex_);
    services_[found->second.service].first_pieces.add(now - found->second.began);
  }
  if (next_) next_->streams(lease, now);
}

void CallFigures::ended(wire::Lease lease, const CallEnd& end, TimePoint now) {
  if (const auto found = running_.extract({lease.job, lease.attempt}); !found.empty()) {
    const Running& call = found.mapped();
    const std::lock_guard lock(mutex_);
    ServiceFigures& service = services_[call.service];
    --service.running;
    service.calls.add(now - call.began);
    if (end.failure.empty())
      ++service.succeeded;
    else
      count(service.failed, end.failure, ServiceFigures::kCodesMax);
    if (end.upstream_status)
      count(service.statuses, std::to_string(*end.upstream_status), ServiceFigures::kStatusesMax);
    if (end.usage) {
      add_tokens(service.input_tokens, end.usage->input_tokens);
      add_tokens(service.output_tokens, end.usage->output_tokens);
    }
  }
  if (next_) next_->ended(lease, end, now);
}

std::vector<ServiceFigures> CallFigures::now() const {
  const std::lock_guard lock(mutex_);
  return services_;
}

}  // namespace lanemq::worker
