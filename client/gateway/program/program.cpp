// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/program/program.hpp"

#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <string_view>
#include <vector>

#include "client/gateway/batches/batch_service.hpp"
#include "client/gateway/door/access.hpp"
#include "client/gateway/door/gateway.hpp"
#include "client/gateway/program/certificate.hpp"
#include "client/gateway/program/drain.hpp"
#include "client/gateway/program/refusals.hpp"
#include "client/gateway/program/reload.hpp"
#include "client/gateway/routes/batch_routes.hpp"
#include "client/gateway/routes/job_routes.hpp"
#include "client/gateway/routes/left_jobs.hpp"
#include "client/gateway/run/access_log.hpp"
#include "client/gateway/run/broker_drive.hpp"
#include "client/gateway/run/control_socket.hpp"
#include "client/gateway/run/health.hpp"
#include "client/gateway/run/key_stop.hpp"
#include "client/gateway/run/not_served.hpp"
#include "client/gateway/run/service_beat.hpp"
#include "common/http/server/listen.hpp"
#include "common/http/server/server.hpp"
#include "common/log/log.hpp"

namespace lanemq::gateway {
namespace {

/// How long a request waits for a broker that does not answer: less than the second by which it is ahead of
/// an SDK's timeout.
constexpr std::chrono::milliseconds kBrokerGrace{500};
/// Requests to the broker without an answer: per caller a job and its cancellation; and the lines of batches.
constexpr std::size_t kPendingPerCaller = 2, kPendingBeside = 10'000;

/// Reduces the connections to what the system's descriptors allow, and logs that.
ServerOptions within_descriptors(ServerOptions options) {
  const std::size_t wanted = options.connections_max;
  options.connections_max = reserve_connections(wanted);
  if (options.connections_max < wanted)
    log::event(log::Level::warning, "limit.descriptors",
               {{"connections_max", options.connections_max},
                {"wanted", wanted},
                {"do", "the system allows no more open files; raise the limit (ulimit -Hn, LimitNOFILE=)"}});
  return options;
}

HttpServer& encrypted(HttpServer& server, const Settings& settings) {
  encrypt(server, settings);
  return server;
}

/// The options of the gateway's own connection to the broker.
ClientOptions options_of_client(const Settings& settings, const ServerOptions& server) {
  return {.endpoint = settings.broker,
          .keys = settings.curve,
          .pending_max = server.connections_max * kPendingPerCaller + kPendingBeside,
          .pending_bytes_max = settings.server.bodies_bytes_max * 2,
          .grace = kBrokerGrace,
          .log = [](std::string_view line) {
            log::event(log::Level::warning, "broker", {{"message", line}});
          }};
}

/// Takes the prefixes by which a request's API is known.
Router router_of_apis() {
  Router router;
  for (const Api* api : kApis)
    if (!api->prefix.empty()) router.take_prefix(api->prefix);
  hide_not_served(router);
  return router;
}

/// The headers by which it is known.
std::vector<std::string> headers_that_tell_apis() {
  std::vector<std::string> names;
  for (const Api* api : kApis)
    if (!api->version_header.empty()) names.emplace_back(api->version_header);
  return names;
}

/// Opens files and batches, where there is a folder; null: there is none, and `why_not` says why.
std::unique_ptr<BatchService> open_batches(const Settings& settings, CallerLimits& limits,
                                           std::string& why_not) {
  if (settings.batches.folder.empty()) {
    why_not = "no folder is known to keep them in";
    log::event(log::Level::warning, "batches.unavailable",
               {{"reason", why_not}, {"do", "name one with --state, or set HOME"}});
    return nullptr;
  }
  try {
    return std::make_unique<BatchService>(settings, limits, [](std::string_view line) {
      log::event(log::Level::warning, "batches", {{"message", line}});
    });
  } catch (const std::exception& error) {
    // The default folder may be another gateway's; all else works without it.
    if (settings.batches.folder_named) throw;
    why_not = "the folder for them cannot be used; the gateway's log says why";
    log::event(log::Level::warning, "batches.unavailable", {{"reason", error.what()}});
    return nullptr;
  }
}

/// Tells log and traces of a request that is over.
void note_answered(Gateway& gateway, AccessLog& access_log, const Answered& answered) {
  const std::optional<trace::Context> at = gateway.traces.of(answered);
  const Loop::TimePoint now = gateway.loop.now();
  if (gateway.settings.access_log) access_log.note(answered, at ? at->trace_text() : "", now);
  gateway.traces.note(answered, at, now);
}

/// Has the routes refuse what waits for a broker that is silent. All outlive the gateway's requests.
void heed_silence(Gateway& gateway, Health& health, JobRoutes& job_routes, LeftJobRoutes& left_job_routes) {
  gateway.broker_is_away = [&] { return health.broker_is_away(); };
  gateway.away_shard = [&](const std::string& service, const std::string& client) {
    return health.away_shard(service, client);
  };
  gateway.on_broker_away = [&] {
    job_routes.end_waiting();
    left_job_routes.end_waiting();
  };
  gateway.on_shard_away = [&](const std::string& shard) { job_routes.end_waiting(shard); };
}

/// Opens the way of command lines to this gateway, where there is a folder; null: there is none.
std::unique_ptr<ControlSocket> open_control(Gateway& gateway, const BatchService* batches, KeyStop& stop) {
  if (batches == nullptr) return nullptr;
  try {
    return std::make_unique<ControlSocket>(
        gateway.loop, gateway.settings.batches.folder,
        [&stop](const std::string& key, const ControlSocket::Then& then) { stop.stop(key, then); });
  } catch (const std::exception& error) {
    log::event(
        log::Level::warning, "control.unavailable",
        {{"reason", error.what()}, {"do", "mend it and restart; until then --stop-key reaches nobody"}});
    return nullptr;
  }
}

}  // namespace

/// What a gateway is made of, in the order in which each part needs those before it.
class GatewayProgram::Parts {
 public:
  Parts(Settings& settings, const ServerOptions& options, std::function<Settings()> read_again,
        service::Host host)
      : access_(settings.keys),
        router_(router_of_apis()),
        server_(
            options, router_,
            [this](Refusal kind, const HttpRequest& request, std::string_view detail) {
              return refused_by_server(gateway_, router_, kind, request, detail);
            },
            [this](const HttpRequest& head) { return refused_at_door(gateway_, head); }),
        drive_(encrypted(server_, settings), options_of_client(settings, options)),
        gateway_{.settings = settings,
                 .loop = server_,
                 .broker = drive_.client(),
                 .access = access_,
                 .metrics = metrics_,
                 .traces = RequestTraces(settings.otlp)},
        access_log_(access_),
        health_(gateway_, server_),
        job_routes_(gateway_),
        left_job_routes_(gateway_, job_routes_.limits(), job_routes_.share_limits()),
        batches_(open_batches(settings, job_routes_.limits(), why_no_batches_)),
        batch_routes_(gateway_, batches_.get(), why_no_batches_),
        key_stop_(gateway_, job_routes_, left_job_routes_, batches_.get()),
        control_(open_control(gateway_, batches_.get(), key_stop_)),
        url_(url_of(settings.tls_certificate.empty() ? "http" : "https", settings.server.address,
                    server_.port())),
        beat_(host.notifier, server_, health_, url_),
        drain_(gateway_, server_, beat_),
        reload_(settings, server_, host.notifier, std::move(read_again),
                [this](const Settings& before, const Settings& changed) { take_over(before, changed); }),
        commands_(server_.watch(host.commands.descriptor(),
                                [this, &commands = host.commands] { obey(commands); })) {
    server_.keep_headers(headers_that_tell_apis());
    server_.on_answered([this](const Answered& answered) { note_answered(gateway_, access_log_, answered); });
    heed_silence(gateway_, health_, job_routes_, left_job_routes_);
    health_.add_routes(router_);
    job_routes_.add_to(router_);
    left_job_routes_.add_to(router_);
    batch_routes_.add_to(router_);
    if (batches_) {
      health_.watch_batches(*batches_);
      gateway_.responses.keep_with(batches_->earlier_responses(),
                                   [this](OwnedResponse made) { batches_->keep_response(std::move(made)); });
    }
    health_.watch();
    beat_.ready();
  }

