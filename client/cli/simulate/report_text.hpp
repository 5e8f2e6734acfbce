// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "broker/whatif/simulate.hpp"

namespace lanemq::cli {

/// What a trace would have brought, for people: a line for each lane, a line for each limit, and how even
/// clients were served.
std::string report_text(const whatif::Report& report, const whatif::WorkerModel& model, bool colour);

/// The same facts as JSON, in one line; docs/guides/what-if.md names the fields.
std::string report_json(const whatif::Report& report, const whatif::WorkerModel& model);

}  // namespace lanemq::cli
