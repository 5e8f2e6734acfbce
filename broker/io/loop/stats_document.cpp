// SPDX-License-Identifier: Apache-2.0
#include "broker/io/loop/stats_document.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <sys/resource.h>

#include <lanemq/version.hpp>

#include "broker/core/desks/quota_document.hpp"
#include "broker/core/desks/times_document.hpp"
#include "broker/core/life/groups.hpp"

namespace lanemq::io {
namespace {

std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * 4096;
}

std::uint64_t descriptors_max() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::int64_t signed_of(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

/// In ms, with three digits: a wait is often shorter than one.
double ms_of(core::Duration duration) {
  return static_cast<double>(duration.count()) / 1000.0;
}

void write_histogram(DocumentWriter& out, const core::Histogram& histogram) {
  out.map(3);
  out.text("p50").number(ms_of(histogram.quantile(0.50)));
  out.text("p99").number(ms_of(histogram.quantile(0.99)));
  out.text("max").number(ms_of(histogram.max()));
}

/// `sharded`: there are other shards, which submits may be sent on to.
void write_lane(DocumentWriter& out, const core::Lane& lane, core::Duration oldest, bool sharded) {
  out.map(std::size_t{15} + sharded);
  out.text("queued").integer(signed_of(lane.queued));
  out.text("delayed").integer(signed_of(lane.delayed));
  out.text("running").integer(signed_of(lane.running));
  out.text("accepted").integer(signed_of(lane.counters.accepted));
  out.text("restored").integer(signed_of(lane.counters.restored));
  out.text("succeeded").integer(signed_of(lane.counters.succeeded));
  out.text("failed").integer(signed_of(lane.counters.failed));
  out.text("cancelled").integer(signed_of(lane.counters.cancelled));
  out.text("refused").integer(signed_of(lane.counters.refused));
  if (sharded) out.text("sent_on").integer(signed_of(lane.counters.sent_on));
  out.text("duplicates").integer(signed_of(lane.counters.duplicates));
  out.text("requeued").integer(signed_of(lane.counters.requeued));
  out.text("bytes").integer(signed_of(lane.bytes));
  out.text("oldest_ms").integer(core::to_ms(oldest));
  out.text("wait_ms");
  write_histogram(out, lane.wait.all());
  out.text("run_ms");
  write_histogram(out, lane.run.all());
}

void write_workers(DocumentWriter& out, const core::Broker& broker) {
  std::int64_t capacity = 0, running = 0, reserved = 0;
  for (const auto& [number, worker] : broker.workers().all()) {
    capacity += worker->capacity;
    running += worker->running;
    if (worker->reserved()) ++reserved;
  }
  out.map(5);
  out.text("connected").integer(signed_of(broker.workers().size()));
  out.text("reserved").integer(reserved);
  out.text("capacity").integer(capacity);
  out.text("running").integer(running);
  out.text("lost").integer(signed_of(broker.stats().workers_lost));
}

/// The remaining amount of each limit of a budget, and its pause.
core::DocumentMap budget_map(core::Budget& budget, const core::Budgets& budgets, core::TimePoint now) {
  constexpr std::size_t kModelsShownMax = 16;  // `admin budgets` has room for all
  core::DocumentMap map;
  add_limits(map, budget, now);
  add_pause(map, budget.quota, now);
  add_paused_models(map, budgets, budget, kModelsShownMax, now);
  return map;
}

core::DocumentMap key_map(core::Budget& budget, const core::Key& key, core::TimePoint now) {
  core::DocumentMap map;
  map.text("state", core::name_of(key.state)).integer("running", key.running);
  map.integer("jobs", signed_of(key.given));
  core::Quota& quota = budget.accounts[key.account].quota;
  if (budget.slices == nullptr) add_limits(map, quota, now);  // else the bank counts, and does not say it
  add_pause(map, quota, now);
  return map;
}

/// The budgets, each followed by its keys, as many as one document has room for.
class LimitsPage {
 public:
  LimitsPage(core::Budgets& budgets, std::size_t from, core::TimePoint now) : next_(from) {
    std::size_t place = 0;
    for (core::Budget& budget : budgets.all()) {
      add(
          place++, budget.options.name, [&] { return budget_map(budget, budgets, now); },
          [&] { return &budgets_.emplace_back(); });
      for (const core::Key& key : budget.keys)
        add(
            place++, key.name, [&] { return key_map(budget, key, now); },
            [&] {
              if (keys_.empty() || keys_.back().first != &budget) keys_.push_back({&budget, {}});
              return &keys_.back().second.emplace_back();
            });
    }
    more_ = next_ < place;
  }

  bool more() const { return more_; }
  void write(DocumentWriter& out) const {
    out.text("budgets").map(budgets_.size());
    for (const std::string& budget : budgets_)
      out.written(budget);
    out.text("keys").map(keys_.size());
    for (const auto& [budget, keys] : keys_) {
      out.text(budget->options.name).map(keys.size());
      for (const std::string& key : keys)
        out.written(key);
    }
    if (more_) out.text("next").integer(static_cast<std::int64_t>(next_));
  }

 private:
  static constexpr std::size_t kEntriesMax = 48, kBytesMax = 3700;

  template <class Describe, class Room>
  void add(std::size_t place, std::string_view name, Describe describe, Room room) {
    if (place != next_ || entries_ >= kEntriesMax || bytes_ >= kBytesMax) return;
    scratch_.clear();
    DocumentWriter(scratch_).text(name);
    describe().write_to(scratch_);
    *room() = scratch_.view();
    bytes_ += scratch_.size();
    ++entries_;
    ++next_;
  }

  Buffer scratch_;
  std::vector<std::string> budgets_;
  std::vector<std::pair<const core::Budget*, std::vector<std::string>>> keys_;
  std::size_t next_, entries_ = 0, bytes_ = 0;
  bool more_ = false;
};

bool is_tried_later(const core::ShownBreaker& breaker, core::TimePoint now) {
  return breaker.until != core::kNever && breaker.until > now;
}

std::size_t fields_of(const core::ShownBreaker& breaker, core::TimePoint now) {
  return 1 + (breaker.model.empty() ? 0 : 1) + (breaker.client.empty() ? 0 : 1) +
         (is_tried_later(breaker, now) ? 1 : 0);
}

void write_breaker(DocumentWriter& out, const core::ShownBreaker& breaker, core::TimePoint now) {
  if (!breaker.model.empty()) out.text("model").text(breaker.model);
  if (!breaker.client.empty()) out.text("client").text(breaker.client);
  out.text("breaker").text(breaker.state);
  if (is_tried_later(breaker, now)) out.text("retry_ms").integer(core::to_ms(breaker.until - now));
}

/// A list of the document that has room for some of its rows alone: how many others there are.
void write_left_out(DocumentWriter& out, const char* name, std::size_t all, std::size_t shown_max) {
  if (all > shown_max) out.text(name).integer(signed_of(all - shown_max));
}

constexpr std::size_t kUpstreamsShownMax = 32, kUnservedShownMax = 8, kPausesShownMax = 8;

/// Services in trouble, by name.
std::vector<const core::Service*> troubled_services(const core::Broker& broker) {
  std::vector<const core::Service*> troubled;
  for (const auto& [name, service] : broker.workers().services())
    if (!service->is_sound() || !service->retries.full()) troubled.push_back(service.get());
  return troubled;
}

/// As many of them as a header has room for.
void write_upstreams(DocumentWriter& out, const core::Broker& broker, std::vector<const core::Service*> shown,
                     core::TimePoint now) {
  constexpr std::size_t kApartMax = 16;
  std::size_t apart_left = kApartMax;
  shown.resize(std::min(shown.size(), kUpstreamsShownMax));
  out.map(shown.size());
  for (const core::Service* service : shown) {
    std::vector<core::ShownBreaker> apart = broker.breakers_of(*service);
    core::ShownBreaker own{.state = core::name_of(core::CircuitBreaker::State::closed),
                           .until = core::kNever};
    if (!service->breaker.closed()) {
      own = apart.front();
      apart.erase(apart.begin());
    }
    apart.resize(std::min(apart.size(), apart_left));
    apart_left -= apart.size();
    out.text(service->name).map(fields_of(own, now) + (apart.empty() ? 1 : 2));
    write_breaker(out, own, now);
    out.text("retries_left").integer(service->retries.left());
    if (apart.empty()) continue;
    out.text("apart").array(apart.size());
    for (const core::ShownBreaker& one : apart) {
      out.map(fields_of(one, now));
      write_breaker(out, one, now);
    }
  }
}

/// The first services that have jobs which no worker may be given.
void write_unserved(DocumentWriter& out, const core::Broker& broker) {
  const core::Workers::UnservedList& all = broker.workers().unserved();
  std::size_t left = std::min(kUnservedShownMax, all.size());
  out.map(left);
  for (const core::Service* service = all.front(); left-- > 0; service = all.next(*service)) {
    const core::LaneIndex lane = service->first_unserved();
    const bool drains = broker.workers().drains(*service, lane);
    out.text(service->name).map(1 + (service->workers > 0 ? 1 : 0) + (drains ? 1 : 0));
    out.text("queued").integer(signed_of(service->queued_unserved()));
    if (service->workers > 0) out.text("lane").text(broker.lanes()[lane]->options().name);
    if (drains) out.text("draining").boolean(true);
  }
}

/// Operators' pauses, as many as a header has room for.
void write_pauses(DocumentWriter& out, const core::Pauses& pauses) {
  std::size_t left = std::min(kPausesShownMax, pauses.all().size());
  out.array(left);
  for (const auto& [key, pause] : pauses.all()) {
    if (left-- == 0) return;
    out.text(std::string(core::name_of(pause.kind)) + " " + pause.name);
  }
}

/// The groups under way that began last, of which a job is open, or has ended lately.
void write_groups(Buffer& buffer, const core::Broker& broker, const Surroundings& around) {
  DocumentWriter out(buffer);
  constexpr std::size_t kShownMax = 8, kLookedAtMax = 256;
  constexpr core::Duration kLately = std::chrono::minutes(1);
  const core::Groups::UnderWay& all = broker.groups().under_way();
  std::vector<const core::Group*> shown;
  std::size_t looked_at = 0;
  for (const core::Group* group = all.back(); group != nullptr && shown.size() < kShownMax;
       group = all.previous(*group)) {
    if (++looked_at > kLookedAtMax) break;
    const bool seen = !around.space || *around.space == group->space->name;
    if (seen && (group->open > 0 || group->changed_at > around.now - kLately)) shown.push_back(group);
  }
  out.map(shown.size());
  for (const core::Group* const group : shown) {
    core::DocumentMap map;
    map.integer("size", signed_of(group->size)).integer("open", signed_of(group->open));
    map.integer("succeeded", signed_of(group->counts.succeeded));
    map.integer("failed", signed_of(group->counts.failed));
    map.integer("cancelled", signed_of(group->counts.cancelled));
    map.integer("expired", signed_of(group->counts.expired));
    map.integer("age_ms", core::to_ms(around.now - group->begun_at));
    if (const auto left = group->left(around.now); left && group->open > 0)
      map.integer("left_ms", core::to_ms(*left));
    out.text(around.space ? core::own_name(group->name) : std::string_view(group->name));
    map.write_to(buffer);
  }
}

void write_counters(DocumentWriter& out, const core::Stats& stats, const TransportStats& transport) {
#define LANEMQ_COUNTER(name, meaning) +1
  out.map(LANEMQ_CORE_COUNTERS(LANEMQ_COUNTER) LANEMQ_TRANSPORT_COUNTERS(LANEMQ_COUNTER));
#undef LANEMQ_COUNTER
#define LANEMQ_COUNTER(name, meaning) out.text(#name).integer(signed_of(stats.name));
  LANEMQ_CORE_COUNTERS(LANEMQ_COUNTER)
#undef LANEMQ_COUNTER
#define LANEMQ_COUNTER(name, meaning) out.text(#name).integer(signed_of(transport.name));
  LANEMQ_TRANSPORT_COUNTERS(LANEMQ_COUNTER)
#undef LANEMQ_COUNTER
}

void add_ownership(core::DocumentMap& store, const StoreOwnership& ownership) {
  const StoreTransactions& made = ownership.transactions;
  const StoreDatabase& database = ownership.database;
  store.text("role", "owner").text("instance", ownership.instance).integer("epoch", ownership.epoch);
  store.integer("since_commit_ms", ownership.since_commit.count());
  store.text("replication", ownership.replication);
  store.integer("transactions", signed_of(made.count)).integer("transaction_writes", signed_of(made.writes));
  store.integer("transaction_bytes", signed_of(made.bytes));
  store.number("transaction_ms", static_cast<double>(made.time.count()) / 1000.0);
  store.integer("doubts_resolved", signed_of(made.doubts));
  if (database.dead_rows) store.integer("dead_rows", signed_of(*database.dead_rows));
  if (database.oldest_snapshot) store.integer("oldest_snapshot_ms", database.oldest_snapshot->count());
  if (database.standbys) store.integer("standbys", signed_of(*database.standbys));
  if (database.candidates) store.integer("candidates", signed_of(*database.candidates));
}

core::DocumentMap bank_map(const BankFigures& bank) {
  core::DocumentMap map;
  map.text("state", bank.trouble.empty() ? "good" : "away").integer("draws", signed_of(bank.draws));
  map.integer("lost", signed_of(bank.lost))
      .number("draw_ms", static_cast<double>(bank.time.count()) / 1000.0);
  return map;
}

core::DocumentMap store_map(const Surroundings& around) {
  core::DocumentMap store;
  store.text("kind", around.store).text("state", around.store_state);
  if (around.ownership) add_ownership(store, *around.ownership);
  if (const std::optional<StoreRoom>& room = around.room) {
    store.integer("file_bytes", signed_of(room->file_bytes));
    store.integer("reserve_bytes", signed_of(room->reserve_bytes));
    if (room->free_bytes) store.integer("disk_free_bytes", signed_of(*room->free_bytes));
  }
  return store;
}

}  // namespace

void write_stats_document(core::Broker& broker, TransportStats& transport, const Surroundings& around,
                          std::size_t from, Buffer& buffer) {
  DocumentWriter out(buffer);
  const core::TimePoint now = around.now;
  const LimitsPage page(broker.budgets(), from, now);
  const std::string& shard = broker.options().shard;
  const std::vector<const core::Service*> troubled = troubled_services(broker);
  const std::size_t unserved = broker.workers().unserved().size(), pauses = broker.pauses().all().size();
  const auto is_cut = [](std::size_t all, std::size_t shown_max) { return all > shown_max ? 1 : 0; };
  out.map(21 + (page.more() ? 1 : 0) + (shard.empty() ? 0 : 1) + (transport.bank ? 1 : 0) +
          is_cut(troubled.size(), kUpstreamsShownMax) + is_cut(unserved, kUnservedShownMax) +
          is_cut(pauses, kPausesShownMax));
  out.text("version").text(version());
  if (!shard.empty()) out.text("shard").text(shard);
  out.text("state").text(transport.draining ? "draining" : "ready");
  out.text("uptime_ms").integer(core::to_ms(around.uptime));
  out.text("clock_set_ms").integer(around.clock_set_ms);
  const std::vector<core::Duration> oldest = broker.oldest(now);
  out.text("lanes").map(broker.lanes().size());
  for (const auto& lane : broker.lanes()) {
    out.text(lane->options().name);
    write_lane(out, *lane, oldest[lane->index()], !shard.empty());
  }
  out.text("workers");
  write_workers(out, broker);
  page.write(out);
  out.text("upstreams");
  write_upstreams(out, broker, troubled, now);
  write_left_out(out, "upstreams_left_out", troubled.size(), kUpstreamsShownMax);
  out.text("unserved");
  write_unserved(out, broker);
  write_left_out(out, "unserved_left_out", unserved, kUnservedShownMax);
  out.text("paused");
  write_pauses(out, broker.pauses());
  write_left_out(out, "paused_left_out", pauses, kPausesShownMax);
  out.text("groups");
  write_groups(buffer, broker, around);
  out.text("results").map(5).text("kept").integer(signed_of(broker.kept_results() + broker.dead_jobs()));
  out.text("dead").integer(signed_of(broker.dead_jobs()));
  out.text("bytes").integer(signed_of(broker.kept_bytes()));
  out.text("disk_bytes").integer(signed_of(broker.kept_stored_bytes()));
  out.text("ids_good_ms").integer(core::to_ms(broker.ids_good_for(now)));
  out.text("counters");
  write_counters(out, broker.stats(), transport);
  core::DocumentMap turns;
  core::add_times(turns, transport.turns.times(), now);
  turns.number("last_minute", ms_of(transport.turns.longest_of_last_minute(now)));
  out.text("turn_ms");
  turns.write_to(buffer);
  core::DocumentMap commits;
  core::add_times(commits, transport.commits, now);
  out.text("commit_ms");
  commits.write_to(buffer);
  out.text("memory_bytes").integer(signed_of(broker.memory_bytes()));
  out.text("memory_max").integer(signed_of(broker.options().memory_max));
  out.text("resident_bytes").integer(signed_of(resident_bytes()));
  out.text("store");
  store_map(around).write_to(buffer);
  if (transport.bank) {
    out.text("bank");
    bank_map(*transport.bank).write_to(buffer);
  }
  out.text("descriptors").map(2);
  out.text("used").integer(signed_of(transport.descriptors.used(now)));
  out.text("limit").integer(signed_of(descriptors_max()));
}

}  // namespace lanemq::io
