// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "broker/whatif/simulate.hpp"

namespace lanemq::cli {

/// The most requests of one trace; about a hundred bytes each are held.
inline constexpr std::size_t kTraceRequestsMax = 5'000'000;
/// The longest line of a trace.
inline constexpr std::size_t kTraceLineBytesMax = std::size_t{64} * 1024;

/// A trace that cannot be read. The text names file and line, the field, and what to write.
struct TraceError : std::runtime_error {
  using runtime_error::runtime_error;
};

/// The requests of a trace in the order of their times, the first at 0; those of one time keep their order.
struct Trace {
  std::vector<whatif::Request> requests;
  std::set<std::string, std::less<>> names;  ///< what the requests' views point into
  bool was_sorted = true;                    ///< as it stood in the file
};

struct TraceOptions {
  std::vector<std::string> lanes;  ///< that a row may name
  double speed = 1;                ///< arrivals so many times as fast; above 0
};

/// Reads a CSV file whose header names TIMESTAMP, ContextTokens and GeneratedTokens, and may name LANE,
/// SERVICE, CLIENT and MODEL, in any order; other columns are ignored. A field may be quoted as in RFC 4180,
/// but no line break stands in a field. A time is a date and time of day, or seconds. Throws TraceError;
/// `file` is what it calls the file.
Trace read_trace(std::istream& in, const std::string& file, const TraceOptions& options);

}  // namespace lanemq::cli
