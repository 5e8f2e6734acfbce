// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/door/metrics.hpp"

#include <lanemq/version.hpp>

#include "client/gateway/door/batch_figures.hpp"

namespace lanemq::gateway {
namespace {

using metrics::Description;
using metrics::Families;
using metrics::Kind;

/// The sources of the first table's rows.
struct Figures {
  const Metrics& own;
  const ServerCounters& server;
  const ClientCounters& client;
  std::size_t pending;
};

/// A metric without labels.
template <class Of>
struct Row {
  Description what;
  double (*value)(const Of& figures);
};

constexpr double number(auto value) {
  return static_cast<double>(value);
}

// The table of metrics without labels; a new metric is a new row.
constexpr Row<Figures> kRows[] = {
    {{"lanemq_gateway_jobs_total", Kind::counter, "Jobs submitted for requests, fall-backs included."},
     [](const Figures& f) { return number(f.own.jobs); }},
    {{"lanemq_gateway_streams_open", Kind::gauge, "Streams that are being answered."},
     [](const Figures& f) { return number(f.own.streams_open); }},
    {{"lanemq_gateway_chunks_total", Kind::counter, "Pieces of streams passed on."},
     [](const Figures& f) { return number(f.own.chunks); }},
    {{"lanemq_gateway_keep_alives_total", Kind::counter, "Keep-alives written into silent streams."},
     [](const Figures& f) { return number(f.own.keep_alives); }},
    {{"lanemq_gateway_fall_backs_total", Kind::counter, "Steps of a route that were taken after the first."},
     [](const Figures& f) { return number(f.own.fall_backs); }},
    {{"lanemq_gateway_joined_total", Kind::counter, "Requests that joined a job that ran already."},
     [](const Figures& f) { return number(f.own.joined); }},
    {{"lanemq_gateway_replayed_total", Kind::counter, "Answers given again for an Idempotency-Key."},
     [](const Figures& f) { return number(f.own.replayed); }},
    {{"lanemq_gateway_cancelled_total", Kind::counter, "Jobs cancelled because their callers hung up."},
     [](const Figures& f) { return number(f.own.cancelled); }},
    {{"lanemq_gateway_caller_limits_total", Kind::counter, "Requests over their key's own limits."},
     [](const Figures& f) { return number(f.own.caller_limits_hit); }},
    {{"lanemq_gateway_no_worker_total", Kind::counter,
      "Requests that no worker served within no_worker_wait."},
     [](const Figures& f) { return number(f.own.unserved); }},
    {{"lanemq_gateway_spans_sent_total", Kind::counter, "Spans that the collector of otlp has taken."},
     [](const Figures& f) { return number(f.own.spans_sent); }},
    {{"lanemq_gateway_spans_lost_total", Kind::counter,
      "Spans that found no room, or that the collector did not take."},
     [](const Figures& f) { return number(f.own.spans_lost); }},
    {{"lanemq_gateway_connections", Kind::gauge, "Connections of callers."},
     [](const Figures& f) { return number(f.server.connections); }},
    {{"lanemq_gateway_connections_total", Kind::counter, "Connections accepted."},
     [](const Figures& f) { return number(f.server.accepted); }},
    {{"lanemq_gateway_connections_waiting", Kind::gauge, "New connections that nobody has looked at yet."},
     [](const Figures& f) { return number(f.server.newcomers); }},
    {{"lanemq_gateway_connections_refused_total", Kind::counter,
      "Connections over connections_max or connections_per_address_max."},
     [](const Figures& f) { return number(f.server.refused); }},
    {{"lanemq_gateway_connections_gave_way_total", Kind::counter,
      "Connections without a whole head that were closed for a new one."},
     [](const Figures& f) { return number(f.server.gave_way); }},
    {{"lanemq_gateway_http_requests_total", Kind::counter, "HTTP requests whose header was read."},
     [](const Figures& f) { return number(f.server.requests); }},
    {{"lanemq_gateway_http_bad_requests_total", Kind::counter, "Requests that are no HTTP."},
     [](const Figures& f) { return number(f.server.bad_requests); }},
    {{"lanemq_gateway_timeouts_total", Kind::counter, "Connections closed for being slow."},
     [](const Figures& f) { return number(f.server.timeouts); }},
    {{"lanemq_gateway_hang_ups_total", Kind::counter, "Callers that left before their answer was over."},
     [](const Figures& f) { return number(f.server.hang_ups); }},
    {{"lanemq_gateway_failures_total", Kind::counter,
      "Exceptions that were caught; each ended its connection."},
     [](const Figures& f) { return number(f.server.failures); }},
    {{"lanemq_gateway_body_bytes", Kind::gauge, "Bytes of requests' bodies held."},
     [](const Figures& f) { return number(f.server.body_bytes); }},
    {{"lanemq_gateway_upload_bytes", Kind::gauge,
      "Bytes of uploads on their way to their files, on the disk."},
     [](const Figures& f) { return number(f.server.upload_bytes); }},
    {{"lanemq_gateway_answer_bytes", Kind::gauge, "Bytes of answers that their readers have not taken."},
     [](const Figures& f) { return number(f.server.answer_bytes); }},
    {{"lanemq_gateway_tls_handshakes_total", Kind::counter, "TLS handshakes that were done."},
     [](const Figures& f) { return number(f.server.handshakes); }},
    {{"lanemq_gateway_tls_handshakes_failed_total", Kind::counter,
      "Connections that were closed since they spoke no TLS that is taken."},
     [](const Figures& f) { return number(f.server.handshakes_failed); }},
    {{"lanemq_gateway_tls_handshaking", Kind::gauge, "TLS handshakes that are under way."},
     [](const Figures& f) { return number(f.server.handshaking); }},
    {{"lanemq_gateway_answers_cut_total", Kind::counter,
      "Answers cut off for answers_bytes_max, the largest first."},
     [](const Figures& f) { return number(f.server.answers_cut); }},
    {{"lanemq_gateway_loop_longest_turn_seconds", Kind::gauge,
      "The longest that one thing held up all others within the last minute."},
     [](const Figures& f) { return std::chrono::duration<double>(f.server.longest_turn).count(); }},
    {{"lanemq_gateway_broker_pending", Kind::gauge, "Requests to the broker without an answer."},
     [](const Figures& f) { return number(f.pending); }},
    {{"lanemq_gateway_broker_sent_total", Kind::counter, "Requests sent to the broker."},
     [](const Figures& f) { return number(f.client.sent); }},
    {{"lanemq_gateway_broker_reconnected_total", Kind::counter, "New connections to the broker."},
     [](const Figures& f) { return number(f.client.reconnected); }},
};

// Metrics of batches, where there is a folder for them.
constexpr Row<BatchFigures> kBatchRows[] = {
    {{"lanemq_gateway_batch_lines_waiting", Kind::gauge,
      "Lines of batches that run, neither answered nor at the broker."},
     [](const BatchFigures& f) { return number(f.lines_waiting); }},
    {{"lanemq_gateway_batch_lines_running", Kind::gauge, "Lines of batches that are at the broker."},
     [](const BatchFigures& f) { return number(f.lines_running); }},
    {{"lanemq_gateway_files", Kind::gauge, "Files that are kept."},
     [](const BatchFigures& f) { return number(f.files); }},
    {{"lanemq_gateway_file_bytes", Kind::gauge, "Bytes of all files that are kept."},
     [](const BatchFigures& f) { return number(f.file_bytes); }},
    {{"lanemq_gateway_store_bytes", Kind::gauge, "Bytes of gateway.db and its log."},
     [](const BatchFigures& f) { return number(f.database_bytes); }},
    {{"lanemq_gateway_store_commits_failed_total", Kind::counter, "Turns of batches that the disk refused."},
     [](const BatchFigures& f) { return number(f.commits_failed); }},
    {{"lanemq_gateway_store_commit_failed_timestamp_seconds", Kind::gauge,
      "When the disk refused the last of them, since 1970; 0: never."},
     [](const BatchFigures& f) { return number(f.commit_failed_at) / 1000; }},
    {{"lanemq_gateway_store_refuses", Kind::gauge, "1 while batches wait for the disk."},
     [](const BatchFigures& f) { return number(f.disk_refuses); }},
};

// Those with labels.
constexpr Description kRequests{"lanemq_gateway_requests_total", Kind::counter,
                                "Requests by route and status; 499: the caller left before that."};
constexpr Description kRefused{"lanemq_gateway_refused_total", Kind::counter,
                               "Requests that the gateway refused by itself, by the reason."};
constexpr Description kRequestSeconds{"lanemq_gateway_request_seconds", Kind::histogram,
                                      "From a request for work to the end of its answer."};
constexpr Description kBuild{"lanemq_gateway_build_info", Kind::gauge, "1, with the gateway's version."};
constexpr Description kConnected{
    "lanemq_gateway_broker_connected", Kind::gauge,
    "1 where a broker has answered in the last five seconds, by the shard where there are any."};
constexpr Description kBatches{"lanemq_gateway_batches", Kind::gauge,
                               "Batches that are kept, by their state."};

template <class Of, std::size_t n>
void add_rows(Families& families, const Row<Of> (&rows)[n], const Of& figures) {
  for (const Row<Of>& row : rows) {
    families.begin(row.what);
    families.add({}, row.value(figures));
  }
}

}  // namespace

void Metrics::add_requests(const ServerCounters& server, Families& families) const {
  families.begin(kRequests);
  for (const RouteAnswers& row : server.answers)
    families.add({{"method", row.method}, {"route", row.route}, {"status", std::to_string(row.status)}},
                 number(row.count));
  families.begin(kRefused);
  for (const auto& [reason, count] : refused)
    families.add({{"reason", reason}}, number(count));
  families.begin(kRequestSeconds);
  families.add({}, kRequestBounds, durations_.counts, durations_.sum);
}

std::string Metrics::text(const ServerCounters& server, const ClientCounters& client, std::size_t pending,
                          const BatchFigures* batches, const Connected& connected) const {
  Families families;
  families.begin(kBuild);
  families.add({{"version", version()}}, 1);
  add_requests(server, families);
  families.begin(kConnected);
  for (const auto& [shard, answers] : connected)
    families.add(shard.empty() ? metrics::Labels{} : metrics::Labels{{"shard", shard}}, answers ? 1.0 : 0.0);
  add_rows(families, kRows, {*this, server, client, pending});
  if (batches == nullptr) return families.text();
  families.begin(kBatches);
  for (std::size_t state = 0; state < BatchFigures::kStates; ++state)
    families.add({{"state", std::string(BatchFigures::kStateNames[state])}}, number(batches->batches[state]));
  add_rows(families, kBatchRows, *batches);
  return families.text();
}

}  // namespace lanemq::gateway
