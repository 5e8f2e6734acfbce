// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/process_name.hpp>
#include <lanemq/text.hpp>
#include <lanemq/version.hpp>
#include <lanemq/worker.hpp>

#include "common/trace/context.hpp"
#include "worker/base/log_line.hpp"
#include "worker/base/shard_lease.hpp"
#include "worker/links/broker_link.hpp"
#include "worker/links/shard_links.hpp"
#include "worker/session/completion.hpp"
#include "worker/session/session.hpp"

namespace lanemq {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using worker::CancelJob;
using worker::LogLine;

/// How often a readable handler's descriptor is looked at. What comes close together is then read in one turn
/// and sent in one message, which wakes this thread, the socket's, the broker's and the reader's once. A
/// single event does not wait.
constexpr std::chrono::microseconds kLookEvery{150};
constexpr std::size_t kFailureLinesPerSecond = 10;

std::string default_name() {
  char host[256] = "worker";
  static_cast<void>(gethostname(host, sizeof host - 1));
  return printable(host, 100) + '-' + std::to_string(getpid());
}

void require(bool good, const std::string& message) {
  if (!good) throw std::invalid_argument(message);
}

void check_name(const std::string& what, const std::string& name) {
  require(!name.empty() && name.size() <= limits::name_bytes_max && is_utf8(name),
          what + " \"" + printable(name, 64) + "\" must be 1.." + std::to_string(limits::name_bytes_max) +
              " bytes of UTF-8");
}

void check(const WorkerOptions& options, const std::vector<Service>& services) {
  require(!services.empty(), "a worker needs at least one service");
  require(services.size() <= limits::list_entries_max,
          "a worker serves at most " + std::to_string(limits::list_entries_max) + " services");
  for (std::size_t i = 0; i < services.size(); ++i) {
    check_name("service", services[i].name);
    require(services[i].handler != nullptr, "service \"" + services[i].name + "\" has no handler");
    for (std::size_t j = 0; j < i; ++j)
      require(services[i].name != services[j].name, "service \"" + services[i].name + "\" is named twice");
  }
  for (const std::string& lane : options.lanes)
    check_name("lane", lane);
  require(options.lanes.size() <= limits::list_entries_max, "too many lanes");
  if (!options.name.empty()) check_name("name", options.name);
  require(options.keys.why_unusable().empty(), options.keys.why_unusable());
  require(
      options.capacity >= 1 && options.capacity <= limits::capacity_max,
      "capacity " + std::to_string(options.capacity) + " must be 1.." + std::to_string(limits::capacity_max));
}

worker::SessionOptions session_options(const WorkerOptions& options, const std::vector<Service>& services) {
  worker::SessionOptions result{.services = {},
                                .lanes = options.lanes,
                                .name = options.name,
                                .version = version(),
                                .process = process_name(),
                                .capacity = options.capacity,
                                .body_bytes_max = options.body_bytes_max};
  for (const Service& service : services)
    result.services.push_back(service.name);
  return result;
}

}  // namespace

/// The thread of run(): turn by turn it serves the brokers, the completions, and handlers' descriptors and
/// timers.
class Worker::Loop final : private worker::BrokerLink::Owner {
 public:
  Loop(WorkerOptions options, std::vector<Service> services)
      : options_(std::move(options)),
        services_(std::move(services)),
        links_(context_, options_, session_options(options_, services_)),
        sink_(std::make_shared<CompletionSink>()) {
    // Asks each handler once for its time, even if services share it.
    for (const Service& service : services_)
      if (std::find(handlers_.begin(), handlers_.end(), service.handler.get()) == handlers_.end())
        handlers_.push_back(service.handler.get());
    for (Handler* handler : handlers_)
      watch(*handler);
    lay_out_poll();
  }

  WorkerEnd run() {
    sink_->adopt_thread();
    started_at_ = Clock::now();
    links_.open(started_at_);
    while (!left_) {
      if (gave_up_connecting()) return WorkerEnd::unreachable;
      wait();
      turn();
    }
    say_farewell();
    return end_;
  }

