// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include <lanemq/endpoints.hpp>
#include <lanemq/text.hpp>
#include <lanemq/worker.hpp>

#include "common/log/log.hpp"
#include "common/service/memory_guard.hpp"
#include "common/service/notifier.hpp"
#include "common/service/standard_descriptors.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/peer.hpp"
#include "common/settings/secrets/secret_shapes.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_warnings.hpp"
#include "common/signals/signal_set.hpp"
#include "common/trace/exporter.hpp"
#include "common/url/http_url.hpp"
#include "worker/base/log_line.hpp"
#include "worker/call_spans.hpp"
#include "worker/handlers/echo/echo_handler.hpp"
#include "worker/handlers/exec/exec_handler.hpp"
#include "worker/handlers/exec/pool_handler.hpp"
#include "worker/handlers/exec/program.hpp"
#include "worker/handlers/http/http_handler.hpp"
#include "worker/handlers/model/model_handler.hpp"
#include "worker/handlers/plugin/plugin_handler.hpp"
#include "worker/handlers/webhook/webhook_handler.hpp"
#include "worker/hook_secrets.hpp"
#include "worker/metrics/call_figures.hpp"
#include "worker/metrics/metrics_server.hpp"
#include "worker/secrets.hpp"
#include "worker/settings.hpp"

namespace lanemq::worker {
namespace {

constexpr int kExitDone = 0, kExitUsage = 2, kExitUnreachable = 3;
constexpr int kExitSignal = 128;  ///< plus the signal's number
/// What a stop takes beside drain_timeout.
constexpr std::chrono::seconds kStopMargin{30};

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

/// A service with secrets. Both may be called on another thread than the service's handler.
struct SecretService {
  std::string name;
  std::function<std::vector<SecretChange>()> read_again;  ///< jobs that start from then on have the new ones
  std::function<void()> hide_variables;
};

std::string unusable(const ServiceSettings& service, const std::string& reason) {
  return "service \"" + printable(service.name) + "\": the plugin " +
         printable(plugin_options(service).file) + " cannot be used: " + reason;
}

bool is_traced(TracedUpstreams which, const std::string& url) {
  return which == TracedUpstreams::all || (which == TracedUpstreams::own && is_own_host(url));
}

/// Makes the services; their upstreams are called by one client, and their programs run by one host.
class ServiceMaker {
 public:
  /// Requires: the settings outlive it.
  explicit ServiceMaker(const Settings& settings) : settings_(settings) {}

  std::vector<Service> make() {
    std::vector<Service> services;
    for (const ServiceSettings& service : settings_.services)
      services.push_back({service.name, handler_of(service)});
    return services;
  }

  /// The services whose secrets can be read again.
  std::vector<SecretService> take_secret_services() { return std::move(secret_services_); }

 private:
  std::shared_ptr<Handler> handler_of(const ServiceSettings& service) {
    if (service.handler == "echo") {
      const auto delay = lanemq::settings::parse_duration(service.argument.empty() ? "0" : service.argument);
      return std::make_shared<EchoHandler>(std::chrono::duration_cast<std::chrono::milliseconds>(delay));
    }
    if (service.handler == "exec") return exec_of(service);
    if (service.handler == "webhook") return webhook_of(service);
    return service.handler == "plugin" ? plugin_of(service) : caller_of(service);
  }

  std::shared_ptr<Handler> plugin_of(const ServiceSettings& service) const try {
    return std::make_shared<PluginHandler>(service.name, plugin_options(service), settings_.worker.capacity,
                                           settings_.worker.log);
  } catch (const plugin::PluginError& error) {
    throw UsageError(unusable(service, error.what()));
  }

  /// A handler that runs a program.
  std::shared_ptr<Handler> exec_of(const ServiceSettings& service) try {
    Program program = find_program(service.exec, process_environment);
    if (!host_) host_ = std::make_shared<ProcessHost>();
    if (service.exec.processes > 0)
      return std::make_shared<PoolHandler>(host_, std::move(program), service.exec, service.name,
                                           settings_.worker.log);
    return std::make_shared<ExecHandler>(host_, std::move(program), service.exec);
  } catch (const UsageError& error) {
    throw UsageError("service \"" + printable(service.name) + "\": " + error.what());
  }

