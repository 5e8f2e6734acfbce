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
#include <lanemq/endpoints.hpp>
#include <lanemq/process_name.hpp>
#include <lanemq/text.hpp>
#include <lanemq/version.hpp>
#include <lanemq/worker.hpp>

#include "common/trace/context.hpp"
#include "common/zmq/address_look.hpp"
#include "common/zmq/curve.hpp"
#include "common/zmq/endpoints.hpp"
#include "common/zmq/message.hpp"
#include "worker/completion.hpp"
#include "worker/connection_monitor.hpp"
#include "worker/log_line.hpp"
#include "worker/session.hpp"

namespace lanemq {
namespace {

using socket::uninterrupted;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using worker::CancelJob;
using worker::LogLine;

/// Between connections to somebody who does not speak ZeroMQ.
constexpr int kStrangersPauseMs = 500;
/// How often a readable handler's descriptor is looked at. What comes close together is then read in one turn
/// and sent in one message, which wakes this thread, the socket's, the broker's and the reader's once. A
/// single event does not wait.
constexpr std::chrono::microseconds kLookEvery{150};
constexpr int kMessagesPerTurn = 1000;       ///< messages read in one turn, before completions and timers
constexpr std::size_t kOwnDescriptors = 3;   ///< the loop's own: socket, completions, monitor
constexpr milliseconds kLingerOnExit{1000};  ///< for the goodbye
constexpr std::size_t kFailureLinesPerSecond = 10;
constexpr std::chrono::minutes kConnectingLineEvery{1};

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
                                .version = kVersion,
                                .process = process_name(),
                                .capacity = options.capacity,
                                .body_bytes_max = options.body_bytes_max};
  for (const Service& service : services)
    result.services.push_back(service.name);
  return result;
}

}  // namespace

/// The thread of run(): turn by turn it serves one socket, the completions, and handlers' descriptors and
/// timers.
class Worker::Loop {
 public:
  Loop(WorkerOptions options, std::vector<Service> services)
      : options_(std::move(options)),
        services_(std::move(services)),
        session_(session_options(options_, services_)),
        sink_(std::make_shared<CompletionSink>()),
        decoder_(options_.body_bytes_max) {
    // Asks each handler once for its time, even if services share it.
    for (const Service& service : services_)
      if (std::find(handlers_.begin(), handlers_.end(), service.handler.get()) == handlers_.end())
        handlers_.push_back(service.handler.get());
    for (Handler* handler : handlers_)
      watch(*handler);
  }

  WorkerEnd run() {
    sink_->adopt_thread();
    started_at_ = Clock::now();
    if (endpoints_.several())
      if (const auto bad = socket::bad_endpoint(context_, endpoints_.all())) refuse_endpoint(*bad);
    open_socket();
    addresses_.begin(endpoints_.named());
    session_.connected(started_at_);
    flush();
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
    read_broker(now);
    for (std::size_t i = 0; i < watchers_.size(); ++i) {
      if (polled_[kOwnDescriptors + i].revents == 0) continue;
      watchers_[i]->on_readable(now);
      next_look_ = now + kLookEvery;
    }
    for (Handler* handler : handlers_)
      handler->advance(now);
    take_finished(now);
    session_.advance(now, effects_);
    carry_out(now);
    report_drops();
    beat(now);
    flush();
  }

  void beat(TimePoint now) {
    if (!beats() || now < beat_at_) return;
    beat_at_ = now + options_.beat_every;
    options_.on_beat({.connected = session_.serves(),
                      .running = session_.running(),
                      .unacknowledged = session_.outcomes(),
                      .welcomes = welcomes_,
                      .stale = session_.counters().stale,
                      .dropped = session_.counters().outcomes_dropped});
  }
  bool beats() const { return options_.on_beat && options_.beat_every > milliseconds(0); }

  /// Watches a handler's descriptor. Of handlers that share one, the first is called.
  void watch(Handler& handler) {
    const int descriptor = handler.descriptor();
    if (descriptor < 0) return;
    for (std::size_t i = 0; i < watchers_.size(); ++i)
      if (polled_[kOwnDescriptors + i].fd == descriptor) return;
    watchers_.push_back(&handler);
    polled_.push_back({descriptor, POLLIN, 0});
  }

