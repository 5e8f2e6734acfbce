// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "tests/support/upstream/limiter.hpp"

namespace lanemq::upstream {

/// How a call can go wrong on purpose.
enum class Fault {
  none,
  http_5xx,     ///< 500, 502 or 503 with a JSON body.
  reset,        ///< The connection is reset in the middle of the answer.
  stall,        ///< Nothing more is answered for a while, then the connection closes.
  half,         ///< The connection closes in the middle of the answer.
  status,       ///< The status that the model's name asked for.
  eof,          ///< A stream ends between two events.
  error_event,  ///< A stream ends with an error.
};

inline constexpr std::array kFaults = {Fault::http_5xx, Fault::reset, Fault::stall,      Fault::half,
                                       Fault::status,   Fault::eof,   Fault::error_event};

/// The name in the log and in /stats: "5xx", "reset", …, "error-event"; empty for none.
const char* name_of(Fault fault);

/// The probability of each fault. Requires: each >= 0, the sum <= 1.
struct FaultRates {
  double http_5xx = 0;
  double reset = 0;
  double stall = 0;
  double half = 0;
};

/// Requires: 0 <= shortest <= longest.
struct LatencyRange {
  Duration shortest = std::chrono::milliseconds(20);
  Duration longest = std::chrono::milliseconds(200);
};

/// All that chance decides for one call. Equal seeds and call numbers give equal draws, whatever other calls
/// drew.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t call_number);

  /// Uniform in [0, 1).
  double uniform();
  /// Uniform in [0, count). Requires: 0 < count.
  std::uint64_t below(std::uint64_t count);
  /// Log-normal, most near the geometric mean of the range and the tail to the right, never outside it.
  Duration latency(const LatencyRange& range);
  /// Log-normal with a median of 120 tokens, at least 1, at most `tokens_max`. Requires: 1 <= tokens_max.
  std::uint64_t answer_tokens(std::uint64_t tokens_max);
  Fault fault(const FaultRates& rates);

  // A uniform random bit generator, as the standard library's distributions want it.
  using result_type = std::uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()();

 private:
  std::uint64_t state_;
};

}  // namespace lanemq::upstream
