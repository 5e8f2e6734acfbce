// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/metrics.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "client/gateway/batches/batch_figures.hpp"

namespace lanemq::gateway {
namespace {

void line(std::string& out, std::string_view name, std::string_view kind, std::string_view help,
          double value) {
  char number[40];
  std::snprintf(number, sizeof number, "%.17g", value);
  out.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ");
  out.append(kind).append("\n").append(name).append(" ").append(number).append("\n");
}

constexpr char kPrefix[] = "lanemq_gateway_";

std::string shown(double value) {
  char number[40];
  std::snprintf(number, sizeof number, "%g", value);
  return number;
}

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
  const char* name;  ///< without lanemq_gateway_
  const char* type;
  const char* help;
  double (*value)(const Of& figures);
};

constexpr double number(auto value) {
  return static_cast<double>(value);
}

// The table of metrics without labels; a new metric is a new row.
constexpr Row<Figures> kRows[] = {
    {"jobs_total", "counter", "Jobs submitted for requests, fall-backs included.",
     [](const Figures& f) { return number(f.own.jobs); }},
    {"streams_open", "gauge", "Streams that are being answered.",
     [](const Figures& f) { return number(f.own.streams_open); }},
    {"chunks_total", "counter", "Pieces of streams passed on.",
     [](const Figures& f) { return number(f.own.chunks); }},
    {"keep_alives_total", "counter", "Keep-alives written into silent streams.",
     [](const Figures& f) { return number(f.own.keep_alives); }},
    {"fall_backs_total", "counter", "Steps of a route that were taken after the first.",
     [](const Figures& f) { return number(f.own.fall_backs); }},
    {"joined_total", "counter", "Requests that joined a job that ran already.",
     [](const Figures& f) { return number(f.own.joined); }},
    {"replayed_total", "counter", "Answers given again for an Idempotency-Key.",
     [](const Figures& f) { return number(f.own.replayed); }},
    {"cancelled_total", "counter", "Jobs cancelled because their callers hung up.",
     [](const Figures& f) { return number(f.own.cancelled); }},
    {"caller_limits_total", "counter", "Requests over their key's own limits.",
     [](const Figures& f) { return number(f.own.caller_limits_hit); }},
    {"no_worker_total", "counter", "Requests that no worker served within no_worker_wait.",
     [](const Figures& f) { return number(f.own.unserved); }},
    {"spans_sent_total", "counter", "Spans that the collector of otlp has taken.",
     [](const Figures& f) { return number(f.own.spans_sent); }},
    {"spans_lost_total", "counter", "Spans that found no room, or that the collector did not take.",
     [](const Figures& f) { return number(f.own.spans_lost); }},
    {"connections", "gauge", "Connections of callers.",
     [](const Figures& f) { return number(f.server.connections); }},
    {"connections_total", "counter", "Connections accepted.",
     [](const Figures& f) { return number(f.server.accepted); }},
    {"connections_waiting", "gauge", "New connections that nobody has looked at yet.",
     [](const Figures& f) { return number(f.server.newcomers); }},
    {"connections_refused_total", "counter",
     "Connections over connections_max or connections_per_address_max.",
     [](const Figures& f) { return number(f.server.refused); }},
    {"connections_gave_way_total", "counter",
     "Connections without a whole head that were closed for a new one.",
     [](const Figures& f) { return number(f.server.gave_way); }},
    {"http_requests_total", "counter", "HTTP requests whose header was read.",
     [](const Figures& f) { return number(f.server.requests); }},
    {"http_bad_requests_total", "counter", "Requests that are no HTTP.",
     [](const Figures& f) { return number(f.server.bad_requests); }},
    {"timeouts_total", "counter", "Connections closed for being slow.",
     [](const Figures& f) { return number(f.server.timeouts); }},
    {"hang_ups_total", "counter", "Callers that left before their answer was over.",
     [](const Figures& f) { return number(f.server.hang_ups); }},
    {"failures_total", "counter", "Exceptions that were caught; each ended its connection.",
     [](const Figures& f) { return number(f.server.failures); }},
    {"body_bytes", "gauge", "Bytes of requests' bodies held.",
     [](const Figures& f) { return number(f.server.body_bytes); }},
    {"upload_bytes", "gauge", "Bytes of uploads on their way to their files, on the disk.",
     [](const Figures& f) { return number(f.server.upload_bytes); }},
    {"answer_bytes", "gauge", "Bytes of answers that their readers have not taken.",
     [](const Figures& f) { return number(f.server.answer_bytes); }},
    {"tls_handshakes_total", "counter", "TLS handshakes that were done.",
     [](const Figures& f) { return number(f.server.handshakes); }},
    {"tls_handshakes_failed_total", "counter",
     "Connections that were closed since they spoke no TLS that is taken.",
     [](const Figures& f) { return number(f.server.handshakes_failed); }},
    {"tls_handshaking", "gauge", "TLS handshakes that are under way.",
     [](const Figures& f) { return number(f.server.handshaking); }},
    {"answers_cut_total", "counter", "Answers cut off for answers_bytes_max, the largest first.",
     [](const Figures& f) { return number(f.server.answers_cut); }},
    {"loop_longest_turn_ms", "gauge",
     "The longest that one thing held up all others within the last minute, in milliseconds.",
     [](const Figures& f) {
       return std::chrono::duration<double, std::milli>(f.server.longest_turn).count();
     }},
    {"broker_pending", "gauge", "Requests to the broker without an answer.",
     [](const Figures& f) { return number(f.pending); }},
    {"broker_sent_total", "counter", "Requests sent to the broker.",
     [](const Figures& f) { return number(f.client.sent); }},
    {"broker_reconnected_total", "counter", "New connections to the broker.",
     [](const Figures& f) { return number(f.client.reconnected); }},
};

// Metrics of batches, where there is a folder for them.
constexpr Row<BatchFigures> kBatchRows[] = {
    {"batch_lines_waiting", "gauge", "Lines of batches that run, neither answered nor at the broker.",
     [](const BatchFigures& f) { return number(f.lines_waiting); }},
    {"batch_lines_running", "gauge", "Lines of batches that are at the broker.",
     [](const BatchFigures& f) { return number(f.lines_running); }},
    {"files", "gauge", "Files that are kept.", [](const BatchFigures& f) { return number(f.files); }},
    {"file_bytes", "gauge", "Bytes of all files that are kept.",
     [](const BatchFigures& f) { return number(f.file_bytes); }},
    {"store_bytes", "gauge", "Bytes of gateway.db and its log.",
     [](const BatchFigures& f) { return number(f.database_bytes); }},
    {"store_commits_failed_total", "counter", "Turns of batches that the disk refused.",
     [](const BatchFigures& f) { return number(f.commits_failed); }},
    {"store_commit_failed_timestamp_seconds", "gauge",
     "When the disk refused the last of them, since 1970; 0: never.",
     [](const BatchFigures& f) { return number(f.commit_failed_at) / 1000; }},
    {"store_refuses", "gauge", "1 while batches wait for the disk.",
     [](const BatchFigures& f) { return number(f.disk_refuses); }},
};

template <class Of, std::size_t n>
void add_rows(std::string& out, const Row<Of> (&rows)[n], const Of& figures) {
  for (const Row<Of>& row : rows)
    line(out, kPrefix + std::string(row.name), row.type, row.help, row.value(figures));
}

}  // namespace

