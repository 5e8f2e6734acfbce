// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>

#include <limits.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.hpp>

#include <lanemq/admin_table.hpp>
#include <lanemq/text.hpp>

#include "broker/config.hpp"
#include "broker/config/key_files.hpp"
#include "broker/config/settings.hpp"
#include "broker/http/admin_http.hpp"
#include "broker/http/candidate_http.hpp"
#include "broker/io/loop/server.hpp"
#include "broker/io/offline/store_check.hpp"
#include "broker/io/offline/store_copy.hpp"
#include "broker/io/offline/store_fence.hpp"
#include "broker/io/offline/store_move.hpp"
#include "broker/io/plugins/broker_plugin.hpp"
#include "broker/io/store/open/instance_lock.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/open/store_place.hpp"
#include "broker/io/store/open/store_wait.hpp"
#include "common/http/server/access/caller_key.hpp"
#include "common/http/server/listen.hpp"
#include "common/log/log.hpp"
#include "common/service/memory_guard.hpp"
#include "common/service/notifier.hpp"
#include "common/service/standard_descriptors.hpp"
#include "common/settings/blank_file.hpp"
#include "common/settings/folders.hpp"
#include "common/settings/peer.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/start_warnings.hpp"
#include "common/signals/signal_set.hpp"
#include "common/trace/exporter.hpp"

namespace {

using lanemq::Config;
using lanemq::ConfigError;
using lanemq::admin::AdminHttp;
using lanemq::admin::Candidacy;
using lanemq::admin::CandidateHttp;
using lanemq::admin::HttpChange;
using lanemq::io::BindError;
using lanemq::io::OptionChange;
using lanemq::io::Reloaded;
using lanemq::io::ReloadMode;
using lanemq::io::StoreOptions;
using lanemq::io::StoreWaiting;
using lanemq::settings::check_endpoint;
using lanemq::settings::process_environment;
using lanemq::settings::without_secrets;

constexpr int kExitUsage = 2;
constexpr int kExitCannotBind = 3;
constexpr int kExitStoreUnusable = 4;

/// Descriptors that a broker with thousands of connections needs; with fewer it warns.
constexpr rlim_t kDescriptorsWanted = 65536;
/// How long the service manager waits until the store is open.
constexpr std::chrono::minutes kOpeningMax{2};

std::uint64_t entropy() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed))
    throw std::runtime_error("the system gives no random bytes");
  return seed;
}

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

/// Who reaches the operators' endpoint can stop and change everything, so no option opens it to other
/// machines.
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

