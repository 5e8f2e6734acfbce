// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/calls/left_watch.hpp"

#include <utility>
#include <variant>

namespace lanemq::gateway {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFetchWait{60'000};  ///< the broker's bound
/// The pause before the broker is asked again after an early answer.
constexpr milliseconds kAskAgainAfter{1'000};

/// How many of the `taken` tokens the job has used.
std::int64_t cost_of(const FetchAnswer& answer, std::int64_t taken) {
  return answer ? CallerLimits::told(std::get<JobDone>(*answer).usage).value_or(taken)
                : CallerLimits::used_of(answer.error(), taken);
}

}  // namespace

bool is_followed(const Caller& caller) {
  return caller.key && (caller.key->concurrency > 0 || caller.key->tokens_per_minute > 0);
}

struct LeftWatch::Job : std::enable_shared_from_this<Job> {
  Job(Caller who, std::string at_broker, std::int64_t tokens, std::unique_ptr<Loop::Timer> its_timer)
      : caller(std::move(who)), id(std::move(at_broker)), taken(tokens), timer(std::move(its_timer)) {}

  const Caller caller;
  const std::string id;
  const std::int64_t taken;
  const std::unique_ptr<Loop::Timer> timer;
  Loop::TimePoint asked_at{};
};

bool LeftWatch::full(const Caller& caller) const {
  return is_followed(caller) && !places_.may_take(caller.name);
}

void LeftWatch::follow(const Caller& caller, std::string id, std::int64_t taken) {
  places_.take(caller.name);
  const auto job = std::make_shared<Job>(caller, std::move(id), taken, gateway_.loop.timer());
  jobs_.insert(job);
  ask(*job);
}

std::size_t LeftWatch::cancel_all_of(std::string_view caller) {
  std::size_t cancelled = 0;
  for (const std::shared_ptr<Job>& job : jobs_) {
    if (job->caller.name != caller) continue;
    ++cancelled;
    gateway_.broker.cancel(job->id, [](const Reply<JobStatus>&) {});  // told() hears of its end
  }
  return cancelled;
}

void LeftWatch::ask(Job& job) {
  job.asked_at = gateway_.loop.now();
  gateway_.broker.fetch(job.id, kFetchWait, [this, weak = job.weak_from_this()](const FetchAnswer& answer) {
    if (const std::shared_ptr<Job> held = weak.lock()) told(held, answer);
  });
}

void LeftWatch::told(const std::shared_ptr<Job>& job, const FetchAnswer& answer) {
  const auto now = gateway_.loop.now();
  const bool goes_on = answer ? std::holds_alternative<JobStatus>(*answer) : answer.error().local;
  if (goes_on) {
    if (now - job->asked_at >= kAskAgainAfter) return ask(*job);
    return job->timer->after(kAskAgainAfter, [this, at = job.get()] { ask(*at); });
  }
  jobs_.erase(job);
  places_.give_back(job->caller.name);
  limits_.give_back(job->caller);
  limits_.spend_tokens(job->caller, cost_of(answer, job->taken) - job->taken, now);
}

bool is_end_of_job(const ClientError& error) {
  if (error.local) return false;
  switch (error.known_code().value_or(ErrorCode::internal)) {
    case ErrorCode::bad_request:
    case ErrorCode::unauthorized:
    case ErrorCode::forbidden:
    case ErrorCode::not_found:
    case ErrorCode::gone:
      return false;
    default:
      return true;
  }
}

}  // namespace lanemq::gateway
