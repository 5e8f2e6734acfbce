// SPDX-License-Identifier: Apache-2.0
#include "broker/whatif/simulate.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>

#include <lanemq/text.hpp>

#include "broker/config.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/simulate/report_text.hpp"
#include "client/cli/simulate/trace_file.hpp"
#include "client/cli/terminal.hpp"

namespace lanemq::cli {
namespace {

/// The configuration as the broker would read it, but for the environment.
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

}  // namespace

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

}  // namespace lanemq::cli