/// Blocks the loop's signals for all threads to come, and returns a descriptor that is readable when one
/// arrives.
int loop_signals() {
  const sigset_t signals = lanemq::signal_set({SIGTERM, SIGINT, SIGHUP});
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

void log_change(const OptionChange& change) {
  using How = OptionChange::How;
  if (change.needs_restart)
    return lanemq::log::event(lanemq::log::Level::warning, "config.needs_restart",
                              {{"key", change.what},
                               {"how", lanemq::io::name_of(change.how)},
                               {"from", change.before},
                               {"to", change.after}});
  if (change.how == How::changed)
    return lanemq::log::event(lanemq::log::Level::info, "config.changed",
                              {{"key", change.what}, {"from", change.before}, {"to", change.after}});
  // A file that was cut while it was copied may be valid; the log then shows what it lost.
  const bool removed = change.how == How::removed;
  lanemq::log::event(removed ? lanemq::log::Level::warning : lanemq::log::Level::info,
                     removed ? "config.removed" : "config.added", {{"key", change.what}});
}

/// Who may ask over HTTP, and its certificate, read anew. Throws ConfigError with what is wrong with its
/// files.
HttpChange http_now(const Config& config) try {
  const auto file = [](const std::string& named) {
    return lanemq::http::file_of(named, process_environment);
  };
  HttpChange now{.keys = config.http.keys};
  if (!config.http.tls_certificate.empty()) {
    const std::string key = file(config.http.tls_key), certificate = file(config.http.tls_certificate);
    if (!key.empty() && !certificate.empty())
      now.identity = lanemq::http::TlsIdentity::read(certificate, key);
  }
  return now;
} catch (const std::runtime_error& error) {
  throw ConfigError(error.what());
}

/// Compares a configuration that was read again with what runs. `counts`: the part of it that needs no
/// restart.
std::vector<OptionChange> changes_of(const Config& running, const Config& counts, const Config& wanted) {
  std::vector<OptionChange> changes = lanemq::difference(running, counts);
  for (OptionChange& change : lanemq::difference(counts, wanted)) {
    change.needs_restart = true;
    changes.push_back(std::move(change));
  }
  return changes;
}

/// Applies what needs no restart of a configuration that was read again. `options`: the core's, in which
/// operators may have changed lanes and limits. `change_http` is told what counts there from now on.
lanemq::Result<Reloaded> reload(Config& running, const std::function<Config()>& read,
                                const lanemq::core::Options& options, const lanemq::io::Objection& objection,
                                ReloadMode mode, const std::function<void(HttpChange)>& change_http) {
  try {
    const Config wanted = read();
    // A file that is cut, or not complete yet, has none.
    if (!running.server.secret_key.empty() && wanted.server.secret_key.empty())
      throw ConfigError(
          "the broker asks for keys since its start (secret_key), and the configuration has none; to open it "
          "to everybody, restart it");
    if (!running.http.keys.empty() && wanted.http.keys.empty())
      throw ConfigError(
          "HTTP asks for keys since the start, and the configuration has no [[http_key]] any more; to open "
          "it "
          "to this machine, restart the broker");
    // A folder that is not mounted, or is being copied anew, is empty.
    if (!running.server.keys.empty() && wanted.server.keys.empty())
      throw ConfigError(
          "keys_folder " + wanted.keys_folder +
          " has no key any more, and nobody could connect; to take all keys back, restart the broker");
    HttpChange http_change = http_now(wanted);
    Config config = lanemq::reloaded(running, wanted);
    if (const std::string why = objection(config.core); !why.empty()) throw ConfigError(why);
    Config changed_by_operators = running;
    changed_by_operators.core.lanes = options.lanes;
    changed_by_operators.core.budgets = options.budgets;
    Reloaded reloaded{config.core, config.server.keys, changes_of(changed_by_operators, config, wanted)};
    if (mode == ReloadMode::try_only) return reloaded;
    lanemq::log::set_level(config.log_level);
    change_http(std::move(http_change));
    running = std::move(config);
    const std::size_t logged = std::min(reloaded.changes.size(), lanemq::io::kChangesTold);
    std::for_each_n(reloaded.changes.begin(), logged, log_change);
    lanemq::log::event(lanemq::log::Level::info, "config.reloaded", {{"changes", reloaded.changes.size()}});
    return reloaded;
  } catch (const ConfigError& error) {
    if (mode == ReloadMode::apply)
      lanemq::log::event(
          lanemq::log::Level::error, "config.reload_failed",
          {{"reason", error.what()},
           {"do", "nothing has changed; mend it and send SIGHUP again, or say lanemq reload"}});
    return lanemq::failure(lanemq::ErrorCode::bad_request,
                           std::string(error.what()) + "; nothing has changed");
  }
}

/// An unknown store is a mistake in the configuration.
[[noreturn]] void refuse_store(const lanemq::Error& error) {
  if (error.code == lanemq::ErrorCode::bad_request) throw ConfigError(error.message);
  throw lanemq::io::StoreError(error.message);
}

std::string instance_of(const Config& config) {
  if (!config.instance.empty()) return config.instance;
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "broker";
}

/// The store's options, with the default store of this user or service where none is named.
StoreOptions store_options(const Config& config) {
  StoreOptions options{.specification = config.store,
                       .reserve_bytes = config.store_reserve,
                       .schema = config.store_schema,
                       .instance = instance_of(config),
                       .replication = config.store_replication,
                       .lease = std::chrono::duration_cast<std::chrono::milliseconds>(config.store_lease)};
  lanemq::io::ignore_environment_of_store(options);
  if (!options.specification.empty()) return options;
  const auto place = lanemq::io::default_store(process_environment, config.core.shard);
  if (!place) refuse_store(place.error());
  options.specification = *place;
  return options;
}

void note_secret_files(const Config& config, const StoreOptions& options) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (!config.http.tls_key.empty())
    lanemq::settings::note_secret_file(lanemq::http::file_of(config.http.tls_key, process_environment));
  if (options.specification.starts_with(kSqlite))
    lanemq::settings::note_secret_file(options.specification.substr(kSqlite.size()));
}