  const std::string& url() const { return url_; }

  void run() {
    server_.run(
        [](std::string_view reason) {
          log::event(log::Level::error, "gateway.failure",
                     {{"reason", reason}, {"do", "the connection was closed; report it"}});
        },
        [this](std::string_view address, std::string_view bound) {
          gateway_.refusal_log.note_connection(address, bound, server_.now());
        });
    gateway_.broker.close();  // before the objects that wait for its answers are destroyed
  }

 private:
  void obey(service::Commands& commands) {
    while (const auto command = commands.next())
      *command == service::Command::reload ? reload_() : drain_.begin();
  }

  void take_over(const Settings& before, const Settings& changed) {
    access_.replace(changed.keys);
    key_stop_.cut_removed(before.keys);
    job_routes_.limits().keep_only(changed.keys);
    if (batches_) batches_->change(changed);
  }

  Metrics metrics_;
  Access access_;
  Router router_;
  HttpServer server_;
  BrokerDrive drive_;
  Gateway gateway_;
  AccessLog access_log_;
  Health health_;
  JobRoutes job_routes_;
  LeftJobRoutes left_job_routes_;
  std::string why_no_batches_;
  const std::unique_ptr<BatchService> batches_;
  BatchRoutes batch_routes_;
  KeyStop key_stop_;
  const std::unique_ptr<ControlSocket> control_;
  const std::string url_;
  ServiceBeat beat_;
  Drain drain_;
  const Reload reload_;
  const std::unique_ptr<Loop::Watch> commands_;
};

GatewayProgram::GatewayProgram(Settings settings, std::function<Settings()> read_again)
    : settings_(std::move(settings)), read_again_(std::move(read_again)) {}

GatewayProgram::~GatewayProgram() = default;

std::string GatewayProgram::start(service::Host host) {
  parts_ = std::make_unique<Parts>(settings_, within_descriptors(settings_.server), read_again_, host);
  return parts_->url();
}

void GatewayProgram::run() {
  parts_->run();
}

}  // namespace lanemq::gateway
