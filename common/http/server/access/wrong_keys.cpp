// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/access/wrong_keys.hpp"

#include <algorithm>

namespace lanemq::http {

using std::chrono::milliseconds;

milliseconds WrongKeys::note(const std::string& address, TimePoint now) {
  const auto [at, fresh] = addresses_.try_emplace(address);
  if (fresh) in_order_.push_back(address);
  Tries& tries = at->second;
  if (!fresh && now - tries.last >= kForgetAfter) tries = {};
  tries.last = now;
  milliseconds hold{0};
  if (++tries.count > kFree) {
    tries.next = std::min(std::max(tries.next, now) + kBetween, now + kHoldMax);
    hold = std::chrono::ceil<milliseconds>(tries.next - now);
  }
  if (addresses_.size() > kAddressesMax) {
    addresses_.erase(in_order_.front());
    in_order_.pop_front();
  }
  return hold;
}

}  // namespace lanemq::http
