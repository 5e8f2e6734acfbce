// SPDX-License-Identifier: Apache-2.0
#include "broker/http/metrics.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "broker/http/feeds/figures.hpp"
#include "common/metrics/families.hpp"

namespace lanemq::admin {
namespace {

using metrics::Description;
using metrics::Families;
using metrics::Kind;
using metrics::Labels;

constexpr double kMs = 0.001;  // of a second

/// A metric: what it is, and the path of its value in the JSON of the thing that it is about. Rows of one
/// name stand together, and differ in a label.
struct Row {
  Description what;
  std::string_view path;     ///< names of members, with dots between
  double unit = 1;           ///< what 1 there is here
  std::string_view label{};  ///< of this row; empty: none
  std::string_view value{};  ///< of the label
  bool always = true;        ///< 0 where there is nothing; else no series
};

// The broker as a whole: paths of the stats document.
constexpr Row kBrokerRows[] = {
    {{"lanemq_uptime_seconds", Kind::gauge, "Since the broker's start."}, "uptime_ms", kMs},
    {{"lanemq_clock_set_seconds", Kind::gauge,
      "How far the machine's clock was set since the broker's start, by which its own times go."},
     "clock_set_ms",
     kMs},
    {{"lanemq_memory_bytes", Kind::gauge, "All jobs and kept answers, as memory_max counts them."},
     "memory_bytes"},
    {{"lanemq_memory_max_bytes", Kind::gauge, "The bound memory_max."}, "memory_max"},
    {{"lanemq_resident_bytes", Kind::gauge, "Memory of the process, as the system counts it."},
     "resident_bytes"},
    {{"lanemq_descriptors", Kind::gauge, "Open files and connections of the process."}, "descriptors.used"},
    {{"lanemq_descriptors_max", Kind::gauge, "How many of them the system allows."}, "descriptors.limit"},
    {{"lanemq_loop_turn_seconds", Kind::summary, "Turns of the loop; quantiles of the last minute."},
     "turn_ms",
     kMs},
    {{"lanemq_loop_longest_turn_seconds", Kind::gauge,
      "The longest turn of the last minute: nobody was answered meanwhile."},
     "turn_ms.last_minute",
     kMs},
    {{"lanemq_store_commit_seconds", Kind::summary,
      "From a turn's writes to when they are on disk; quantiles of the last minute. One at a time is timed."},
     "commit_ms",
     kMs},
    {{"lanemq_store_bytes", Kind::gauge, "The store's files."}, "store.file_bytes", 1, {}, {}, false},
    {{"lanemq_store_reserve_bytes", Kind::gauge, "Room on the disk that is kept back for the store."},
     "store.reserve_bytes",
     1,
     {},
     {},
     false},
    {{"lanemq_store_disk_free_bytes", Kind::gauge, "Free room on the store's disk."},
     "store.disk_free_bytes",
     1,
     {},
     {},
     false},
    {{"lanemq_store_epoch", Kind::gauge,
      "Of a store that brokers share: counts its owners, so that a change is a takeover."},
     "store.epoch",
     1,
     {},
     {},
     false},
    {{"lanemq_store_since_commit_seconds", Kind::gauge,
      "Of a store that brokers share: since the owner's last commit. It makes one a second at least."},
     "store.since_commit_ms",
     kMs,
     {},
     {},
     false},
    {{"lanemq_store_transactions_total", Kind::counter,
      "Transactions with writes that a store in PostgreSQL has committed since this broker owns it."},
     "store.transactions",
     1,
     {},
     {},
     false},
    {{"lanemq_store_transaction_writes_total", Kind::counter, "Writes in these."},
     "store.transaction_writes",
     1,
     {},
     {},
     false},
    {{"lanemq_store_transaction_bytes_total", Kind::counter, "Bytes in these."},
     "store.transaction_bytes",
     1,
     {},
     {},
     false},
    {{"lanemq_store_transaction_seconds_total", Kind::counter, "How long these took together."},
     "store.transaction_ms",
     kMs,
     {},
     {},
     false},
    {{"lanemq_store_doubts_resolved_total", Kind::counter,
      "Transactions whose answers were lost, and of which the store has told whether they are in."},
     "store.doubts_resolved",
     1,
     {},
     {},
     false},
    {{"lanemq_store_dead_rows", Kind::gauge, "Dead rows of the tables of a store in PostgreSQL."},
     "store.dead_rows",
     1,
     {},
     {},
     false},
    {{"lanemq_store_oldest_snapshot_seconds", Kind::gauge,
      "How long the oldest snapshot of that database is held: rows that died since cannot be removed. Where "
      "the broker's role may see that."},
     "store.oldest_snapshot_ms",
     kMs,
     {},
     {},
     false},
    {{"lanemq_store_standbys", Kind::gauge,
      "Synchronous standbys of that database. Where the broker's role may see them."},
     "store.standbys",
     1,
     {},
     {},
     false},
    {{"lanemq_store_candidates", Kind::gauge,
      "Brokers that wait for a store in PostgreSQL, to go on when its owner is gone."},
     "store.candidates",
     1,
     {},
     {},
     false},
    {{"lanemq_bank_draws_total", Kind::counter,
      "Draws at the bank of budgets that shards share, that were done."},
     "bank.draws",
     1,
     {},
     {},
     false},
    {{"lanemq_bank_draws_lost_total", Kind::counter, "Draws that were not done, or of which nobody knows."},
     "bank.lost",
     1,
     {},
     {},
     false},
    {{"lanemq_bank_draw_seconds_total", Kind::counter, "How long the draws that were done took together."},
     "bank.draw_ms",
     kMs,
     {},
     {},
     false},
    {{"lanemq_store_backlog_bytes", Kind::gauge, "Writes that wait for the disk."},
     "counters.store_backlog_bytes"},
    {{"lanemq_bodies_read_total", Kind::counter, "Bodies of jobs read back from the store."},
     "counters.bodies_read"},
    {{"lanemq_workers", Kind::gauge, "Workers that are connected."}, "workers.connected"},
    {{"lanemq_workers_reserved", Kind::gauge, "Those of them that take some lanes alone."},
     "workers.reserved"},
    {{"lanemq_worker_places", Kind::gauge, "Jobs that all workers take at once."}, "workers.capacity"},
    {{"lanemq_worker_places_taken", Kind::gauge, "Jobs that workers hold."}, "workers.running"},
    {{"lanemq_workers_lost_total", Kind::counter, "Workers that died or fell silent."}, "workers.lost"},
    {{"lanemq_workers_refused_total", Kind::counter, "Workers whose ready was refused."},
     "counters.workers_refused"},
    {{"lanemq_workers_returned_total", Kind::counter,
      "Workers that came back after their connection was lost."},
     "counters.workers_returned"},
    {{"lanemq_connections", Kind::gauge, "Connections of clients and workers."}, "counters.connections"},
    {{"lanemq_connections_silent", Kind::gauge, "Those of them that have said nothing yet."},
     "counters.connections_silent"},
    {{"lanemq_connections_closed_total", Kind::counter,
      "Connections that the broker closed or refused, by the reason."},
     "counters.connections_gave_way",
     1,
     "reason",
     "gave_way"},
    {{"lanemq_connections_closed_total", Kind::counter, {}},
     "counters.connections_refused",
     1,
     "reason",
     "connections_max"},
    {{"lanemq_connections_closed_total", Kind::counter, {}},
     "counters.connections_cut",
     1,
     "reason",
     "no_message"},
    {{"lanemq_connections_closed_total", Kind::counter, {}}, "counters.keys_refused", 1, "reason", "key"},
    {{"lanemq_receiving_bytes", Kind::gauge, "Bytes of messages that are not whole yet."},
     "counters.receiving_bytes"},
    {{"lanemq_backlog_bytes", Kind::gauge, "Bytes that wait for peers that read slowly."},
     "counters.backlog_bytes"},
    {{"lanemq_lent_bytes", Kind::gauge, "Bytes of bodies on their way to workers."}, "counters.lent_bytes"},
    {{"lanemq_messages_refused_total", Kind::counter, "Messages that were none, or broke the protocol."},
     "counters.frames_refused"},
    {{"lanemq_submits_refused_total", Kind::counter, "Submits refused that name no lane to count them in."},
     "counters.refused_bad_request"},
    {{"lanemq_messages_dropped_total", Kind::counter, "Messages that reached nobody, by the reason."},
     "counters.sends_undeliverable",
     1,
     "reason",
     "gone"},
    {{"lanemq_messages_dropped_total", Kind::counter, {}},
     "counters.sends_dropped_slow",
     1,
     "reason",
     "slow"},
    {{"lanemq_jobs_requeued_total", Kind::counter, "Jobs that were queued again, by the reason."},
     "counters.jobs_requeued_worker_lost",
     1,
     "reason",
     "worker_lost"},
    {{"lanemq_jobs_requeued_total", Kind::counter, {}},
     "counters.jobs_requeued_missing",
     1,
     "reason",
     "missing"},
    {{"lanemq_jobs_adopted_total", Kind::counter,
      "Jobs that their workers still ran when the broker came back."},
     "counters.jobs_adopted"},
    {{"lanemq_jobs_stalled_total", Kind::counter,
      "Attempts that were ended since their workers had said progress, and then nothing for stall_timeout."},
     "counters.jobs_stalled"},
    {{"lanemq_jobs_failed_retry_budget_total", Kind::counter,
      "Jobs that had attempts left, but their service no retries."},
     "counters.jobs_failed_retry_budget"},
    {{"lanemq_jobs_orphaned_total", Kind::counter, "Jobs cancelled since their clients were gone."},
     "counters.orphans_cancelled"},
    {{"lanemq_jobs_redriven_total", Kind::counter, "Dead jobs that an operator ran again."},
     "counters.jobs_redriven"},
    {{"lanemq_jobs_dead", Kind::gauge, "Dead jobs that are kept."}, "results.dead"},
    {{"lanemq_jobs_dead_evicted_total", Kind::counter, "Dead jobs forgotten before their time, for room."},
     "counters.dead_evicted"},
    {{"lanemq_results", Kind::gauge, "Answers that can be fetched, dead jobs included."}, "results.kept"},
    {{"lanemq_results_bytes", Kind::gauge, "Those of them that are not of dead jobs, by where they are."},
     "results.bytes",
     1,
     "at",
     "memory"},
    {{"lanemq_results_bytes", Kind::gauge, {}}, "results.disk_bytes", 1, "at", "disk"},
    {{"lanemq_results_evicted_total", Kind::counter, "Answers forgotten before their time, for room."},
     "counters.results_evicted"},
    {{"lanemq_results_read_total", Kind::counter, "Answers read back from the store."},
     "counters.results_read"},
    {{"lanemq_ids_good_seconds", Kind::gauge, "How long an id means its job at present."},
     "results.ids_good_ms",
     kMs},
    {{"lanemq_outcomes_dropped_total", Kind::counter,
      "Outcomes of workers that did not count, by the reason."},
     "counters.outcomes_stale",
     1,
     "reason",
     "stale"},
    {{"lanemq_outcomes_dropped_total", Kind::counter, {}},
     "counters.outcomes_repeated",
     1,
     "reason",
     "repeated"},
    {{"lanemq_outcomes_dropped_total", Kind::counter, {}},
     "counters.outcomes_unknown_session",
     1,
     "reason",
     "unknown_session"},
    {{"lanemq_progress_received_total", Kind::counter, "Words of workers about how far their jobs are."},
     "counters.progress_in"},
    {{"lanemq_progress_late_total", Kind::counter, "Those of them about a job or an attempt that is over."},
     "counters.progress_late"},
    {{"lanemq_stream_chunks_received_total", Kind::counter, "Pieces of streams taken from workers."},
     "counters.chunks_in"},
    {{"lanemq_stream_chunks_sent_total", Kind::counter, "Pieces of streams sent, once for each reader."},
     "counters.chunks_out"},
    {{"lanemq_stream_chunks_dropped_total", Kind::counter,
      "Pieces of streams that did not count, by the reason."},
     "counters.chunks_refused",
     1,
     "reason",
     "refused"},
    {{"lanemq_stream_chunks_dropped_total", Kind::counter, {}},
     "counters.chunks_stale",
     1,
     "reason",
     "stale"},
    {{"lanemq_stream_chunks_dropped_total", Kind::counter, {}}, "counters.chunks_late", 1, "reason", "late"},
    {{"lanemq_stream_chunks_dropped_total", Kind::counter, {}},
     "counters.chunks_repeated",
     1,
     "reason",
     "repeated"},
    {{"lanemq_stream_chunks_dropped_total", Kind::counter, {}},
     "counters.chunks_unknown_session",
     1,
     "reason",
     "unknown_session"},
    {{"lanemq_stream_readers_dropped_total", Kind::counter,
      "Readers of streams that did not take what they were sent."},
     "counters.slow_reader"},
    {{"lanemq_stream_seen_unmatched_total", Kind::counter,
      "Words of readers about streams that are over, or nobody's."},
     "counters.seen_unmatched"},
    {{"lanemq_watch_events_total", Kind::counter, "Events sent to who watches jobs."}, "counters.events_out"},
    {{"lanemq_watch_events_left_out_total", Kind::counter,
      "Events that a watch had no room for, since its follower was behind."},
     "counters.events_left_out"},
    {{"lanemq_watches_refused_total", Kind::counter, "Watches refused at a bound of their number."},
     "counters.watchers_refused"},
    {{"lanemq_watches_let_go_total", Kind::counter, "Watches ended since their followers said nothing."},
     "counters.watchers_let_go"},
    {{"lanemq_webhooks_made_total", Kind::counter, "Jobs made to tell of the ends of others."},
     "counters.webhooks_made"},
    {{"lanemq_webhooks_refused_total", Kind::counter,
      "Such jobs that were refused for want of room: nobody is told."},
     "counters.webhooks_refused"},
    {{"lanemq_groups_over_total", Kind::counter, "Groups of jobs that were over."}, "counters.groups_over"},
    {{"lanemq_groups_given_up_total", Kind::counter,
      "Groups that went before they were over, which is told to who waits for them."},
     "counters.groups_given_up"},
    {{"lanemq_groups_evicted_total", Kind::counter,
      "Groups without an open job, forgotten before their time, for room."},
     "counters.groups_evicted"},
    {{"lanemq_upstream_breakers_opened_total", Kind::counter, "Circuit breakers that opened."},
     "counters.upstreams_opened"},
    {{"lanemq_upstream_words_bounded_total", Kind::counter,
      "Usage, or times to come again, beyond what counts."},
     "counters.upstream_words_bounded"},
    {{"lanemq_spans_sent_total", Kind::counter, "Spans that the collector of otlp has taken."},
     "counters.spans_sent"},
    {{"lanemq_spans_lost_total", Kind::counter,
      "Spans that found no room, or that the collector did not take."},
     "counters.spans_lost"},
};

// Each lane, as a sample has it.
constexpr Row kLaneRows[] = {
    {{"lanemq_lane_jobs", Kind::gauge, "Jobs in the lane, by their state."}, "queued", 1, "state", "queued"},
    {{"lanemq_lane_jobs", Kind::gauge, {}}, "delayed", 1, "state", "delayed"},
    {{"lanemq_lane_jobs", Kind::gauge, {}}, "running", 1, "state", "running"},
    {{"lanemq_lane_bytes", Kind::gauge, "Bytes of jobs that wait."}, "bytes"},
    {{"lanemq_lane_depth_max", Kind::gauge, "Jobs that may wait in the lane."}, "depth_max"},
    {{"lanemq_lane_oldest_seconds", Kind::gauge, "Age of the job that has waited longest."},
     "oldest_ms",
     kMs},
    {{"lanemq_lane_paused", Kind::gauge, "1 while an operator pauses the lane."}, "paused"},
    {{"lanemq_lane_accepted_total", Kind::counter,
      "Jobs that were taken; those brought back from disk are not among them."},
     "accepted"},
    {{"lanemq_lane_ended_total", Kind::counter, "Jobs that ended, by how."},
     "succeeded",
     1,
     "how",
     "succeeded"},
    {{"lanemq_lane_ended_total", Kind::counter, {}}, "failed", 1, "how", "failed"},
    {{"lanemq_lane_sent_on_total", Kind::counter,
      "Submits that were told which other shard takes them, where there are shards."},
     "sent_on"},
    {{"lanemq_lane_requeued_total", Kind::counter, "Attempts that went back into the queue."}, "requeued"},
    {{"lanemq_lane_wait_seconds", Kind::summary,
      "From acceptance to the first hand-over; quantiles of the last minute."},
     "wait_ms",
     kMs},
    {{"lanemq_lane_run_seconds", Kind::summary,
      "From the hand-over to the end; quantiles of the last minute."},
     "run_ms",
     kMs},
};

constexpr Description kLaneRefused{"lanemq_lane_refused_total", Kind::counter,
                                   "Submits that were refused, by the code that their clients got."};

// Each service, by its row of `services`.
constexpr Row kServiceRows[] = {
    {{"lanemq_service_queued", Kind::gauge, "Jobs of the service that wait, of all lanes."}, "queued"},
    {{"lanemq_service_running", Kind::gauge, "Jobs of the service that workers hold."}, "running"},
    {{"lanemq_service_workers", Kind::gauge, "Workers that offer the service."}, "workers"},
    {{"lanemq_service_without_worker", Kind::gauge,
      "1 while jobs wait that no worker takes: none offers the service, none takes their lane, or all that "
      "do drain."},
     "without_worker"},
    {{"lanemq_service_unserved", Kind::gauge, "Jobs that wait and that no worker takes."}, "unserved"},
    {{"lanemq_service_upstream_fails", Kind::gauge, "1 while the service's circuit breaker is not closed."},
     "fails"},
    {{"lanemq_workers_wanted", Kind::gauge,
      "Workers that the service's jobs could keep busy, as far as budgets feed them."},
     "workers_wanted"},
};

// The clients with the most tokens, by their rows of `clients`.
constexpr Row kClientRows[] = {
    {{"lanemq_client_jobs", Kind::gauge, "Jobs of the client, by their state."},
     "waiting",
     1,
     "state",
     "waiting"},
    {{"lanemq_client_jobs", Kind::gauge, {}}, "running", 1, "state", "running"},
    {{"lanemq_client_tokens_total", Kind::counter,
      "Tokens that the client's calls used, since it has series."},
     "tokens"},
};

// Each limit of each budget.
constexpr Row kLimitRows[] = {
    {{"lanemq_budget_level", Kind::gauge, "What can be taken of a limit now; below 0 in debt."}, "level"},
    {{"lanemq_budget_limit", Kind::gauge,
      "The limit that counts: as configured, or less where the upstream said or showed so."},
     "counts"},
    {{"lanemq_budget_used_ratio", Kind::gauge,
      "Share of the limit's burst, or of its concurrency, that is taken."},
     "used"},
};
constexpr Row kBudgetRows[] = {
    {{"lanemq_budget_pause_seconds", Kind::gauge,
      "How long its upstream still asks to be left alone; 0: it does not."},
     "paused_ms",
     kMs},
    {{"lanemq_budget_models_paused", Kind::gauge, "Models that the upstream pauses alone."}, "models_paused"},
};
constexpr Row kKeyRows[] = {
    {{"lanemq_key_spent", Kind::gauge, "1 while the key rests since its upstream refused it."}, "spent"},
    {{"lanemq_key_running", Kind::gauge, "Jobs that have the key."}, "running"},
    {{"lanemq_key_jobs_total", Kind::counter, "Jobs that got the key."}, "jobs"},
    {{"lanemq_key_used_ratio", Kind::gauge, "Share that is taken of the key's scarcest limit."}, "used"},
    {{"lanemq_key_pause_seconds", Kind::gauge,
      "How long the key's upstream still asks to be left alone; 0: it does not."},
     "paused_ms",
     kMs},
};

// Metrics made from words of the statistics.
constexpr Description kBuild{"lanemq_build_info", Kind::gauge, "1, with the broker's version."};
constexpr Description kDraining{"lanemq_draining", Kind::gauge,
                                "1 while the broker is about to stop and takes no work."};
constexpr Description kStoreState{
    "lanemq_store_state", Kind::gauge,
    "1, with the store's state: good, behind, stalled, away, unsafe, gone, full or failed."};
constexpr Description kReplication{
    "lanemq_store_replication", Kind::gauge,
    "1, with what keeps commits of a store in PostgreSQL beside the database's machine: standby, provider or "
    "none."};
constexpr Description kPauses{"lanemq_pauses", Kind::gauge, "What operators have paused, 8 at most."};
constexpr Description kLeftOut{
    "lanemq_series_left_out", Kind::gauge,
    "Series that found no room here: there are too many services, budgets or keys."};

const Json& at(const Json& object, std::string_view path) {
  static const Json kNothing;
  const Json* here = &object;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    if (!here->is_object()) return kNothing;
    const auto found = here->find(std::string(path.substr(0, dot)));
    if (found == here->end()) return kNothing;
    here = &*found;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return *here;
}

std::string text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

/// Something that has figures, and the labels that name it.
struct Thing {
  Labels labels{};
  Json figures{};
};

metrics::SummaryFigures summary_of(const Json& times, double unit) {
  return {.quantiles = {{0.5, number(at(times, "minute.p50")) * unit},
                        {0.99, number(at(times, "minute.p99")) * unit}},
          .count = static_cast<std::uint64_t>(number(at(times, "count"))),
          .sum = number(at(times, "sum")) * unit};
}

void add(Families& families, const Row& row, const Thing& thing) {
  const Json& value = at(thing.figures, row.path);
  if (value.is_null() && !row.always) return;
  Labels labels = thing.labels;
  if (!row.label.empty()) labels.emplace_back(row.label, row.value);
  if (row.what.kind == Kind::summary) return families.add(std::move(labels), summary_of(value, row.unit));
  families.add(std::move(labels), number(value) * row.unit);
}

void add_all(Families& families, std::span<const Row> rows, const std::vector<Thing>& things) {
  for (std::size_t first = 0, end = 0; first < rows.size(); first = end) {
    families.begin(rows[first].what);
    while (end < rows.size() && rows[end].what.name == rows[first].what.name)
      ++end;
    for (const Thing& thing : things)
      for (const Row& row : rows.subspan(first, end - first))
        add(families, row, thing);
  }
}

void add_words(Families& families, const Json& stats) {
  families.begin(kBuild);
  families.add({{"version", text(at(stats, "version"))}}, 1);
  families.begin(kDraining);
  families.add({}, at(stats, "state") == "draining" ? 1 : 0);
  families.begin(kStoreState);
  families.add({{"state", text(at(stats, "store.state"))}}, 1);
  families.begin(kReplication);
  if (const std::string replication = text(at(stats, "store.replication")); !replication.empty())
    families.add({{"replication", replication}}, 1);
  families.begin(kPauses);
  families.add({}, static_cast<double>(at(stats, "paused").size()));
}

std::vector<Thing> lanes_of(const Json& stats) {
  std::vector<Thing> things;
  for (const auto& [name, lane] : at(stats, "lanes").items())
    things.push_back({{{"lane", name}}, lane});
  return things;
}

void add_refused(Families& families, const std::vector<Thing>& lanes) {
  families.begin(kLaneRefused);
  for (const Thing& lane : lanes)
    for (const auto& [code, count] : at(lane.figures, "refused_by").items()) {
      Labels labels = lane.labels;
      labels.emplace_back("code", code);
      families.add(std::move(labels), number(count));
    }
}

/// Those with the most jobs; clients may name as many services as they like.
std::vector<Thing> services_of(const std::vector<Json>& rows) {
  std::vector<const Json*> order;
  for (const Json& row : rows)
    order.push_back(&row);
  const auto jobs = [](const Json* row) { return number(at(*row, "queued")) + number(at(*row, "running")); };
  const auto rank = [&](const Json* row) { return std::pair(number(at(*row, "workers")) > 0, jobs(row)); };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Json* one, const Json* other) { return rank(one) > rank(other); });
  order.resize(std::min(order.size(), kServicesShown));
  std::vector<Thing> things;
  for (const Json* row : order) {
    Thing& thing = things.emplace_back(Thing{{{"service", text(at(*row, "name"))}}, *row});
    const double unserved = number(at(*row, "unserved"));  // left out where it is 0
    thing.figures["unserved"] = unserved;
    thing.figures["without_worker"] = unserved > 0;
    thing.figures["fails"] = !at(*row, "breaker").is_null();
  }
  return things;
}

