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

std::string shown(double value) {
  char number[40];
  std::snprintf(number, sizeof number, "%g", value);
  return number;
}

}  // namespace

void Metrics::took(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const auto at = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++durations_[static_cast<std::size_t>(at - kBounds.begin())];
  duration_sum_ += seconds;
  ++duration_count_;
}

std::string Metrics::text(const ServerCounters& server, const ClientCounters& client, std::size_t pending,
                          const BatchFigures* batches) const {
  std::string out;
  const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    line(out, name, "counter", help, static_cast<double>(value));
  };
  const auto gauge = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    line(out, name, "gauge", help, static_cast<double>(value));
  };
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
  counter("lanemq_gateway_jobs_total", "Jobs submitted for requests, fall-backs included.", jobs);
  gauge("lanemq_gateway_streams_open", "Streams that are being answered.", streams_open);
  counter("lanemq_gateway_chunks_total", "Pieces of streams passed on.", chunks);
  counter("lanemq_gateway_keep_alives_total", "Keep-alives written into silent streams.", keep_alives);
  counter("lanemq_gateway_fall_backs_total", "Steps of a route that were taken after the first.", fall_backs);
  counter("lanemq_gateway_joined_total", "Requests that joined a job that ran already.", joined);
  counter("lanemq_gateway_replayed_total", "Answers given again for an Idempotency-Key.", replayed);
  counter("lanemq_gateway_cancelled_total", "Jobs cancelled because their callers hung up.", cancelled);
  counter("lanemq_gateway_caller_limits_total", "Requests over their key's own limits.", caller_limits_hit);
  gauge("lanemq_gateway_connections", "Connections of callers.", server.connections);
  counter("lanemq_gateway_connections_total", "Connections accepted.", server.accepted);
  counter("lanemq_gateway_connections_refused_total", "Connections over connections_max.", server.refused);
  counter("lanemq_gateway_connections_gave_way_total",
          "Connections without a whole head that were closed for a new one.", server.gave_way);
  counter("lanemq_gateway_http_requests_total", "HTTP requests whose header was read.", server.requests);
  counter("lanemq_gateway_http_bad_requests_total", "Requests that are no HTTP.", server.bad_requests);
  counter("lanemq_gateway_timeouts_total", "Connections closed for being slow.", server.timeouts);
  counter("lanemq_gateway_hang_ups_total", "Callers that left before their answer was over.",
          server.hang_ups);
  counter("lanemq_gateway_failures_total", "Exceptions that were caught; each ended its connection.",
          server.failures);
  gauge("lanemq_gateway_body_bytes", "Bytes of requests' bodies held.", server.body_bytes);
  gauge("lanemq_gateway_upload_bytes", "Bytes of uploads on their way to their files, on the disk.",
        server.upload_bytes);
  gauge("lanemq_gateway_answer_bytes", "Bytes of answers that their readers have not taken.",
        server.answer_bytes);
  counter("lanemq_gateway_answers_cut_total", "Answers cut off for answers_bytes_max, the largest first.",
          server.answers_cut);
  line(out, "lanemq_gateway_loop_longest_turn_ms", "gauge",
       "The longest that one thing held up all others within the last minute, in milliseconds.",
       std::chrono::duration<double, std::milli>(server.longest_turn).count());
  gauge("lanemq_gateway_broker_pending", "Requests to the broker without an answer.", pending);
  counter("lanemq_gateway_broker_sent_total", "Requests sent to the broker.", client.sent);
  counter("lanemq_gateway_broker_reconnected_total", "New connections to the broker.", client.reconnected);
  if (batches == nullptr) return out;
  out += "# HELP lanemq_gateway_batches Batches that are kept, by their state.\n";
  out += "# TYPE lanemq_gateway_batches gauge\n";
  for (std::size_t state = 0; state < BatchFigures::kStates; ++state)
    out += "lanemq_gateway_batches{state=\"" + std::string(BatchFigures::kStateNames[state]) + "\"} " +
           std::to_string(batches->batches[state]) + "\n";
  const auto level = [&](std::string_view name, std::string_view help, std::int64_t value) {
    line(out, name, "gauge", help, static_cast<double>(value));
  };
  level("lanemq_gateway_batch_lines_waiting",
        "Lines of batches that run, neither answered nor at the broker.", batches->lines_waiting);
  level("lanemq_gateway_batch_lines_running", "Lines of batches that are at the broker.",
        batches->lines_running);
  level("lanemq_gateway_files", "Files that are kept.", batches->files);
  level("lanemq_gateway_file_bytes", "Bytes of all files that are kept.", batches->file_bytes);
  level("lanemq_gateway_store_bytes", "Bytes of gateway.db and its log.", batches->database_bytes);
  counter("lanemq_gateway_store_commits_failed_total", "Turns of batches that the disk refused.",
          batches->commits_failed);
  line(out, "lanemq_gateway_store_commit_failed_timestamp_seconds", "gauge",
       "When the disk refused the last of them, since 1970; 0: never.",
       static_cast<double>(batches->commit_failed_at) / 1000);
  level("lanemq_gateway_store_refuses", "1 while batches wait for the disk.", batches->disk_refuses);
  return out;
}

}  // namespace lanemq::gateway
