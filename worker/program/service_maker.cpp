// SPDX-License-Identifier: Apache-2.0
#include "worker/program/service_maker.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <lanemq/text.hpp>

#include "common/settings/environment.hpp"
#include "common/url/http_url.hpp"
#include "worker/base/log_line.hpp"
#include "worker/handlers/echo/echo_handler.hpp"
#include "worker/handlers/exec/exec_handler.hpp"
#include "worker/handlers/exec/pool_handler.hpp"
#include "worker/handlers/exec/program.hpp"
#include "worker/handlers/http/http_handler.hpp"
#include "worker/handlers/model/model_handler.hpp"
#include "worker/handlers/plugin/plugin_handler.hpp"
#include "worker/handlers/webhook/webhook_handler.hpp"
#include "worker/hook_secrets.hpp"

namespace lanemq::worker {
namespace {

using lanemq::settings::process_environment;

std::string unusable(const ServiceSettings& service, const std::string& reason) {
  return "service \"" + printable(service.name) + "\": the plugin " +
         printable(plugin_options(service).file) + " cannot be used: " + reason;
}

bool is_traced(TracedUpstreams which, const std::string& url) {
  return which == TracedUpstreams::all || (which == TracedUpstreams::own && is_own_host(url));
}

}  // namespace

std::vector<Service> ServiceMaker::make() {
  std::vector<Service> services;
  for (const ServiceSettings& service : settings_.services)
    services.push_back({service.name, handler_of(service)});
  return services;
}

std::shared_ptr<Handler> ServiceMaker::handler_of(const ServiceSettings& service) {
  if (service.handler == "echo") {
    const auto delay = lanemq::settings::parse_duration(service.argument.empty() ? "0" : service.argument);
    return std::make_shared<EchoHandler>(std::chrono::duration_cast<std::chrono::milliseconds>(delay));
  }
  if (service.handler == "exec") return exec_of(service);
  if (service.handler == "webhook") return webhook_of(service);
  return service.handler == "plugin" ? plugin_of(service) : caller_of(service);
}

std::shared_ptr<Handler> ServiceMaker::plugin_of(const ServiceSettings& service) const try {
  return std::make_shared<PluginHandler>(service.name, plugin_options(service), settings_.worker.capacity,
                                         settings_.worker.log);
} catch (const plugin::PluginError& error) {
  throw UsageError(unusable(service, error.what()));
}

/// A handler that runs a program.
std::shared_ptr<Handler> ServiceMaker::exec_of(const ServiceSettings& service) try {
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
std::shared_ptr<Handler> ServiceMaker::caller_of(const ServiceSettings& service) {
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
std::shared_ptr<Handler> ServiceMaker::webhook_of(const ServiceSettings& service) {
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

std::shared_ptr<HttpClient> ServiceMaker::client() {
  if (!client_) {
    HttpOptions http = settings_.http;
    http.calls_max = settings_.worker.capacity;
    client_ = std::make_shared<HttpClient>(http);
  }
  return client_;
}

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

}  // namespace lanemq::worker
