// SPDX-License-Identifier: Apache-2.0
#include "broker/program/start_check.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <zmq.hpp>

#include "broker/config/settings.hpp"
#include "broker/io/loop/server.hpp"
#include "broker/io/offline/store_check.hpp"
#include "broker/io/plugins/broker_plugin.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "broker/program/reload.hpp"
#include "broker/program/settle.hpp"
#include "broker/program/store_choice.hpp"
#include "common/http/server/listen.hpp"
#include "common/log/log.hpp"
#include "common/settings/folders.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/start_warnings.hpp"

namespace lanemq::program {
namespace {

/// Refuses an address that no program could bind; whether it is in use is not checked.
void check_bind(const std::string& endpoint) {
  using settings::kIpc;
  const auto refuse_for = [&](const std::optional<std::string>& reason) {
    if (reason) throw io::BindError(endpoint, *reason);
  };
  if (endpoint.starts_with(kIpc)) {
    refuse_for(io::why_no_socket_file(endpoint));
    const std::filesystem::path folder = std::filesystem::path(endpoint.substr(kIpc.size())).parent_path();
    if (!folder.empty() && !std::filesystem::exists(folder)) refuse_for("its folder does not exist");
    return refuse_for(settings::why_not_folder(folder.empty() ? "." : folder.string()));
  }
  // libzmq itself checks the address; a free port is put in, so that the port is never in use.
  const std::size_t colon = endpoint.rfind(':');
  zmq::context_t context;
  zmq::socket_t probe(context, zmq::socket_type::router);
  probe.set(zmq::sockopt::ipv6, endpoint.find('[') != std::string::npos);
  std::string bound;
  try {
    probe.bind(endpoint.substr(0, colon) + ":*");
    bound = probe.get(zmq::sockopt::last_endpoint);
  } catch (const zmq::error_t& error) {
    throw io::BindError(endpoint, error.num());
  }
  const std::string port = endpoint.substr(colon + 1);
  if (port != "*")
    refuse_for(
        settings::why_not_listen(settings::host_of(bound), static_cast<std::uint16_t>(std::stoi(port))));
}

/// Refuses a bank that no draw could use. A start does not wait for it, so that one that is not reached is no
/// reason to refuse.
void check_bank(const Config& config) {
  if (!bank_of(config)) return;
  const auto usable = io::check_bank(config.bank, config.bank_schema);
  if (!usable) throw ConfigError("bank: " + settings::without_secrets(usable.error().message));
  if (!usable->empty()) log::complain("lanemq-broker: " + settings::without_secrets(*usable));
}

}  // namespace

void try_plugins(const Config& config) {
  for (const io::PluginOptions& plugin : config.server.plugins)
    if (const auto why = io::why_no_plugin(plugin)) {
      const auto place = config.heard.places.find("plugin." + plugin.name);
      throw ConfigError((place == config.heard.places.end() ? "" : place->second + ": ") + "the plugin \"" +
                        plugin.name + "\" cannot be used: " + *why);
    }
}

std::unique_ptr<io::BankRows> bank_of(const Config& config) {
  const auto& budgets = config.core.budgets;
  if (std::none_of(budgets.begin(), budgets.end(), [](const auto& budget) { return budget.shared; }))
    return nullptr;
  auto bank = io::open_bank(config.bank, config.bank_schema);
  if (!bank) throw ConfigError("bank: " + settings::without_secrets(bank.error().message));
  return std::move(*bank);
}

void note_secret_files(const Config& config, const io::StoreOptions& options) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (!config.http.tls_key.empty())
    settings::note_secret_file(http::file_of(config.http.tls_key, settings::process_environment));
  if (options.specification.starts_with(kSqlite))
    settings::note_secret_file(options.specification.substr(kSqlite.size()));
}

void check_start(Config config) {
  try_plugins(config);
  settle_endpoints(config);
  check_binds(config);
  for (const std::string& doubt : doubts(config))
    log::complain("lanemq-broker: " + settings::without_secrets(doubt));
  check_bank(config);
  io::StoreOptions store = store_options(config);
  store.shard = config.core.shard;
  note_secret_files(config, store);
  const auto usable = io::check_store_place(store);
  if (!usable) refuse_store(usable.error());
  if (!usable->empty()) log::complain("lanemq-broker: " + settings::without_secrets(*usable));
  settings::warn_of(settings::exposed_files());
  if (const auto path = io::path_of_store(store)) {
    // A start creates the default folder, so it need not exist.
    const std::filesystem::path folder = std::filesystem::absolute(*path).parent_path();
    const bool missing = !config.store.empty() && !std::filesystem::exists(folder);
    const auto reason = missing ? "its folder does not exist" : settings::why_not_folder(folder);
    if (reason)
      throw io::StoreError("the store " + *path + " cannot be used: " + *reason +
                           "; mend that, or name another file with --store sqlite:PATH");
  }
  for (const std::string& endpoint : {config.server.clients, config.server.workers})
    check_bind(endpoint);
  if (config.server.admin_required) check_bind(config.server.admin);
  if (!config.http.is_on) return;
  static_cast<void>(http_now(config));
  const http::ServerOptions& http = config.http.server;
  if (const auto reason = settings::why_not_listen(http.address, http.port))
    throw io::BindError("http " + http::listen_of(http), *reason);
}

}  // namespace lanemq::program