void Metrics::took(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const auto at = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++durations_[static_cast<std::size_t>(at - kBounds.begin())];
  duration_sum_ += seconds;
  ++duration_count_;
}

/// Metrics with labels.
void Metrics::add_requests(const ServerCounters& server, std::string& out) const {
  out +=
      "# HELP lanemq_gateway_requests_total Requests by route and status; 499: the caller left before "
      "that.\n";
  out += "# TYPE lanemq_gateway_requests_total counter\n";
  for (const RouteAnswers& row : server.answers)
    out += "lanemq_gateway_requests_total{method=\"" + row.method + "\",route=\"" + row.route +
           "\",status=\"" + std::to_string(row.status) + "\"} " + std::to_string(row.count) + "\n";
  out += "# HELP lanemq_gateway_refused_total Requests that the gateway refused by itself, by the reason.\n";
  out += "# TYPE lanemq_gateway_refused_total counter\n";
  for (const auto& [reason, count] : refused)
    out += "lanemq_gateway_refused_total{reason=\"" + reason + "\"} " + std::to_string(count) + "\n";
  out += "# HELP lanemq_gateway_request_seconds From a request for work to the end of its answer.\n";
  out += "# TYPE lanemq_gateway_request_seconds histogram\n";
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    below += durations_[i];
    out += "lanemq_gateway_request_seconds_bucket{le=\"" + shown(kBounds[i]) + "\"} " +
           std::to_string(below) + "\n";
  }
  out += "lanemq_gateway_request_seconds_bucket{le=\"+Inf\"} " + std::to_string(duration_count_) + "\n";
  out += "lanemq_gateway_request_seconds_sum " + std::to_string(duration_sum_) + "\n";
  out += "lanemq_gateway_request_seconds_count " + std::to_string(duration_count_) + "\n";
}

std::string Metrics::text(const ServerCounters& server, const ClientCounters& client, std::size_t pending,
                          const BatchFigures* batches) const {
  std::string out;
  add_requests(server, out);
  add_rows(out, kRows, {*this, server, client, pending});
  if (batches == nullptr) return out;
  out += "# HELP lanemq_gateway_batches Batches that are kept, by their state.\n";
  out += "# TYPE lanemq_gateway_batches gauge\n";
  for (std::size_t state = 0; state < BatchFigures::kStates; ++state)
    out += "lanemq_gateway_batches{state=\"" + std::string(BatchFigures::kStateNames[state]) + "\"} " +
           std::to_string(batches->batches[state]) + "\n";
  add_rows(out, kBatchRows, *batches);
  return out;
}

}  // namespace lanemq::gateway
