// SPDX-License-Identifier: Apache-2.0
#include "broker/program/settle.hpp"

#include <string>

#include "broker/config/key_files.hpp"
#include "broker/config/settings.hpp"
#include "common/http/server/access/caller_key.hpp"
#include "common/http/server/listen.hpp"
#include "common/settings/folders.hpp"
#include "common/settings/peer.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_check.hpp"
#include "common/trace/exporter.hpp"

namespace lanemq::program {
namespace {

/// Whether only this machine can reach the endpoint.
bool is_local(const std::string& endpoint) {
  for (const char* prefix : {"tcp://127.", "tcp://localhost:", "tcp://[::1]:", "ipc://", "inproc://"})
    if (endpoint.starts_with(prefix)) return true;
  return false;
}

void require_local(const Config& config, const std::string& endpoint) {
  if (config.insecure || !config.secret_key.empty() || is_local(endpoint)) return;
  throw ConfigError("endpoint " + endpoint +
                    " can be reached from other machines, and without secret_key and keys_folder the broker "
                    "neither encrypts nor asks for keys; set them (lanemq keygen makes keys), bind to "
                    "127.0.0.1, or say --insecure where the network is trusted");
}

/// A peer at the operators' endpoint can stop and change everything, so no option opens it to other machines.
void require_admin_local(const std::string& endpoint) {
  if (is_local(endpoint)) return;
  throw ConfigError("admin_endpoint " + endpoint +
                    " can be reached from other machines, and whoever reaches it rules the broker; bind to "
                    "127.0.0.1 or ipc://, and come by ssh from elsewhere");
}

/// Each kind of peer needs an endpoint of its own.
void require_apart(const char* one, const std::string& endpoint, const char* other,
                   const std::string& other_endpoint) {
  if (endpoint != other_endpoint || endpoint.ends_with(":*")) return;
  throw ConfigError("endpoint " + endpoint + " is named for " + one + " and for " + other +
                    "; each needs one of its own");
}

/// Reads the secrets of the keys of HTTP, and refuses an address that strangers reach as they please.
void settle_http(Config& config) {
  admin::HttpOptions& http = config.http;
  config.server.has_http = http.is_on;
  for (admin::HttpKey& key : http.keys) {
    key.sha256 = http::hash_of_key({.name = key.name,
                                    .secret = key.secret,
                                    .sha256 = key.sha256,
                                    .maker = "lanemq-broker --make-http-key"},
                                   settings::process_environment);
    settings::hide_secret(key.secret);
    for (const admin::HttpKey& other : http.keys)
      if (&other < &key && other.sha256 == key.sha256)
        throw ConfigError("http_keys \"" + other.name + "\" and \"" + key.name +
                          "\" have the same secret: nobody could tell who asks; give each one of its own");
  }
  if (http.tls_certificate.empty() != http.tls_key.empty())
    throw ConfigError("http_tls_certificate and http_tls_key belong together; name both, or neither");
  if (!http.is_on || http::is_loopback(http.server.address)) return;
  const std::string where = "http " + http::listen_of(http.server);
  if (http.keys.empty())
    throw ConfigError(where +
                      " can be reached from other machines, and without an [[http_key]] whoever reaches it "
                      "rules the broker; add one (lanemq-broker --make-http-key makes it), or listen on "
                      "127.0.0.1");
  if (http.tls_certificate.empty() && !config.insecure)
    throw ConfigError(where +
                      " can be reached from other machines, and without TLS keys could be read on the way; "
                      "name http_tls_certificate and http_tls_key, listen on 127.0.0.1, or say --insecure "
                      "where the network is trusted");
}

}  // namespace

void settle_endpoints(Config& config) {
  read_peer_keys(config, settings::process_environment);
  settings::hide_secret(config.secret_key);
  settle_http(config);
  for (const std::string& endpoint : {config.server.clients, config.server.workers}) {
    settings::check_endpoint(endpoint, settings::Port::any);
    require_local(config, endpoint);
  }
  config.server.admin_required = !config.server.admin.empty();
  if (config.server.admin.empty()) {
    const std::string file = settings::own_operator_socket(settings::process_environment);
    if (!file.empty()) config.server.admin = std::string(settings::kIpc) + file;
  }
  if (!config.server.otlp.endpoint.empty()) trace::require_collector(config.server.otlp);
  if (!config.server.admin.empty()) {
    settings::check_endpoint(config.server.admin, settings::Port::any);
    require_admin_local(config.server.admin);
  }
  require_apart("clients", config.server.clients, "workers", config.server.workers);
  require_apart("clients", config.server.clients, "operators", config.server.admin);
  require_apart("workers", config.server.workers, "operators", config.server.admin);
}

void make_operators_folder(const Config& config) {
  using settings::kIpc;
  if (!config.server.admin_required && !config.server.admin.empty())
    static_cast<void>(settings::make_folder_of(config.server.admin.substr(kIpc.size())));
}

}  // namespace lanemq::program