  void stop() noexcept {
    stops_.fetch_add(1, std::memory_order_relaxed);
    sink_->wake();
  }

 private:
  using Clock = std::chrono::steady_clock;

  // ---- the turn ---------------------------------------------------------------------------------------

  void turn() {
    const TimePoint now = Clock::now();
    obey_stops(now);
    for (const auto& link : links_.all())
      link->read(now, *this);
    for (std::size_t i = 0; i < watchers_.size(); ++i) {
      if (polled_[own_descriptors() + i].revents == 0) continue;
      watchers_[i].handler->on_readable(now);
      next_look_ = now + kLookEvery;
    }
    for (Handler* handler : handlers_)
      handler->advance(now);
    take_finished(now);
    for (const auto& link : links_.all()) {
      link->session().advance(now, link->effects());
      carry_out(*link, now, nullptr);
    }
    if (links_.advance(now, *this)) lay_out_poll();
    report_drops();
    beat(now);
    for (const auto& link : links_.all())
      link->flush();
  }

  void beat(TimePoint now) {
    if (!beats() || now < beat_at_) return;
    beat_at_ = now + options_.beat_every;
    const worker::SessionCounters counters = links_.counters();
    WorkerBeat beat{.connected = links_.any_serves(),
                    .running = links_.running(),
                    .unacknowledged = links_.outcomes(),
                    .welcomes = welcomes_,
                    .stale = counters.stale,
                    .dropped = counters.outcomes_dropped};
    for (const auto& link : links_.all())
      if (const worker::Session& session = link->session(); !session.shard().empty())
        beat.shards.push_back({.name = session.shard(),
                               .connected = session.serves(),
                               .capacity = session.capacity(),
                               .running = session.running(),
                               .unacknowledged = session.outcomes()});
    options_.on_beat(beat);
  }
  bool beats() const { return options_.on_beat && options_.beat_every > milliseconds(0); }

  /// Watches a handler's descriptor. Of handlers that share one, the first is called.
  void watch(Handler& handler) {
    const int descriptor = handler.descriptor();
    if (descriptor < 0) return;
    for (const Watcher& watcher : watchers_)
      if (watcher.descriptor == descriptor) return;
    watchers_.push_back({&handler, descriptor});
  }

  /// The loop's own descriptors, in front of handlers': of completions, and of the links.
  std::size_t own_descriptors() const { return 1 + links_.all().size() * worker::BrokerLink::kDescriptors; }
  void lay_out_poll() {
    polled_.assign(own_descriptors(), pollfd{-1, POLLIN, 0});
    polled_[0].fd = sink_->wake_descriptor();
    for (const Watcher& watcher : watchers_)
      polled_.push_back({watcher.descriptor, POLLIN, 0});
  }

  /// Sleeps until there is something to do.
  void wait() {
    forget_poll();
    bool is_busy = sink_->has_local();
    for (const auto& link : links_.all())
      is_busy = link->ask_for_input() || is_busy;
    if (!is_busy)
      for (const auto& link : links_.all())
        if (link->follow_connection()) return;
    TimePoint now = Clock::now();
    const TimePoint until = is_busy ? now : next_wakeup();
    if (!watchers_.empty() && now < next_look_) {
      if (poll_until(std::min(until, next_look_), now, own_descriptors()) || until <= next_look_) return;
      now = Clock::now();
    }
    // Handlers' descriptors are polled even while the broker keeps the loop busy.
    if (until > now || !watchers_.empty()) poll_until(until, now, polled_.size());
  }

