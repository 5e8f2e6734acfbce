// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/model.hpp"

#include <algorithm>

namespace lanemq::sim {
namespace {

/// The patterns that runs use: nothing, a name, or the beginning of one with a star.
bool fits(const std::string& pattern, std::string_view text) {
  if (pattern.empty()) return true;
  if (pattern.back() == '*') return text.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  return text == pattern;
}

std::int64_t burst(const core::RateOptions& options) {
  return options.capacity > 0 ? options.capacity : std::max<std::int64_t>(options.limit / 10, 1);
}

}  // namespace

void violated(const std::string& what) {
  throw Violation(what);
}

ModelRate::ModelRate(const core::RateOptions& options, core::WindowKind window)
    : options_(options), window_(window) {
  level_ = full_ = static_cast<core::Int128>(burst(options)) * options.period.count();
}

void ModelRate::refill(TimePoint now) {
  const core::Int128 gained = static_cast<core::Int128>((now - refilled_at_).count()) * options_.limit;
  level_ = std::min(level_ + gained, full_);
  refilled_at_ = now;
}

void ModelRate::take(const std::string& budget, TimePoint now) {
  last_sent_ = now;
  ever_sent_ = true;
  if (window_ == core::WindowKind::bucket) {
    refill(now);
    level_ -= options_.period.count();
    if (level_ < 0) violated("budget " + budget + ": more than " + options_.name + " and its capacity allow");
    return;
  }
  // A window that ends now and includes its own beginning: the strictest reading.
  while (!sent_.empty() && sent_.front() < now - options_.period)
    sent_.pop_front();
  sent_.push_back(now);
  if (static_cast<std::int64_t>(sent_.size()) > options_.limit)
    violated("budget " + budget + ": " + std::to_string(sent_.size()) + " in a window of " + options_.name +
             " = " + std::to_string(options_.limit));
}

void ModelRate::give(TimePoint taken_at, TimePoint now) {
  if (window_ == core::WindowKind::bucket) {
    refill(now);
    level_ = std::min(level_ + options_.period.count(), full_);
    return;
  }
  const auto place = std::lower_bound(sent_.begin(), sent_.end(), taken_at);
  if (place != sent_.end() && *place == taken_at) sent_.erase(place);
}

bool ModelRate::surely_affordable(TimePoint now) {
  if (window_ == core::WindowKind::sliding)
    return !ever_sent_ || now - last_sent_ > options_.period * 11 / 10;
  refill(now);
  return level_ >= options_.period.count();
}

TimePoint ModelRate::affordable_at(TimePoint now) {
  if (surely_affordable(now)) return now;
  if (window_ == core::WindowKind::sliding) return core::kNever;
  const core::Int128 missing = options_.period.count() - level_;
  return now + Duration(static_cast<std::int64_t>((missing + options_.limit - 1) / options_.limit));
}

bool ModelBudget::matches(const ModelJob& job, std::string_view lane) const {
  return fits(options.service, job.service) && fits(options.model, job.model) &&
         fits(options.client, job.client) && fits(options.lane, lane);
}

bool ModelBudget::surely_affordable(TimePoint now) {
  if (now < paused_until || (options.concurrency > 0 && running >= options.concurrency)) return false;
  if (cut && !rates.empty()) return false;
  return std::all_of(rates.begin(), rates.end(),
                     [&](ModelRate& rate) { return rate.surely_affordable(now); });
}

TimePoint ModelBudget::affordable_at(TimePoint now) {
  if (options.concurrency > 0 && running >= options.concurrency) return core::kNever;
  if (cut && !rates.empty()) return core::kNever;
  TimePoint latest = std::max(now, paused_until);
  for (ModelRate& rate : rates)
    latest = std::max(latest, rate.affordable_at(now));
  return latest;
}

std::string ModelJob::name() const {
  return "job " + (id.empty() ? "(unnamed, body " + body.substr(0, 20) + ")" : id) + " attempt " +
         std::to_string(attempt);
}

ModelJob* ModelStream::head(TimePoint now) const {
  for (ModelJob* job : waiting)
    if (job->surely_queued(now)) return job;
  return nullptr;
}

}  // namespace lanemq::sim
