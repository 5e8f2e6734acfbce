// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/peak.hpp"

#include <algorithm>
#include <sstream>

namespace lanemq::upstream {

void PeakMeter::add(std::chrono::nanoseconds at, std::uint64_t tokens) {
  // The fullest period ends with an arrival, so it is enough to look back from each.
  while (!last_.empty() && (is_past(last_.front(), at) || last_.size() == kArrivalsMax)) {
    tokens_last_ -= last_.front().tokens;
    last_.pop_front();
  }
  if (last_.empty()) began_ = at;
  last_.push_back({at, tokens});
  tokens_last_ += tokens;
  calls_peak_ = std::max<std::uint64_t>(calls_peak_, last_.size());
  tokens_peak_ = std::max(tokens_peak_, tokens_last_);
}

bool PeakMeter::is_past(const Arrival& arrival, std::chrono::nanoseconds at) const {
  switch (spans_) {
    case Spans::any:
      return at - arrival.at >= period_;
    case Spans::fixed:
      return at - began_ >= period_;
    case Spans::clock:
      break;
  }
  return (zero_unix_ + arrival.at) / period_ != (zero_unix_ + at) / period_;
}

std::string peak_name(const std::string& of, std::chrono::nanoseconds period) {
  std::ostringstream name;
  name << "peak_" << of << "_" << std::chrono::duration<double>(period).count() << "s";
  return name.str();
}

}  // namespace lanemq::upstream
