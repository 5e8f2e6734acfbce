// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "broker/core/base/options.hpp"
#include "broker/http/access/options.hpp"
#include "broker/io/base/options.hpp"
#include "broker/io/desks/config_desk.hpp"
#include "common/settings/asked.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/option.hpp"

namespace lanemq {

/// Everything that the broker can be told, with its defaults.
struct Config {
  core::Options core = core::default_options();
  io::ServerOptions server;
  admin::HttpOptions http;
  std::string store;  ///< empty: io::default_store()
  std::size_t store_reserve = io::StoreOptions{}.reserve_bytes;
  std::string store_schema = io::StoreOptions{}.schema;
  io::Replication store_replication = io::StoreOptions{}.replication;
  core::Duration store_lease = io::StoreOptions{}.lease;
  std::string instance;  ///< empty: the machine's name
  std::string bank;      ///< of budgets that several shards share; empty: there is none
  std::string bank_schema = "lanemq_bank";
  log::Level log_level = log::Level::info;
  log::Format log_format = log::Format::text;
  bool insecure = false;
  bool keep_cores = false;
  std::string secret_key;   ///< where the broker's own key is: file:PATH, credential:NAME, env:VARIABLE
  std::string keys_folder;  ///< with the keys of its peers
  /// Where each option was set, for messages. A lane is `lane.NAME`, a budget `budget.NAME`, a client
  /// `clients.NAME`.
  settings::Heard heard{};
};

/// A configuration that cannot be used. The text names the place, the key, and what to do.
using ConfigError = settings::UsageError;

/// The options beside lanes, budgets and clients.
const settings::Options<Config>& option_table();

/// Reads the command line, the environment and the file of --config into `config`, and checks it unless
/// something is printed instead. Throws ConfigError, which names the flag, the variable or the file's line.
settings::Asked read_config(int argc, const char* const* argv, const settings::Environment& environment,
                            Config& config);
/// Reads a TOML file into `config`. Throws ConfigError.
void load_config_file(const std::string& path, Config& config);
/// Takes one `key=value` of the command line: an option, `lane.NAME.KEY`, `budget.NAME.KEY` or
/// `clients.NAME.KEY`.
void set_config(const std::string& assignment, Config& config);
/// Checks the rules that span several options. Throws ConfigError.
void check_config(const Config& config);
/// Refuses a broker that would bind the default endpoints where its shard's rule tells peers others: it would
/// be ready, and nobody would find it. Throws ConfigError.
void check_binds(const Config& config);
/// Settings that are allowed, but hardly meant; a line each, for people. Requires: read_config().
std::vector<std::string> doubts(const Config& config);
/// `running` with those options of `wanted` that need no restart: log level, bounds and guards of lanes,
/// limits and keys of budgets, clients.
Config reloaded(const Config& running, const Config& wanted);
/// How `after` differs from `before`, options first. Of a lane, a budget or a client that is new or gone only
/// its name is listed.
std::vector<io::OptionChange> difference(const Config& before, const Config& after);
/// The options with one setting changed by an operator, by the file's rules. Refuses settings that need a
/// restart.
Result<core::Options> edited(const core::Options& running, const core::OptionEdit& edit);
/// All options with their values and places. `running`: the core's, in which operators may have changed some.
std::vector<io::ShownOption> shown_config(const Config& config, const core::Options& running);
/// The configuration as a commented TOML file.
std::string print_config(const Config& config);

}  // namespace lanemq
