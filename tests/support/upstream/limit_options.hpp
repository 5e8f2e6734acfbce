// SPDX-License-Identifier: Apache-2.0
// The options of lanemq-upstream that say what it refuses, and in whose words.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "tests/support/upstream/upstream.hpp"

namespace lanemq::upstream {

/// As they are typed; read() makes a Quota of them.
struct LimitOptions {
  std::string rpm;
  std::string tpm;
  std::string at_once;
  std::string others;
  double period_s = 60;
  double others_hold_ms = 0;
};

/// Adds a row for each option.
void add_limit_options(CLI::App& app, LimitOptions& limits, UpstreamOptions& upstream);
/// Reads what was typed, and holds it to the rules between options. Throws CLI::ValidationError.
void read_limits(const LimitOptions& limits, UpstreamOptions& upstream);

}  // namespace lanemq::upstream