  /// A handler that calls an upstream.
  std::shared_ptr<Handler> caller_of(const ServiceSettings& service) {
    std::string without_key;
    const std::vector<std::string> headers =
        service_headers(settings_, service, process_environment, without_key);
    if (!without_key.empty())
      LogLine(settings_.worker.log, LogLevel::warning, "service.without_key")
          .field("service", service.name)
          .field("hint", "set " + without_key + " or give it a key, unless its upstream needs none");
    const auto secrets =
        std::make_shared<ServiceSecrets>(service.name, headers, service.keys, process_environment);
    const std::string& proxy = settings_.http.proxy;  // to which a call without TLS goes as it stands
    const bool by_proxy =
        !proxy.empty() && goes_in_clear(proxy) && parts_of_url(service.argument).scheme == "http";
    if (!secrets->empty() && !service.in_clear && (by_proxy || goes_in_clear(service.argument)))
      throw UsageError(
          "service \"" + printable(service.name) + "\": its " + (by_proxy ? "http_proxy" : "upstream") +
          " is on another machine, and the upstream not https://: who is on the way reads its key; "
          "use https://, or say in_clear = true in its [[service]] of the configuration");
    auto credentials = std::make_shared<CredentialBox>(secrets->credentials());
    secret_services_.push_back({.name = service.name,
                                .read_again =
                                    [secrets, credentials] {
                                      auto changes = secrets->read_again();
                                      credentials->use(secrets->credentials());
                                      return changes;
                                    },
                                .hide_variables = [secrets] { secrets->hide_variables(); }});
    HttpTarget target{.url = service.argument,
                      .traced = is_traced(settings_.traced_upstreams, service.argument)};
    // A path without a version is usual of proxies; only where nothing is there it is told.
    if (service.handler == "openai" && service.argument.find("/v") == std::string::npos)
      target.hint_not_found = "OpenAI's base URLs end in /v1";
    if (const ModelApi* api = find_model_api(service.handler))
      return std::make_shared<ModelHandler>(client(), *api, std::move(target), std::move(credentials),
                                            settings_.lane_times);
    return std::make_shared<HttpHandler>(client(), std::move(target), std::move(credentials));
  }

  /// A handler that calls those whom the jobs name.
  std::shared_ptr<Handler> webhook_of(const ServiceSettings& service) {
    const auto sources =
        std::make_shared<HookSecretSources>(service.name, service.webhook.secrets, process_environment);
    const auto secrets = std::make_shared<HookSecretBox>(sources->secrets());
    secret_services_.push_back({.name = service.name,
                                .read_again =
                                    [sources, secrets] {
                                      auto changes = sources->read_again();
                                      secrets->use(sources->secrets());
                                      return changes;
                                    },
                                .hide_variables = [sources] { sources->hide_variables(); }});
    WebhookRules rules{.hosts = {},
                       .private_addresses = service.webhook.private_addresses,
                       .timeout = service.webhook.timeout,
                       .traced = [which = settings_.traced_upstreams](const std::string& url) {
                         return is_traced(which, url);
                       }};
    for (const std::string& host : service.webhook.hosts)
      rules.hosts.push_back(parse_hook_host(host));
    return std::make_shared<WebhookHandler>(client(), std::move(rules), secrets);
  }

  std::shared_ptr<HttpClient> client() {
    if (!client_) {
      HttpOptions http = settings_.http;
      http.calls_max = settings_.worker.capacity;
      client_ = std::make_shared<HttpClient>(http);
    }
    return client_;
  }

  const Settings& settings_;
  std::shared_ptr<HttpClient> client_;
  std::shared_ptr<ProcessHost> host_;  ///< made with the first exec service, for all
  std::vector<SecretService> secret_services_;
};

/// Tries the plugins. Services of those that cannot be used are left out, and the others go on.
/// `refuse_all`: the first one is refused instead. Throws UsageError. Requires: the process has one thread.
void try_plugins(Settings& settings, bool refuse_all) {
  std::string refused;
  const auto cannot_be_used = [&](const ServiceSettings& service) {
    if (service.handler != "plugin") return false;
    const PluginOptions options = plugin_options(service);
    const auto reason = why_no_plugin(service.name, options, settings.worker.capacity, settings.worker.log);
    if (!reason) return false;
    refused = unusable(service, *reason);
    if (refuse_all) throw UsageError(refused);
    LogLine(settings.worker.log, LogLevel::error, "plugin.refused")
        .field("service", service.name)
        .field("file", options.file)
        .field("reason", *reason)
        .field("do", "its service is left out; mend the plugin and start again");
    return true;
  };
  std::erase_if(settings.services, cannot_be_used);
  if (settings.services.empty()) throw UsageError(refused + "; and there is no other service");
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
  /// Requires: SIGHUP is blocked in all threads, so that only this one takes it. `metrics`: may be null.
  SecretReloader(std::vector<SecretService> services, MetricsServer* metrics, Log log,
                 service::Notifier& notifier)
      : services_(std::move(services)),
        metrics_(metrics),
        log_(std::move(log)),
        notifier_(notifier),
        thread_([this] { run(); }) {}
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
    const service::Reloading told(notifier_);
    std::size_t changed = 0, kept = 0;
    for (const SecretService& service : services_)
      for (const SecretChange& change : service.read_again()) {
        const bool failed = !change.problem.empty();
        ++(failed ? kept : changed);
        LogLine line(log_, failed ? LogLevel::warning : LogLevel::info,
                     failed ? "secret.kept" : "secret.changed");
        line.field("service", service.name).field("secret", change.use);
        if (failed) line.field("reason", change.problem + "; the one read before stays in use");
      }
    if (!read_metrics_again()) ++kept;
    LogLine(log_, LogLevel::info, "secrets.read_again").field("changed", changed).field("kept", kept);
  }

