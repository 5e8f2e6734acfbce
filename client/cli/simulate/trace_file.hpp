// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "broker/whatif/simulate.hpp"

namespace lanemq::cli {

/// Bound of a trace's requests; each takes about a hundred bytes of memory.
inline constexpr std::size_t kTraceRequestsMax = 5'000'000;
/// Bound of a line's bytes.
inline constexpr std::size_t kTraceLineBytesMax = std::size_t{64} * 1024;

/// A trace that cannot be read. The text names file and line, the field, and what to write.
struct TraceError : std::runtime_error {
  using runtime_error::runtime_error;
};

/// The requests of a trace, sorted by time, the first at 0; requests of one time keep their order.
struct Trace {
  std::vector<whatif::Request> requests;
  std::set<std::string, std::less<>> names;  ///< the texts of the requests' views
  bool was_sorted = true;                    ///< the file was sorted
};

struct TraceOptions {
  std::vector<std::string> lanes;  ///< lanes that rows may name
  double speed = 1;                ///< factor for the rate of arrivals; above 0
};

/// Reads a CSV file whose header has TIMESTAMP, ContextTokens and GeneratedTokens, and optionally LANE,
/// SERVICE, CLIENT and MODEL, in any order; ignores other columns. Fields may be quoted (RFC 4180), but
/// without line breaks. A time is a date with a time of day, or seconds. Throws TraceError; `file` is the
/// file's name in messages.
Trace read_trace(std::istream& in, const std::string& file, const TraceOptions& options);

}  // namespace lanemq::cli
