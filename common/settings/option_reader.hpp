// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "common/settings/asked.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/option.hpp"
#include "common/settings/usage_error.hpp"

namespace lanemq::settings {

/// A flag of the command line alone.
struct Flag {
  std::string_view name;  ///< `--set`
  std::string_view unit;  ///< `KEY=VALUE`, and it may be repeated; empty: it takes no value
  std::string_view sentence;
};

/// What a program says of itself in its help.
struct ProgramText {
  std::string_view name;             ///< `lanemq-worker`
  std::string_view variables;        ///< what its options' variables begin with: LANEMQ_WORKER_
  std::string_view sentence;         ///< what it does
  std::string_view config_sentence;  ///< of --config
  std::string_view footer;           ///< signals and exit codes
  std::vector<std::string> blocks;   ///< keys that the file has besides options: `key`, `model`
  std::vector<Flag> flags{};
};

/// `PATH:LINE`.
std::string place_of(const std::string& path, const toml::source_region& source);
/// A string, number, true or false, as text. Throws UsageError.
std::string scalar(const toml::node& node);
/// The table, or the list, that must stand there: `example` says how it is written. Throws UsageError.
const toml::table& table_in(const toml::node& node, std::string_view example);
const toml::array& list_in(const toml::node& node, std::string_view example);
/// A mistake whose place is said.
class PlacedError : public UsageError {
 public:
  using UsageError::UsageError;
};
/// Runs `read`, and puts the place in front of what goes wrong, unless a closer one stands there.
void at_place(const std::string& place, const std::function<void()>& read);
/// Likewise what it is about, behind the place.
void about(const std::string& what, const std::function<void()>& read);

/// Reads what a file has besides options; false: it is none of that either.
using ReadNode = std::function<bool(std::string_view key, const toml::node& node)>;
/// Reads the keys of a table, the old ones first. `prefix` goes in front of their names: `lane.batch.`;
/// `blocks` are those that `besides` knows. Throws UsageError, which names the file's line.
void read_table(const std::string& path, const toml::table& table, const std::string& prefix,
                const std::vector<BoundOption>& options, const std::vector<std::string>& blocks,
                const ReadNode& besides, Heard& heard);
/// Likewise a table that has nothing besides.
void read_table(const std::string& path, const toml::table& table, const std::string& prefix,
                const std::vector<BoundOption>& options, Heard& heard);
/// Sets one key, as `place` says: `--timeout` with the prefix `batch.` for `--timeout batch.first_token=5m`.
/// `blocks` are keys that are known, too, for a complaint.
void set_key(const std::vector<BoundOption>& options, const std::string& place, const std::string& prefix,
             std::string_view key, const std::string& value, Heard& heard,
             const std::vector<std::string>& blocks = {});
/// Reads a file as a table. Throws UsageError.
toml::table parse_file(const std::string& path);

/// A value as TOML.
std::string toml_value(Kind kind, const Values& values);

/// Reads what a program is told: from the file of --config, the environment and the command line, each of
/// which wins over the one before. Knows the options' rows alone.
class OptionReader {
 public:
  using ReadFileNode = std::function<bool(const std::string& path, std::string_view key,
                                          const toml::node& node, Heard& heard)>;

  OptionReader(ProgramText program, std::vector<BoundOption> options)
      : program_(std::move(program)), options_(std::move(options)) {}

  /// Reads and applies everything. Throws UsageError, which names the flag, the variable, or the file's line.
  Asked read(int argc, const char* const* argv, const Environment& environment,
             const ReadFileNode& besides) const;
  /// The file alone, for who has no command line.
  void read_file(const std::string& path, const ReadFileNode& besides, Heard& heard) const;

 private:
  void read_environment(const Environment& environment, Heard& heard) const;

  ProgramText program_;
  std::vector<BoundOption> options_;
};

/// A text as TOML.
std::string toml_text(std::string_view text);
/// The options as a commented TOML file, but for those that are written as blocks.
std::string print_options(const std::vector<BoundOption>& options);

/// A thing's options as lines of its table. Those that say what holds anyway are comments unless `all` are
/// shown: not every default can be written down.
enum class Shown : unsigned char { set, all };
template <class Thing>
std::string print_table(const Options<Thing>& options, Thing thing, Shown shown = Shown::set) {
  std::string out;
  for (const BoundOption& option : bound(options, thing)) {
    const Values values = option.get();
    out.append(shown == Shown::set && values == option.fallback ? "# " : "").append(option.key).append(" = ");
    out.append(toml_value(option.kind, values)).append("\n");
  }
  return out;
}

}  // namespace lanemq::settings
