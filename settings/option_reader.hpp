// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <toml++/toml.h>

#include "settings/usage_error.hpp"
#include "settings/values.hpp"

namespace lanemq::settings {

/// What applies the values of an option to a program's settings: a function of one value, or, where the
/// option may be given several times, of all. It throws UsageError for a value that it does not take.
template <class Settings>
class Apply {
 public:
  using One = void (*)(Settings& settings, const std::string& value);
  using Many = void (*)(Settings& settings, const Values& values);

  template <class Function>
  constexpr Apply(Function function) {
    if constexpr (std::is_convertible_v<Function, One>)
      one_ = function;
    else
      many_ = function;
  }
  constexpr bool takes_many() const { return many_ != nullptr; }
  void operator()(Settings& settings, const Values& values) const {
    if (many_)
      many_(settings, values);
    else
      one_(settings, values.front());
  }

 private:
  One one_ = nullptr;
  Many many_ = nullptr;
};

/// One option of a program: its flag (--commit-ms), variable (LANEMQ_GATEWAY_COMMIT_MS), key in the file
/// (commit_ms) and line in the help all follow from its row.
template <class Settings>
struct Option {
  std::string_view key, unit;
  std::string_view fallback;  ///< what holds where nobody says it, for the help; empty: nothing to tell
  std::string_view sentence;
  Apply<Settings> apply;
};

/// What a program says of itself in its help.
struct ProgramText {
  std::string_view name;             ///< `lanemq-worker`: its options' variables begin with LANEMQ_WORKER_
  std::string_view sentence;         ///< what it does
  std::string_view config_sentence;  ///< of --config
  std::string_view footer;           ///< signals and exit codes
};

/// `PATH:LINE`.
std::string place_of(const std::string& path, const toml::node& node);
/// A string, whole number, true or false, as text. Throws UsageError, which begins with `place`.
std::string scalar(const std::string& place, const toml::node& node);

/// Reads what a program is told: from the file of --config, the environment and the command line, each of
/// which wins over the one before. Knows the options' rows, and what they are applied to through one
/// function.
class OptionReader {
 public:
  /// Reads what the file has besides options; false: it is none of that either.
  using ReadNode = std::function<bool(const std::string& path, std::string_view key, const toml::node& node)>;

  /// Of options in a table that lives as long as the program.
  template <class Settings, std::size_t kCount>
  OptionReader(const ProgramText& program, const Option<Settings> (&options)[kCount], Settings& settings)
      : program_(program), apply_([&options, &settings](std::size_t row, const Values& values) {
          options[row].apply(settings, values);
        }) {
    for (const Option<Settings>& option : options)
      rows_.push_back({.key = option.key,
                       .unit = option.unit,
                       .fallback = option.fallback,
                       .sentence = option.sentence,
                       .is_list = option.apply.takes_many()});
  }

  /// Reads and applies everything. Returns a text that is to be printed instead, the help or the version.
  /// `besides` names the keys that `read_node` knows, for a complaint. Throws UsageError, which names the
  /// flag, the variable, or the file's line. `file`: is told the file that was named.
  std::optional<std::string> read(int argc, const char* const* argv, const Environment& environment,
                                  std::string_view besides, const ReadNode& read_node,
                                  std::string* file = nullptr) const;

 private:
  struct Row {
    std::string_view key, unit, fallback, sentence;
    bool is_list;
  };

  std::string variable_of(const Row& row) const;
  void apply(std::size_t row, const std::string& source, const Values& values) const;
  void read_file(const std::string& path, std::string_view besides, const ReadNode& read_node) const;

  ProgramText program_;
  std::vector<Row> rows_;
  std::function<void(std::size_t row, const Values& values)> apply_;
};

}  // namespace lanemq::settings
