// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/slope.hpp"

#include <algorithm>

namespace lanemq::upstream {

bool Slope::fits(TimePoint now) {
  constexpr std::chrono::seconds kSecond(1);
  for (; !last_.empty() && last_.front() + kSecond <= now; last_.pop_front())
    before_.push_back(last_.front());
  while (!before_.empty() && before_.front() + 2 * kSecond <= now)
    before_.pop_front();
  return used() < most();
}

std::uint64_t Slope::most() const {
  const double grown = factor_ * static_cast<double>(before_.size());
  return std::min<std::uint64_t>(std::max(floor_, static_cast<std::uint64_t>(grown)), kCallsMax);
}

}  // namespace lanemq::upstream
