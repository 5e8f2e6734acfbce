// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "broker/whatif/simulate.hpp"

namespace lanemq::cli {

/// The simulation's report for people: a line per lane, a line per limit, and the fairness between clients.
std::string report_text(const whatif::Report& report, const whatif::WorkerModel& model, bool colour);

/// The same facts as JSON, in one line; docs/guides/what-if.md names the fields.
std::string report_json(const whatif::Report& report, const whatif::WorkerModel& model);

}  // namespace lanemq::cli
