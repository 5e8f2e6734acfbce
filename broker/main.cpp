// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <CLI/CLI.hpp>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.hpp>

#include <lanemq/admin_table.hpp>
#include <lanemq/version.hpp>

#include "broker/config.hpp"
#include "broker/io/server.hpp"
#include "broker/io/store_check.hpp"
#include "broker/io/store_place.hpp"
#include "log/log.hpp"
#include "settings/blank_file.hpp"

namespace {

using lanemq::Config;
using lanemq::ConfigError;
using lanemq::io::StoreOptions;

constexpr int kExitUsage = 2;
constexpr int kExitCannotBind = 3;
constexpr int kExitStoreUnusable = 4;

/// Descriptors that a broker with thousands of connections needs; fewer are worth a warning.
constexpr rlim_t kDescriptorsWanted = 65536;

std::uint64_t entropy() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed))
    throw std::runtime_error("the system gives no random bytes");
  return seed;
}

/// Endpoints that only this machine can reach.
bool is_local(const std::string& endpoint) {
  for (const char* prefix : {"tcp://127.", "tcp://localhost:", "tcp://[::1]:", "ipc://", "inproc://"})
    if (endpoint.starts_with(prefix)) return true;
  return false;
}

void require_local(const Config& config, const std::string& endpoint) {
  if (config.insecure || is_local(endpoint)) return;
  throw ConfigError(
      "endpoint " + endpoint +
      " can be reached from other machines, and this version neither encrypts nor asks for keys; "
      "bind to 127.0.0.1, or say --insecure where the network is trusted");
}

/// Who can reach the operators' endpoint may stop and change everything: no option lets others in.
void require_admin_local(const std::string& endpoint) {
  if (is_local(endpoint)) return;
  throw ConfigError("admin_endpoint " + endpoint +
                    " can be reached from other machines, and whoever reaches it rules the broker; bind to "
                    "127.0.0.1 or ipc://, and come by ssh from elsewhere");
}

/// libzmq takes the port of tcp://127.0.0.1:99999 modulo 65536.
void require_port(const std::string& endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kTcp) || colon < kTcp.size()) return;  // the rest is libzmq's to refuse
  const std::string_view port = std::string_view(endpoint).substr(colon + 1);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_number = error == std::errc() && end == port.data() + port.size() && number <= 65535;
  if (port == "*" || is_number) return;
  throw ConfigError("endpoint " + endpoint +
                    " names no port; it ends in :PORT, 1 to 65535, or in :* for a free one");
}

/// Blocks the signals that are taken in the loop, for all threads to come, and returns the descriptor that
/// tells of them.
int loop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, kDescriptorsWanted));
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < kDescriptorsWanted)
    lanemq::log::event(lanemq::log::Level::warning, "limit.descriptors",
                       {{"have", static_cast<std::size_t>(limit.rlim_cur)},
                        {"want", static_cast<std::size_t>(kDescriptorsWanted)},
                        {"do", "raise LimitNOFILE or ulimit -n"}});
}

/// Takes what can count at once from a configuration that was read again.
std::optional<lanemq::core::Options> reload(Config& running, const std::function<Config()>& read) {
  try {
    std::vector<std::string> cold;
    Config config = lanemq::reloaded(running, read(), cold);
    if (!lanemq::log::set_level(config.log_level))
      throw ConfigError("log_level \"" + config.log_level + "\" is not known");
    running = std::move(config);
    for (const std::string& key : cold)
      lanemq::log::event(lanemq::log::Level::warning, "config.needs_restart", {{"key", key}});
    lanemq::log::event(lanemq::log::Level::info, "config.reloaded", {});
    return running.core;
  } catch (const ConfigError& error) {
    lanemq::log::event(
        lanemq::log::Level::error, "config.reload_failed",
        {{"reason", error.what()}, {"do", "nothing has changed; mend it and send SIGHUP again"}});
    return std::nullopt;
  }
}

/// A store that is not known is a mistake in the configuration.
[[noreturn]] void refuse_store(const lanemq::Error& error) {
  if (error.code == lanemq::ErrorCode::bad_request) throw ConfigError(error.message);
  throw lanemq::io::StoreError(error.message);
}

/// With the store of this user or service, where none is named.
StoreOptions store_options(const Config& config) {
  StoreOptions options{.specification = config.store, .reserve_bytes = config.store_reserve};
  if (!options.specification.empty()) return options;
  const auto place = lanemq::io::default_store(lanemq::io::read_state_folders());
  if (!place) refuse_store(place.error());
  options.specification = *place;
  return options;
}

void make_store_folder(const Config& config, const StoreOptions& options) {
  if (!config.store.empty()) return;
  if (const auto made = lanemq::io::make_default_folder(options.specification); !made)
    refuse_store(made.error());
}

void check_store(const Config& config) {
  const auto summary = lanemq::io::check_store(store_options(config));
  if (!summary) refuse_store(summary.error());
  std::cout << lanemq::io::to_text(*summary);
}