void make_store_folder(const Config& config, const StoreOptions& options) {
  if (!config.store.empty()) return;
  if (const auto made = lanemq::io::make_default_folder(options.specification); !made)
    refuse_store(made.error());
}

/// Makes the folder of the operators' socket where no option names one. A socket that cannot be made is a
/// warning.
void make_operators_folder(const Config& config) {
  using lanemq::settings::kIpc;
  if (!config.server.admin_required && !config.server.admin.empty())
    static_cast<void>(lanemq::settings::make_folder_of(config.server.admin.substr(kIpc.size())));
}

void check_store(const Config& config) {
  const auto summary = lanemq::io::check_store(store_options(config));
  if (!summary) refuse_store(summary.error());
  std::cout << lanemq::io::to_text(*summary);
}

void fence_store(const Config& config) {
  const auto fenced = lanemq::io::fence_store(store_options(config));
  if (!fenced) refuse_store(fenced.error());
  std::cout << fenced->store << ": epoch " << fenced->before
            << (fenced->owner.empty() ? "" : " of \"" + lanemq::printable(fenced->owner) + '"') << " is "
            << fenced->after
            << " now; no owner from before can commit, and whoever waits or starts goes on\n";
}

void copy_store(const Config& config, const std::string& to) {
  const StoreOptions from = store_options(config);
  StoreOptions target = from;
  target.specification = to;
  const auto copied = lanemq::io::copy_store(from, target);
  if (!copied) refuse_store(copied.error());
  std::cout << "copied " << copied->jobs << " jobs, " << copied->results << " results and " << copied->notes
            << " notes\n";
}

/// The value of a flag that counts once; empty: it was not given.
std::string value_of(const lanemq::settings::Asked& asked, const char* flag) {
  const auto given = asked.flags.find(flag);
  return given == asked.flags.end() ? "" : given->second.back();
}

/// A word for a shell.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.:/@%+,";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + '\'';
}

/// Reads `tenant=NAME` or `service=NAME` into the order.
void set_scope(const std::string& what, lanemq::io::MoveOrder& order) {
  const std::size_t equals = std::min(what.find('='), what.size());
  const std::string kind = what.substr(0, equals), name = what.substr(std::min(equals + 1, what.size()));
  if ((kind != "tenant" && kind != "service") || name.empty())
    throw ConfigError("--move \"" + lanemq::printable(what, 64) +
                      "\" is not understood; write tenant=NAME or service=NAME");
  (kind == "tenant" ? order.scope.tenant : order.scope.service) = name;
  order.what = kind + " \"" + lanemq::printable(name) + '"';
}

/// The same order as a command, whatever folder it is said in.
std::string command_of(const lanemq::io::MoveOrder& order, const Config& config,
                       const lanemq::settings::Asked& asked) {
  std::string command = "lanemq-broker";
  const auto add = [&](const char* flag, const std::string& value) {
    command += std::string(" ") + flag + " " + quoted(value);
  };
  const auto store = [](const StoreOptions& options) {
    const auto path = lanemq::io::path_of_store(options);
    return path ? "sqlite:" + *path : options.specification;
  };
  if (!asked.file.empty()) add("--config", std::filesystem::absolute(asked.file).string());
  if (!config.core.shard.empty()) add("--shard", config.core.shard);
  add("--store", store(order.from));
  if (lanemq::io::has_owners(order.from)) add("--store-schema", order.from.schema);
  add("--move", value_of(asked, "--move"));
  add("--to", store(order.to));
  if (lanemq::io::has_owners(order.to)) add("--to-schema", order.to.schema);
  return command;
}

