// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lanemq/worker.hpp>

#include "worker/handlers/exec/process_host.hpp"
#include "worker/handlers/http/http_client.hpp"
#include "worker/secrets.hpp"
#include "worker/settings.hpp"

namespace lanemq::worker {

/// A service with secrets. Both may be called on another thread than the service's handler.
struct SecretService {
  std::string name;
  std::function<std::vector<SecretChange>()> read_again;  ///< jobs that start from then on have the new ones
  std::function<void()> hide_variables;
};

/// Makes the services; their upstreams are called by one client, and their programs run by one host.
class ServiceMaker {
 public:
  /// Requires: the settings outlive it.
  explicit ServiceMaker(const Settings& settings) : settings_(settings) {}

  /// Reads all secrets; makes no connection. Throws UsageError.
  std::vector<Service> make();
  /// The services whose secrets can be read again.
  std::vector<SecretService> take_secret_services() { return std::move(secret_services_); }

 private:
  std::shared_ptr<Handler> handler_of(const ServiceSettings& service);
  std::shared_ptr<Handler> plugin_of(const ServiceSettings& service) const;
  std::shared_ptr<Handler> exec_of(const ServiceSettings& service);
  std::shared_ptr<Handler> caller_of(const ServiceSettings& service);
  std::shared_ptr<Handler> webhook_of(const ServiceSettings& service);
  std::shared_ptr<HttpClient> client();

  const Settings& settings_;
  std::shared_ptr<HttpClient> client_;
  std::shared_ptr<ProcessHost> host_;  ///< made with the first exec service, for all
  std::vector<SecretService> secret_services_;
};

/// Tries the plugins. Services of those that cannot be used are left out, and the others go on.
/// `refuse_all`: the first one is refused instead. Throws UsageError. Requires: the process has one thread.
void try_plugins(Settings& settings, bool refuse_all);

}  // namespace lanemq::worker
