// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>

#include "client/cli/commands.hpp"

namespace lanemq::cli {

/// Which of the broker's endpoints a command asks.
enum class Asks : unsigned char {
  clients,    ///< that of clients
  operators,  ///< that of operators
  either,     ///< that of clients; where the command line names only the operators', that
  nobody,
};

/// `lanemq` with its options, to which each command adds itself.
class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App& app() { return app_; }
  CLI::App& add(const std::string& name, const std::string& description) {
    return *app_.add_subcommand(name, description);
  }
  /// What is run when the command is chosen; returns the exit code. What it refers to outlives the command
  /// line, such as by a shared_ptr that it holds.
  using Run = std::function<int(const Common&)>;
  void on_chosen(CLI::App& command, Asks asks, Run run);
  /// The same for who finds out only then what is to be run.
  void choose(Asks asks, Run run);

  /// Reads the arguments and runs the command; returns the program's exit code.
  int run(int argc, char** argv);

 private:
  void say_unexpected(const CLI::ExtrasError& error);

  CLI::App app_;
  Common common_;
  std::string admin_endpoint_;
  Asks asks_ = Asks::nobody;
  Run run_;
};

/// Adds an option whose value is a duration, such as 30s, of `min` to `max`. `--NAME-ms N`, as it was spelt,
/// is read for one version, and what to write instead is said.
CLI::Option* add_duration(CLI::App& command, const std::string& name, std::chrono::milliseconds min,
                          std::chrono::milliseconds max, const std::string& sentence,
                          std::function<void(std::chrono::milliseconds)> set);

/// The options of a command that makes jobs.
void add_job_options(CLI::App& command, JobOptions& job, bool service_required);

inline constexpr std::size_t kWindowMax = 100'000;  ///< jobs in flight at once

}  // namespace lanemq::cli