std::vector<Thing> clients_of(const std::vector<Json>& rows) {
  std::vector<Thing> things;
  for (const Json& row : rows)
    things.push_back({{{"client", text(at(row, "name"))}}, row});
  return things;
}

bool is_limit(const Json& value) {
  return value.is_object() && value.contains("capacity");
}

double used(const Json& limit) {
  const double capacity = number(at(limit, "capacity"));
  return capacity > 0 ? 1 - number(at(limit, "level")) / capacity : 0;
}

void add_limits(std::vector<Thing>& limits, const Labels& labels, const Json& quota) {
  for (const auto& [name, limit] : quota.items()) {
    if (!is_limit(limit)) continue;
    Thing& thing = limits.emplace_back(Thing{labels, limit});
    thing.labels.emplace_back("limit", name);
    const Json& concurrency = at(limit, "capacity");
    thing.figures["counts"] =
        name == "concurrency" ? concurrency : limit.value("effective", limit.value("limit", Json()));
    thing.figures["used"] = used(limit);
  }
}

void add_budgets(Families& families, const Json& stats) {
  std::vector<Thing> budgets, limits, keys;
  for (const auto& [name, budget] : at(stats, "budgets").items()) {
    if (budgets.size() >= kBudgetsShown) break;
    Thing& thing = budgets.emplace_back(Thing{{{"budget", name}}, budget});
    thing.figures["models_paused"] = at(budget, "paused_models_ms").size();
    add_limits(limits, thing.labels, budget);
  }
  for (const auto& [budget, all] : at(stats, "keys").items())
    for (const auto& [name, key] : all.items()) {
      if (keys.size() >= kKeysShown) break;
      Thing& thing = keys.emplace_back(Thing{{{"budget", budget}, {"key", name}}, key});
      double most = 0;
      for (const auto& [limit, state] : key.items())
        if (is_limit(state)) most = std::max(most, used(state));
      thing.figures["used"] = most;
      thing.figures["spent"] = at(key, "state") == "spent";
    }
  add_all(families, kBudgetRows, budgets);
  add_all(families, kLimitRows, limits);
  add_all(families, kKeyRows, keys);
}

}  // namespace

std::string metrics_text(const Json& stats, const MetricsRows& rows) {
  Families families(kSeriesMax - 1);
  add_words(families, stats);
  add_all(families, kBrokerRows, {Thing{{}, stats}});
  const std::vector<Thing> lanes = lanes_of(stats);
  add_all(families, kLaneRows, lanes);
  add_all(families, kServiceRows, services_of(rows.services));
  add_budgets(families, stats);
  add_refused(families, lanes);
  add_all(families, kClientRows, clients_of(rows.clients));
  Families last;
  last.begin(kLeftOut);
  last.add({}, static_cast<double>(families.left_out()));
  return families.text() + last.text();
}

}  // namespace lanemq::admin
