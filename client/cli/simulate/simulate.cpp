// SPDX-License-Identifier: Apache-2.0
#include "broker/whatif/simulate.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>

#include <lanemq/text.hpp>

#include "broker/config.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/simulate/report_text.hpp"
#include "client/cli/simulate/trace_file.hpp"
#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {
namespace {

constexpr std::chrono::hours kFirstTokenMax{1};

struct SimulateOptions {
  std::string config;  ///< the broker's configuration file; empty: its defaults
  std::vector<std::string> assignments;
  std::string trace;  ///< a file, or -
  double speed = 1;
  std::size_t places = 256;
  std::int64_t first_token_ms = 500;
  double tokens_per_second = 50;
  bool json = false;
};

/// The configuration as the broker would read it, without the environment.
Config config_of(const SimulateOptions& options) {
  Config config;
  if (!options.config.empty()) load_config_file(options.config, config);
  for (const std::string& assignment : options.assignments)
    set_config(assignment, config);
  check_config(config);
  return config;
}

Trace trace_of(const SimulateOptions& options, const Config& config) {
  TraceOptions with{.lanes = {}, .speed = options.speed};
  for (const auto& lane : config.core.lanes)
    with.lanes.push_back(lane.name);
  if (options.trace == "-") return read_trace(std::cin, "the standard input", with);
  std::ifstream file(options.trace, std::ios::binary);
  if (!file)
    throw TraceError(printable(options.trace) + ": " + std::strerror(errno) +
                     "; name a CSV file with --trace");
  return read_trace(file, options.trace, with);
}

int simulate(const SimulateOptions& options) {
  if (options.places < 1 || options.places > whatif::kPlacesMax) {
    say("--places is " + std::to_string(options.places) + "; a service has 1 to " +
        std::to_string(whatif::kPlacesMax));
    return kExitUsage;
  }
  if (std::isnan(options.speed) || std::isnan(options.tokens_per_second)) {
    say("--speed and --tokens-per-second are numbers; nan is none");
    return kExitUsage;
  }
  try {
    const Config config = config_of(options);
    const Trace trace = trace_of(options, config);
    if (!trace.was_sorted)
      say("the rows of the trace were not in the order of their times, and were put in order");
    const whatif::WorkerModel model{.places = options.places,
                                    .first_token = std::chrono::milliseconds(options.first_token_ms),
                                    .tokens_per_second = options.tokens_per_second};
    const whatif::Report report = whatif::simulate(config.core, trace.requests, model);
    const bool written =
        put(options.json ? report_json(report, model) : report_text(report, model, output_takes_colour()));
    return written ? kExitDone : kExitFailed;
  } catch (const ConfigError& error) {
    say(error.what());
  } catch (const TraceError& error) {
    say(error.what());
  }
  return kExitUsage;
}

}  // namespace

void add_simulate(CommandLine& line) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App& command = line.add(
      "simulate", "What if: run a trace of requests through a broker's configuration, in virtual time");
  command.footer(
      "The trace is a CSV file whose header names TIMESTAMP, ContextTokens and GeneratedTokens, and may "
      "name\n"
      "LANE, SERVICE, CLIENT and MODEL. Its rows are put in the order of their times. No broker is asked, "
      "and\n"
      "nothing is read from the environment: the same input gives the same output.");
  command.add_option("--config", options->config, "The broker's configuration; its defaults without it")
      ->type_name("FILE.toml");
  command
      .add_option("--set", options->assignments,
                  "Set one key of it, as lanemq-broker does: budget.api.requests_per_minute=500")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.add_option("--trace", options->trace, "The requests; - for the standard input")
      ->required()
      ->type_name("FILE.csv");
  command.add_option("--speed", options->speed, "Requests come so many times as fast")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 1'000.0))
      ->type_name("X");
  command.add_option("--places", options->places, "Places of all workers of each service")
      ->capture_default_str()
      ->type_name("N");
  add_duration(command, "--first-token", {}, kFirstTokenMax, "Until the first token of an answer",
               [options](std::chrono::milliseconds time) { options->first_token_ms = time.count(); })
      ->default_str(std::to_string(options->first_token_ms) + "ms");
  command
      .add_option("--tokens-per-second", options->tokens_per_second,
                  "How fast all tokens of an answer come; 0: at once")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("N");
  command.add_flag("--json", options->json, "The figures as JSON");
  line.on_chosen(command, Asks::nobody, [options](const Common&) { return simulate(*options); });
}

}  // namespace lanemq::cli
