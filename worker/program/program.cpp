// SPDX-License-Identifier: Apache-2.0
#include "worker/program/program.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/endpoints.hpp>

#include "common/log/log.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/peer.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_warnings.hpp"
#include "common/trace/exporter.hpp"
#include "worker/base/log_line.hpp"
#include "worker/call_spans.hpp"
#include "worker/metrics/call_figures.hpp"

namespace lanemq::worker {
namespace {

/// What a stop takes beside drain_timeout.
constexpr std::chrono::seconds kStopMargin{30};

using lanemq::settings::process_environment;

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

}  // namespace

void WorkerProgram::start(service::Host host, Told told) {
  service::Notifier& notifier = host.notifier;
  WorkerOptions& options = settings_.worker;
  options.on_ready = [this, &notifier, ready = std::move(told.ready)](const std::string& name) {
    is_known_ = true;
    ready({.name = name, .metrics = metrics_ ? metrics_->url() : ""});
    notifier.ready("the broker is " + settings_.worker.broker);
  };
  options.look_there = [this](const std::string& endpoint) -> WhatIsThere {
    constexpr std::chrono::milliseconds kPatience{1'000};
    if (is_known_) return {};
    const settings::Peer peer = settings::look_at(endpoint, kPatience);
    return {.problem = std::string(settings::what_is_wrong_with(peer)),
            .asks_for_keys = peer == settings::Peer::zeromq_keys};
  };
  tell_manager(notifier, options);
  if (!settings_.otlp.endpoint.empty()) options.calls = std::make_shared<CallSpans>(settings_.otlp);
  metrics_ = serve_metrics(settings_, options);
  const auto longest = options.drain_timeout + kStopMargin;
  obedience_.emplace(
      host.commands,
      Obedience::Told{.stop = [&notifier, longest] { notifier.stopping(longest, "stops, jobs may finish"); },
                      .without_worker = std::move(told.stop_without_worker)});
  maker_.emplace(settings_);
  worker_.emplace(options, maker_->make());
  settings::warn_of(settings::exposed_files());
  std::vector<SecretService> secret_services = maker_->take_secret_services();
  hide_variables(settings_, secret_services);
  reloader_.emplace(std::move(secret_services), metrics_.get(), options.log, notifier);
}

int WorkerProgram::run() {
  obedience_->obey(&*worker_, [this] { reloader_->ask(); });
  struct Obeyed {
    Obedience& obedience;
    ~Obeyed() { obedience.obey(nullptr, {}); }
  };
  const Obeyed until_the_end{*obedience_};
  const WorkerEnd end = worker_->run();
  if (end == WorkerEnd::refused) return say_refused();
  return end == WorkerEnd::unreachable ? say_unreachable() : kExitDone;
}

int WorkerProgram::say_refused() const {
  log::complain("lanemq-worker: the broker at " + settings_.worker.broker +
                " does not take this worker (broker.refused says why); name lanes that it has with --lanes, "
                "and its endpoint for workers with --broker");
  return kExitUsage;
}

int WorkerProgram::say_unreachable() const {
  std::string there;  // of one endpoint: of several the last one looked at would be told for all
  if (!Endpoints(settings_.worker.broker).several())
    there = settings_.worker.look_there(settings_.worker.broker).problem;
  log::complain("lanemq-worker: no broker answered at " + settings_.worker.broker + " within " +
                lanemq::settings::show(settings_.worker.connect_timeout) + " (connect_timeout)" +
                (there.empty() ? "; is it running?"
                               : ": " + there + "; name the broker's endpoint for workers with --broker"));
  return kExitUnreachable;
}

Log make_log(log::Level level) {
  static_assert(static_cast<int>(LogLevel::debug) == static_cast<int>(log::Level::debug) &&
                static_cast<int>(LogLevel::error) == static_cast<int>(log::Level::error));
  if (level == log::Level::off) return {};
  return {
      .json = log::format() == log::Format::json,
      .level = static_cast<LogLevel>(level),
      .write = [](LogLevel line, std::string_view text) { log::write(static_cast<log::Level>(line), text); }};
}

void check_start(Settings& settings) {
  try_plugins(settings, true);
  if (!settings.otlp.endpoint.empty()) trace::require_collector(settings.otlp);
  check_metrics(settings.metrics, process_environment);
  static_cast<void>(ServiceMaker(settings).make());
  lanemq::settings::warn_of(lanemq::settings::exposed_files());
}

}  // namespace lanemq::worker
