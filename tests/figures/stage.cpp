// SPDX-License-Identifier: Apache-2.0
#include "tests/figures/stage.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "broker/core/base/check.hpp"

namespace lanemq::figures {

Stage::Stage(core::Options options, Upstream upstream)
    : broker_(
          [&] {
            options.heartbeat = std::chrono::hours(24);  // nothing is to be learned from heartbeats here
            return options;
          }(),
          1),
      upstream_(std::move(upstream)) {
  if (!upstream_) upstream_ = [](const Work&, TimePoint) { return Answer{}; };
}

void Stage::add_worker(std::int64_t places, std::vector<std::string_view> lanes,
                       std::vector<std::string_view> services) {
  wire::Ready ready;
  ready.services = std::move(services);
  ready.capacity = places;
  ready.lanes = std::move(lanes);
  broker_.handle(core::WorkerReady{std::to_string(workers_++), &ready}, now_);
}

std::size_t Stage::submit(Work fields, std::string_view body) {
  const std::size_t number = jobs_.size();
  const Work& work = jobs_.emplace_back(Job{std::move(fields), now_, {}}).work;
  const std::string id = std::to_string(number);
  wire::Submit submit;
  submit.id = id;
  submit.service = work.service;
  submit.lane = work.lane;
  submit.client = work.client;
  submit.model = work.model;
  if (work.states) submit.cost = wire::Cost{work.stated.input_tokens, work.stated.output_tokens};
  submit.retain_ms = 0;
  submit.timeout_ms = core::to_ms(std::chrono::hours(20));
  broker_.handle(core::Submitted{{.address = "client"}, &submit, Blob::borrow(body)}, now_);
  return number;
}

std::optional<Duration> Stage::wait(std::size_t job) const {
  const Job& found = jobs_[job];
  return found.started ? std::optional(*found.started - found.submitted) : std::nullopt;
}

Stage::Status Stage::status(std::size_t job) {
  const std::string id = std::to_string(job);
  wire::StatusQuery query;
  query.id = id;
  broker_.handle(core::StatusAsked{{.address = "client"}, &query}, now_);
  turn(now_);
  return status_;
}

void Stage::run_until(TimePoint end) {
  turn(now_);
  while (next() <= end)
    step();
  now_ = end;
}

TimePoint Stage::next() {
  const TimePoint wakeup = broker_.next_wakeup().value_or(core::kNever);
  return plans_.empty() ? wakeup : std::min(wakeup, plans_.begin()->first);
}

void Stage::turn(TimePoint now) {
  now_ = now;
  while (!plans_.empty() && plans_.begin()->first <= now) {
    const auto what = std::move(plans_.begin()->second);
    plans_.erase(plans_.begin());
    what();
  }
  broker_.advance(now);
  core::Outbox& outbox = broker_.outbox();
  for (const core::Send& send : outbox.sends) {
    if (send.peer == core::Peer::client) {
      LANEMQ_CHECK(decoder_.decode(outbox.header(send), reply_) == nullptr);
      LANEMQ_CHECK(std::get_if<wire::ErrorReply>(&reply_) == nullptr);  // no test has jobs refused
      if (const auto* said = std::get_if<wire::StatusReply>(&reply_)) {
        status_.blocked_by = said->blocked_by;
        status_.eta =
            said->eta_ms ? std::optional<Duration>(std::chrono::milliseconds(*said->eta_ms)) : std::nullopt;
      }
      continue;
    }
    LANEMQ_CHECK(decoder_.decode(outbox.header(send), command_) == nullptr);
    if (const auto* offer = std::get_if<wire::JobOffer>(&command_)) begin(*offer, outbox.address(send));
  }
  outbox.clear();
}

void Stage::begin(const wire::JobOffer& offer, std::string_view worker) {
  std::size_t number = 0;
  std::from_chars(offer.id.data(), offer.id.data() + offer.id.size(), number);
  Job& job = jobs_[number];
  if (!job.started) job.started = now_;
  if (on_hand_over) on_hand_over(number);
  const Answer answer = upstream_(job.work, now_);
  at(now_ + answer.takes,
     [this, answer, lease = wire::Lease{offer.job, offer.attempt}, number, address = std::string(worker)] {
       if (answer.retry_after || answer.refused) {
         wire::Failure failure;
         failure.job = lease.job;
         failure.attempt = lease.attempt;
         failure.error_class = name_of(ErrorClass::limited);
         if (answer.retry_after) failure.retry_after_ms = core::to_ms(*answer.retry_after) + 1;
         failure.limits = answer.limits;
         if (answer.limited_by) failure.limited_by = name_of(*answer.limited_by);
         return broker_.handle(core::FailureReported{address, &failure, {}}, now_);
       }
       const Work& work = jobs_[number].work;
       const Amounts used = work.used.value_or(work.stated);
       wire::Outcome outcome;
       outcome.job = lease.job;
       outcome.attempt = lease.attempt;
       outcome.usage.emplace();
       outcome.usage->requests = 1;
       outcome.usage->input_tokens = used.input_tokens;
       outcome.usage->output_tokens = used.output_tokens;
       outcome.limits = answer.limits;
       broker_.handle(core::OutcomeReported{address, &outcome, {}}, now_);
     });
}

std::optional<Duration> StrictUpstream::call(std::int64_t tokens, TimePoint now) {
  while (!calls_.empty() && now - calls_.front().at >= kMinute) {
    tokens_in_window_ -= calls_.front().tokens;
    calls_.pop_front();
  }
  const bool fits = (!limits_.requests || static_cast<std::int64_t>(calls_.size()) < *limits_.requests) &&
                    (!limits_.tokens || tokens_in_window_ + tokens <= *limits_.tokens);
  if (!fits) return calls_.empty() ? kMinute : calls_.front().at + kMinute - now;
  count(tokens, now);
  return std::nullopt;
}

void StrictUpstream::count(std::int64_t tokens, TimePoint now) {
  calls_.push_back({now, tokens});
  tokens_in_window_ += tokens;
  requests_peak_.add(now, 1);
  tokens_peak_.add(now, tokens);
}

void Minutes::count(const Amounts& amounts, TimePoint at) {
  const std::int64_t number = at.time_since_epoch() / std::chrono::minutes(1);
  if (first_ < 0) first_ = number;
  Amounts& minute = sent_.try_emplace(number, Amounts{.requests = 0}).first->second;
  minute.requests += amounts.requests;
  minute.input_tokens += amounts.input_tokens;
}

double Minutes::binding(const std::vector<core::RateOptions>& limits, TimePoint end) const {
  double sum = 0, whole = 0;
  for (const auto& [number, minute] : sent_) {
    if (number == first_ || TimePoint((number + 1) * core::Duration(std::chrono::minutes(1))) > end) continue;
    double most = 0;
    for (const core::RateOptions& limit : limits)
      most =
          std::max(most, static_cast<double>(minute.of(limit.resource)) / static_cast<double>(limit.limit));
    sum += most;
    ++whole;
  }
  return sum / whole;
}

core::RateOptions per_minute(core::Resource resource, std::int64_t limit, std::int64_t capacity) {
  return {.name = resource == core::Resource::requests ? "requests_per_minute" : "tokens_per_minute",
          .limit = limit,
          .period = std::chrono::minutes(1),
          .capacity = capacity,
          .resource = resource};
}

void say(const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  std::printf("figure: ");
  std::vprintf(format, values);
  std::printf("\n");
  va_end(values);
}

Duration quantile(std::vector<Duration> values, double q) {
  LANEMQ_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

double ms(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace lanemq::figures
