// SPDX-License-Identifier: Apache-2.0
#include "broker/io/commits/store_watch.hpp"

#include "common/log/log.hpp"

namespace lanemq::io {

void StoreWatch::tell_behind(core::TimePoint now) {
  const bool behind =
      commits_.backlog_bytes() + broker_.outbox().writes.bytes() > backlog_bytes_max_ + store_.put_bytes();
  if (behind == behind_) return;
  behind_ = behind;
  broker_.handle(core::StoreBehind{behind}, now);
}

void StoreWatch::tell_stalled(core::TimePoint now) {
  const std::uint64_t committed = store_.committed();
  if (committed != committed_before_ || store_.backlog_bytes() == 0) {
    committed_before_ = committed;
    went_on_at_ = now;
  }
  const core::Duration stands = now - went_on_at_;
  if ((stands >= kDiskStandsStill) == stalled_) return;
  stalled_ = !stalled_;
  broker_.handle(core::StoreStalled{stalled_}, now);
  if (condition_ != StoreCondition::good) return;  // the condition was logged with its reason
  const std::string why = store_.trouble();
  if (stalled_)
    log::event(log::Level::warning, "store.stands_still",
               {{"ms", static_cast<long long>(core::to_ms(stands))},
                {"reason", why.empty() ? "no commit has come meanwhile" : why},
                {"do", store_.shared() ? "look at the database; what is not durable goes on"
                                       : "look at the disk; what is not durable goes on"}});
  else
    log::event(log::Level::info, "store.goes_on", {{"store", store_.name()}});
}

void StoreWatch::tell_away(core::TimePoint now) {
  if (store_.away() == away_) return;
  away_ = !away_;
  broker_.handle(core::StoreAway{away_}, now);
  const std::string why = store_.trouble();
  if (away_)
    log::event(log::Level::warning, "store.away",
               {{"reason", why.empty() ? "no commit has come for 80 % of store_lease" : why},
                {"do",
                 "look at the database: until a commit succeeds no job is taken or handed over, since "
                 "another broker may own the store"}});
  else
    log::event(log::Level::info, "store.owned", {{"store", store_.name()}});
}

void StoreWatch::tell_unsafe(core::TimePoint now) {
  const StorePromise promise = store_.promise();
  if (const bool unsafe = promise != StorePromise::kept; unsafe != unsafe_) {
    unsafe_ = unsafe;
    broker_.handle(core::StoreUnsafe{unsafe_}, now);
  }
  if (promise == told_ || promise == StorePromise::unknown) return;
  told_ = promise;
  if (!store_.shared()) return tell_gone();
  if (promise == StorePromise::kept)
    return log::event(log::Level::info, "store.safe", {{"store", store_.name()}});
  log::event(
      log::Level::error, "store.unsafe",
      {{"store", store_.name()},
       {"reason", store_.promise_trouble()},
       {"do",
        "durable jobs are refused: name standbys, or say store_replication = \"provider\" (its storage "
        "replicates) or \"none\" (its machine's loss may lose jobs)"}});
}

void StoreWatch::tell_gone() const {
  if (told_ == StorePromise::kept)
    return log::event(log::Level::info, "store.back", {{"store", store_.name()}});
  log::event(
      log::Level::error, "store.gone",
      {{"store", store_.name()},
       {"reason", store_.promise_trouble()},
       {"do",
        "durable jobs are refused, and the broker's end loses what is in the files that it has open: save "
        "that now with lanemq backup FILE, then stop the broker, put FILE in the store's place and start it; "
        "or move the files back, and it goes on"}});
}

bool StoreWatch::tell_condition(core::TimePoint now) {
  const StoreCondition condition = store_.condition();
  if (condition == condition_) return true;
  condition_ = condition;
  if (condition == StoreCondition::good) {
    log::event(log::Level::info, "store.good", {{"store", store_.name()}});
  } else {
    const std::string why = store_.trouble();
    if (condition == StoreCondition::full)
      log::event(log::Level::error, "store.full", {{"store", store_.name()}, {"reason", why}});
    else if (condition == StoreCondition::deposed)
      log::event(log::Level::error, "store.deposed",
                 {{"store", store_.name()},
                  {"reason", why},
                  {"do", "the broker ends with 75; started again it waits for the store"}});
    else
      log::event(log::Level::error, "store.failed", {{"store", store_.name()}, {"reason", why}});
  }
  if (is_over(condition)) return false;
  broker_.handle(core::StoreFull{condition == StoreCondition::full}, now);
  return true;
}

std::string_view StoreWatch::state() const {
  if (condition_ == StoreCondition::failed) return "failed";
  if (condition_ == StoreCondition::deposed) return "deposed";
  if (condition_ == StoreCondition::full) return "full";
  if (told_ == StorePromise::broken) return store_.shared() ? "unsafe" : "gone";
  if (away_) return "away";
  if (stalled_) return "stalled";
  return behind_ ? "behind" : "good";
}

}  // namespace lanemq::io
