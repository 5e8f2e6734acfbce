// SPDX-License-Identifier: Apache-2.0
#include "worker/metrics/metrics_text.hpp"

#include <lanemq/version.hpp>

#include "common/metrics/families.hpp"

namespace lanemq::worker {
namespace {

using metrics::Description;
using metrics::Families;
using metrics::Kind;

constexpr double number(auto value) {
  return static_cast<double>(value);
}

/// A metric of the whole worker, or where there are shards of each of them.
struct Row {
  Description what;
  double (*value)(const WorkerFigures& figures);
  double (*of_shard)(const ShardBeat& shard) = nullptr;  ///< null: of the worker in any case
};

/// One of a service.
struct ServiceRow {
  Description what;
  double (*value)(const ServiceFigures& figures);
};

// The tables of metrics; a new metric is a new row.
constexpr Row kRows[] = {
    {{"lanemq_worker_capacity", Kind::gauge, "Jobs that the worker holds at once at the most."},
     [](const WorkerFigures& f) { return number(f.capacity); },
     [](const ShardBeat& shard) { return number(shard.capacity); }},
    {{"lanemq_worker_jobs_running", Kind::gauge, "Jobs in its handlers."},
     [](const WorkerFigures& f) { return number(f.beat.running); },
     [](const ShardBeat& shard) { return number(shard.running); }},
    {{"lanemq_worker_outcomes_unacknowledged", Kind::gauge,
      "Outcomes that the broker has not confirmed yet."},
     [](const WorkerFigures& f) { return number(f.beat.unacknowledged); },
     [](const ShardBeat& shard) { return number(shard.unacknowledged); }},
    {{"lanemq_worker_connected", Kind::gauge, "1 while the broker has welcomed the worker."},
     [](const WorkerFigures& f) { return number(f.beat.connected); },
     [](const ShardBeat& shard) { return number(shard.connected); }},
    {{"lanemq_worker_welcomes_total", Kind::counter,
      "Times that a broker welcomed the worker: the first, and one for each connection that was lost."},
     [](const WorkerFigures& f) { return number(f.beat.welcomes); }},
    {{"lanemq_worker_outcomes_stale_total", Kind::counter,
      "Outcomes that came too late: the broker had given the job to another worker, or had ended it."},
     [](const WorkerFigures& f) { return number(f.beat.stale); }},
    {{"lanemq_worker_outcomes_dropped_total", Kind::counter,
      "Outcomes that no broker confirmed and that found no room; their jobs run again."},
     [](const WorkerFigures& f) { return number(f.beat.dropped); }},
};

constexpr ServiceRow kServiceRows[] = {
    {{"lanemq_worker_calls_started_total", Kind::counter, "Calls of a service's handler."},
     [](const ServiceFigures& f) { return number(f.started); }},
    {{"lanemq_worker_calls_running", Kind::gauge, "Calls that are under way."},
     [](const ServiceFigures& f) { return number(f.running); }},
    {{"lanemq_worker_calls_succeeded_total", Kind::counter, "Calls that ended with an answer."},
     [](const ServiceFigures& f) { return number(f.succeeded); }},
    {{"lanemq_worker_input_tokens_total", Kind::counter, "Tokens that upstreams counted of requests."},
     [](const ServiceFigures& f) { return number(f.input_tokens); }},
    {{"lanemq_worker_output_tokens_total", Kind::counter, "Tokens that upstreams counted of answers."},
     [](const ServiceFigures& f) { return number(f.output_tokens); }},
};

constexpr Description kInfo{"lanemq_worker_build_info", Kind::gauge, "1, with the worker's version."};
constexpr Description kFailed{"lanemq_worker_calls_failed_total", Kind::counter,
                              "Calls that failed, by the handler's code; the 17th code and on are other."};
constexpr Description kStatuses{
    "lanemq_worker_upstream_errors_total", Kind::counter,
    "Calls that an upstream refused or failed, by its HTTP status; the 17th status and on are other."};
constexpr Description kCallSeconds{"lanemq_worker_call_seconds", Kind::histogram,
                                   "From a call's begin to its end."};
constexpr Description kFirstPieceSeconds{"lanemq_worker_first_piece_seconds", Kind::histogram,
                                         "From a call's begin to the first piece of its streamed answer."};

void add_histogram(Families& families, const Description& what, const WorkerFigures& figures,
                   DurationFigures ServiceFigures::*durations) {
  families.begin(what);
  for (const ServiceFigures& service : figures.services)
    families.add({{"service", service.name}}, DurationFigures::kBounds, (service.*durations).counts,
                 (service.*durations).sum);
}

void add_counts(Families& families, const Description& what, const std::string& label,
                const WorkerFigures& figures,
                std::map<std::string, std::uint64_t, std::less<>> ServiceFigures::*counts) {
  families.begin(what);
  for (const ServiceFigures& service : figures.services)
    for (const auto& [name, count] : service.*counts)
      families.add({{"service", service.name}, {label, name}}, number(count));
}

}  // namespace

std::string metrics_text(const WorkerFigures& figures) {
  Families families(kSeriesMax);
  families.begin(kInfo);
  families.add({{"version", version()}}, 1);
  for (const Row& row : kRows) {
    families.begin(row.what);
    if (row.of_shard == nullptr || figures.beat.shards.empty()) families.add({}, row.value(figures));
    if (row.of_shard != nullptr)
      for (const ShardBeat& shard : figures.beat.shards)
        families.add({{"shard", shard.name}}, row.of_shard(shard));
  }
  for (const ServiceRow& row : kServiceRows) {
    families.begin(row.what);
    for (const ServiceFigures& service : figures.services)
      families.add({{"service", service.name}}, row.value(service));
  }
  add_counts(families, kFailed, "code", figures, &ServiceFigures::failed);
  add_counts(families, kStatuses, "status", figures, &ServiceFigures::statuses);
  add_histogram(families, kCallSeconds, figures, &ServiceFigures::calls);
  add_histogram(families, kFirstPieceSeconds, figures, &ServiceFigures::first_pieces);
  return families.text();
}

}  // namespace lanemq::worker