int serve(Config config, const std::function<Config()>& read_again) {
  if (!lanemq::log::set_level(config.log_level))
    throw ConfigError("log_level \"" + config.log_level +
                      "\" is not known; write debug, info, warn, error or off");
  for (const std::string& endpoint : {config.server.clients, config.server.workers}) {
    require_port(endpoint);
    require_local(config, endpoint);
  }
  config.server.admin_required = !config.server.admin.empty();
  if (config.server.admin.empty()) {
    const char* const folder = std::getenv("RUNTIME_DIRECTORY");
    config.server.admin = lanemq::default_admin_endpoint(folder != nullptr ? folder : "");
  }
  require_port(config.server.admin);
  require_admin_local(config.server.admin);
  const StoreOptions options = store_options(config);
  make_store_folder(config, options);
  auto store = lanemq::io::open_store(options);
  if (!store) refuse_store(store.error());
  raise_descriptor_limit();
  const int signals = loop_signals();
  // libzmq takes the routing ids it makes from rand(): they must not be guessable.
  std::srand(static_cast<unsigned>(entropy()));

  lanemq::core::Options core = config.core;
  core.wall_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  lanemq::io::Server server(
      config.server, core, std::move(*store), signals, [&] { return reload(config, read_again); },
      lanemq::edited, entropy());
  const std::string admin = server.admin_endpoint();
  std::printf("ready clients=%s workers=%s%s%s\n", server.clients_endpoint().c_str(),
              server.workers_endpoint().c_str(), admin.empty() ? "" : " admin=", admin.c_str());
  std::fflush(stdout);
  return server.run();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "lanemq-broker: queues AI jobs in priority lanes and hands them to workers under one shared quota."};
  std::string config_path, clients, workers, admin, store, log_level;
  std::vector<std::string> assignments;
  bool insecure = false, print = false, check = false, check_the_store = false;
  app.add_option("--config", config_path, "Read this TOML file")->type_name("FILE.toml");
  app.add_option("--clients", clients,
                 "Where clients connect (default tcp://127.0.0.1:5570; port * picks one)")
      ->type_name("ENDPOINT");
  app.add_option("--workers", workers, "Where workers connect (default tcp://127.0.0.1:5571)")
      ->type_name("ENDPOINT");
  app.add_option("--admin", admin,
                 "Where operators connect, of this machine alone (default: ipc in $RUNTIME_DIRECTORY, else\n"
                 "tcp://127.0.0.1:5572)")
      ->type_name("ENDPOINT");
  app.add_option("--store", store,
                 "Where accepted jobs are kept: sqlite:PATH (a file), or memory (they end with the broker); "
                 "default:\n"
                 "lanemq.db in $STATE_DIRECTORY, else in ${XDG_STATE_HOME:-~/.local/state}/lanemq")
      ->type_name("STORE");
  app.add_option("--log-level", log_level, "debug, info, warn, error or off")->type_name("LEVEL");
  app.add_option(
         "--set", assignments,
         "Set one key: drain_timeout=5s, lane.batch.depth_max=2000000, budget.api.requests_per_minute=500")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--insecure", insecure, "Allow endpoints beyond this machine without encryption or keys");
  app.add_flag("--print-config", print, "Print the configuration in force, with comments, and exit");
  app.add_flag("--check", check, "Check the configuration and exit");
  app.add_flag("--check-store", check_the_store,
               "Read the store from end to end, say what it holds, and exit");
  app.set_version_flag("--version", std::string("lanemq-broker ") + lanemq::kVersion);
  app.footer(
      "Precedence: defaults < file < environment (LANEMQ_KEY) < flags and --set.\n"
      "Exit codes: 0 done, 2 usage or configuration, 3 cannot bind, 4 the store cannot be used,\n"
      "74 the store has failed.\n"
      "SIGHUP reads the configuration again: lanes' bounds and guards, limits and keys of budgets, clients.\n"
      "SIGTERM drains: queued jobs are handed back, running ones may finish within drain_timeout.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  try {
    const auto read = [&] {
      Config config;
      if (!config_path.empty()) lanemq::load_config_file(config_path, config);
      lanemq::load_config_environment(config);
      if (!clients.empty()) config.server.clients = clients;
      if (!workers.empty()) config.server.workers = workers;
      if (!admin.empty()) config.server.admin = admin;
      if (!store.empty()) config.store = store;
      if (!log_level.empty()) config.log_level = log_level;
      if (insecure) config.insecure = true;
      for (const std::string& assignment : assignments)
        lanemq::set_config(assignment, config);
      lanemq::check_config(config);
      return config;
    };
    const Config config = read();
    if (print) std::cout << lanemq::print_config(config);
    if (print || check) return 0;
    if (check_the_store) return check_store(config), 0;
    const auto read_again = [&] {
      if (const auto why_not = lanemq::settings::why_not_read_again(config_path)) throw ConfigError(*why_not);
      return read();
    };
    return serve(config, read_again);
  } catch (const ConfigError& error) {
    std::cerr << "lanemq-broker: " << error.what() << "\n";
    return kExitUsage;
  } catch (const lanemq::io::StoreError& error) {
    std::cerr << "lanemq-broker: " << error.what() << "\n";
    return kExitStoreUnusable;
  } catch (const zmq::error_t& error) {
    std::cerr << "lanemq-broker: cannot bind: " << error.what()
              << "; choose free endpoints with --clients, --workers and --admin\n";
    return kExitCannotBind;
  } catch (const std::exception& error) {
    std::cerr << "lanemq-broker: " << error.what() << "\n";
    return 1;
  }
}