  /// The key of the metrics, and their certificate.
  bool read_metrics_again() const try {
    if (metrics_ != nullptr) metrics_->read_again();
    return true;
  } catch (const UsageError& error) {
    LogLine(log_, LogLevel::warning, "secret.kept")
        .field("secret", "metrics")
        .field("reason", std::string(error.what()) + "; what was read before stays in use");
    return false;
  }

  std::vector<SecretService> services_;
  MetricsServer* const metrics_;
  const Log log_;
  service::Notifier& notifier_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses the other members
};

/// `metrics`: the URL where they are served; empty: nowhere.
void say_ready(const Settings& settings, const std::string& name, const std::string& metrics) {
  std::string services;
  for (const ServiceSettings& service : settings.services)
    services += (services.empty() ? "" : ",") + service.name;
  log::say("ready name=" + name + " services=" + services + " capacity=" +
           std::to_string(settings.worker.capacity) + (metrics.empty() ? "" : " metrics=" + metrics) + "\n");
}

/// Takes SIGTERM and SIGINT on a thread of its own: they stop the worker while there is one, and end the
/// process before and after.
class StopSignals {
 public:
  /// Requires: both signals are blocked in all threads, so that only this one takes them. `on_stop` is called
  /// on its thread, before it stops a worker.
  explicit StopSignals(std::function<void()> on_stop)
      : on_stop_(std::move(on_stop)), thread_([this] { run(); }) {}
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
      on_stop_();
      worker_->stop();
    }
  }

  const std::function<void()> on_stop_;
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
void check_start(Settings& settings) {
  try_plugins(settings, true);
  if (!settings.otlp.endpoint.empty()) trace::require_collector(settings.otlp);
  check_metrics(settings.metrics, process_environment);
  static_cast<void>(ServiceMaker(settings).make());
  warn_of(lanemq::settings::exposed_files());
}

/// Takes the secrets that were read out of the process's environment.
void hide_variables(const Settings& settings, const std::vector<SecretService>& services) {
  lanemq::settings::hide_secret(settings.http_proxy_source);
  lanemq::settings::hide_secret(settings.broker_keys.secret_key);
  lanemq::settings::hide_secret(settings.metrics.key);
  for (const SecretService& service : services)
    service.hide_variables();
  for (const ServiceSettings& service : settings.services)
    for (const std::string& variable : service.exec.environment)
      lanemq::settings::hide_secret(variable.substr(std::min(variable.find('='), variable.size() - 1) + 1));
}

/// For people, of a worker that was welcomed before.
std::string status_of(const WorkerBeat& beat, const std::string& broker) {
  std::string text = "jobs: " + std::to_string(beat.running) + " run";
  if (beat.unacknowledged > 0) text += ", " + std::to_string(beat.unacknowledged) + " to be handed in";
  if (beat.shards.size() > 1) {
    const auto there = std::count_if(beat.shards.begin(), beat.shards.end(),
                                     [](const ShardBeat& shard) { return shard.connected; });
    return text + "; " + std::to_string(there) + " of " + std::to_string(beat.shards.size()) +
           " shards are there";
  }
  return text + (beat.connected ? "; the broker is " : "; waits for the broker at ") + broker;
}

/// Tells the service manager how the worker is, from its loop.
void tell_manager(service::Notifier& notifier, WorkerOptions& options) {
  const auto every = notifier.beat_every();
  if (!every) return;
  notifier.status("waits for the broker at " + options.broker);
  options.beat_every = *every;
  options.on_beat = [&notifier, broker = options.broker, met = false](const WorkerBeat& beat) mutable {
    met = met || beat.connected;
    notifier.beat(std::chrono::steady_clock::now().time_since_epoch(), true,
                  [&] { return met ? status_of(beat, broker) : "waits for the broker at " + broker; });
  };
}