  /// Sleeps until there is something to do.
  void wait() {
    forget_poll();
    has_input_ = asks_for_input();
    const bool is_busy = sink_->has_local() || has_input_;
    if (!is_busy && std::exchange(monitor_stirred_, false)) {
      if (monitor_.reconnected()) return introduce_again();
      if (monitor_.meets_strangers() && !slow_socket_) return go_slow();
      if (monitor_.finds_nobody()) find_next();
    }
    TimePoint now = Clock::now();
    const TimePoint until = is_busy ? now : next_wakeup();
    if (!watchers_.empty() && now < next_look_) {
      if (poll_until(std::min(until, next_look_), now, kOwnDescriptors) || until <= next_look_) return;
      now = Clock::now();
    }
    // Handlers' descriptors are polled even while the broker keeps the loop busy.
    if (until > now || !watchers_.empty()) poll_until(until, now, polled_.size());
  }

  /// Waits for the first `count` descriptors; false: none is ready in time.
  bool poll_until(TimePoint until, TimePoint now, std::size_t count) {
    polled_[0].fd = socket_.get(zmq::sockopt::fd);
    polled_[1].fd = sink_->wake_descriptor();
    polled_[2].fd = monitor_.descriptor();
    const nanoseconds left = std::max<nanoseconds>(until - now, nanoseconds(0));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout{static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
    const int ready = ppoll(polled_.data(), count, &timeout, nullptr);
    if (ready < 0) forget_poll();  // as after a signal: revents are not set then
    // Asking a ZeroMQ socket for its state costs a system call each time.
    has_input_ = has_input_ || polled_[0].revents != 0;
    monitor_stirred_ = monitor_stirred_ || polled_[2].revents != 0;
    if ((polled_[1].revents & POLLIN) != 0) sink_->clear_wake();
    return ready != 0;
  }

  void forget_poll() {
    for (pollfd& one : polled_)
      one.revents = 0;
  }

  /// The socket's descriptor reports changes only, so the loop asks for the state before it sleeps.
  bool asks_for_input() {
    const int events = uninterrupted([this] { return socket_.get(zmq::sockopt::events); });
    return (events & (stuck_ ? ZMQ_POLLOUT : ZMQ_POLLIN)) != 0;
  }

  TimePoint next_wakeup() const {
    TimePoint due = std::min(session_.next_wakeup(), started_at_ + std::chrono::hours(24 * 365 * 100));
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
          .field("running", session_.running())
          .field("drain_timeout_ms", options_.drain_timeout.count());
      session_.drain(now + options_.drain_timeout, now, effects_);
    }
    if (stops > 1 && obeyed_ == 1) {
      obeyed_ = 2;
      session_.leave(now, effects_);
    }
    carry_out(now);
  }

  // ---- to and from the broker -------------------------------------------------------------------------