void move_rows(const Config& config, const lanemq::settings::Asked& asked) {
  lanemq::io::MoveOrder order;
  order.from = order.to = store_options(config);
  order.to.specification = value_of(asked, "--to");
  if (order.to.specification.empty())
    throw ConfigError("--move needs to know where to; name the store with --to");
  if (!lanemq::io::path_of_store(order.to) && !lanemq::io::has_owners(order.to))
    throw ConfigError("--to \"" + lanemq::printable(order.to.specification, 64) +
                      "\" names no store that keeps anything; write sqlite:PATH or postgres:CONNINFO" +
                      (order.to.specification == "memory"
                           ? ""
                           : ", as in --to sqlite:" + lanemq::printable(order.to.specification, 64)));
  if (const std::string schema = value_of(asked, "--to-schema"); !schema.empty()) order.to.schema = schema;
  lanemq::io::ignore_environment_of_store(order.to);
  set_scope(value_of(asked, "--move"), order);
  order.scope.clients = config.core.clients;
  order.scope.shards = lanemq::core::shards_for_clients(config.core);
  order.scope.webhook_service = config.core.webhook_service;
  order.shard = config.core.shard;
  // What a budget would count that is limited to the scope.
  lanemq::core::BudgetOptions of_scope;
  of_scope.service = order.scope.service;
  of_scope.tenant = order.scope.tenant;
  order.shards = lanemq::config::shards_of(of_scope, config.core.shards);
  order.rows_max = config.core.jobs_max;
  order.command = without_secrets(command_of(order, config, asked));
  const auto moved = lanemq::io::move_rows(order);
  if (!moved) refuse_store(moved.error());
  const auto& counts = moved->counts;
  const std::uint64_t went = counts.jobs + counts.dead + counts.results + counts.groups;
  std::cout << (moved->went_on ? "went on, and moved " : "moved ") << counts.jobs << " jobs, " << counts.dead
            << " dead jobs, " << counts.results << " results and " << counts.groups << " groups of "
            << order.what << "; copied the history of " << counts.budgets << " limits"
            << (went > 0 ? ""
                         : "; it has gone before: the store to move to has " + std::to_string(counts.there) +
                               " of its jobs and results")
            << "\n";
}

/// Does what a flag asks for in place of serving; false: none does.
bool do_instead(const Config& config, const lanemq::settings::Asked& asked) {
  if (asked.flags.contains("--check-store")) return check_store(config), true;
  if (asked.flags.contains("--fence")) return fence_store(config), true;
  if (asked.flags.contains("--move")) return move_rows(config, asked), true;
  for (const char* const flag : {"--to", "--to-schema"})
    if (asked.flags.contains(flag)) throw ConfigError(std::string(flag) + " means nothing without --move");
  const auto copy = asked.flags.find("--copy-store");
  if (copy == asked.flags.end()) return false;
  copy_store(config, copy->second.front());
  return true;
}

