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

/// A flag without a key: for the command line alone.
struct Flag {
  std::string_view name;  ///< `--set`
  std::string_view unit;  ///< `KEY=VALUE`: it takes a value and may be repeated; empty: it takes none
  std::string_view sentence;
};

/// A program's texts for its help.
struct ProgramText {
  std::string_view name;             ///< `lanemq-worker`
  std::string_view variables;        ///< prefix of its options' variables: LANEMQ_WORKER_
  std::string_view sentence;         ///< what it does
  std::string_view config_sentence;  ///< of --config
  std::string_view footer;           ///< signals and exit codes
  std::vector<std::string> blocks;   ///< keys of the file that are no options: `key`, `model`
  std::vector<Flag> flags{};
  std::vector<std::string> foreign{};  ///< variables that begin so and are another program's
};

/// `PATH:LINE`, for messages.
std::string place_of(const std::string& path, const toml::source_region& source);
using FlatTable = std::vector<std::pair<std::string, std::string>>;

/// The text of a string, a number, true or false. Throws UsageError for another type.
std::string scalar(const toml::node& node);
/// The node as a table, or a list. Throws UsageError for another type; `example` shows how to write it.
const toml::table& table_in(const toml::node& node, std::string_view example);
const toml::array& list_in(const toml::node& node, std::string_view example);
/// A table of somebody else's keys: each with its value as text, in the file's order. Keys of tables in it
/// stand behind their table's name and a dot, a list is its key once for each item. Throws UsageError with
/// the place of what is no such value.
FlatTable flat_table(const std::string& path, const toml::table& table);
/// The lines that flat_table() reads so.
std::string print_flat(const FlatTable& table);

/// Refuses lists and texts that are empty, for tables in which to leave a key out means everything: an empty
/// one would mean that, too. Throws UsageError with the place.
void refuse_empty(const std::string& path, const toml::table& table);

/// A UsageError whose message has its place.
class PlacedError : public UsageError {
 public:
  using UsageError::UsageError;
};
/// Runs `read`, and puts the place in front of the message of a UsageError that has none.
void at_place(const std::string& place, const std::function<void()>& read);
/// Runs `read`, and puts `what` in front of the message, behind the place.
void about(const std::string& what, const std::function<void()>& read);

/// Reads a key that is no option; false: the key is unknown.
using ReadNode = std::function<bool(std::string_view key, const toml::node& node)>;
/// Reads the keys of a table, old spellings first. `prefix` is put in front of their names: `lane.batch.`.
/// `blocks`: keys that `besides` reads. Throws UsageError with the file's line.
void read_table(const std::string& path, const toml::table& table, const std::string& prefix,
                const std::vector<BoundOption>& options, const std::vector<std::string>& blocks,
                const ReadNode& besides, Heard& heard);
/// The same for a table with nothing but options.
void read_table(const std::string& path, const toml::table& table, const std::string& prefix,
                const std::vector<BoundOption>& options, Heard& heard);
/// Sets one key. `place` is for messages: `--timeout` with the prefix `batch.` for `--timeout
/// batch.first_token=5m`. `blocks`: other known keys, for suggestions.
void set_key(const std::vector<BoundOption>& options, const std::string& place, const std::string& prefix,
             std::string_view key, const std::string& value, Heard& heard,
             const std::vector<std::string>& blocks = {});
/// Parses a file. Throws UsageError.
toml::table parse_file(const std::string& path);

/// A value in TOML.
std::string toml_value(Kind kind, const Values& values);

/// Reads a program's options from the file of --config, then the environment, then the command line: the last
/// one wins. Knows the options only by their rows.
class OptionReader {
 public:
  using ReadFileNode = std::function<bool(const std::string& path, std::string_view key,
                                          const toml::node& node, Heard& heard)>;

  OptionReader(ProgramText program, std::vector<BoundOption> options)
      : program_(std::move(program)), options_(std::move(options)) {}

  /// Reads and applies everything. Throws UsageError with the flag, the variable, or the file's line.
  Asked read(int argc, const char* const* argv, const Environment& environment,
             const ReadFileNode& besides) const;
  /// Reads the file alone, for callers without a command line.
  void read_file(const std::string& path, const ReadFileNode& besides, Heard& heard) const;

 private:
  void refuse_misspelt() const;
  void read_environment(const Environment& environment, Heard& heard) const;

  ProgramText program_;
  std::vector<BoundOption> options_;
};

/// A text in TOML.
std::string toml_text(std::string_view text);
/// The options as a commented TOML file, without those that are written as blocks.
std::string print_options(const std::vector<BoundOption>& options);

/// A thing's options as lines of its table. Options at their default are commented out unless `all` are
/// shown: not every default can be written as a value.
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
