// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/draws.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace lanemq::upstream {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

// The finaliser of SplitMix64.
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::none:
      return "";
    case Fault::http_5xx:
      return "5xx";
    case Fault::reset:
      return "reset";
    case Fault::stall:
      return "stall";
    case Fault::half:
      return "half";
    case Fault::status:
      return "status";
    case Fault::eof:
      return "eof";
    case Fault::error_event:
      return "error-event";
  }
  return "";
}

Draws::Draws(std::uint64_t seed, std::uint64_t call_number)
    : state_(mix(mix(seed + kGolden) + call_number)) {}

Draws::result_type Draws::operator()() {
  state_ += kGolden;
  return mix(state_);
}

double Draws::uniform() {
  return std::ldexp(static_cast<double>((*this)() >> 11), -53);
}

std::uint64_t Draws::below(std::uint64_t count) {
  return static_cast<std::uint64_t>(uniform() * static_cast<double>(count));
}

Duration Draws::latency(const LatencyRange& range) {
  if (range.shortest == range.longest) return range.shortest;
  // A millisecond is added for the logarithm, so that a range may begin at zero.
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const double low = std::log1p(Milliseconds(range.shortest).count());
  const double high = std::log1p(Milliseconds(range.longest).count());
  // The range spans five standard deviations: about one draw in eighty falls outside and is held at the edge.
  std::normal_distribution<double> normal((low + high) / 2, (high - low) / 5);
  const Milliseconds drawn(std::expm1(normal(*this)));
  return std::clamp(std::chrono::duration_cast<Duration>(drawn), range.shortest, range.longest);
}

std::uint64_t Draws::answer_tokens(std::uint64_t tokens_max) {
  std::lognormal_distribution<double> tokens(std::log(120.0), 0.8);
  return std::clamp<std::uint64_t>(std::llround(std::min(tokens(*this), 1e9)), 1, tokens_max);
}

Fault Draws::fault(const FaultRates& rates) {
  // The rates lie side by side on [0, 1); the point falls on one of them or beyond.
  const double point = uniform();
  double edge = rates.http_5xx;
  if (point < edge) return Fault::http_5xx;
  if (point < (edge += rates.reset)) return Fault::reset;
  if (point < (edge += rates.stall)) return Fault::stall;
  return point < edge + rates.half ? Fault::half : Fault::none;
}

}  // namespace lanemq::upstream