/// Reads the secrets of the keys of HTTP, and refuses an address that strangers reach as they please.
void settle_http(Config& config) {
  lanemq::admin::HttpOptions& http = config.http;
  config.server.has_http = http.is_on;
  for (lanemq::admin::HttpKey& key : http.keys) {
    key.sha256 = lanemq::http::hash_of_key({.name = key.name,
                                            .secret = key.secret,
                                            .sha256 = key.sha256,
                                            .maker = "lanemq-broker --make-http-key"},
                                           process_environment);
    lanemq::settings::hide_secret(key.secret);
    for (const lanemq::admin::HttpKey& other : http.keys)
      if (&other < &key && other.sha256 == key.sha256)
        throw ConfigError("http_keys \"" + other.name + "\" and \"" + key.name +
                          "\" have the same secret: nobody could tell who asks; give each one of its own");
  }
  if (http.tls_certificate.empty() != http.tls_key.empty())
    throw ConfigError("http_tls_certificate and http_tls_key belong together; name both, or neither");
  if (!http.is_on || lanemq::http::is_loopback(http.server.address)) return;
  const std::string where = "http " + lanemq::http::listen_of(http.server);
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

/// Reads the keys, and sets the default of the operators' endpoint where it is not configured.
void settle_endpoints(Config& config) {
  lanemq::read_peer_keys(config, process_environment);
  lanemq::settings::hide_secret(config.secret_key);
  settle_http(config);
  for (const std::string& endpoint : {config.server.clients, config.server.workers}) {
    check_endpoint(endpoint, lanemq::settings::Port::any);
    require_local(config, endpoint);
  }
  config.server.admin_required = !config.server.admin.empty();
  if (config.server.admin.empty()) {
    const std::string file = lanemq::settings::own_operator_socket(process_environment);
    if (!file.empty()) config.server.admin = std::string(lanemq::settings::kIpc) + file;
  }
  if (!config.server.otlp.endpoint.empty()) lanemq::trace::require_collector(config.server.otlp);
  if (!config.server.admin.empty()) {
    check_endpoint(config.server.admin, lanemq::settings::Port::any);
    require_admin_local(config.server.admin);
  }
  require_apart("clients", config.server.clients, "workers", config.server.workers);
  require_apart("clients", config.server.clients, "operators", config.server.admin);
  require_apart("workers", config.server.workers, "operators", config.server.admin);
}

/// Refuses an address that no program could bind; whether it is in use is not checked.
void check_bind(const std::string& endpoint) {
  using lanemq::settings::kIpc;
  const auto refuse_for = [&](const std::optional<std::string>& reason) {
    if (reason) throw BindError(endpoint, *reason);
  };
  if (endpoint.starts_with(kIpc)) {
    refuse_for(lanemq::io::why_no_socket_file(endpoint));
    const std::filesystem::path folder = std::filesystem::path(endpoint.substr(kIpc.size())).parent_path();
    if (!folder.empty() && !std::filesystem::exists(folder)) refuse_for("its folder does not exist");
    return refuse_for(lanemq::settings::why_not_folder(folder.empty() ? "." : folder.string()));
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
    throw BindError(endpoint, error.num());
  }
  const std::string port = endpoint.substr(colon + 1);
  if (port != "*")
    refuse_for(lanemq::settings::why_not_listen(lanemq::settings::host_of(bound),
                                                static_cast<std::uint16_t>(std::stoi(port))));
}

/// Tries the plugins in processes that are thrown away. Requires: the process has one thread.
void try_plugins(const Config& config) {
  for (const lanemq::io::PluginOptions& plugin : config.server.plugins)
    if (const auto why = lanemq::io::why_no_plugin(plugin)) {
      const auto place = config.heard.places.find("plugin." + plugin.name);
      throw ConfigError((place == config.heard.places.end() ? "" : place->second + ": ") + "the plugin \"" +
                        plugin.name + "\" cannot be used: " + *why);
    }
}

/// Where the banks of budgets are that shards share; null: none is. Nothing is connected.
std::unique_ptr<lanemq::io::BankRows> bank_of(const Config& config) {
  const auto& budgets = config.core.budgets;
  if (std::none_of(budgets.begin(), budgets.end(), [](const auto& budget) { return budget.shared; }))
    return nullptr;
  auto bank = lanemq::io::open_bank(config.bank, config.bank_schema);
  if (!bank) throw ConfigError("bank: " + without_secrets(bank.error().message));
  return std::move(*bank);
}

/// Refuses a bank that no draw could use. A start does not wait for it, so that one that is not reached is no
/// reason to refuse.
void check_bank(const Config& config) {
  if (!bank_of(config)) return;
  const auto usable = lanemq::io::check_bank(config.bank, config.bank_schema);
  if (!usable) throw ConfigError("bank: " + without_secrets(usable.error().message));
  if (!usable->empty()) lanemq::log::complain("lanemq-broker: " + without_secrets(*usable));
}

/// Refuses what serve() would refuse, and changes nothing; a bank it looks at more closely.
void check_start(Config config) {
  try_plugins(config);
  settle_endpoints(config);
  lanemq::check_binds(config);
  for (const std::string& doubt : lanemq::doubts(config))
    lanemq::log::complain("lanemq-broker: " + without_secrets(doubt));
  check_bank(config);
  StoreOptions store = store_options(config);
  store.shard = config.core.shard;
  note_secret_files(config, store);
  const auto usable = lanemq::io::check_store_place(store);
  if (!usable) refuse_store(usable.error());
  if (!usable->empty()) lanemq::log::complain("lanemq-broker: " + without_secrets(*usable));
  warn_of(lanemq::settings::exposed_files());
  if (const auto path = lanemq::io::path_of_store(store)) {
    // A start creates the default folder, so it need not exist.
    const std::filesystem::path folder = std::filesystem::absolute(*path).parent_path();
    const bool missing = !config.store.empty() && !std::filesystem::exists(folder);
    const auto reason = missing ? "its folder does not exist" : lanemq::settings::why_not_folder(folder);
    if (reason)
      throw lanemq::io::StoreError("the store " + *path + " cannot be used: " + *reason +
                                   "; mend that, or name another file with --store sqlite:PATH");
  }
  for (const std::string& endpoint : {config.server.clients, config.server.workers})
    check_bind(endpoint);
  if (config.server.admin_required) check_bind(config.server.admin);
  if (!config.http.is_on) return;
  static_cast<void>(http_now(config));
  const lanemq::http::ServerOptions& http = config.http.server;
  if (const auto reason = lanemq::settings::why_not_listen(http.address, http.port))
    throw BindError("http " + lanemq::http::listen_of(http), *reason);
}

/// The broker's HTTP: of a broker that waits for its store, then of the one that serves; or none. One at a
/// time has the address.
class Http {
 public:
  /// Says until serve() how the broker waits, where several may wait for its store.
  void wait(Config& config, const StoreOptions& store) try {
    if (!config.http.is_on || !lanemq::io::has_owners(store)) return;
    instance_ = store.instance;
    shard_ = config.core.shard;
    waiting_ = std::make_unique<CandidateHttp>(
        config.http, http_now(config),
        Candidacy{.why = "it looks for its store's owner", .instance = instance_, .shard = shard_});
    // A port that the system has chosen stays.
    config.http.server.port = waiting_->port();
  } catch (const std::runtime_error& error) {
    throw BindError("http " + lanemq::http::listen_of(config.http.server), error.what());
  }
  void tell(const StoreWaiting& seen) {
    if (waiting_)
      waiting_->tell({.why = seen.why,
                      .instance = instance_,
                      .shard = shard_,
                      .owner = seen.owner,
                      .epoch = seen.epoch,
                      .since_commit = seen.stands});
  }
  /// The broker owns its store.
  void load() {
    if (waiting_)
      waiting_->tell({.owns = true,
                      .why = "it owns the store, and loads its jobs",
                      .instance = instance_,
                      .shard = shard_});
  }
  void serve(const Config& config, lanemq::io::Server& server) {
    if (!config.http.is_on) return;
    HttpChange now = http_now(config);
    waiting_.reset();
    try {
      serving_ = std::make_unique<AdminHttp>(config.http, std::move(now), server.context(),
                                             lanemq::io::kOwnOperators);
    } catch (const std::runtime_error& error) {
      throw BindError("http " + lanemq::http::listen_of(config.http.server), error.what());
    }
  }
  /// Its thread speaks to the server, and must end before that.
  void end() { serving_.reset(); }
  void change(HttpChange change) {
    if (serving_)
      serving_->change(std::move(change));
    else if (waiting_)
      waiting_->change(std::move(change));
  }
  /// Empty: it does not serve.
  std::string url() const { return serving_ ? serving_->url() : ""; }

 private:
  std::string instance_, shard_;
  std::unique_ptr<CandidateHttp> waiting_;
  std::unique_ptr<AdminHttp> serving_;
};

/// Ends the HTTP thread before what is declared earlier.
class HttpEnd {
 public:
  explicit HttpEnd(Http& http) : http_(http) {}
  ~HttpEnd() { http_.end(); }
  HttpEnd(const HttpEnd&) = delete;
  HttpEnd& operator=(const HttpEnd&) = delete;

 private:
  Http& http_;
};

void say_ready(const lanemq::io::Server& server, const std::string& http) {
  const std::string admin = server.admin_endpoint();
  lanemq::log::say("ready clients=" + server.clients_endpoint() + " workers=" + server.workers_endpoint() +
                   (admin.empty() ? "" : " admin=" + admin) + (http.empty() ? "" : " http=" + http) + "\n");
}

int serve(Config config, const std::function<Config()>& read_again) {
  try_plugins(config);
  settle_endpoints(config);
  lanemq::check_binds(config);
  for (const std::string& doubt : lanemq::doubts(config))
    lanemq::log::event(lanemq::log::Level::warning, "config.doubtful", {{"reason", without_secrets(doubt)}});
  StoreOptions options = store_options(config);
  options.shard = config.core.shard;
  note_secret_files(config, options);
  const auto lock = lanemq::io::lock_instance(options);
  if (!lock) refuse_store(lock.error());
  options.alone = lock->has_value();
  const lanemq::log::Writing writing;
  const int signals = loop_signals();
  lanemq::service::Notifier notifier(process_environment);
  Http http;
  http.wait(config, options);
  const auto reload_now = [&](const lanemq::core::Options& now, const lanemq::io::Objection& objection,
                              ReloadMode mode) {
    return reload(config, read_again, now, objection, mode,
                  [&http](HttpChange change) { http.change(std::move(change)); });
  };
  lanemq::io::StoreWait wait(
      signals, notifier, [&http](const StoreWaiting& seen) { http.tell(seen); },
      [&] {
        const auto none = [](const lanemq::core::Options&) { return std::string(); };  // nothing runs yet
        static_cast<void>(reload_now(config.core, none, ReloadMode::apply));
      });
  options.waiting = [&wait](const StoreWaiting& seen) { return wait.go_on(seen); };
  // A log that a crash has left is written to the store when that is opened.
  notifier.extend(kOpeningMax, "opens the store");
  make_store_folder(config, options);
  make_operators_folder(config);
  auto store = lanemq::io::open_store(options);
  if (!store) refuse_store(store.error());
  if (*store == nullptr) return 0;  // told to end before it owned the store
  http.load();
  warn_of(lanemq::settings::exposed_files());
  raise_descriptor_limit();
  // libzmq makes routing ids with rand(): they must not be guessable.
  std::srand(static_cast<unsigned>(entropy()));

  lanemq::core::Options core = config.core;
  for (const lanemq::core::ShardOptions& shard : core.shards)
    if (shard.name == core.shard) {
      core.client_endpoints = shard.clients;
      core.worker_endpoints = shard.workers;
    }
  core.wall_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  lanemq::io::Server server(
      config.server, core, std::move(*store), signals,
      {.reload = reload_now,
       .edit = lanemq::edited,
       .show = [&](const lanemq::core::Options& now) { return lanemq::shown_config(config, now); },
       .bank = bank_of(config)},
      entropy(), notifier);
  const HttpEnd http_ends_first(http);
  http.serve(config, server);
  say_ready(server, http.url());
  return server.run();
}

/// The configuration as it is now. Throws ConfigError, whatever is wrong: a running broker goes on.
Config read_anew(int argc, char** argv) try {
  Config again;
  lanemq::read_config(argc, argv, process_environment, again);
  settle_endpoints(again);
  warn_of(again.heard.old);
  return again;
} catch (const ConfigError&) {
  throw;
} catch (const std::exception& error) {
  throw ConfigError(without_secrets(error.what()));
}

}  // namespace

