// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include <lanemq/worker.hpp>

#include "common/log/log.hpp"
#include "common/settings/old_spellings.hpp"
#include "common/signals/signal_set.hpp"
#include "worker/handlers/echo/echo_handler.hpp"
#include "worker/handlers/http/http_handler.hpp"
#include "worker/handlers/model/model_handler.hpp"
#include "worker/log_line.hpp"
#include "worker/secrets.hpp"
#include "worker/settings.hpp"

namespace lanemq::worker {
namespace {

constexpr int kExitDone = 0, kExitUsage = 2, kExitUnreachable = 3;
constexpr int kExitSignal = 128;  ///< plus the signal's number

using lanemq::settings::process_environment;

/// Makes the library write its lines to the program's log.
Log make_log(log::Level level) {
  static_assert(static_cast<int>(LogLevel::debug) == static_cast<int>(log::Level::debug) &&
                static_cast<int>(LogLevel::error) == static_cast<int>(log::Level::error));
  if (level == log::Level::off) return {};
  return {
      .json = log::format() == log::Format::json,
      .level = static_cast<LogLevel>(level),
      .write = [](LogLevel line, std::string_view text) { log::write(static_cast<log::Level>(line), text); }};
}

/// A service with an upstream, and its secrets.
struct UpstreamService {
  ServiceSecrets secrets;
  std::shared_ptr<CredentialBox> credentials;
};

/// `upstream_services` gets the services whose secrets can be read again.
std::vector<Service> make_services(const Settings& settings,
                                   std::vector<UpstreamService>& upstream_services) {
  std::vector<Service> services;
  std::shared_ptr<HttpClient> client;  // shared by all services
  HttpOptions http = settings.http;
  http.calls_max = settings.worker.capacity;
  for (const ServiceSettings& service : settings.services) {
    if (service.handler == "echo") {
      const auto delay = lanemq::settings::parse_duration(service.argument.empty() ? "0" : service.argument);
      services.push_back({service.name, std::make_shared<EchoHandler>(
                                            std::chrono::duration_cast<std::chrono::milliseconds>(delay))});
      continue;
    }
    std::string without_key;
    const std::vector<std::string> headers =
        service_headers(settings, service, process_environment, without_key);
    if (!without_key.empty())
      LogLine(settings.worker.log, LogLevel::warning, "service.without_key")
          .field("service", service.name)
          .field("hint", "set " + without_key + " or give it a key, unless its upstream needs none");
    ServiceSecrets secrets(service.name, headers, service.keys, process_environment);
    if (!secrets.empty() && goes_in_clear(service.argument))
      LogLine(settings.worker.log, LogLevel::warning, "service.key_in_clear")
          .field("service", service.name)
          .field("hint",
                 "its upstream is http:// and not on this machine: who is on the way reads the key; "
                 "use https://");
    auto credentials = std::make_shared<CredentialBox>(secrets.credentials());
    if (!client) client = std::make_shared<HttpClient>(http);
    HttpTarget target{.url = service.argument};
    std::shared_ptr<Handler> handler;
    if (const ModelApi* api = find_model_api(service.handler))
      handler =
          std::make_shared<ModelHandler>(client, *api, std::move(target), credentials, settings.lane_times);
    else
      handler = std::make_shared<HttpHandler>(client, std::move(target), credentials);
    services.push_back({service.name, std::move(handler)});
    upstream_services.push_back({std::move(secrets), std::move(credentials)});
  }
  return services;
}

const sigset_t kReloadSignals = signal_set({SIGHUP});
const sigset_t kStopSignals = signal_set({SIGTERM, SIGINT});

/// Blocks these signals for the threads started from now on: the threads that wait for them get them. A
/// broken connection shows in its call and not by a signal.
void leave_signals_to_those_who_wait() {
  pthread_sigmask(SIG_BLOCK, &kReloadSignals, nullptr);
  pthread_sigmask(SIG_BLOCK, &kStopSignals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

/// Reads the secrets again at each SIGHUP, on a thread of its own: a file may be slow, and the broker expects
/// heartbeats. Logs which have changed, never a value.
class SecretReloader {
 public:
  /// Requires: SIGHUP is blocked in all threads, so that only this one takes it.
  SecretReloader(std::vector<UpstreamService> services, Log log)
      : services_(std::move(services)), log_(std::move(log)), thread_([this] { run(); }) {}
  ~SecretReloader() {
    stopping_ = true;
    pthread_kill(thread_.native_handle(), SIGHUP);
    thread_.join();
  }
  SecretReloader(const SecretReloader&) = delete;
  SecretReloader& operator=(const SecretReloader&) = delete;

 private:
  void run() {
    for (int signal = 0; sigwait(&kReloadSignals, &signal) == 0 && !stopping_;)
      read_again();
  }

  void read_again() {
    std::size_t changed = 0, kept = 0;
    for (UpstreamService& service : services_) {
      for (const SecretChange& change : service.secrets.read_again()) {
        const bool failed = !change.problem.empty();
        ++(failed ? kept : changed);
        LogLine line(log_, failed ? LogLevel::warning : LogLevel::info,
                     failed ? "secret.kept" : "secret.changed");
        line.field("service", service.secrets.service()).field("secret", change.use);
        if (failed) line.field("reason", change.problem + "; the one read before stays in use");
      }
      service.credentials->use(service.secrets.credentials());
    }
    LogLine(log_, LogLevel::info, "secrets.read_again").field("changed", changed).field("kept", kept);
  }

  std::vector<UpstreamService> services_;
  const Log log_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses the other members
};

void say_ready(const Settings& settings, const std::string& name) {
  std::string services;
  for (const ServiceSettings& service : settings.services)
    services += (services.empty() ? "" : ",") + service.name;
  std::printf("ready name=%s services=%s capacity=%zu\n", name.c_str(), services.c_str(),
              settings.worker.capacity);
  std::fflush(stdout);
}

/// Takes SIGTERM and SIGINT on a thread of its own: they stop the worker while there is one, and end the
/// process before and after.
class StopSignals {
 public:
  /// Requires: both signals are blocked in all threads, so that only this one takes them.
  StopSignals() : thread_([this] { run(); }) {}
  ~StopSignals() {
    over_ = true;
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void obey(Worker* worker) {
    const std::lock_guard lock(mutex_);
    worker_ = worker;
  }

 private:
  void run() {
    for (int signal = 0; sigwait(&kStopSignals, &signal) == 0 && !over_;) {
      const std::lock_guard lock(mutex_);
      if (!worker_) std::_Exit(kExitSignal + signal);
      worker_->stop();
    }
  }

  std::mutex mutex_;
  Worker* worker_ = nullptr;  // under mutex_
  std::atomic<bool> over_{false};
  std::thread thread_;  // last: it uses the other members
};

/// While it lives the stop signals stop this worker.
class Stopping {
 public:
  Stopping(StopSignals& signals, Worker& worker) : signals_(signals) { signals_.obey(&worker); }
  ~Stopping() { signals_.obey(nullptr); }
  Stopping(const Stopping&) = delete;
  Stopping& operator=(const Stopping&) = delete;

 private:
  StopSignals& signals_;
};

/// Refuses what run() would refuse: makes the services, which reads all secrets, but no connection.
void check_start(const Settings& settings) {
  std::vector<UpstreamService> upstream_services;
  static_cast<void>(make_services(settings, upstream_services));
}

int run(Settings settings) {
  settings.worker.on_ready = [&settings](const std::string& name) { say_ready(settings, name); };
  leave_signals_to_those_who_wait();
  StopSignals stop_signals;
  std::vector<UpstreamService> upstream_services;
  Worker worker(settings.worker, make_services(settings, upstream_services));
  const SecretReloader reloader(std::move(upstream_services), settings.worker.log);
  const Stopping stopping(stop_signals, worker);
  const WorkerEnd end = worker.run();
  if (end == WorkerEnd::refused) {
    std::fprintf(
        stderr,
        "lanemq-worker: the broker at %s does not take this worker (broker.refused says why); name lanes "
        "that it has with --lanes, and its endpoint for workers with --broker\n",
        settings.worker.broker.c_str());
    return kExitUsage;
  }
  if (end != WorkerEnd::unreachable) return kExitDone;
  std::fprintf(
      stderr, "lanemq-worker: no broker answered at %s within %s (connect_timeout); is it running?\n",
      settings.worker.broker.c_str(), lanemq::settings::show(settings.worker.connect_timeout).c_str());
  return kExitUnreachable;
}

}  // namespace
}  // namespace lanemq::worker

int main(int argc, char** argv) try {
  using namespace lanemq::worker;
  using For = lanemq::settings::Asked::For;
  Request request = parse(argc, argv, process_environment);
  lanemq::log::set_level(request.settings.log_level);
  lanemq::log::set_format(request.settings.log_format);
  request.settings.worker.log = make_log(request.settings.log_level);
  warn_of(request.old);
  if (request.what == For::check) check_start(request.settings);
  if (request.what == For::run) return run(std::move(request.settings));
  std::fputs(request.text.c_str(), stdout);
  return kExitDone;
} catch (const lanemq::worker::UsageError& error) {
  std::fprintf(stderr, "lanemq-worker: %s\n", error.what());
  return lanemq::worker::kExitUsage;
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "lanemq-worker: %s\n", error.what());
  return lanemq::worker::kExitUsage;
} catch (const std::exception& error) {
  std::fprintf(stderr, "lanemq-worker: %s\n", error.what());
  return lanemq::worker::kExitUnreachable;
}