  /// Waits for the first `count` descriptors; false: none is ready in time.
  bool poll_until(TimePoint until, TimePoint now, std::size_t count) {
    pollfd* of_link = &polled_[1];
    for (const auto& link : links_.all()) {
      link->watch(of_link);
      of_link += worker::BrokerLink::kDescriptors;
    }
    const nanoseconds left = std::max<nanoseconds>(until - now, nanoseconds(0));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout{static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
    const int ready = ppoll(polled_.data(), count, &timeout, nullptr);
    if (ready < 0) forget_poll();  // as after a signal: revents are not set then
    of_link = &polled_[1];
    for (const auto& link : links_.all()) {
      link->take_polled(of_link);
      of_link += worker::BrokerLink::kDescriptors;
    }
    if ((polled_[0].revents & POLLIN) != 0) sink_->clear_wake();
    return ready != 0;
  }

  void forget_poll() {
    for (pollfd& one : polled_)
      one.revents = 0;
  }

  TimePoint next_wakeup() const {
    TimePoint due = std::min(links_.next_wakeup(), started_at_ + std::chrono::hours(24 * 365 * 100));
    if (!welcomed_ && options_.connect_timeout > milliseconds(0))
      due = std::min(due, started_at_ + options_.connect_timeout);
    if (beats()) due = std::min(due, beat_at_);
    for (const Handler* handler : handlers_)
      if (const auto wanted = handler->next_wakeup()) due = std::min(due, *wanted);
    return due;
  }

  bool gave_up_connecting() const {
    return !welcomed_ && options_.connect_timeout > milliseconds(0) &&
           Clock::now() >= started_at_ + options_.connect_timeout;
  }

  void obey_stops(TimePoint now) {
    const int stops = stops_.load(std::memory_order_relaxed);
    if (stops > 0 && obeyed_ == 0) {
      obeyed_ = 1;
      LogLine(options_.log, LogLevel::info, "worker.draining")
          .field("running", links_.running())
          .field("drain_timeout_ms", options_.drain_timeout.count());
      links_.drain(now + options_.drain_timeout, now, *this);
    }
    if (stops > 1 && obeyed_ == 1) {
      obeyed_ = 2;
      links_.leave(now, *this);
    }
  }

  // ---- jobs -------------------------------------------------------------------------------------------

  void carry_out(worker::BrokerLink& link, TimePoint now, const wire::JobOffer* offer) override {
    worker::Effects& effects = link.effects();
    for (std::size_t i = 0; i < effects.size(); ++i) {
      const worker::Effect effect = effects[i];
      if (const auto* start = std::get_if<worker::StartJob>(&effect))
        start_job(link, *start, *offer, now);
      else if (const auto* resume = std::get_if<worker::ResumeJob>(&effect))
        services_[resume->service].handler->resume(worker::inside(link.place(), resume->lease));
      else if (const auto* cancel = std::get_if<CancelJob>(&effect))
        cancel_job(link, *cancel);
      else if (std::holds_alternative<worker::Reconnect>(effect))
        link.reconnect(now);
      else if (const auto* told = std::get_if<worker::ShardsTold>(&effect))
        links_.told(link, *told);
      else if (const auto* welcomed = std::get_if<worker::Welcomed>(&effect))
        on_welcomed(link, *welcomed);
      else if (const auto* refused = std::get_if<worker::Refused>(&effect))
        on_refused(link, refused->ever, now);
      else if (std::holds_alternative<worker::Left>(effect))
        on_left(link);
    }
    effects.clear();
  }

  void start_job(worker::BrokerLink& link, const worker::StartJob& start, const wire::JobOffer& offer,
                 TimePoint now) {
    const Service& service = services_[start.service];
    JobCall job{.lease = worker::inside(link.place(), start.lease),
                .service = service.name,
                .id = offer.id,
                .lane = offer.lane.empty() ? std::string_view(link.session().default_lane()) : offer.lane,
                .model = offer.model,
                .client = offer.client,
                .key = offer.key,
                .body = link.take_body(),
                .now = now,
                .deadline = std::nullopt,
                .answer_bytes_max = link.session().answer_bytes_max(),
                .stream = offer.stream,
                .meta = offer.meta,
                .trace = offer.trace,
                .extras = offer.extras};
    if (offer.timeout_ms)
      job.deadline =
          now + milliseconds(std::clamp<std::int64_t>(*offer.timeout_ms, 0, limits::duration_ms_max));
    const std::optional<trace::Context> context = trace::read_field(job.trace.bytes);
    const std::string traceparent = trace_of(job, context);
    job.traceparent = traceparent;
    if (context) job.tracestate = context->state;
    if (options_.log.wants(LogLevel::debug)) {
      LogLine line(options_.log, LogLevel::debug, "job.started");
      line.field("job", job.id).field("attempt", job.lease.attempt).field("service", job.service);
      line.field("lane", job.lane);
      add_shard(line, link);
      if (!job.key.empty()) line.field("key", job.key);
      add_trace(line, job.lease);
    }
    try {
      service.handler->start(job, Completion(sink_, job.lease, start.gate));
    } catch (const std::exception& error) {
      // The exception destroyed the Completion, so the job ends as `abandoned` and is retried.
      LogLine(options_.log, LogLevel::error, "handler.threw")
          .field("service", service.name)
          .field("message", error.what());
    }
  }

  /// The job's traceparent: that of the call's own span, or as the job brought it.
  std::string trace_of(const JobCall& job, const std::optional<trace::Context>& context) {
    std::string traceparent = options_.calls ? options_.calls->began(job) : std::string();
    if (traceparent.empty() && context) traceparent = context->parent_text();
    if (!traceparent.empty()) traces_[{job.lease.job, job.lease.attempt}] = traceparent.substr(3, 32);
    return traceparent;
  }

  /// Says in a line of a call which trace it is part of.
  void add_trace(LogLine& line, wire::Lease lease) const {
    if (const auto trace = traces_.find({lease.job, lease.attempt}); trace != traces_.end())
      line.field("trace", trace->second);
  }

  void tell_end(const worker::FinishedJob& job, TimePoint now) {
    if (!options_.calls) return;
    CallEnd end;
    if (const auto* report = job.outcome.report.get()) {
      if (report->error_class) end.failure = report->code;
      end.usage = report->usage;
      end.upstream_status = report->upstream_status;
    }
    options_.calls->ended(job.lease, end, now);
  }

  void cancel_job(const worker::BrokerLink& link, const CancelJob& cancel) {
    {
      LogLine line(options_.log, LogLevel::debug, "job.cancelled");
      line.field("job", cancel.lease.job).field("attempt", cancel.lease.attempt);
      add_shard(line, link);
    }
    services_[cancel.service].handler->cancel(worker::inside(link.place(), cancel.lease));
  }

  static void add_shard(LogLine& line, const worker::BrokerLink& link) {
    if (const std::string& shard = link.session().shard(); !shard.empty()) line.field("shard", shard);
  }

  void take_finished(TimePoint now) {
    sink_->take(handed_in_);
    for (worker::StreamPiece& piece : handed_in_.pieces) {
      if (options_.calls) options_.calls->streams(piece.lease, now);
      worker::BrokerLink* const link = links_.of(piece.lease);
      if (link == nullptr) continue;
      piece.lease = worker::outside(piece.lease);
      link->session().chunk(std::move(piece), now, link->effects());
      carry_out(*link, now, nullptr);
    }
    for (worker::ProgressWord& word : handed_in_.words)
      if (worker::BrokerLink* const link = links_.of(word.lease)) {
        word.lease = worker::outside(word.lease);
        link->session().progress(std::move(word), now);
      }
    for (worker::FinishedJob& job : handed_in_.finished)
      finish_job(job, now);
    handed_in_.pieces.clear();
    handed_in_.words.clear();
    handed_in_.finished.clear();
  }

  void finish_job(worker::FinishedJob& job, TimePoint now) {
    worker::BrokerLink* const link = links_.of(job.lease);
    if (!job.outcome.succeeded()) log_failure(job, link, now);
    tell_end(job, now);
    if (!traces_.empty()) traces_.erase({job.lease.job, job.lease.attempt});
    if (link == nullptr) return;  // its shard was left
    link->session().finish(worker::outside(job.lease), std::move(job.outcome), now, link->effects());
    carry_out(*link, now, nullptr);
  }

  // ---- life -------------------------------------------------------------------------------------------

  void on_welcomed(worker::BrokerLink& link, const worker::Welcomed& welcomed) {
    link.welcomed(welcomed);
    ++welcomes_;
    if (std::exchange(welcomed_, true)) return;
    if (options_.on_ready) options_.on_ready(options_.name);
  }

  /// Who was welcomed once may hold jobs, and its broker may be another one since: it tries again.
  void on_refused(worker::BrokerLink& link, bool ever, TimePoint now) {
    link.refused(now);
    if (!ever || welcomed_) return;
    left_ = true;
    end_ = WorkerEnd::refused;
  }

  void on_left(const worker::BrokerLink& link) {
    if (obeyed_ > 0 && link.session().running() > 0) end_ = WorkerEnd::interrupted;
    left_ = links_.all_left();
  }

  void say_farewell() {
    for (const auto& link : links_.all())
      link->close();
    const worker::SessionCounters counters = links_.counters();
    LogLine(options_.log, LogLevel::info, "worker.left")
        .field("unfinished", links_.running())
        .field("started", counters.started)
        .field("succeeded", counters.succeeded)
        .field("failed", counters.failed)
        .field("released", counters.released)
        .field("cancelled", counters.cancelled)
        .field("stale", counters.stale);
  }

  /// Logs failed jobs, a few a second: an upstream that is down fails them all.
  void log_failure(const worker::FinishedJob& job, const worker::BrokerLink* link, TimePoint now) {
    if (now - failure_lines_since_ >= std::chrono::seconds(1)) {
      if (failure_lines_ > kFailureLinesPerSecond)
        LogLine(options_.log, LogLevel::warning, "job.failed_more")
            .field("count", failure_lines_ - kFailureLinesPerSecond);
      failure_lines_since_ = now;
      failure_lines_ = 0;
    }
    if (++failure_lines_ > kFailureLinesPerSecond) return;
    const worker::JobOutcome::Report& report = *job.outcome.report;
    LogLine line(options_.log, LogLevel::warning, "job.failed");
    line.field("job", worker::number_of(job.lease)).field("attempt", job.lease.attempt);
    if (link != nullptr) add_shard(line, *link);
    line.field("class", name_of(*report.error_class)).field("code", report.code);
    line.field("message", report.message);
    if (!report.detail.empty()) line.field("detail", report.detail);
    add_trace(line, job.lease);
  }

  void report_drops() {
    const std::uint64_t dropped = links_.counters().outcomes_dropped;
    if (dropped == drops_reported_) return;
    if (drops_reported_ == 0)
      LogLine(options_.log, LogLevel::warning, "worker.outcomes_dropped")
          .field("reason", "the broker acknowledges none of them")
          .field("kept_max", worker::kOutcomesMax);
    drops_reported_ = dropped;
  }

  WorkerOptions options_;
  std::vector<Service> services_;
  std::vector<Handler*> handlers_;
  struct Watcher {
    Handler* handler;
    int descriptor;
  };
  std::vector<Watcher> watchers_;  ///< handlers with a descriptor to watch
  std::vector<pollfd> polled_;     ///< the loop's own, then those of watchers_
  zmq::context_t context_{1};
  worker::ShardLinks links_;
  std::shared_ptr<CompletionSink> sink_;
  CompletionSink::HandedIn handed_in_;

  /// The traces of the calls that have one, by job and attempt.
  std::map<std::pair<std::uint64_t, std::int64_t>, std::string> traces_;

  TimePoint next_look_{};  ///< earliest next look at handlers' descriptors
  TimePoint beat_at_{};    ///< of the next on_beat
  TimePoint started_at_{}, failure_lines_since_{};
  std::size_t failure_lines_ = 0;
  std::uint64_t drops_reported_ = 0, welcomes_ = 0;
  std::atomic<int> stops_{0};
  static_assert(std::atomic<int>::is_always_lock_free, "stop() is called in signal handlers");
  int obeyed_ = 0;
  bool welcomed_ = false, left_ = false;
  WorkerEnd end_ = WorkerEnd::drained;
};

Worker::Worker(WorkerOptions options, std::vector<Service> services) {
  check(options, services);
  if (options.name.empty()) options.name = default_name();
  loop_ = std::make_unique<Loop>(std::move(options), std::move(services));
}

Worker::~Worker() = default;

WorkerEnd Worker::run() {
  return loop_->run();
}

void Worker::stop() noexcept {
  loop_->stop();
}

}  // namespace lanemq