int main(int argc, char** argv) {
  lanemq::service::take_standard_descriptors();
  std::signal(SIGHUP, SIG_IGN);  // until it can be heeded: a start reads the configuration anyway
  const auto ends = [](const std::string& why, int exit_code) {
    lanemq::log::complain("lanemq-broker: " + without_secrets(why));
    return exit_code;
  };
  try {
    using For = lanemq::settings::Asked::For;
    lanemq::service::guard_memory();
    Config config;
    const lanemq::settings::Asked asked = lanemq::read_config(argc, argv, process_environment, config);
    lanemq::log::set_level(config.log_level);
    lanemq::log::set_format(config.log_format);
    if (config.keep_cores) lanemq::service::open_memory();
    warn_of(config.heard.old);
    std::cout << (asked.what == For::print_config ? lanemq::settings::without_secrets_in_config(asked.text)
                                                  : asked.text);
    std::cerr << asked.aside;
    if (asked.what == For::check) {
      check_start(config);
      lanemq::settings::tell_of_credentials("lanemq-broker");
    }
    if (asked.what != For::run) return 0;
    if (do_instead(config, asked)) return 0;
    return serve(std::move(config), [&] {
      if (const auto why_not = lanemq::settings::why_not_read_again(asked.file)) throw ConfigError(*why_not);
      return read_anew(argc, argv);
    });
  } catch (const ConfigError& error) {
    return ends(error.what(), kExitUsage);
  } catch (const std::invalid_argument& error) {
    return ends(error.what(), kExitUsage);
  } catch (const lanemq::io::StoreDeposed& error) {
    return ends(error.what(), lanemq::io::kExitDeposed);
  } catch (const lanemq::io::StoreError& error) {
    return ends(error.what(), kExitStoreUnusable);
  } catch (const lanemq::io::BindError& error) {
    return ends("cannot bind " + std::string(error.what()) +
                    "; choose other endpoints with --clients, --workers, --admin and --http",
                kExitCannotBind);
  } catch (const std::exception& error) {
    return ends(error.what(), 1);
  }
}
