// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "client/gateway/apis/http_words.hpp"
#include "client/gateway/batches/batch_service.hpp"
#include "client/gateway/batches/batch_store.hpp"
#include "client/gateway/door/access.hpp"
#include "client/gateway/door/gateway.hpp"
#include "client/gateway/routes/batch_routes.hpp"
#include "client/gateway/routes/job_routes.hpp"
#include "client/gateway/routes/left_jobs.hpp"
#include "client/gateway/run/access_log.hpp"
#include "client/gateway/run/broker_drive.hpp"
#include "client/gateway/run/control_socket.hpp"
#include "client/gateway/run/health.hpp"
#include "client/gateway/run/key_stop.hpp"
#include "client/gateway/run/not_served.hpp"
#include "client/gateway/run/options.hpp"
#include "client/gateway/run/service_beat.hpp"
#include "common/http/server/access/browsers.hpp"
#include "common/http/server/listen.hpp"
#include "common/http/server/server.hpp"
#include "common/log/log.hpp"
#include "common/service/memory_guard.hpp"
#include "common/service/notifier.hpp"
#include "common/service/standard_descriptors.hpp"
#include "common/settings/blank_file.hpp"
#include "common/settings/secrets/secret_shapes.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/start_warnings.hpp"

namespace lanemq::gateway {
namespace {

/// How long a request waits for a broker that does not answer: less than the second by which it is ahead of
/// an SDK's timeout.
constexpr std::chrono::milliseconds kBrokerGrace{500};
constexpr int kExitDone = 0, kExitUsage = 2, kExitRefused = 3;
constexpr std::chrono::milliseconds kDrainLookEvery{20};
/// Requests to the broker without an answer: per caller a job and its cancellation; and the lines of batches.
constexpr std::size_t kPendingPerCaller = 2, kPendingBeside = 10'000;

std::string_view error_name(Refusal refusal) {
  switch (refusal) {
    case Refusal::bad_request:
      return "bad_request";
    case Refusal::header_too_large:
      return "header_too_large";
    case Refusal::target_too_long:
      return "target_too_long";
    case Refusal::expectation_failed:
      return "expectation_failed";
    case Refusal::not_implemented:
      return "not_implemented";
    case Refusal::version_not_supported:
      return "version_not_supported";
    case Refusal::body_too_large:
      return "too_large";
    case Refusal::not_found:
      return "not_found";
    case Refusal::method_not_allowed:
      return "method_not_allowed";
    case Refusal::out_of_memory:
      return "gateway_full";
    case Refusal::disk_refuses:
      return "store_full";
    case Refusal::failed:
      break;
  }
  return "internal";
}

std::string hint_of(Refusal kind, const Router& router, const HttpRequest& request) {
  const bool is_astray = kind == Refusal::not_found || kind == Refusal::method_not_allowed;
  return is_astray ? hint_for(router, request) : std::string();
}

ApiError error_of(Refusal kind, std::string_view detail, const std::string& hint) {
  ApiError error{.name = std::string(error_name(kind)), .message = std::string(detail)};
  if (!hint.empty()) error.message += "; " + hint;
  if (kind == Refusal::out_of_memory) error.retry_after = std::chrono::seconds(1);
  return error;
}

/// Stops the server in steps: first /readyz refuses, for load balancers; then new work is refused, until
/// nothing runs or the time is over.
class Drain {
 public:
  Drain(Gateway& gateway, HttpServer& server, ServiceBeat& beat)
      : gateway_(gateway), server_(server), beat_(beat), timer_(server.timer()) {}

  void begin() {
    if (std::exchange(gateway_.leaving, true)) return server_.stop();  // a second signal ends at once
    beat_.stopping(gateway_.settings.drain_delay + gateway_.settings.drain_timeout);
    timer_->after(gateway_.settings.drain_delay, [this] { refuse(); });
  }

 private:
  void refuse() {
    gateway_.draining = true;
    until_ = server_.now() + gateway_.settings.drain_timeout;
    server_.drain();
    look();
  }
  void look() {
    if (server_.busy() == 0 || server_.now() >= until_) return server_.stop();
    timer_->after(kDrainLookEvery, [this] { look(); });
  }

