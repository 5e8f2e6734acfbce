// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/notice_log.hpp"

#include "broker/core/broker.hpp"
#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

/// A line about a worker; `jobs`: what its number of jobs is called there.
void log_worker(log::Level level, std::string_view event, const core::Notice& notice, std::string_view jobs) {
  log::event(level, event, {{"name", notice.worker}, {"session", notice.session}, {jobs, notice.jobs}});
}

void log_stalled(const core::Notice& notice) {
  log::event(log::Level::warning, "job.stalled",
             {{"id", notice.name},
              {"job", static_cast<long long>(notice.number)},
              {"attempt", static_cast<long long>(notice.attempt)},
              {"service", notice.service},
              {"worker", notice.worker},
              {"session", notice.session},
              {"silent_ms", static_cast<long long>(notice.for_ms)}});
}

void log_refused_webhook(const core::Notice& notice) {
  log::event(log::Level::error, "webhook.refused",
             {{"id", notice.name},
              {"service", notice.service},
              {"code", notice.code},
              {"why", notice.how},
              {"do", "nobody is told of that end; give the jobs of webhook_service room"}});
}

void log_unserved(const core::Notice& notice) {
  const auto for_ms = static_cast<long long>(notice.for_ms);
  if (notice.lane.empty())
    return log::event(log::Level::warning, "service.without_worker",
                      {{"service", notice.service},
                       {"jobs", notice.jobs},
                       {"for_ms", for_ms},
                       {"do", "start a worker with --service; lanemq jobs --service shows who asks for it"}});
  const bool drain = !notice.how.empty();
  log::event(log::Level::warning, "service.without_worker",
             {{"service", notice.service},
              {"jobs", notice.jobs},
              {"lane", notice.lane},
              {"workers", drain ? "drain" : "take other lanes"},
              {"for_ms", for_ms},
              {"do", drain ? "resume one, or start another; lanemq workers shows who drains"
                           : "start a worker that takes the lane; lanemq workers shows who takes which"}});
}

}  // namespace

void log_notices(const std::vector<core::Notice>& notices) {
  for (const core::Notice& notice : notices) {
    switch (notice.kind) {
      case core::Notice::Kind::worker_ready:
        log_worker(log::Level::info, "worker.ready", notice, "capacity");
        break;
      case core::Notice::Kind::worker_returned:
        log_worker(log::Level::info, "worker.returned", notice, "jobs");
        break;
      case core::Notice::Kind::worker_left:
        log_worker(log::Level::info, "worker.left", notice, "jobs");
        break;
      case core::Notice::Kind::worker_lost:
        log_worker(log::Level::warning, "worker.lost", notice, "jobs");
        break;
      case core::Notice::Kind::upstream_opened:
        log::event(log::Level::warning, "upstream.opened",
                   {{"service", notice.service},
                    {"model", notice.model},
                    {"retry_ms", static_cast<long long>(notice.retry_ms)}});
        break;
      case core::Notice::Kind::upstream_closed:
        log::event(log::Level::info, "upstream.closed",
                   {{"service", notice.service}, {"model", notice.model}});
        break;
      case core::Notice::Kind::key_spent:
        log::event(log::Level::error, "key.spent",
                   {{"service", notice.service},
                    {"key", notice.key},
                    {"code", notice.code},
                    {"retry_ms", static_cast<long long>(notice.retry_ms)},
                    {"do", "see to the account or the secret; SIGHUP has this broker try it at once"}});
        break;
      case core::Notice::Kind::key_back:
        log::event(log::Level::info, "key.back", {{"service", notice.service}, {"key", notice.key}});
        break;
      case core::Notice::Kind::upstream_word_bounded:
        log::event(log::Level::warning, "upstream.word_bounded",
                   {{"service", notice.service},
                    {"what", notice.what},
                    {"said", static_cast<long long>(notice.said)},
                    {"counts_as", static_cast<long long>(notice.bound)},
                    {"do", "no upstream means that; see what the service's workers call"}});
        break;
      case core::Notice::Kind::service_without_worker:
        log_unserved(notice);
        break;
      case core::Notice::Kind::job_stalled:
        log_stalled(notice);
        break;
      case core::Notice::Kind::webhook_refused:
        log_refused_webhook(notice);
        break;
      case core::Notice::Kind::changed_by_operator:
        log::event(log::Level::info, "admin." + notice.verb,
                   {{"what", notice.what}, {"name", notice.name}, {"how", notice.how}, {"by", notice.by}});
        break;
    }
  }
}

std::vector<DepthLog::Depth> DepthLog::due(const core::Broker& broker, core::TimePoint now) {
  if (!next_) next_ = now + kEvery;
  if (now < *next_) return {};
  next_ = now + kEvery;
  std::vector<Depth> depths;
  const std::vector<core::Duration> oldest = broker.oldest(now);
  for (const auto& lane : broker.lanes())
    if (lane->queued > 0)
      depths.push_back({.lane = lane->options().name,
                        .queued = lane->queued,
                        .delayed = lane->delayed,
                        .running = lane->running,
                        .oldest = oldest[lane->index()]});
  return depths;
}

void DepthLog::look(const core::Broker& broker, core::TimePoint now) {
  for (const Depth& depth : due(broker, now))
    log::event(log::Level::info, "lane.waiting",
               {{"lane", depth.lane},
                {"queued", depth.queued},
                {"delayed", depth.delayed},
                {"running", depth.running},
                {"oldest_ms", static_cast<long long>(core::to_ms(depth.oldest))}});
}

}  // namespace lanemq::io
