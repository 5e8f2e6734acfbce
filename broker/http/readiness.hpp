// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "broker/http/operator_link.hpp"

namespace lanemq::admin {

/// The answer to a probe: whether it is good, and a line for each reason.
struct Verdict {
  bool good = true;
  std::string text;
};

/// A loop that has not answered for so long does not go on.
inline constexpr std::chrono::milliseconds kSilenceMax{5'000};

/// Whether the loop goes on. `age`: how long ago it has answered.
Verdict health(std::chrono::milliseconds age);

/// Whether the broker takes work: the loop answers, it does not drain, and its store takes what is to be
/// kept. What else an operator should know is told and refuses nothing: other work goes on. `stats`: the last
/// statistics; null: there are none.
Verdict readiness(const Json* stats, std::chrono::milliseconds age);

}  // namespace lanemq::admin