/// Serves the worker's figures; null where the settings want none. `options`: gets who counts and who beats,
/// beside those whom it has.
std::unique_ptr<MetricsServer> serve_metrics(const Settings& settings, WorkerOptions& options) {
  if (!settings.metrics.is_on) return nullptr;
  std::vector<std::string> services;
  for (const ServiceSettings& service : settings.services)
    services.push_back(service.name);
  const auto figures = std::make_shared<CallFigures>(services, options.calls);
  auto server = std::make_unique<MetricsServer>(
      settings.metrics, process_environment, [figures, capacity = options.capacity] {
        return WorkerFigures{.capacity = capacity, .services = figures->now()};
      });
  options.calls = figures;
  const auto every = options.beat_every;
  options.beat_every = every > std::chrono::milliseconds(0) ? std::min(every, MetricsServer::kBeatEvery)
                                                            : MetricsServer::kBeatEvery;
  options.on_beat = [server = server.get(), before = std::move(options.on_beat)](const WorkerBeat& beat) {
    server->beat(beat);
    if (before) before(beat);
  };
  LogLine(options.log, LogLevel::info, "metrics.listening").field("url", server->url());
  return server;
}

int run(Settings settings) {
  try_plugins(settings, false);
  const log::Writing writing;
  service::Notifier notifier(process_environment);
  std::unique_ptr<MetricsServer> metrics;
  bool is_known = false;  // some broker: jobs that run cannot wait for a look at another shard's
  settings.worker.on_ready = [&settings, &notifier, &metrics, &is_known](const std::string& name) {
    is_known = true;
    say_ready(settings, name, metrics ? metrics->url() : "");
    notifier.ready("the broker is " + settings.worker.broker);
  };
  settings.worker.look_there = [&is_known](const std::string& endpoint) -> WhatIsThere {
    constexpr std::chrono::milliseconds kPatience{1'000};
    if (is_known) return {};
    const settings::Peer peer = settings::look_at(endpoint, kPatience);
    return {.problem = std::string(settings::what_is_wrong_with(peer)),
            .asks_for_keys = peer == settings::Peer::zeromq_keys};
  };
  tell_manager(notifier, settings.worker);
  leave_signals_to_those_who_wait();
  if (!settings.otlp.endpoint.empty()) settings.worker.calls = std::make_shared<CallSpans>(settings.otlp);
  metrics = serve_metrics(settings, settings.worker);
  const auto longest = settings.worker.drain_timeout + kStopMargin;
  StopSignals stop_signals([&notifier, longest] { notifier.stopping(longest, "stops, jobs may finish"); });
  ServiceMaker maker(settings);
  Worker worker(settings.worker, maker.make());
  warn_of(lanemq::settings::exposed_files());
  std::vector<SecretService> secret_services = maker.take_secret_services();
  hide_variables(settings, secret_services);
  const SecretReloader reloader(std::move(secret_services), metrics.get(), settings.worker.log, notifier);
  const Stopping stopping(stop_signals, worker);
  const WorkerEnd end = worker.run();
  if (end == WorkerEnd::refused) {
    log::complain(
        "lanemq-worker: the broker at " + settings.worker.broker +
        " does not take this worker (broker.refused says why); name lanes that it has with --lanes, "
        "and its endpoint for workers with --broker");
    return kExitUsage;
  }
  if (end != WorkerEnd::unreachable) return kExitDone;
  std::string there;  // of one endpoint: of several the last one looked at would be told for all
  if (!Endpoints(settings.worker.broker).several())
    there = settings.worker.look_there(settings.worker.broker).problem;
  log::complain("lanemq-worker: no broker answered at " + settings.worker.broker + " within " +
                lanemq::settings::show(settings.worker.connect_timeout) + " (connect_timeout)" +
                (there.empty() ? "; is it running?"
                               : ": " + there + "; name the broker's endpoint for workers with --broker"));
  return kExitUnreachable;
}

}  // namespace
}  // namespace lanemq::worker

int main(int argc, char** argv) try {
  using namespace lanemq::worker;
  using For = lanemq::settings::Asked::For;
  lanemq::service::take_standard_descriptors();
  lanemq::service::guard_memory();
  Request request = parse(argc, argv, process_environment);
  lanemq::log::set_level(request.settings.log_level);
  lanemq::log::set_format(request.settings.log_format);
  request.settings.worker.log = make_log(request.settings.log_level);
  if (request.settings.keep_cores) lanemq::service::open_memory();
  warn_of(request.old);
  if (request.what == For::check) {
    check_start(request.settings);
    lanemq::settings::tell_of_credentials("lanemq-worker");
  }
  if (request.what == For::run) return run(std::move(request.settings));
  std::fputs(lanemq::settings::without_secrets_in_config(request.text).c_str(), stdout);
  return kExitDone;
} catch (const lanemq::worker::UsageError& error) {
  lanemq::log::complain(std::string("lanemq-worker: ") + error.what());
  return lanemq::worker::kExitUsage;
} catch (const std::invalid_argument& error) {
  lanemq::log::complain("lanemq-worker: " + lanemq::settings::without_secrets(error.what()));
  return lanemq::worker::kExitUsage;
} catch (const std::exception& error) {
  lanemq::log::complain(std::string("lanemq-worker: ") + error.what());
  return lanemq::worker::kExitUnreachable;
}