  void open_socket() {
    monitor_.forget();
    next_is_due_ = false;
    socket_ = zmq::socket_t(context_, zmq::socket_type::dealer);
    socket::show_keys(socket_, options_.keys);
    monitor_.watch(context_, socket_);
    monitor_stirred_ = true;  // its descriptor reports only what comes after it was asked
    const int depth = static_cast<int>(options_.capacity) * 2 + 1000;
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, depth);
    socket_.set(zmq::sockopt::rcvhwm, depth);
    // Without delay: if the broker hears from the worker in time its jobs go on.
    socket_.set(zmq::sockopt::reconnect_ivl, slow_socket_ ? kStrangersPauseMs : 1);
    socket_.set(zmq::sockopt::reconnect_ivl_max, 2000);
    socket_.set(zmq::sockopt::handshake_ivl, 5000);
    socket_.set(zmq::sockopt::tcp_keepalive, 1);
    socket_.set(zmq::sockopt::ipv6, true);
    // A header with a body inside, or a body frame.
    socket_.set(zmq::sockopt::maxmsgsize,
                static_cast<std::int64_t>(options_.body_bytes_max + limits::header_bytes_max + 64));
    try {
      socket_.connect(endpoints_.current());
    } catch (const zmq::error_t& error) {
      refuse_endpoint({endpoints_.current(), error.what()});
    }
  }

  [[noreturn]] static void refuse_endpoint(const socket::BadEndpoint& bad) {
    throw std::invalid_argument("broker endpoint \"" + printable(bad.endpoint) + "\": " + bad.reason +
                                "; use the form tcp://HOST:PORT or ipc://PATH");
  }

  void read_broker(TimePoint now) {
    if (!has_input_) return;
    // Reads no more than it can answer: so the outbox holds at most one turn's messages.
    for (int count = 0; count < kMessagesPerTurn && !stuck_ && !left_; ++count) {
      if (!message_.receive(socket_)) return;
      read_message(now);
    }
  }

  /// Handles the message that was received.
  void read_message(TimePoint now) {
    const DecodeError* const error =
        message_.fault() ? nullptr : decoder_.decode(message_.header(), message_.body_frame(), commands_);
    if (message_.fault() || error) {
      session_.heard(now);
      log_unreadable(error ? std::string_view(error->message) : message_.fault());
      return;
    }
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      if (const DecodeError* broken = commands_.error(i)) {
        session_.heard(now);
        log_unreadable(broken->message);
        continue;
      }
      session_.receive(commands_[i], now, effects_);
      inside_ = commands_.body(i);
      carry_out(now, std::get_if<wire::JobOffer>(&commands_[i]));
    }
  }

  void log_unreadable(std::string_view why) {
    LogLine(options_.log, LogLevel::warning, "broker.unreadable_message").field("reason", why);
  }

  /// Sends the session's messages until the socket accepts no more.
  void flush() {
    worker::Outbox& outbox = session_.outbox();
    while (!outbox.empty()) {
      const worker::Outbox::Message message = outbox.front();
      zmq::message_t header(message.header.data(), message.header.size());
      const auto more = message.body ? zmq::send_flags::sndmore : zmq::send_flags::none;
      stuck_ = !send(header, zmq::send_flags::dontwait | more);
      if (stuck_) return;
      if (message.body) {
        zmq::message_t body = socket::lend(*message.body);
        // The first frame was accepted, so the socket accepts the whole message.
        static_cast<void>(send(body, zmq::send_flags::dontwait));
      }
      outbox.pop();
    }
  }

  bool send(zmq::message_t& frame, zmq::send_flags flags) {
    return uninterrupted([&] { return socket_.send(frame, flags).has_value(); });
  }

  // ---- jobs -------------------------------------------------------------------------------------------

  /// Does what the session wants. `offer`: the job in the message just received, if any.
  void carry_out(TimePoint now, const wire::JobOffer* offer = nullptr) {
    for (std::size_t i = 0; i < effects_.size(); ++i) {
      const worker::Effect effect = effects_[i];
      if (const auto* start = std::get_if<worker::StartJob>(&effect))
        start_job(*start, *offer, now);
      else if (const auto* resume = std::get_if<worker::ResumeJob>(&effect))
        services_[resume->service].handler->resume(resume->lease);
      else if (const auto* cancel = std::get_if<CancelJob>(&effect))
        cancel_job(*cancel);
      else if (std::holds_alternative<worker::Reconnect>(effect))
        reconnect(now);
      else if (const auto* welcomed = std::get_if<worker::Welcomed>(&effect))
        on_welcomed(*welcomed);
      else if (const auto* refused = std::get_if<worker::Refused>(&effect))
        on_refused(refused->ever);
      else if (std::holds_alternative<worker::Left>(effect))
        on_left();
    }
    effects_.clear();
  }

  void start_job(const worker::StartJob& start, const wire::JobOffer& offer, TimePoint now) {
    const Service& service = services_[start.service];
    JobCall job{.lease = start.lease,
                .service = service.name,
                .id = offer.id,
                .lane = offer.lane.empty() ? std::string_view(session_.default_lane()) : offer.lane,
                .model = offer.model,
                .client = offer.client,
                .key = offer.key,
                .body = take_body(),
                .now = now,
                .deadline = std::nullopt,
                .answer_bytes_max = session_.answer_bytes_max(),
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
      if (!job.key.empty()) line.field("key", job.key);
      add_trace(line, job.lease);
    }
    try {
      service.handler->start(job, Completion(sink_, start.lease, start.gate));
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

  /// The body of the job being read. A body inside the header is copied, since the header also holds the
  /// offer's texts.
  Blob take_body() {
    return message_.body_frame() && !commands_.is_batch() ? message_.take_body_frame() : Blob::copy(inside_);
  }

  void cancel_job(const CancelJob& cancel) {
    LogLine(options_.log, LogLevel::debug, "job.cancelled")
        .field("job", cancel.lease.job)
        .field("attempt", cancel.lease.attempt);
    services_[cancel.service].handler->cancel(cancel.lease);
  }

  void take_finished(TimePoint now) {
    sink_->take(handed_in_);
    for (worker::StreamPiece& piece : handed_in_.pieces) {
      if (options_.calls) options_.calls->streams(piece.lease, now);
      session_.chunk(std::move(piece), now, effects_);
      carry_out(now);
    }
    for (worker::ProgressWord& word : handed_in_.words)
      session_.progress(std::move(word), now);
    for (worker::FinishedJob& job : handed_in_.finished) {
      if (!job.outcome.succeeded()) log_failure(job, now);
      tell_end(job, now);
      if (!traces_.empty()) traces_.erase({job.lease.job, job.lease.attempt});
      session_.finish(job.lease, std::move(job.outcome), now, effects_);
      carry_out(now);
    }
    handed_in_.pieces.clear();
    handed_in_.words.clear();
    handed_in_.finished.clear();
  }

  // ---- life -------------------------------------------------------------------------------------------

  void reconnect(TimePoint now) {
    if (!connecting_said_at_ || now - *connecting_said_at_ >= kConnectingLineEvery) {
      connecting_said_at_ = now;
      LogLine(options_.log, LogLevel::warning,
              welcomed_ ? "worker.reconnecting" : "worker.waiting_for_broker")
          .field("broker", endpoints_.current())
          .field("running", session_.running())
          .field("unacknowledged", session_.outcomes());
    }
    take_addresses();
    endpoints_.turn();
    addresses_.begin(endpoints_.named());  // for the next time
    open_socket();
    session_.connected(now);
    stuck_ = false;
  }

  void take_addresses() {
    if (const auto found = addresses_.take()) endpoints_.set_addresses(*found);
  }

  /// Nobody listens there: the next endpoint's turn comes at once. Where there is one alone ZeroMQ tries
  /// again.
  void find_next() {
    take_addresses();
    // ZeroMQ itself goes on trying until then, and tells each time.
    if (!endpoints_.several() || std::exchange(next_is_due_, true)) return;
    const TimePoint now = Clock::now();
    session_.found_nobody(rounds_.found_nobody(endpoints_.all().size(), now));
  }

  /// ZeroMQ pauses where nobody listens, but not where a connection is made and ended at once, as HTTP
  /// servers do.
  void go_slow() {
    slow_socket_ = true;
    using Why = worker::ConnectionMonitor::Why;
    if (const Why why = monitor_.why(); why == Why::unknown)
      LogLine(options_.log, LogLevel::warning, "broker.stranger")
          .field("broker", endpoints_.current())
          .field("message", "what listens there ends connections without a word of ZeroMQ")
          .field("do",
                 options_.keys.secret.empty()
                     ? "name the broker's endpoint for workers with --broker"
                     : "name the broker's endpoint for workers with --broker, and its key with --broker-key");
    else
      LogLine(options_.log, LogLevel::error, "broker.key_refused")
          .field("broker", endpoints_.current())
          .field("message", why == Why::key_refused ? "the broker does not take this worker's key"
                            : options_.keys.secret.empty()
                                ? "the broker asks for keys, and this worker has none"
                                : "the broker asks for no keys, and this worker shows one")
          .field("do",
                 why == Why::key_refused
                     ? "put its public key, with role worker, into the broker's keys_folder and reload"
                     : "set broker_key and secret_key here as the broker's secret_key and keys_folder say");
    open_socket();
    introduce_again();
  }

  /// ZeroMQ has reconnected. Messages it still holds go first, and are answered with `unknown_session`, which
  /// the session's greeting takes care of.
  void introduce_again() {
    session_.connected(Clock::now());
    stuck_ = false;
  }

  void on_welcomed(const worker::Welcomed& welcomed) {
    socket::learn(context_, endpoints_, welcomed.endpoints);
    LogLine(options_.log, LogLevel::info, "worker.connected")
        .field("broker", endpoints_.current())
        .field("session", session_.broker_session())
        .field("running", session_.running())
        .field("unacknowledged", session_.outcomes());
    ++welcomes_;
    next_is_due_ = false;
    connecting_said_at_.reset();
    slow_socket_ = false;  // of the next one
    if (std::exchange(welcomed_, true)) return;
    if (options_.on_ready) options_.on_ready(options_.name);
  }

  /// Who was welcomed once may hold jobs, and its broker may be another one since: it tries again.
  void on_refused(bool ever) {
    LogLine(options_.log, LogLevel::error, "broker.refused").field("message", session_.refusal());
    if (!ever || welcomed_) return;
    left_ = true;
    end_ = WorkerEnd::refused;
  }

  void on_left() {
    left_ = true;
    end_ = session_.running() > 0 ? WorkerEnd::interrupted : WorkerEnd::drained;
  }

  void say_farewell() {
    flush();
    monitor_.forget();
    socket_.set(zmq::sockopt::linger, static_cast<int>(kLingerOnExit.count()));
    socket_.close();
    const worker::SessionCounters& counters = session_.counters();
    LogLine(options_.log, LogLevel::info, "worker.left")
        .field("unfinished", session_.running())
        .field("started", counters.started)
        .field("succeeded", counters.succeeded)
        .field("failed", counters.failed)
        .field("released", counters.released)
        .field("cancelled", counters.cancelled)
        .field("stale", counters.stale);
  }

  /// Logs failed jobs, a few a second: an upstream that is down fails them all.
  void log_failure(const worker::FinishedJob& job, TimePoint now) {
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
    line.field("job", job.lease.job).field("attempt", job.lease.attempt);
    line.field("class", name_of(*report.error_class)).field("code", report.code);
    line.field("message", report.message);
    if (!report.detail.empty()) line.field("detail", report.detail);
    add_trace(line, job.lease);
  }

  void report_drops() {
    const std::uint64_t dropped = session_.counters().outcomes_dropped;
    if (dropped == drops_reported_) return;
    if (drops_reported_ == 0)
      LogLine(options_.log, LogLevel::warning, "worker.outcomes_dropped")
          .field("reason", "the broker acknowledges none of them")
          .field("kept_max", worker::kOutcomesMax);
    drops_reported_ = dropped;
  }

  WorkerOptions options_;
  Endpoints endpoints_{options_.broker};
  EndpointRounds rounds_;
  socket::AddressLook addresses_;
  std::vector<Service> services_;
  std::vector<Handler*> handlers_;
  std::vector<Handler*> watchers_;  ///< handlers with a descriptor to watch
  std::vector<pollfd> polled_ =     ///< the loop's own, then those of watchers_
      std::vector<pollfd>(kOwnDescriptors, pollfd{-1, POLLIN, 0});
  worker::Session session_;
  std::shared_ptr<CompletionSink> sink_;
  worker::Effects effects_;
  CompletionSink::HandedIn handed_in_;

  zmq::context_t context_{1};
  zmq::socket_t socket_;
  worker::ConnectionMonitor monitor_;
  socket::Message message_;  ///< the message being read
  Decoder decoder_;
  Items<wire::WorkerCommand> commands_;
  std::string_view inside_;  ///< body inside the header of message_

  /// The traces of the calls that have one, by job and attempt.
  std::map<std::pair<std::uint64_t, std::int64_t>, std::string> traces_;

  TimePoint next_look_{};  ///< earliest next look at handlers' descriptors
  TimePoint beat_at_{};    ///< of the next on_beat
  TimePoint started_at_{}, failure_lines_since_{};
  std::size_t failure_lines_ = 0;
  std::optional<TimePoint> connecting_said_at_;  ///< the last line about it since the last welcome
  std::uint64_t drops_reported_ = 0, welcomes_ = 0;
  std::atomic<int> stops_{0};
  static_assert(std::atomic<int>::is_always_lock_free, "stop() is called in signal handlers");
  int obeyed_ = 0;
  bool has_input_ = false;        ///< the socket may have a message, or room again
  bool slow_socket_ = false;      ///< strangers were met since a broker's welcome
  bool monitor_stirred_ = false;  ///< the monitor may have an event
  bool next_is_due_ = false;      ///< nobody listens here, and the next endpoint's turn has a time
  bool stuck_ = false;            ///< the socket accepts no more; the outbox has the rest
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
