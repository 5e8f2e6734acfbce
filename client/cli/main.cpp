// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/command_line.hpp"
#include "common/service/standard_descriptors.hpp"

int main(int argc, char** argv) {
  using namespace lanemq::cli;
  lanemq::service::take_standard_descriptors();
  CommandLine line;
  // In the order of --help.
  for (const auto add : {add_submit, add_run, add_stats, add_ping, add_bench, add_job_queries, add_cancel,
                         add_explain, add_watch, add_limits, add_cluster, add_operator_commands, add_check,
                         add_top, add_simulate, add_keygen, add_completion, add_help})
    add(line);
  return line.run(argc, argv);
}
