// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <lanemq/text.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/ids/ulid.hpp"
#include "common/json/members.hpp"

namespace lanemq::cli {
namespace {

constexpr std::size_t kBenchCountMax = 50'000'000;  // four bytes are kept for each

struct BenchOptions {
  JobOptions job;
  std::size_t count = 100'000, window = 1'000, body_bytes = 128;
  bool json = false;
};

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kTick{200};

/// Keeps a window of jobs in flight and measures each: each answer sends the next job. Lives until its last
/// job is answered; an interrupted client answers all when it ends.
class Bench : public std::enable_shared_from_this<Bench> {
 public:
  Bench(Client& client, const BenchOptions& options)
      : client_(client),
        options_(options),
        body_(Blob::copy(std::string(options.body_bytes, 'x'))),
        ids_(std::min(options.window, options.count)) {
    tenth_micros_.reserve(options.count);
  }

  void run() {
    const auto start = Clock::now();
    for (std::size_t place = 0; place < ids_.size(); ++place)
      send_next(place);
    std::unique_lock lock(mutex_);
    while (!over_.wait_for(lock, kTick, [this] { return finished_; })) {
      if (interrupted() != 0) break;
      show(start);
    }
    stopped_ = true;
    seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    lock.unlock();
    show_live({});
  }

  std::string report();
  std::string json();
  /// Once it is stopped: the jobs without an answer.
  std::vector<std::string> in_flight() const {
    std::vector<std::string> ids;
    for (const std::string& id : ids_)
      if (!id.empty()) ids.push_back(id);
    return ids;
  }
  int exit_code() const {
    if (interrupted() != 0) return kExitSignal + interrupted();
    return errors_.empty() ? kExitDone : kExitFailed;
  }

 private:
  /// `place`: in the window.
  void send_next(std::size_t place) {
    const auto now = Clock::now();
    JobRequest request = request_of(options_.job);
    request.cancel_when_gone = true;  // nobody else waits for the jobs
    request.id = new_ulid();
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || refused_ || started_ == options_.count) return;
      ++started_;
      ids_[place] = request.id;
    }
    client_.submit(std::move(request), body_, [self = shared_from_this(), place, now](const Answer& answer) {
      self->landed(place, now, answer);
    });
  }

  void landed(std::size_t place, Clock::time_point sent, const Answer& answer) {
    const auto tenth_micros = (Clock::now() - sent) / std::chrono::nanoseconds(100);
    bool last = false;
    {
      const std::lock_guard lock(mutex_);  // hardly ever contended
      if (stopped_) return;
      ids_[place].clear();
      if (answer)
        tenth_micros_.push_back(static_cast<std::uint32_t>(std::min<std::int64_t>(tenth_micros, 0xFFFFFFFF)));
      else
        count_error(answer.error());
      last = finished_ = ++landed_ == (refused_ ? started_ : options_.count);
    }
    if (last)
      over_.notify_one();
    else
      send_next(place);
  }

  void count_error(const ClientError& error) {
    refused_ |= error.known_code() == ErrorCode::unauthorized;  // so would be all that follow
    if (errors_[error.code]++ == 0)
      first_errors_.push_back(printable(error.code) + ": " + printable(error.message));
  }

  void show(Clock::time_point start) const {
    const double time = std::chrono::duration<double>(Clock::now() - start).count();
    show_live("bench: " + grouped(landed_) + "/" + grouped(options_.count) + "  " +
              grouped(static_cast<std::uint64_t>(static_cast<double>(landed_) / time)) + "/s");
  }

  double micros(double share) {
    if (tenth_micros_.empty()) return 0;
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(tenth_micros_.size() - 1));
    return static_cast<double>(tenth_micros_[rank]) / 10;
  }

  Client& client_;
  const BenchOptions& options_;
  const Blob body_;

  std::mutex mutex_;  // guards all below
  std::condition_variable over_;
  std::size_t started_ = 0;
  std::vector<std::string> ids_;             ///< of the jobs in the window; empty: answered
  std::vector<std::uint32_t> tenth_micros_;  ///< in units of 0.1 us; at most `count` of them
  std::map<std::string, std::size_t> errors_;
  std::vector<std::string> first_errors_;
  std::size_t landed_ = 0;
  bool finished_ = false, stopped_ = false;
  bool refused_ = false;  ///< the broker takes the key no more, and no job is begun any more
  double seconds_ = 0;
};

std::string Bench::report() {
  std::sort(tenth_micros_.begin(), tenth_micros_.end());
  char text[512];
  std::snprintf(
      text, sizeof text,
      "%s round trips in %.2f s: %s/s\nlatency: p50 %.3f ms, p90 %.3f ms, p99 %.3f ms, max %.3f ms\n",
      grouped(landed_).c_str(), seconds_,
      grouped(static_cast<std::uint64_t>(static_cast<double>(landed_) / seconds_)).c_str(), micros(0.5) / 1e3,
      micros(0.9) / 1e3, micros(0.99) / 1e3, micros(1) / 1e3);
  std::string report = text;
  for (const auto& [code, count] : errors_)
    report += "errors: " + code + " " + grouped(count) + "\n";
  for (const std::string& first : first_errors_)
    say("for example " + first);
  return report;
}

std::string Bench::json() {
  std::sort(tenth_micros_.begin(), tenth_micros_.end());
  char text[512];
  std::snprintf(text, sizeof text,
                "{\"round_trips\":%zu,\"seconds\":%.6f,\"per_second\":%.1f,\"window\":%zu,\"body_bytes\":%zu,"
                "\"latency_us\":{\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f},\"errors\":{",
                landed_, seconds_, static_cast<double>(landed_) / seconds_, options_.window,
                options_.body_bytes, micros(0.5), micros(0.9), micros(0.99), micros(1));
  std::string json = text;
  for (const auto& [code, count] : errors_)
    json += (json.ends_with('{') ? "" : ",") + json_text(code) + ":" + std::to_string(count);
  return json + "}}\n";
}

int bench(const Common& common, const BenchOptions& options) {
  catch_interrupts();
  watch_output();
  ClientOptions with = client_options(common);
  with.pending_max = 2 * options.window + 16;  // the jobs, and that they are cancelled
  with.pending_bytes_max = (options.window + 1) * std::max<std::size_t>(options.body_bytes, 1);
  Client client(with);
  if (!reaches(client, common))
    return interrupted() == 0 ? end_unreached(common, options.json) : kExitSignal + interrupted();
  auto bench = std::make_shared<Bench>(client, options);
  bench->run();
  if (interrupted() != 0) cancel_and_say(client, bench->in_flight());
  if (!(options.json ? put_json(bench->json()) : put(bench->report()))) return kExitFailed;
  return bench->exit_code();
}

}  // namespace

void add_bench(CommandLine& line) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App& command = line.add("bench", "Measure round trips; needs a worker that echoes");
  options->job.service = "echo";
  add_job_options(command, options->job, false);
  command.add_option("-n,--count", options->count, "Round trips")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, kBenchCountMax))
      ->type_name("N");
  command.add_option("--window", options->window, "Jobs in flight at once")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, kWindowMax))
      ->type_name("N");
  command.add_option("--size", options->body_bytes, "Bytes of each body")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{0}, limits::body_bytes_max))
      ->type_name("N");
  command.add_flag("--json", options->json, "The figures as JSON");
  line.on_chosen(command, Asks::clients, [options](const Common& common) { return bench(common, *options); });
}

}  // namespace lanemq::cli