  Gateway& gateway_;
  HttpServer& server_;
  ServiceBeat& beat_;
  std::unique_ptr<Loop::Timer> timer_;
  Loop::TimePoint until_{};
};

/// Below this a certificate's rest is a warning.
constexpr std::chrono::hours kCertificateSoon{30 * 24};

/// The server's certificate; null: it speaks no TLS, or a check takes one of its files as given. Throws
/// UsageError with what is wrong with its files.
std::shared_ptr<const TlsIdentity> identity_of(const Settings& settings) {
  if (settings.tls_certificate_file.empty() || (!settings.tls_key.empty() && settings.tls_key_file.empty()))
    return nullptr;
  try {
    return TlsIdentity::read(settings.tls_certificate_file, settings.tls_key_file);
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
}

void encrypt(HttpServer& server, std::shared_ptr<const TlsIdentity> identity) {
  const bool soon = identity->left() < kCertificateSoon;
  log::event(soon ? log::Level::warning : log::Level::info, "tls.certificate",
             {{"ends", identity->ends()},
              {"do", soon ? "renew it and send SIGHUP, which reads it again" : "SIGHUP reads it again"}});
  server.encrypt(std::move(identity));
}

/// At the start: TLS where it is wanted, and a warning where strangers come without it, or without keys.
void encrypt(HttpServer& server, const Settings& settings) {
  if (std::shared_ptr<const TlsIdentity> identity = identity_of(settings))
    encrypt(server, std::move(identity));
  if (is_loopback(settings.server.address)) return;
  const char* const missing = settings.keys.empty()              ? "keys"
                              : settings.tls_certificate.empty() ? "TLS"
                                                                 : nullptr;
  if (missing != nullptr)
    log::event(log::Level::warning, "listen.insecure",
               {{"address", settings.server.address},
                {"without", missing},
                {"do", "let nobody else reach this network, or leave out --insecure"}});
}

/// Reads the settings again and applies them; invalid ones change nothing.
class Reload {
 public:
  using Read = std::function<Settings()>;
  using Tell = std::function<void(const Settings& before, const Settings& settings)>;
  Reload(Settings& settings, HttpServer& server, service::Notifier& notifier, Read read, Tell tell)
      : settings_(settings),
        server_(server),
        notifier_(notifier),
        read_(std::move(read)),
        tell_(std::move(tell)) {}

  void operator()() const {
    const service::Reloading told(notifier_);
    try {
      const Settings wanted = read_(), before = settings_;
      std::shared_ptr<const TlsIdentity> identity = identity_of(wanted);
      const std::vector<NamedChange> changes = named_changes(settings_, wanted);
      const std::vector<std::string> left = take_over(wanted, settings_);
      // Whether TLS is spoken at all needs a restart.
      if (identity && !before.tls_certificate.empty()) encrypt(server_, std::move(identity));
      tell_(before, settings_);
      for (const lanemq::settings::Changed& change : changed(option_table(), before, settings_))
        log::event(log::Level::info, "config.changed",
                   {{"key", change.key}, {"from", change.before}, {"to", change.after}});
      log::event(log::Level::info, "config.reloaded",
                 {{"keys", settings_.keys.size()}, {"models", settings_.models.size()}});
      // A file that was cut while it was copied may be valid; the log then shows what it lost.
      for (const auto& [what, done, names] : changes)
        log::event(done == "removed" ? log::Level::warning : log::Level::info,
                   "config." + std::string(what) + "s_" + std::string(done), {{"names", names}});
      for (const std::string& what : left)
        log::event(log::Level::warning, "config.needs_restart", {{"what", what}});
    } catch (const UsageError& error) {
      log::event(log::Level::error, "config.reload_failed",
                 {{"reason", error.what()}, {"do", "nothing has changed; mend it and send SIGHUP again"}});
    }
  }

 private:
  Settings& settings_;
  HttpServer& server_;
  service::Notifier& notifier_;
  const Read read_;
  const Tell tell_;
};

/// The answer to what the server itself refuses.
HttpAnswer refused_by_server(Gateway& gateway, const Router& router, Refusal kind, const HttpRequest& request,
                             std::string_view detail) {
  if (kind == Refusal::disk_refuses) {
    gateway.disk_log.note(detail);
    detail = "the gateway's disk refuses what is uploaded, and its log says why; try again later";
  }
  return refusal(gateway, request, error_of(kind, detail, hint_of(kind, router, request)));
}

std::optional<ApiError> why_not_open_to(const HttpRequest& head, const std::vector<std::string>& hosts) {
  std::optional<Unwelcome> why = why_not_without_keys(
      head, {.name = "gateway", .cure = "add keys, or say --hosts", .hosts = hosts, .uploads = "/v1/files"});
  if (!why) return std::nullopt;
  return ApiError{.name = why->is_form ? "unsupported_media_type" : "forbidden",
                  .message = std::move(why->message),
                  .param = std::move(why->param)};
}

/// Refuses what no route may take.
std::optional<HttpAnswer> refused_at_door(Gateway& gateway, const HttpRequest& head) {
  std::optional<ApiError> why = why_not_packed(head.headers);
  if (!why && gateway.settings.auth == Auth::none) why = why_not_open_to(head, gateway.settings.hosts);
  if (!why) return std::nullopt;
  return refusal(gateway, head, *why);
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

/// Reads the settings, and takes the secrets that they name out of the process's environment.
Request read_settings(int argc, const char* const* argv) {
  Request request = parse(argc, argv, lanemq::settings::process_environment);
  for (const KeySettings& key : request.settings.keys)
    lanemq::settings::hide_secret(key.secret);
  lanemq::settings::hide_secret(request.settings.broker_keys.secret_key);
  return request;
}

/// Refuses what run() would refuse, and changes nothing.
void check_start(const Settings& settings) {
  static_cast<void>(identity_of(settings));
  if (const auto reason = lanemq::settings::why_not_listen(settings.server.address, settings.server.port))
    throw std::runtime_error("cannot listen on " + settings.server.address + ":" +
                             std::to_string(settings.server.port) + ": " + *reason);
  if (!settings.otlp.endpoint.empty()) trace::require_collector(settings.otlp);
  if (settings.batches.folder_named) check_state_folder(settings.batches.folder);
}

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

/// Has the running gateway end what keys have left. Returns the exit code.
int stop_keys(const Settings& settings, const std::vector<std::string>& names) {
  const std::string& folder = settings.batches.folder;
  if (folder.empty())
    throw UsageError("no folder is known by which a gateway could be found; name it with --state");
  for (const std::string& name : names) {
    if (name.empty()) throw UsageError("--stop-key takes a key's name, and this one is empty");
    const std::optional<ControlAnswer> answer = command_gateway(folder, name);
    if (!answer)
      throw std::runtime_error(
          "no gateway runs with the folder " + folder +
          ": name that of the running one with --state or --config. Where none runs, its "
          "batches go on when it is started");
    if (!answer->done) throw std::runtime_error(answer->text);
    std::fputs(answer->text.c_str(), stdout);
  }
  return kExitDone;
}

int run(Settings settings, const Reload::Read& read) {
  std::signal(SIGPIPE, SIG_IGN);  // a broken connection shows in its call
  const log::Writing writing;
  service::Notifier notifier(lanemq::settings::process_environment);
  Metrics metrics;
  Access access(settings.keys);
  Router router = router_of_apis();
  const ServerOptions server_options = within_descriptors(settings.server);
  Gateway* served_by = nullptr;
  HttpServer server(
      server_options, router,
      [&served_by, &router](Refusal kind, const HttpRequest& request, std::string_view detail) {
        return refused_by_server(*served_by, router, kind, request, detail);
      },
      [&served_by](const HttpRequest& head) { return refused_at_door(*served_by, head); });
  encrypt(server, settings);
  BrokerDrive drive(server, options_of_client(settings, server_options));
  Gateway gateway{.settings = settings,
                  .loop = server,
                  .broker = drive.client(),
                  .access = access,
                  .metrics = metrics,
                  .traces = RequestTraces(settings.otlp)};
  served_by = &gateway;
  AccessLog access_log(access);
  server.keep_headers(headers_that_tell_apis());
  server.on_answered([&](const Answered& answered) { note_answered(gateway, access_log, answered); });
  Health health(gateway, server);
  health.add_routes(router);
  JobRoutes job_routes(gateway);
  job_routes.share_limits();
  job_routes.add_to(router);
  LeftJobRoutes left_job_routes(gateway, job_routes.limits(), job_routes.shares());
  left_job_routes.add_to(router);
  heed_silence(gateway, health, job_routes, left_job_routes);
  std::string why_no_batches;
  const std::unique_ptr<BatchService> batches = open_batches(settings, job_routes.limits(), why_no_batches);
  if (batches) {
    health.watch_batches(*batches);
    gateway.responses.keep_with(batches->earlier_responses(),
                                [&batches](OwnedResponse made) { batches->keep_response(std::move(made)); });
  }
  BatchRoutes batch_routes(gateway, batches.get(), why_no_batches);
  batch_routes.add_to(router);
  KeyStop key_stop(gateway, job_routes, left_job_routes, batches.get());
  const std::unique_ptr<ControlSocket> control = open_control(gateway, batches.get(), key_stop);
  const std::string url =
      url_of(settings.tls_certificate.empty() ? "http" : "https", settings.server.address, server.port());
  ServiceBeat beat(notifier, server, health, url);
  Drain drain(gateway, server, beat);
  health.watch();
  beat.ready();
  log::say("ready " + url + "\n");
  const Reload reload(settings, server, notifier, read, [&](const Settings& before, const Settings& changed) {
    access.replace(changed.keys);
    key_stop.cut_removed(before.keys);
    job_routes.limits().keep_only(changed.keys);
    if (batches) batches->change(changed);
  });
  server.run([&drain] { drain.begin(); }, reload,
             [](std::string_view reason) {
               log::event(log::Level::error, "gateway.failure",
                          {{"reason", reason}, {"do", "the connection was closed; report it"}});
             },
             [&](std::string_view address, std::string_view bound) {
               gateway.refusal_log.note_connection(address, bound, server.now());
             });
  gateway.broker.close();  // before the objects that wait for its answers are destroyed
  return kExitDone;
}

/// The settings as they are now. Throws UsageError, whatever is wrong: a running gateway goes on.
Settings read_anew(int argc, char** argv) try {
  Request again = read_settings(argc, argv);
  if (!again.settings.otlp.endpoint.empty()) trace::require_collector(again.settings.otlp);
  warn_of(again.old);
  return std::move(again.settings);
} catch (const UsageError&) {
  throw;
} catch (const std::exception& error) {
  throw UsageError(lanemq::settings::without_secrets(error.what()));
}

}  // namespace
}  // namespace lanemq::gateway

int main(int argc, char** argv) try {
  using namespace lanemq::gateway;
  lanemq::service::take_standard_descriptors();
  std::signal(SIGHUP, SIG_IGN);  // until it can be heeded: a start reads the configuration anyway
  lanemq::service::guard_memory();
  const Request request = read_settings(argc, argv);
  lanemq::log::set_level(request.settings.log_level);
  lanemq::log::set_format(request.settings.log_format);
  if (request.settings.keep_cores) lanemq::service::open_memory();
  warn_of(request.old);
  warn_of(lanemq::settings::exposed_files());
  if (request.what == lanemq::settings::Asked::For::check) {
    check_start(request.settings);
    lanemq::settings::tell_of_credentials("lanemq-gateway");
  }
  if (!request.stop_keys.empty()) return stop_keys(request.settings, request.stop_keys);
  if (request.what == lanemq::settings::Asked::For::run)
    return run(request.settings, [&] {
      if (const auto why_not = lanemq::settings::why_not_read_again(request.file)) throw UsageError(*why_not);
      return read_anew(argc, argv);
    });
  const bool is_config = request.what == lanemq::settings::Asked::For::print_config;
  std::fputs((is_config ? lanemq::settings::without_secrets_in_config(request.text) : request.text).c_str(),
             stdout);
  std::fputs(request.aside.c_str(), stderr);
  return kExitDone;
} catch (const lanemq::gateway::UsageError& error) {
  lanemq::log::complain(std::string("lanemq-gateway: ") + error.what());
  return lanemq::gateway::kExitUsage;
} catch (const std::invalid_argument& error) {
  lanemq::log::complain("lanemq-gateway: " + lanemq::settings::without_secrets(error.what()));
  return lanemq::gateway::kExitUsage;
} catch (const std::exception& error) {
  lanemq::log::complain(std::string("lanemq-gateway: ") + error.what());
  return lanemq::gateway::kExitRefused;
}
