// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/strict_upstream.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "tests/sim/model.hpp"

namespace lanemq::sim {
namespace {

using core::Duration;
using core::TimePoint;

constexpr std::size_t kSummedEvery = 97;

bool counts(const std::string& whose, const std::string& account) {
  return whose.empty() || whose == account;
}

std::string of(const std::string& whose) {
  return whose.empty() ? "" : " of " + whose;
}

}  // namespace

StrictUpstream::StrictUpstream(const core::BudgetOptions& budget) {
  allow({}, budget.rates, budget.concurrency);
  std::set<std::string> known;
  for (const core::KeyOptions& key : budget.keys) {
    const std::string account = account_of(key);
    if (known.insert(account).second) allow(account, key.rates, key.concurrency);
  }
}

std::string StrictUpstream::account_of(const core::KeyOptions& key) {
  return key.quota_group.empty() ? key.name : key.quota_group;
}

void StrictUpstream::allow(const std::string& account, const std::vector<core::RateOptions>& rates,
                           std::int64_t concurrency) {
  for (const core::RateOptions& rate : rates)
    limits_.push_back({.window = {.period = rate.period, .limit = rate.limit},
                       .resource = rate.resource,
                       .account = account});
  if (concurrency > 0) places_.push_back({.account = account, .most = concurrency});
}

std::int64_t StrictUpstream::Limit::of_others(TimePoint now) {
  while (!foreign.empty() && foreign.front() <= now - window.period)
    foreign.pop_front();
  return static_cast<std::int64_t>(foreign.size());
}

void StrictUpstream::Limit::drop(TimePoint now) {
  for (; first < counted.size() && counted[first].at <= now - window.period; ++first)
    in_window -= counted[first].amount;
}

std::int64_t StrictUpstream::Places::change(std::int64_t by, TimePoint now) {
  busy += running * (now - std::exchange(at, now));
  return running += by;
}

void StrictUpstream::take(const core::Amounts& used, const std::string& account, TimePoint now) {
  for (Limit& limit : limits_) {
    if (!counts(limit.account, account)) continue;
    limit.counted.push_back({.at = now, .amount = used.of(limit.resource)});
    limit.in_window += limit.counted.back().amount;
    limit.drop(now);
    // Summing up anew takes long, so it is done now and then.
    if (limit.counted.size() % kSummedEvery == 0 && limit.window.used(limit.counted, now) != limit.in_window)
      throw Violation("the upstream does not know what it counts");
    if (limit.in_window > limit.window.most())
      throw Violation("the upstream refuses a call: " + std::to_string(limit.in_window) +
                      " in the window of " + limit.window.describe() + of(limit.account) + " that ends at " +
                      std::to_string(static_cast<double>(now.time_since_epoch().count()) / 1e6));
  }
}

void StrictUpstream::begin(const std::string& account, TimePoint now) {
  for (Places& places : places_)
    if (counts(places.account, account) && places.change(1, now) > places.most)
      throw Violation(std::to_string(places.running) + " calls at once, where " +
                      std::to_string(places.most) + " are allowed" + of(places.account));
}

void StrictUpstream::end(const std::string& account, TimePoint now) {
  for (Places& places : places_)
    if (counts(places.account, account)) places.change(-1, now);
}

void StrictUpstream::use_as_others(TimePoint now) {
  for (Limit& limit : limits_)
    if (limit.resource == core::Resource::requests) limit.foreign.push_back(now);
}

wire::UpstreamLimits StrictUpstream::said(TimePoint now) {
  wire::UpstreamLimits all;
  for (Limit& limit : limits_) {
    limit.drop(now);
    const std::int64_t left =
        std::max<std::int64_t>(limit.window.limit - limit.in_window - limit.of_others(now), 0);
    (limit.resource == core::Resource::requests ? all.remaining_requests : all.remaining_tokens) = left;
  }
  return all;
}

double StrictUpstream::use(TimePoint from, TimePoint to) const {
  double most = 0;
  for (const Limit& limit : limits_) {
    std::int64_t used = 0;
    for (const Counted& one : limit.counted)
      if (one.at > from && one.at <= to) used += one.amount;
    const double periods =
        static_cast<double>((to - from).count()) / static_cast<double>(limit.window.period.count());
    most = std::max(most, static_cast<double>(used) / (static_cast<double>(limit.window.limit) * periods));
  }
  return most;
}

double StrictUpstream::places_use() const {
  double most = 0;
  for (const Places& places : places_)
    most = std::max(most, static_cast<double>(places.busy.count()) /
                              static_cast<double>(places.most * places.at.time_since_epoch().count()));
  return most;
}

std::string StrictUpstream::describe() const {
  std::string text;
  for (const Limit& limit : limits_)
    text += ", " + limit.window.describe() + of(limit.account);
  for (const Places& places : places_)
    text += ", " + std::to_string(places.most) + " at once" + of(places.account);
  return text;
}

}  // namespace lanemq::sim
