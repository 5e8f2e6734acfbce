// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>

#include "client/cli/base/commands.hpp"
#include "common/settings/broker_keys.hpp"

namespace lanemq::cli {

/// Which endpoint of the broker a command uses.
enum class Asks : unsigned char {
  clients,    ///< the clients' endpoint
  operators,  ///< the operators' endpoint
  either,     ///< the clients'; but the operators', where the command line names only that, or keys lack
  both,       ///< the clients', and the operators' beside it
  nobody,
};

/// The command line of `lanemq`; each command adds itself to it.
class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App& app() { return app_; }
  CLI::App& add(const std::string& name, const std::string& description) {
    return *app_.add_subcommand(name, description);
  }
  /// Runs the chosen command and returns the exit code. What it refers to must outlive the command line; it
  /// may hold a shared_ptr.
  using Run = std::function<int(const Common&)>;
  void on_chosen(CLI::App& command, Asks asks, Run run);
  /// The same where the command is known only after parsing.
  void choose(Asks asks, Run run);

  /// Parses the arguments and runs the command; returns the program's exit code.
  int run(int argc, char** argv);

 private:
  bool say_unknown();
  void choose_endpoint(bool is_admin_alone, bool is_broker_typed);
  void check_broker_is_meant(bool is_typed) const;

  CLI::App app_;
  Common common_;
  std::string admin_endpoint_;
  settings::BrokerKeys keys_said_;
  Asks asks_ = Asks::nobody;
  Run run_;
};

/// For CLI::Option::check() of a count, since CLI11 reads -1 as the largest number: what is wrong, or
/// nothing.
std::string not_negative(const std::string& text);

/// Adds an option for a duration, such as 30s, from `min` to `max`. The old spelling `--NAME-ms N` works for
/// one version, with a warning.
CLI::Option* add_duration(CLI::App& command, const std::string& name, std::chrono::milliseconds min,
                          std::chrono::milliseconds max, const std::string& sentence,
                          std::function<void(std::chrono::milliseconds)> set);

/// Adds the options of a command that submits jobs.
void add_job_options(CLI::App& command, JobOptions& job, bool service_required);

/// Further options of a job: where it is kept, what it costs, and what happens to it without its client.
/// Returns --orphan.
CLI::Option* add_fate_options(CLI::App& command, JobOptions& job);

inline constexpr std::size_t kWindowMax = 100'000;  ///< jobs in flight at once

}  // namespace lanemq::cli
