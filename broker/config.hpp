// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "broker/core/base/options.hpp"
#include "broker/io/server.hpp"

namespace lanemq {

/// Everything that the broker can be told, with its defaults.
struct Config {
  core::Options core = core::default_options();
  io::ServerOptions server;
  std::string store;  ///< empty: io::default_store()
  std::size_t store_reserve = io::StoreOptions{}.reserve_bytes;
  std::string log_level = "info";
  bool insecure = false;
  /// Where the file says something that is only checked as a whole: `lane.NAME`, `lane.NAME.KEY`,
  /// `budget.NAME` and `clients.NAME` to `file:line:column`.
  std::map<std::string, std::string> places{};
};

/// A configuration that cannot be used. The text names the place, the key, and what to do.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One row of the options table: what flags, files, the environment, --print-config and the manual follow
/// from.
struct OptionRow {
  std::string_view key;   ///< in a file and for --set; LANEMQ_KEY in the environment
  std::string_view unit;  ///< duration, size, count, name, switch
  std::string_view sentence;
  std::string (*get)(const Config&);
  void (*set)(Config&, const std::string& text);  ///< throws ConfigError
};
std::span<const OptionRow> option_table();

/// Reads a TOML file into `config`. Throws ConfigError with file, line and column.
void load_config_file(const std::string& path, Config& config);
/// Takes what the environment says (LANEMQ_DRAIN_TIMEOUT=5s, ...).
void load_config_environment(Config& config);
/// Takes one `key=value` of the command line: an option, `lane.NAME.KEY`, `budget.NAME.KEY` or
/// `clients.NAME.KEY`.
void set_config(const std::string& assignment, Config& config);
/// Checks what only the whole can tell. Throws ConfigError.
void check_config(const Config& config);
/// What of `wanted` can count without a restart, put over `running`: the log level, the bounds and guards of
/// lanes, the limits and keys of budgets, the clients. `cold` gets what cannot: it keeps its value.
Config reloaded(const Config& running, const Config& wanted, std::vector<std::string>& cold);
/// What a running broker's operator may change: the options with one setting changed, by the rules of the
/// file; what needs a restart is refused.
Result<core::Options> edited(const core::Options& running, const core::OptionEdit& edit);
/// The configuration as a commented TOML file.
std::string print_config(const Config& config);

}  // namespace lanemq
