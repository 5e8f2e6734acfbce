// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/service_watch.hpp"

#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

/// How long the start may last after each sign of a restore: one step, such as the last, which queues all
/// jobs, may be long.
constexpr std::chrono::seconds kRestorePart{120};
/// The time of a stop beside its drain: the last commits, and answers that leave.
constexpr std::chrono::seconds kStopMargin{30};

}  // namespace

void ServiceWatch::restoring(core::TimePoint now, std::size_t rows) {
  if (!every_ || now < due_) return;
  due_ = now + *every_;
  notifier_.extend(kRestorePart,
                   rows == 0 ? "restores the store"
                             : "restores the store: " + std::to_string(rows) + " jobs and results so far");
}

void ServiceWatch::stopping(core::Duration within) {
  stops_ = true;
  // A drain may be meant to last for ever; the manager's number has its bounds.
  const core::Duration most = std::chrono::hours(24 * 365);
  notifier_.stopping(std::min(within, most) + kStopMargin, status());
}

void ServiceWatch::tell(core::TimePoint now) {
  due_ = now + *every_;
  notifier_.beat(now.time_since_epoch(), store_goes_on(now), [this] { return status(); });
}

/// Whether the store's thread rests, or has done anything since the last look. A full disk is no standstill:
/// the thread asks for room time and again.
bool ServiceWatch::store_goes_on(core::TimePoint now) {
  const std::uint64_t pulse = store_.pulse();
  const bool goes_on = pulse % 2 == 0 || pulse != pulse_;
  pulse_ = pulse;
  if (goes_on) {
    went_on_at_ = now;
    withholds_ = false;
  } else if (const auto watchdog = notifier_.watchdog();
             watchdog && !withholds_ && now - went_on_at_ >= *watchdog / 2) {
    withholds_ = true;
    log::event(log::Level::error, "service.watchdog_withheld",
               {{"store", store_.name()},
                {"ms", static_cast<long long>(core::to_ms(now - went_on_at_))},
                {"do", "the disk does not answer, and the service manager will end the broker; look at it"}});
  }
  return goes_on;
}

std::string ServiceWatch::status() const {
  std::size_t waiting = 0;
  for (const auto& lane : broker_.lanes())
    waiting += lane->depth();
  std::string text = "jobs: " + std::to_string(waiting) + " wait, " + std::to_string(broker_.running()) +
                     " run; workers: " + std::to_string(broker_.workers().size());
  if (store_.condition() == StoreCondition::full) text += "; the disk is full";
  if (store_.condition() == StoreCondition::failed) text += "; the store has failed";
  if (store_.condition() == StoreCondition::deposed) text += "; another broker owns the store";
  if (store_watch_.stalled()) text += "; the disk does not answer";
  if (stops_) text += "; stops";
  if (reload_refused_) text += "; its last reload was refused, see the log";
  return text;
}

}  // namespace lanemq::io
